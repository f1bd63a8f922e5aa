"""The contract of a `BaseStore` as a pytest class, section by section.

A section is a class of its own, for a store that keeps only a part.
"""

from __future__ import annotations

import pkgutil
from typing import Any, ClassVar

import pytest

# Said before the imports, it makes the asserts of the contract show their values, as those of a test module do.
pytest.register_assert_rewrite(*(section.name for section in pkgutil.iter_modules(__path__, f"{__name__}.")))

from langgraph_forgetful_store.testing.contract.base import Section  # noqa: E402
from langgraph_forgetful_store.testing.contract.batch import BatchContract  # noqa: E402
from langgraph_forgetful_store.testing.contract.concurrency import ConcurrencyContract  # noqa: E402
from langgraph_forgetful_store.testing.contract.expiry import ExpiryContract  # noqa: E402
from langgraph_forgetful_store.testing.contract.filters import FilterContract  # noqa: E402
from langgraph_forgetful_store.testing.contract.items import ItemContract  # noqa: E402
from langgraph_forgetful_store.testing.contract.namespaces import NamespaceContract  # noqa: E402
from langgraph_forgetful_store.testing.contract.search import SearchContract  # noqa: E402
from langgraph_forgetful_store.testing.contract.ttl import TTLContract  # noqa: E402

CLOCK_TESTS = tuple(
    name for section in (TTLContract, ExpiryContract) for name in vars(section) if name.startswith("test_")
)


class StoreContract(
    BatchContract,
    ItemContract,
    NamespaceContract,
    SearchContract,
    FilterContract,
    ConcurrencyContract,
    TTLContract,
    ExpiryContract,
):
    """All that a store must do. Every test runs on its sync and on its async side.

    ```python
    class TestMyStore(StoreContract):
        @pytest.fixture
        def make_store(self):
            stores = []

            def make(**settings):  # any of index=, ttl=, clock=
                stores.append(MyStore(**settings))
                return stores[-1]

            yield make
            for store in stores:
                store.close()
    ```

    What a store is known not to keep goes into `expected_failures`, what is not to be run into `left_out`; both name
    tests and say why.

    Attributes:
        supports_clock: Whether `make_store` takes ``ttl=`` and a ``clock=`` that returns ms since the epoch; if not,
            `CLOCK_TESTS` are left out.
    """

    supports_clock: ClassVar[bool] = True

    def __init_subclass__(cls, **options: Any) -> None:
        if not cls.supports_clock:
            cls.left_out = {**dict.fromkeys(CLOCK_TESTS, "the store takes no clock"), **cls.left_out}
        super().__init_subclass__(**options)


__all__ = [
    "CLOCK_TESTS",
    "BatchContract",
    "ConcurrencyContract",
    "ExpiryContract",
    "FilterContract",
    "ItemContract",
    "NamespaceContract",
    "SearchContract",
    "Section",
    "StoreContract",
    "TTLContract",
]
