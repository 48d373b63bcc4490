"""Writes the stubs of the extension, and of the packages that hand its names on.

make_stub.py MODULE FOLDER writes FOLDER/_core.pyi, __init__.pyi, nn.pyi and mps/__init__.pyi. The
build of a wheel runs it. It needs pybind11-stubgen and the packages whose types the stub names, and
of the package the module and the sources beside this folder.
"""

import ast
import enum
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parents[1] / "traingraph"
# Apple's subclasses refuse forms of their base classes.
HEADER = '# mypy: disable-error-code="override"\n"""Made from the docstrings of the extension."""\n'


# Types are in docstrings; signatures for `inspect` have none.
STUBGEN = """
import inspect
from traingraph import _core
assert _core.MPSKernel  # with it all of MPS's classes are made
def unknown(*_):
    raise TypeError
inspect.getfullargspec = unknown
from pybind11_stubgen import main
main()
"""


def is_private(node: ast.stmt) -> bool:
    name = getattr(node, "name", "")
    target = getattr(node, "target", None) or next(iter(getattr(node, "targets", [])), None)
    name = name or getattr(target, "id", "")
    return name in ("__slots__", "__reduce__") or (
        name.startswith("_") and not name.startswith("__")
    )


def enum_body(node: ast.ClassDef, core: Any) -> list[ast.stmt]:
    """Cases as type checkers want them, then our own members; nothing of Python's machinery."""
    cases = getattr(core, node.name).__members__.items()
    body = node.body[:1]
    body += [ast.parse(f"{name} = {int(case)}").body[0] for name, case in cases]
    functions = [item for item in node.body[1:] if isinstance(item, ast.FunctionDef)]
    return body + [item for item in functions if not item.name.startswith("_")]


def exceptions(imports: list[ast.stmt], core: Any) -> list[ast.stmt]:
    """Exceptions say that they live in the package; here they are defined."""
    names = [
        alias.name for node in imports if isinstance(node, ast.ImportFrom) for alias in node.names
    ]
    classes = [getattr(core, name) for name in names]
    classes.sort(key=lambda cls: (len(cls.__mro__), cls.__name__))
    return [
        ast.parse(
            f"class {cls.__name__}({', '.join(base.__name__ for base in cls.__bases__)}):"
            f" {cls.__doc__!r}"
        ).body[0]
        for cls in classes
    ]


class Cleaner(ast.NodeTransformer):
    def __init__(self, core: Any) -> None:
        self.core = core

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        self.generic_visit(node)
        if issubclass(getattr(self.core, node.name, object), enum.Enum):
            node.body = enum_body(node, self.core)
        node.body = [item for item in node.body if not is_private(item)]
        return node


def cleaned(tree: ast.Module, core: Any) -> str:
    imports = [node for node in tree.body if isinstance(node, ast.Import)]
    imports = [node for node in imports if node.names[0].asname != "__builtins__"]
    raised = [node for node in tree.body if getattr(node, "module", "") == "traingraph"]
    rest = tree.body[1:]  # after the module's docstring
    rest = [node for node in rest if not isinstance(node, ast.Import) and node not in raised]
    rest = [node for node in rest if not is_private(node)]
    rest = [node for node in rest if getattr(node, "name", "") != "__getattr__"]
    split = next(i for i, node in enumerate(rest) if not isinstance(node, ast.ImportFrom))
    tree.body = [*rest[:split], *imports, *exceptions(raised, core), *rest[split:]]
    tree.body = [node for node in tree.body if "__all__" not in ast.unparse(node)[:8]]
    return HEADER + ast.unparse(Cleaner(core).visit(tree)) + "\n"


def package_stub(source: Path, names: list[str], rest: str = "") -> str:
    """The names of the extension that a package hands on, and what it has of its own modules."""
    own = {}
    for node in ast.parse(source.read_text()).body:
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("traingraph.mps."):
            own |= {alias.name: str(node.module) for alias in node.names}
    modules = dict.fromkeys(names, "traingraph._core") | own
    lines = [f"from {module} import {name} as {name}" for name, module in sorted(modules.items())]
    return "\n".join([*lines, f"__all__ = {sorted(modules)}", rest])


def make(module: Path) -> dict[str, str]:
    """The text of each stub, by its place in the package."""
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder, "traingraph")
        package.mkdir()
        (package / "__init__.py").write_text(f"__path__.append({str(module.parent.resolve())!r})\n")
        shutil.copy(PACKAGE / "_dlpack.py", package)  # has a type that signatures name
        command = [sys.executable, "-c", STUBGEN, "traingraph._core", "--exit-code"]
        # pip's isolated build has its packages there.
        path = [folder, *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(path)}
        subprocess.run([*command, "-o", f"{folder}/out"], check=True, env=environment)
        tree = ast.parse(Path(folder, "out/traingraph/_core.pyi").read_text())
        sys.path.insert(0, folder)
        from traingraph import _core

        rest = "from traingraph import nn as nn\n__version__: str\n"
        mps = PACKAGE / "mps/__init__.py"
        return {
            "_core.pyi": cleaned(tree, _core),
            "__init__.pyi": package_stub(PACKAGE / "__init__.py", _core.__all__, rest),
            "mps/__init__.pyi": package_stub(mps, _core._mps_names),
            "nn.pyi": package_stub(PACKAGE / "nn.py", _core._nn_names),
        }


if __name__ == "__main__":
    for place, text in make(Path(sys.argv[1])).items():
        stub = Path(sys.argv[2], place)
        stub.parent.mkdir(exist_ok=True)
        stub.write_text(text)
