"""What importing the package needs, and what it leaves for later."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest


def run(code: str) -> str:
    """Run code in an interpreter of its own, which has imported nothing yet; return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_store_alone_imports_neither_the_policy_nor_agents_nor_what_only_some_stores_use():
    loaded = run("import sys, langgraph_forgetful_store; print(*sys.modules)").split()
    package = "langgraph_forgetful_store"
    assert f"{package}.store.store" in loaded
    for unwanted in (
        f"{package}.policy",
        f"{package}.prompt",
        f"{package}.testing",
        f"{package}.backend.embedded",
        f"{package}.operations.erase",
        f"{package}.operations.closure",
        "langchain",
        "langchain_core.language_models.chat_models",
        "langchain_core.tools",
        "numpy.ma",
    ):
        assert [name for name in loaded if name == unwanted or name.startswith(f"{unwanted}.")] == []


def test_every_public_name_is_there_and_listed():
    assert (
        run("""
        import langgraph_forgetful_store as package
        assert {*package.__all__} <= {*dir(package)}
        print(*(name for name in package.__all__ if getattr(package, name, None) is None))
    """)
        == ""
    )


# Python's own `random` takes a system with a fork for one with `register_at_fork`.
NO_FORK = ("os.fork", "os.register_at_fork")
LIKE_WINDOWS = (*NO_FORK, "os.geteuid", "os.killpg", "signal.SIGKILL", "socket.AF_UNIX", "fcntl", "pwd", "resource")


@pytest.mark.parametrize("lacking", [NO_FORK, ("fcntl",), LIKE_WINDOWS], ids=["fork", "fcntl", "what Windows lacks"])
def test_the_package_imports_and_makes_a_store_by_url_where_a_system_lacks(lacking):
    assert (
        run(f"""
        import importlib, sys
        for name in {lacking!r}:
            module, _, attribute = name.partition(".")
            if attribute:
                vars(importlib.import_module(module)).pop(attribute, None)
            else:
                sys.modules[module] = None
        import langgraph_forgetful_store as package
        from langgraph_forgetful_store.backend import embedded
        for name in package.__all__:
            getattr(package, name)
        with package.ForgetfulStore.from_conn_string("redis://127.0.0.1:1") as store:
            try:
                store.get(("a",), "k")
            except Exception as error:
                print(type(error).__module__, type(error).__name__)
    """)
        == "redis.exceptions ConnectionError"
    )


def test_what_tests_can_reuse_imports_without_pytest_but_for_the_contract():
    assert run("""
        import sys
        sys.modules["pytest"] = sys.modules["_pytest"] = None
        from langgraph_forgetful_store.testing import Clock, Face, WordEmbeddings, check_keys, faces
        from langgraph_forgetful_store import testing
        assert "StoreContract" in dir(testing)
        try:
            testing.StoreContract
        except ModuleNotFoundError as error:
            print(error.name)
        print(sorted(testing.__all__))
    """).splitlines() == ["pytest", str(["Clock", "Face", "StoreContract", "WordEmbeddings", "check_keys", "faces"])]
