"""No name, and no number in a text or JSON, depends on the process's locale."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import traingraph as tg
from traingraph import mps


def trained() -> tg.MLCTrainingGraph:
    x, y = tg.MLCTensor(shape=[1200, 1500]), tg.MLCTensor(shape=[1200, 1500])
    graph = tg.MLCGraph()
    h = graph.node(tg.MLCDropoutLayer(rate=0.25, seed=1), source=x)
    graph.node(tg.MLCActivationLayer.leaky_relu(negative_slope=0.125), source=h)
    training = tg.MLCTrainingGraph(
        graph_objects=[graph],
        loss_layer=tg.MLCLossLayer.huber_loss(reduction_type="mean", delta=1.5),
    )
    training.add_inputs({"x": x}, loss_labels={"y": y})
    training.compile(device="cpu")
    return training


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(tg.InvalidArgument) as raised:
        call()
    return str(raised.value)


def texts() -> list[str]:
    training = trained()
    data = np.zeros((1200, 1500), np.float32)
    profile = training.execute(
        inputs_data={"x": data}, loss_labels_data={"y": data},
        options="synchronous|per_layer_profiling",
    ).profile  # fmt: skip
    trace = json.loads(profile.chrome_trace())
    assert all(isinstance(event["dur"], float | int) for event in trace["traceEvents"])
    assert "," not in profile.table()
    optimizers = [
        tg.MLCAdamOptimizer(learning_rate=0.3), tg.MLCSGDOptimizer(learning_rate=1234.5),
        tg.MLCRMSPropOptimizer(learning_rate=0.5),
    ]  # fmt: skip
    kernel = mps.MPSCNNNeuronLinear(device=mps.MTLDevice(device="cpu"), a=0.5, b=1234.5)
    return [
        str(training.memory_plan()), training.compiled_description(),
        *map(repr, optimizers), repr(tg.MLCDropoutLayer(rate=0.5, seed=1)).split(" ", 2)[2],
        refusal(lambda: tg.MLCDropoutLayer(rate=1234.5)),
        refusal(lambda: tg.MLCLossLayer.huber_loss(reduction_type="mean", delta=-1234.5)),
        refusal(lambda: tg.MLCAdamOptimizer(learning_rate=0.5, beta1=1234.5)),
        repr(kernel),
    ]  # fmt: skip


def test_texts_are_the_same_where_numbers_have_commas() -> None:
    testing = pytest.importorskip("traingraph._testing", reason="built with TRAINGRAPH_TESTING")

    def plain(made: list[str]) -> list[str]:
        # Numbers of layers count up.
        return [text for text in made if "layer " not in text]

    assert plain(testing.with_commas(texts)) == plain(texts())
    every = testing.with_commas(texts)
    assert not any("1.200" in text or "1.234" in text or "0,5" in text for text in every)


# --- names ---------------------------------------------------------------------------------------

PROGRAM = Path(__file__).parent / "locale_program.py"


@pytest.fixture(scope="module")
def turkish(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Where a locale is in which "I" is no upper case of "i", and ',' the decimal point."""
    if shutil.which("localedef") is None:
        pytest.skip("no localedef, which makes locales")
    folder = tmp_path_factory.mktemp("locales")
    command = ["localedef", "-i", "tr_TR", "-f", "UTF-8", str(folder / "tr_TR.UTF-8")]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if not (folder / "tr_TR.UTF-8" / "LC_CTYPE").is_file():
        pytest.skip(f"no Turkish locale: {made.stderr[-200:]}")
    return {"LOCPATH": str(folder)}


def words(*arguments: str, **environment: str) -> dict[str, str]:
    plain = {key: value for key, value in os.environ.items() if not key.startswith("LC_")}
    command = [sys.executable, str(PROGRAM), *arguments]
    given = plain | {"PYTHONUTF8": "1"} | environment
    done = subprocess.run(command, env=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("set_by", ["environment", "setlocale"])
def test_names_are_the_same_in_turkish(turkish: dict[str, str], set_by: str) -> None:
    arguments = ("tr_TR.UTF-8",) if set_by == "setlocale" else ()
    environment = turkish if set_by == "setlocale" else turkish | {"LC_ALL": "tr_TR.UTF-8"}
    found, expected = words(*arguments, **environment), words(LC_ALL="C.UTF-8")
    assert sum(word == "made" for word in expected.values()) > 150
    assert found == expected
