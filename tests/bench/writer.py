"""A process that writes to a store at a steady rate: ``python -m tests.bench.writer URL A_SECOND LABEL...``."""

from __future__ import annotations

import itertools
import sys
import time

from langgraph_forgetful_store import ForgetfulStore
from tests.bench.corpus import DIMS, FIELDS, Corpus, memory

DIFFERENT = 100
MANY = 9_000_000


def main() -> None:
    """Rewrite the same few memories until the process is ended."""
    url, rate, namespace = sys.argv[1], float(sys.argv[2]), tuple(sys.argv[3:])
    index = {"dims": DIMS, "embed": Corpus(DIFFERENT, large=False), "fields": FIELDS}
    with ForgetfulStore.from_conn_string(url, index=index) as store:
        start = time.perf_counter()
        for number in itertools.count():
            store.put(namespace, f"written-{number % DIFFERENT}", memory(MANY + number % DIFFERENT))
            if not number:
                print("writing", flush=True)
            time.sleep(max(0.0, start + number / rate - time.perf_counter()))


if __name__ == "__main__":
    main()
