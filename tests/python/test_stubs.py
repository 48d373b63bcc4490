"""The stubs that the build of a wheel makes of the extension and of the packages over it."""

import ast
import importlib
import runpy
from pathlib import Path
from types import ModuleType

import pytest

import traingraph
import traingraph.mps
from traingraph import _core

MAKE = Path(__file__).parents[2] / "python/bindings/make_stub.py"


@pytest.fixture(scope="module")
def stubs() -> dict[str, str]:
    return runpy.run_path(str(MAKE))["make"](Path(_core.__file__))


@pytest.fixture(scope="module")
def stub(stubs: dict[str, str]) -> str:
    return stubs["_core.pyi"]


def test_installed_stubs_are_those_of_the_extension(stubs: dict[str, str]) -> None:
    for place, text in stubs.items():
        installed = Path(_core.__file__).parent / place
        if installed.exists():  # test_packaging asks whether a wheel has them
            assert installed.read_text() == text


STUBS = {
    traingraph: "__init__.pyi",
    traingraph.mps: "mps/__init__.pyi",
    traingraph.nn: "nn.pyi",
}


@pytest.mark.parametrize("package", STUBS)
def test_a_package_has_the_names_of_its_stub(package: ModuleType, stubs: dict[str, str]) -> None:
    tree = ast.parse(stubs[STUBS[package]])
    imported = {
        alias.asname: getattr(importlib.import_module(str(node.module)), alias.name)
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    if package is traingraph:
        assert imported.pop("nn") is traingraph.nn
    assert imported == {name: getattr(package, name) for name in package.__all__}
    assert len(set(package.__all__)) == len(package.__all__) == len(imported)


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
        # Names that only answer what was meant are not shown.
        own = {name for name in set(vars(cls)) & set(dir(cls)) if not name.startswith("_")}
        assert own - members <= set(dir(int)), node.name


def test_the_hidden_is_in_no_stub(stub: str) -> None:
    assert "class _" not in stub
    assert "__all__" not in stub
