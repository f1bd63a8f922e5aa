"""Frozen, validated settings, made from LangGraph's `IndexConfig` and `TTLConfig`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, TypedDict, cast

import numpy.typing as npt
from langchain_core.embeddings import Embeddings
from langgraph.store.base import ensure_embeddings, tokenize_path

from langgraph_forgetful_store.backend.embedding import Embedder, embedder_id
from langgraph_forgetful_store.errors import ConfigurationError
from langgraph_forgetful_store.model.checks import check_end, ttl_to_ms

_SWEEP_INTERVAL_MINUTES = 5.0
Path = str | list[str]
Vectors = Sequence[Sequence[float] | npt.NDArray[Any]] | npt.NDArray[Any]
EmbedFunction = Callable[[list[str]], Vectors]
AsyncEmbedFunction = Callable[[list[str]], Awaitable[Vectors]]


class IndexConfig(TypedDict, total=False):
    """How values become vectors: LangGraph's `IndexConfig`, and the name of the vectors.

    Attributes:
        dims: The number of dimensions that the embedder's vectors have; always needed.
        embed: The embedder, always needed: an `Embeddings` object, a function from a list of texts to their vectors, an
            async one, or a provider's string such as ``"openai:text-embedding-3-small"``.
        fields: The paths of what is embedded in a value; left out: ``["$"]``, the whole value.
        embedder_id: The name that tells these vectors from those of another embedder. Left out, it is taken from the
            embedder's class and model, or from the function's name.
        distance_type: The only distance there is, ``"cosine"``; other stores have more.
    """

    dims: int
    embed: Embeddings | EmbedFunction | AsyncEmbedFunction | str
    fields: list[str] | None
    embedder_id: str | None
    distance_type: Literal["cosine"]


class TTLConfig(TypedDict, total=False):
    """How memories expire: LangGraph's `TTLConfig`; ``omit_expired`` is ``True`` unless it is given.

    Attributes:
        default_ttl: Minutes that a memory lives where neither the write nor its type says so; ``None``: for ever.
        refresh_on_read: Whether reads refresh TTLs unless the call says otherwise; ``True`` by default.
        omit_expired: Whether expired memories are absent from reads before they are swept; ``True`` by default.
        sweep_interval_minutes: Minutes between two sweeps of the sweeper; 5 by default.
    """

    default_ttl: float | None
    refresh_on_read: bool
    omit_expired: bool
    sweep_interval_minutes: float | None


def _known(config: object, name: str, keys: Sequence[str]) -> Mapping[str, Any]:
    if not isinstance(config, Mapping):
        raise ConfigurationError(f"{name} must be a dict with any of {', '.join(keys)}, got {config!r}")
    if unknown := sorted(str(key) for key in config if key not in keys):
        raise ConfigurationError(f"{name} has unknown keys {', '.join(unknown)}; known are {', '.join(keys)}")
    return config


def _flag(config: Mapping[str, Any], name: str, default: bool) -> bool:
    value = config.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise ConfigurationError(f"ttl[{name!r}] must be True or False, got {value!r}")
    return value


@dataclass(frozen=True, slots=True)
class TTLSettings:
    """How memories expire.

    Attributes:
        refresh_on_read: Whether a read refreshes the TTL of what it returns, unless the read says otherwise.
        omit_expired: Whether expired rows are absent from reads before they are swept.
        sweep_interval_minutes: Minutes between two runs of the sweeper.
        default_ttl: Of a write that names none and no type that has one, in ms; ``None``: never.
    """

    refresh_on_read: bool = True
    omit_expired: bool = True
    sweep_interval_minutes: float = _SWEEP_INTERVAL_MINUTES
    default_ttl: int | None = None

    @classmethod
    def parse(cls, config: Mapping[str, Any] | None) -> Self:
        """Validate LangGraph's `TTLConfig`; what it leaves out is as in `TTLSettings`.

        Raises:
            ConfigurationError: A key is unknown or a value unusable.
        """
        if config is None:
            return cls()
        given = _known(config, "ttl", tuple(TTLConfig.__annotations__))
        interval = given.get("sweep_interval_minutes")
        default_ttl = None
        try:
            if given.get("default_ttl") is not None:
                default_ttl = ttl_to_ms(given["default_ttl"], "ttl['default_ttl']")
                check_end(default_ttl, "ttl['default_ttl']")
            if interval is not None and ttl_to_ms(interval, "ttl['sweep_interval_minutes']") == 0:
                raise ValueError("ttl['sweep_interval_minutes'] must be above 0, got 0")
        except (TypeError, ValueError) as error:
            raise ConfigurationError(str(error)) from error
        return cls(
            _flag(given, "refresh_on_read", True),
            _flag(given, "omit_expired", True),
            _SWEEP_INTERVAL_MINUTES if interval is None else float(interval),
            default_ttl,
        )


def tokenize(path: str) -> Path:
    """Tokenize a field path; ``"$"`` stays what it is, since it is no field's name but the whole value."""
    return path if path == "$" else tokenize_path(path)


def check_paths(paths: object, name: str) -> list[str]:
    """Return field paths as a list.

    Raises:
        TypeError: They are no list of strings.
    """
    if not isinstance(paths, list | tuple) or not all(isinstance(path, str) for path in paths):
        raise TypeError(f"{name} must be a list of field paths, got {paths!r}")
    return list(paths)


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """How values become vectors.

    Attributes:
        embedder: What embeds.
        embedder_id: What tells its vectors from another's.
        fields: The tokenized paths that are embedded by default.
    """

    embedder: Embedder
    embedder_id: str
    fields: tuple[Path, ...]

    @property
    def dims(self) -> int:
        """The number of dimensions of a vector."""
        return self.embedder.dims

    @classmethod
    def parse(cls, config: Mapping[str, Any]) -> Self:
        """Validate an `IndexConfig`, LangGraph's or this library's.

        Raises:
            ConfigurationError: A key is unknown or missing, or a value unusable.
        """
        given = _known(config, "index", tuple(IndexConfig.__annotations__))
        if (distance := given.get("distance_type")) not in (None, "cosine"):
            raise ConfigurationError(f"index['distance_type'] must be 'cosine', got {distance!r}")
        dims = given.get("dims")
        if isinstance(dims, bool) or not isinstance(dims, int) or not 0 < dims <= 65_536:
            raise ConfigurationError(f"index['dims'] must be a whole number from 1 to 65536, got {dims!r}")
        embed = given.get("embed")
        if embed is None:
            raise ConfigurationError("index['embed'] must be an Embeddings, a function or a provider string, got None")
        usable = isinstance(embed, str) or callable(embed) or hasattr(embed, "embed_documents")
        # A class is callable too, but calling it with texts makes no vectors.
        if not usable or isinstance(embed, type):
            raise ConfigurationError(
                f"index['embed'] must be an Embeddings, a function or a provider string, got {embed!r}"
            )
        name = given.get("embedder_id")
        if name is not None and not (isinstance(name, str) and name):
            raise ConfigurationError(f"index['embedder_id'] must be a non-empty str, got {name!r}")
        try:
            fields = check_paths(given.get("fields") or ["$"], "index['fields']")
        except TypeError as error:
            raise ConfigurationError(str(error)) from error
        try:
            embeddings = ensure_embeddings(cast(Any, embed))
        except (TypeError, ValueError) as error:
            raise ConfigurationError(f"index['embed'] is {embed!r}, which can't be used: {error}") from error
        return cls(
            Embedder(embeddings, dims),
            name or embedder_id(embed, embeddings),
            tuple(tokenize(path) for path in fields),
        )
