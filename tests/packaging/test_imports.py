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
    loaded = run("""
        import sys
        import langgraph_forgetful_store
        print(*(name for name in sys.modules if name.startswith(("langgraph_forgetful_store", "langchain", "numpy.ma"))))
    """).split()
    mine = "langgraph_forgetful_store"
    for unwanted in (
        f"{mine}.policy",
        f"{mine}.prompt",
        f"{mine}.testing",
        f"{mine}.backend.embedded",
        f"{mine}.operations.erase",
        f"{mine}.operations.closure",
        "langchain",
        "langchain_core.language_models",
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


@pytest.mark.parametrize("lacks", ["os.register_at_fork", "os.fork", "fcntl", "os.geteuid", "os.killpg"])
def test_the_package_imports_and_makes_a_store_by_url_where_the_system_lacks(lacks):
    module, _, attribute = lacks.partition(".")
    run(f"""
        import sys
        if {attribute!r}:
            import {module}
            if hasattr({module}, {attribute!r}):
                del {lacks}
        else:
            sys.modules[{module!r}] = None
        import langgraph_forgetful_store as package
        from langgraph_forgetful_store.backend import embedded
        for name in package.__all__:
            getattr(package, name)
        package.ForgetfulStore.from_conn_string("redis://localhost:1").close()
    """)


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
