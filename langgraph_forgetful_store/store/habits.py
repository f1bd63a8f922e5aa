"""What users of other stores write out of habit: one error that names what to write instead."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from langgraph_forgetful_store.errors import ConfigurationError

P = ParamSpec("P")
R = TypeVar("R")

_BY_URL = "ForgetfulStore.from_conn_string(url)"
_PASSED_IN = "a client with such settings, as in ForgetfulStore(redis.Redis(...))"
INSTEAD = {
    "url": _BY_URL,
    "redis_url": _BY_URL,
    "conn": "ForgetfulStore(client)",
    "redis_client": "ForgetfulStore(client)",
    "connection_args": _PASSED_IN,
    "pool_config": _PASSED_IN,
    "store_prefix": "key_prefix=",
    "vector_prefix": "key_prefix=",
    "cluster_mode": "the client of a single server, or of a Sentinel",
    "pipeline": "nothing: calls are sent in pipelines anyway",
}


def refusing_habits(made: Callable[P, R]) -> Callable[P, R]:
    """Let a constructor refuse the arguments of other stores before Python complains of what is missing.

    Args:
        made: The constructor, or the function below a class method.

    Raises:
        ConfigurationError: An argument is one of other stores; its value, which may hold a password, is not repeated.
    """

    @functools.wraps(made)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        if foreign := [name for name in kwargs if name in INSTEAD]:
            hints = "; ".join(f"instead of {name}= write {INSTEAD[name]}" for name in foreign)
            raise ConfigurationError(f"ForgetfulStore has no argument {', '.join(foreign)}: {hints}")
        return made(*args, **kwargs)

    return checked
