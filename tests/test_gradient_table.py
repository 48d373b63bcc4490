"""The table of gradients: a sample of it runs, and what it would not let pass."""

import importlib.util
import itertools
import json
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import gradient_table
import numpy as np
import pytest
from gradient_rows.graphs import Graph
from gradient_rows.measure import Case, Cell, choices_of
from gradient_rows.page import BEGIN, END, updated
from gradient_rows.pairs import every_pair
from gradient_rows.quotients import Quotients
from gradient_rows.rows import ROWS
from gradient_rows.text import failures, table

import traingraph as tg

ROOT = Path(__file__).resolve().parents[1]
HAS_TORCH = importlib.util.find_spec("torch") is not None
LAYERS = runpy.run_path(str(ROOT / "docs/class_tables.py"))["layers"]()


def run(tmp_path, *arguments):
    """The cells, which are those of every row that runs."""
    found = tmp_path / "cells.json"
    command = [sys.executable, ROOT / "tools/gradient_table.py", "--json", found, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    cells = json.loads(found.read_text())
    for layer, device in itertools.product(LAYERS, gradient_table.DEVICES):
        for data_type in ("float64", "float32", "float16", "bfloat16"):
            mine = [c for c in cells if c["layer"] == layer.__name__ and c["cases"]
                    and (c["device"], c["data_type"]) == (device, data_type)]  # fmt: skip
            assert bool(mine) is layer.supports_data_type(data_type, on=device)
    return cells


def test_a_sample(tmp_path):
    cells = run(tmp_path, "--quick")
    assert all(c["held"] and c["cases"] for c in cells)
    exact = [c for c in cells if c["data_type"] == "float64"]
    assert sum(c["quotients"] for c in exact) > 10_000
    assert sum(c["kinks"] for c in exact) > 20
    assert (sum(c["torch"] is not None for c in exact) > 150) is HAS_TORCH


@pytest.mark.gradients
def test_all_of_it(tmp_path):
    cells = run(tmp_path)
    assert sum(c["cases"] for c in cells) > 5000


# --- what it would not let pass ------------------------------------------------------------------


def quotients(function, home, starts):
    array = home.copy()

    def move(to):
        array[...] = to

    return Quotients(home, move, lambda: [function(array)], [starts], home.size, 1.0)


def smooth(x):
    return np.sin(x) * x


def test_quotients_are_derivatives():
    random = np.random.default_rng(1)
    for few, count in ((False, 40), (True, 3000)):
        home = random.uniform(-3, 3, count)
        starts = random.uniform(-1, 1, count)
        found = quotients(smooth, home, starts)
        right = starts * (np.sin(home) + home * np.cos(home))
        assert found.kinks == 0
        assert len(found.found) == (68 if few else 40)
        assert found.error(right) < 1e-8
        for wrong in (right * 1.001, right + 1e-3 * np.abs(right).max() * (home == home[7])):
            assert found.error(wrong) > 1e-4
        assert found.error(np.full(count, np.nan)) == np.inf
    assert np.isnan(quotients(lambda x: x * np.nan, home, starts).error(right))


def test_a_kink_excuses_no_wrong_gradient():
    home = np.array([-1.5, 0.0, 0.0, 0.5, 1.0])
    starts = np.array([1.0, 2.0, -1.0, 0.5, 0.25])
    found = quotients(lambda x: np.maximum(x, 0), home, starts)
    assert [q.is_kink for q in found.found] == [False, True, True, False, False]
    right = starts * (home > 0)
    assert found.error(right) < 1e-9
    for at, value in ((1, 2.0), (1, 1.0), (2, -1.0)):  # what lies between both sides
        between = right.copy()
        between[at] = value
        assert found.error(between) < 1e-9
    for at, value in ((1, 2.1), (1, -0.1), (2, 0.1), (2, -1.1), (0, 0.1), (3, 0.4)):
        wrong = right.copy()
        wrong[at] = value
        assert found.error(wrong) > 0.04


def test_kinks_of_several_values_do_not_cancel():
    """An element that is the largest of two windows, with starts that are opposite."""
    home, starts = np.array([1.0, 1.0, 0.0]), np.array([1.0, -1.0])
    found = quotients(lambda x: np.maximum(x[0], [x[1], x[2] + 1]), home, starts)
    assert found.found[0].is_kink
    assert found.error(np.array([1.0, 0.0, -1.0])) < 1e-9  # the first window's alone
    assert found.error(np.array([1.2, 0.0, -1.0])) > 0.1


def test_a_bend_of_the_derivative_is_a_kink():
    home = np.array([1.0, 0.25])
    found = quotients(lambda x: np.where(abs(x) <= 1, x * x / 2, abs(x) - 0.5), home, np.ones(2))
    assert [q.is_kink for q in found.found] == [True, False]
    assert found.error(np.array([1.0, 0.25])) < 1e-8
    assert found.error(np.array([1.0 + 1e-5, 0.25])) > 5e-6


def test_a_direction_with_kinks_is_cut():
    random = np.random.default_rng(2)
    home = random.uniform(-2, 2, 2000)
    home[11] = 0.0
    found = quotients(lambda x: np.maximum(x, 0), home, np.ones(2000))
    assert 4 < len(found.found) - 64 < 64
    right = (home > 0) * 1.0
    assert found.error(right) < 1e-8
    wrong = right.copy()
    wrong[500] += 0.5
    assert found.error(wrong) > 0.2


def cases(name, **options):
    (row,) = [row for row in ROWS if row.label == name]
    choices, _ = choices_of(row, False)
    chosen = next(c for c in choices if all(c[k] == v for k, v in options.items()))
    return row.make(chosen), f"{name} {chosen}"


def cell(data_type, device="reference", bound=1e-7):
    return Cell("MLCActivationLayer", "row", data_type, device, bound)


@pytest.mark.parametrize(
    ("name", "options"),
    [("MLCActivationLayer hard_sigmoid", {"case": 0}), ("MLCSoftmaxLayer", {"case": 0}),
     ("MLCConvolutionLayer", {"case": 0}), ("MLCLossLayer huber", {"size": "ties"})],
)  # fmt: skip
@pytest.mark.parametrize(
    ("data_type", "bound"),
    [("float64", 1e-7), ("tf32", 5e-3), ("float16", 1e-2), ("bfloat16", 5e-2)],
)
def test_a_wrong_gradient_is_above_the_bound(monkeypatch, name, options, data_type, bound):
    sample, label = cases(name, **options)
    exact = "bfloat16" if data_type.endswith("16") else "float32"
    case = Case(sample, label, exact, data_type == "float64")
    right, wrong = cell(data_type, "cpu", bound), cell(data_type, "cpu", bound)
    case.measure(right)
    assert right.is_held, right
    gradients = Graph.gradients
    monkeypatch.setattr(
        Graph,
        "gradients",
        lambda self, starts: {at: 1.2 * g for at, g in gradients(self, starts).items()},
    )
    case.moved = lambda by: {at: 1.0 * g for at, g in case.gradients.items()}
    case.measure(wrong)
    assert wrong.gradient > bound
    assert not wrong.is_held
    assert any(label in line for line in failures([wrong.as_dict()]))


def test_what_is_not_held():
    held = cell("float32", bound=1e-4)
    assert not held.is_held  # nothing was compared
    held.cases = 1
    held.take("forward", 1e-5, "a case")
    assert not held.is_held  # its gradient was not
    held.take("gradient", 1e-5, "a case")
    assert held.is_held
    held.take("gradient", np.nan, "another case")
    held.take("gradient", 1e-6, "one more")
    assert not held.is_held
    assert held.worst["gradient"] == "another case"
    raised = cell("float32")
    raised.errors.append("a case: ValueError")
    assert "a case: ValueError" in failures([raised.as_dict()])[0]
    assert "**" in table([raised.as_dict()])


def test_a_class_without_a_row_is_missing():
    devices = gradient_table.DEVICES
    every = [
        {"layer": row.kind, "device": device, "data_type": one, "cases": 1}
        for row in ROWS
        for device in devices
        for one in gradient_table.types_of(row, device)
    ]
    assert gradient_table.missing(ROWS, every, devices) == []
    rows = [row for row in ROWS if row.kind != "MLCSoftmaxLayer"]
    assert "MLCSoftmaxLayer is no row of the table" in gradient_table.missing(rows, every, devices)
    place = ("MLCGatherLayer", "cpu", "int8")
    less = [c for c in every if (c["layer"], c["device"], c["data_type"]) != place]
    assert gradient_table.missing(ROWS, less, devices) == [
        "MLCGatherLayer runs int8 on cpu and has no row"
    ]


# --- choices -------------------------------------------------------------------------------------


def test_every_pair_occurs():
    factors = {"a": [1, 2, 3], "b": [1, 2], "c": [1, 2, 3, 4], "d": ["x", "y"]}
    found, impossible = every_pair(factors, lambda choice: True)
    assert impossible == []
    assert len(found) < 20
    for one, other in itertools.combinations(factors, 2):
        for pair in itertools.product(factors[one], factors[other]):
            assert any((c[one], c[other]) == pair for c in found)
    found, impossible = every_pair(factors, lambda choice: choice["a"] != 1 or choice["c"] == 4)
    assert impossible == [(("a", 0), ("c", k)) for k in range(3)]
    assert every_pair({"a": [1, 2]}, lambda choice: True)[0] == [{"a": 1}, {"a": 2}]


def arguments(name):
    """What the constructor of a class takes, but for tensors and descriptors."""
    document = getattr(tg, name).__init__.__doc__
    tables = runpy.run_path(str(ROOT / "docs/class_tables.py"))
    forms = tables["FORM"].findall(document)
    return {
        argument: kind
        for form in forms
        for argument, kind, _ in tables["ARGUMENT"].findall(form)
        if "MLCTensor" not in kind and "Descriptor" not in kind
    }


# Arguments that no row varies, and where they are tested.
ELSEWHERE = {
    "MLCConvolutionDescriptor": {"transpose_with_kernel_width", "depthwise_with_kernel_width",
                                 "kernel_height", "channel_multiplier"},
    "MLCActivationDescriptor": {"c"},
    "MLCConvolutionLayer": {"with_biases"},
    "MLCFullyConnectedLayer": {"with_biases"},
    "MLCReductionLayer": {"dimension"},
}  # fmt: skip


def texts():
    """The layers of all rows as Python text, by class, and of their descriptors."""
    found = {}
    for row in ROWS:
        for choice in choices_of(row, False)[0]:
            sample = row.make(choice)
            roles = dict.fromkeys(sample.parameters(), "None")
            text = sample.layer.expression(sample.options, sample.shapes, roles)
            names = {}

            def recorder(name, made=names):
                def record(**given):
                    made.setdefault(name, []).append(given)
                    return SimpleNamespace()

                return record

            class Names:
                def __getattr__(self, name):
                    if name == "MLCPaddingPolicy":
                        return SimpleNamespace(sized=lambda **given: ("sized", *given.values()))
                    return recorder(name)

            eval(text, {"tg": Names(), "described": lambda options: options})
            for name, calls in names.items():
                found.setdefault(name, []).extend(calls)
    return found


def test_every_argument_of_a_layer_varies():
    """A new option of a layer needs its values in the layer's row."""
    calls = texts()
    assert {layer.__name__ for layer in LAYERS} <= set(calls)
    for name, given in calls.items():
        for argument, kind in arguments(name).items():
            if argument in ELSEWHERE.get(name, ()):
                continue
            values = {repr(call[argument]) for call in given if argument in call}
            absent = any(argument not in call for call in given)
            assert len(values) + absent > 1, (name, argument, kind, values)


def test_other_devices_keep_their_tables():
    page = f"text\n{BEGIN}\n## cuda\n\na\n\n## cpu\n\nb\n{END}more\n"
    cells = [cell("float32", device).as_dict() for device in gradient_table.DEVICES]
    found = updated(page, cells)
    assert found.startswith(f"text\n{BEGIN}\n## cuda\n\na\n\n## cpu\n\n")
    assert found.endswith(f"{END}more\n")
    assert "\n## reference\n" in found
    assert "\nb\n" not in found
    assert updated(found, cells) == found


# --- the documents -------------------------------------------------------------------------------


def test_the_page_has_a_row_for_all_that_runs():
    text = (ROOT / "docs/gradients.md").read_text()
    for device in gradient_table.DEVICES:
        part = text.split(f"\n## {device}\n")[1].split("\n## ")[0].splitlines()
        part = [line for line in part if line.startswith("|")]
        columns = [name.strip() for name in part[0].split("|")[1:-1]]
        rows = {line.split("|")[1].strip(): line.split("|")[1:-1] for line in part[3:]}
        assert set(rows) == {row.label.removeprefix("MLC") for row in ROWS}
        for row in ROWS:
            values = [value.strip() for value in rows[row.label.removeprefix("MLC")]]
            for one in gradient_table.types_of(row, device):
                starts = [k for k, name in enumerate(columns) if name.startswith(f"{one}:")]
                at = starts[0] if starts else columns.index("whole numbers")
                assert values[at] != "no", (row.label, one)
        assert "**" not in "".join(part)
