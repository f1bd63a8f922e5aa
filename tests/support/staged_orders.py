"""A store whose operations are run in every order in which they can fall."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator
from typing import Any

from langgraph.store.base import PutOp

from langgraph_forgetful_store.backend import scripts
from langgraph_forgetful_store.backend.keys import store_prefix
from langgraph_forgetful_store.operations.batch import Batch
from langgraph_forgetful_store.testing import Clock, check_keys
from langgraph_forgetful_store.testing.interleaving import Interleaver, Run
from langgraph_forgetful_store.testing.internals import session_of


def load_scripts(client: Any) -> None:
    """Load what scripts a server lacks: which it holds is state too, and a call of an unknown one is an event."""
    known = [script for script in vars(scripts).values() if isinstance(script, scripts.Script)]
    held = client.script_exists(*(script.sha for script in known))
    for script in itertools.compress(known, map(operator.not_, held)):
        client.script_load(script.source)


class Stage:
    """A store whose batches can be made into flows, and set back to the same rows before each run."""

    def __init__(self, maker: Any, **settings: Any) -> None:
        # With an injected clock writes do not sweep now and then, so equal choices lead to equal events.
        self.store = maker(**{"scoring": "similarity", "clock": Clock(), **settings})
        self.store.setup()
        self.session = session_of(self.store)
        self.client = maker.server.client()
        index = self.session.index
        self.interleaver = Interleaver(
            self.client, store_prefix(maker.key_prefix), index.embedder if index is not None else None
        )
        self.maker = maker

    def batch(self, *ops: Any) -> Any:
        return Batch.prepare(ops, self.session).run(self.session)

    def reset(self, *puts: PutOp) -> None:
        if left := list(self.client.scan_iter(match=f"{self.maker.key_prefix}:*", count=1000)):
            self.client.delete(*left)
        load_scripts(self.client)
        for put in puts:
            self.store.batch([put])
        self.session.cache.clear()

    def explore(self, puts: list[PutOp], make: Callable[[], dict[str, Any]], **options: Any) -> Iterator[Run]:
        def fresh() -> dict[str, Any]:
            self.reset(*puts)
            return make()

        for run in self.interleaver.explore(fresh, **options):
            yield run
            check_keys(self.client, self.maker.key_prefix)
