"""The rows that --device adds to tests over several backends.

A test over several backends takes them in an argument called `device`, and each of its rows for
"cpu" gets one like it for every device that is asked for.
"""

import ast
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

# Built in where Apple's frameworks, or their doubles, are.
APPLE = ("metal", "bnns")
DEVICES = ("cuda", *APPLE)
# Arguments for which "cpu" is no backend.
NO_BACKENDS = {
    "style",  # MPSNNTrainingStyle: who updates the weights
}
ROW = type(pytest.param())


def add_options(parser: pytest.Parser) -> None:
    parser.addoption(
        "--device",
        action="append",
        choices=DEVICES,
        default=[],
        help="run the suites over backends on it too; may be given once for each of several",
    )
    parser.addoption(
        "--only-device",
        action="append",
        choices=DEVICES,
        default=[],
        help="add rows as --device does, and leave out all but those that were added for this "
        "device and the tests that need it; may be given once for each of several",
    )


def asked_for(config: pytest.Config) -> list[str]:
    """The devices of both options, each once."""
    return list(dict.fromkeys(config.getoption("--device") + config.getoption("--only-device")))


def with_devices(names: str | Sequence[str], rows: Iterable[Any], devices: list[str]) -> list[Any]:
    """The rows of a parametrization, and for each "cpu" of `device` those of these devices."""
    one = isinstance(names, str) and "," not in names
    if isinstance(names, str):
        names = [name.strip() for name in names.split(",")]
    found, added = list(rows), []
    for row in found:
        given = ROW.extract_from(row, force_tuple=one)
        for at, (name, cell) in enumerate(zip(names, given.values, strict=True)):
            if not isinstance(cell, str) or cell != "cpu" or name in NO_BACKENDS:
                continue
            if name != "device":
                pytest.fail(f"expected backends in an argument 'device' but got '{name}'", False)
            for device in devices:
                cells = (*given.values[:at], device, *given.values[at + 1 :])
                marks = (*given.marks, pytest.mark.row_of(device))
                added.append(pytest.param(*cells, marks=marks))
    return found + added


def loops_over_backends(text: str) -> list[int]:
    """Lines of a file of tests that loop over a literal list with "cpu" in it."""
    found = ast.walk(ast.parse(text))
    loops = (node.iter for node in found if isinstance(node, ast.For | ast.comprehension))
    lists = (node for node in loops if isinstance(node, ast.List | ast.Tuple | ast.Set))
    return [
        node.lineno
        for node in lists
        if "device" not in (one.id for one in node.elts if isinstance(one, ast.Name))
        and "cpu" in (one.value for one in node.elts if isinstance(one, ast.Constant))
    ]


def is_about(item: pytest.Item, devices: Sequence[str]) -> bool:
    """Whether --device added this row for one of them, or it needs one by a fixture."""
    if "gpu" in getattr(item, "fixturenames", ()):
        return "cuda" in devices
    return any(mark.args[0] in devices for mark in item.iter_markers("row_of"))
