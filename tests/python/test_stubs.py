"""The stub that the build of a wheel makes of the extension."""

import ast
import runpy
from pathlib import Path

import pytest

from traingraph import _core

MAKE = Path(__file__).parents[2] / "python/bindings/make_stub.py"


@pytest.fixture(scope="module")
def stub() -> str:
    return runpy.run_path(str(MAKE))["make"](Path(_core.__file__))


def test_an_installed_stub_is_that_of_the_extension(stub: str) -> None:
    installed = Path(_core.__file__).with_name("_core.pyi")
    if installed.exists():  # test_packaging asks whether a wheel has it
        assert installed.read_text() == stub


def test_names_are_those_of_the_module(stub: str) -> None:
    public = {name for name in vars(_core) if not name.startswith("_")}
    nodes = [node for node in ast.parse(stub).body if hasattr(node, "name")]
    assert {node.name for node in nodes} == public
    for node in nodes:
        cls = getattr(_core, node.name)
        if not isinstance(cls, type) or issubclass(cls, BaseException):
            continue
        members = {item.name for item in node.body if hasattr(item, "name")}
        cases = [item for item in node.body if isinstance(item, ast.Assign)]
        members |= {target.id for item in cases for target in item.targets}
        members |= {item.target.id for item in node.body if isinstance(item, ast.AnnAssign)}
        own = {name for name in vars(cls) if not name.startswith("_")}
        assert own - members <= set(dir(int)), node.name


def test_the_hidden_is_in_no_stub(stub: str) -> None:
    assert "class _" not in stub
    assert "__all__" not in stub
