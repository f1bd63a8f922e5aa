"""Sensitive memories that the user agreed to keep: encrypted, short-lived, and every reading audited."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from langgraph_forgetful_store.errors import ConfigurationError, MemoryNotFoundError
from langgraph_forgetful_store.model.documented import twin_of
from langgraph_forgetful_store.policy.extras import is_missing
from langgraph_forgetful_store.policy.screening import INSTALL
from langgraph_forgetful_store.policy.steps import Note, Record, Steps, arun, call, run
from langgraph_forgetful_store.policy.stores import LifecycleStore

SENSITIVE = "sensitive"
MAX_MINUTES = 1440.0
_MARK = "encrypted"


class Vault:
    """Encrypts with a key of the user's own (Fernet).

    Args:
        key: A Fernet key, or several: the first encrypts, all decrypt, so that keys can be changed.

    Raises:
        ConfigurationError: The extra ``screening`` is missing, or a key is none.
    """

    def __init__(self, key: str | bytes | Sequence[str | bytes]) -> None:
        try:
            fernet = importlib.import_module("cryptography.fernet")
        except ImportError as error:
            if not is_missing(error, "cryptography"):
                raise
            raise ConfigurationError(f"keeping sensitive memories needs cryptography: {INSTALL}") from error
        given: object = key
        keys = list(given) if isinstance(given, Sequence) and not isinstance(given, str | bytes) else [given]
        try:
            self._fernet = fernet.MultiFernet([fernet.Fernet(one) for one in keys])
        except (TypeError, ValueError) as error:
            # The message must not repeat the key.
            came = f"a {type(given).__name__}" + (f" of length {len(given)}" if isinstance(given, Sequence) else "")
            raise ConfigurationError(
                f"key must be a Fernet key (32 bytes in url-safe base64) or a list of such keys, got {came}"
            ) from error
        self._keys = len(keys)
        self._invalid: type[Exception] = fernet.InvalidToken

    def __repr__(self) -> str:
        return f"Vault({self._keys} {'key' if self._keys == 1 else 'keys'})"

    def seal(self, content: str | Mapping[str, Any], kind: str) -> dict[str, Any]:
        """Return the value that is stored in place of a content.

        Args:
            content: The text or dict to encrypt.
            kind: What kind of sensitive data it is; it stays readable.
        """
        plain = json.dumps(content if isinstance(content, str) else dict(content), ensure_ascii=False)
        return {"content": self._fernet.encrypt(plain.encode()).decode(), _MARK: True, "kind": kind}

    def open(self, value: Mapping[str, Any]) -> Any:
        """Return what was sealed.

        Args:
            value: The value of a memory that `seal` made.

        Raises:
            ValueError: It was not sealed, or with another key.
        """
        if not is_sealed(value):
            raise ValueError("the memory is not encrypted")
        try:
            return json.loads(self._fernet.decrypt(str(value["content"]).encode()))
        except self._invalid:
            raise ValueError("the memory was encrypted with another key, or changed") from None

    def opens(self, value: object) -> bool:
        """Whether a content was sealed with one of these keys.

        Args:
            value: The value of a memory.
        """
        try:
            self.open(value if isinstance(value, Mapping) else {})
        except ValueError:
            return False
        return True

    def reveal(self, store: LifecycleStore, namespace: tuple[str, ...], key: str, *, why: str) -> Any:
        """Return what an encrypted memory holds; that it was read, and why, is audited first.

        Args:
            store: The `ForgetfulStore` that holds it.
            namespace: The namespace in which it lies.
            key: The key of the memory.
            why: What it is read for; a non-empty text for the audit.

        Raises:
            MemoryNotFoundError: There is none, or it has expired.
            ValueError: It is not encrypted, or with another key; or `why` is empty.
        """
        return run(_reveal(namespace, key, self, why), store)

    @twin_of(reveal)
    async def areveal(self, store: LifecycleStore, namespace: tuple[str, ...], key: str, *, why: str) -> Any:
        """The async twin of `reveal`."""
        return await arun(_reveal(namespace, key, self, why), store)


def is_sealed(value: object) -> bool:
    """Whether a value is that of an encrypted memory."""
    return isinstance(value, Mapping) and value.get(_MARK) is True and isinstance(value.get("content"), str)


def _reveal(namespace: tuple[str, ...], key: str, vault: Vault, why: str) -> Steps[Any]:
    if not isinstance(why, str) or not why:
        raise ValueError(f"why must be a non-empty str, got {why!r}")
    found = yield call("get", namespace, key, track_access=False)
    if found is None:
        raise MemoryNotFoundError(f"there is no memory {key!r} in {namespace!r}")
    # What can't be recorded is not shown.
    yield Record(Note(namespace, "reveal", key, why))
    return vault.open(found.value)
