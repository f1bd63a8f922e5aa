"""What of a value is searched for: its texts for meaning, and for words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

from langgraph.store.base import get_text_at_path

from langgraph_forgetful_store.backend.codec import load_value, pack_index
from langgraph_forgetful_store.config import Path, check_paths, tokenize
from langgraph_forgetful_store.operations.session import Session
from langgraph_forgetful_store.search.lexical import pack_words, string_leaves

WHOLE = ("$",)


class Paths(NamedTuple):
    """Which texts of a value are searched for.

    Attributes:
        tokenized: Of the fields.
        named: As the write has named them; ``None``: they are the store's own.
        is_off: Whether the write has asked for neither words nor vectors.
    """

    tokenized: Sequence[Path]
    named: tuple[str, ...] | None = None
    is_off: bool = False

    @classmethod
    def parse(cls, index: Any, session: Session) -> Self:
        """Check what a write says.

        Args:
            index: ``None``: the store's default, ``False``: nothing, or a list of paths.
            session: The store's.

        Raises:
            TypeError: It is neither, nor a list of paths.
        """
        if index is False:
            return cls((), None, True)
        if index is None:
            return cls(session.index.fields if session.index else WHOLE)
        if index is True:
            raise TypeError("index must be None, False or a list of field paths, got True")
        paths = check_paths(index, "index")
        return cls([tokenize(path) for path in paths], tuple(paths))


class Indexed(NamedTuple):
    """What of one value is searched for.

    Attributes:
        texts: What is to be embedded.
        spoken: What words are taken from.
        paths: Where all that stands.
    """

    texts: Sequence[str]
    spoken: Sequence[str]
    paths: Paths

    @classmethod
    def of(cls, value: Mapping[str, Any], paths: Paths, session: Session) -> Self:
        """Take texts out of a value as it will be read back."""
        embeds = session.index is not None
        texts = [text for path in paths.tokenized for text in get_text_at_path(value, path)] if embeds else []
        # Most often the texts are the same; but the JSON of the whole also holds the names of its fields.
        same = embeds and not any(map(is_whole, paths.tokenized))
        return cls(texts, texts if same else spoken_at(value, paths.tokenized), paths)

    def pack(self, vectors: Iterable[bytes]) -> bytes:
        """Return what a script writes, with the vectors of the texts.

        Raises:
            ValueError: The write has named too many paths.
        """
        if self.paths.is_off:
            return b""
        return pack_index(pack_words(self.spoken, self.paths.named), b"".join(vectors))


NOTHING = Indexed((), (), Paths((), None, True))


def is_whole(path: Path) -> bool:
    """Tell whether a path names a value as a whole."""
    return not path or path == "$"


def spoken_at(value: Mapping[str, Any], paths: Iterable[Path]) -> list[str]:
    """Return the texts that words are taken from: of a value as a whole, its strings."""
    found: list[str] = []
    for path in paths:
        found += string_leaves(value) if is_whole(path) else get_text_at_path(value, path)
    return found


def words_of(value: bytes, named: Sequence[str]) -> bytes:
    """Return the packed words of a stored value at some paths."""
    return pack_words(spoken_at(load_value(value), map(tokenize, named)), named)
