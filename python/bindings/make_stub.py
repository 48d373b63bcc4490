"""Writes the stub of the extension from its docstrings: make_stub.py MODULE STUB.

The build of a wheel runs it. It needs pybind11-stubgen and the packages whose types the stub
names, and nothing of the package but the module.
"""

import ast
import enum
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

# Apple's subclasses refuse forms of their base classes.
HEADER = '# mypy: disable-error-code="override"\n"""Made from the docstrings of the extension."""\n'


def is_private(node: ast.stmt) -> bool:
    name = getattr(node, "name", "")
    target = getattr(node, "target", None) or next(iter(getattr(node, "targets", [])), None)
    name = name or getattr(target, "id", "")
    return name.startswith("_") and not name.startswith("__")


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
    raised = [node for node in tree.body if getattr(node, "module", "") == "traingraph"]
    rest = tree.body[1:]  # after the module's docstring
    rest = [node for node in rest if node not in [*imports, *raised] and not is_private(node)]
    split = next(i for i, node in enumerate(rest) if not isinstance(node, ast.ImportFrom))
    tree.body = [*rest[:split], *imports, *exceptions(raised, core), *rest[split:]]
    tree.body = [node for node in tree.body if "__all__" not in ast.unparse(node)[:8]]
    return HEADER + ast.unparse(Cleaner(core).visit(tree)) + "\n"


def make(module: Path) -> str:
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder, "traingraph")
        package.mkdir()
        (package / "__init__.py").write_text(f"__path__.append({str(module.parent.resolve())!r})\n")
        command = [sys.executable, "-m", "pybind11_stubgen", "traingraph._core", "--exit-code"]
        # pip's isolated build has its packages there.
        path = [folder, *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(path)}
        subprocess.run([*command, "-o", f"{folder}/out"], check=True, env=environment)
        tree = ast.parse(Path(folder, "out/traingraph/_core.pyi").read_text())
        sys.path.insert(0, folder)
        from traingraph import _core

        return cleaned(tree, _core)


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(make(Path(sys.argv[1])))
