"""What a mistake is answered with, in Python and in C++: a table of whole messages."""

import enum
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import traingraph as tg
import traingraph.augment
import traingraph.mps
from op_harness import testing
from traingraph import nn


async def awaited(epoch: tg.Epoch) -> None:
    pass


def objects() -> dict[str, Any]:
    """What the mistakes are made with."""
    tensor, graph = tg.MLCTensor(shape=[4, 8]), tg.MLCGraph()
    descriptor = tg.MLCConvolutionDescriptor(
        kernel_sizes=(1, 1), input_feature_channel_count=8, output_feature_channel_count=3
    )
    tg.sequential(graph, tensor, [tg.MLCFullyConnectedLayer(descriptor=descriptor)])
    return {
        "np": np, "nn": nn, "tg": tg, "awaited": awaited, "graph": graph, "tensor": tensor,
        "model": nn.model([nn.dense(4), "relu", nn.dense(3)], input=8),
        "training": tg.MLCTrainingGraph(graph_objects=[graph]),
        "x": np.zeros((32, 8), np.float32), "y": np.zeros(32, np.int32),
    }  # fmt: skip


def answer(error: BaseException) -> str:
    """Its class and text; layers are numbered through the whole process."""
    text = re.sub(r"(?<=at layer )\d+|(?<=\[tensor ')\d+", "N", str(error))
    return f"{type(error).__name__}: {text}"


# The error and its message, by what is written.
MISTAKES = {}
for block in (Path(__file__).parent / "mistakes.txt").read_text().split("\n\n")[1:]:
    code, *lines = block.rstrip("\n").split("\n")
    MISTAKES[code] = "\n".join(line.removeprefix("    ") for line in lines)


KINDS = (ValueError, TypeError, RuntimeError, OSError, AttributeError, ImportError)


@pytest.mark.parametrize("code", MISTAKES)
def test_a_mistake_is_answered_with_what_to_do(code: str) -> None:
    given = objects()
    with pytest.raises(KINDS) as raised:
        eval(code, given)
    assert answer(raised.value) == MISTAKES[code]


def test_the_table_has_what_people_do_wrong() -> None:
    assert len(MISTAKES) >= 40
    assert set(testing.mistakes()) <= set(MISTAKES)


@pytest.mark.parametrize("code", testing.mistakes())
def test_programs_in_cpp_read_the_same(code: str) -> None:
    with pytest.raises((ValueError, TypeError, RuntimeError)) as raised:
        testing.make_mistake(code)
    assert answer(raised.value).partition(": ")[2] == MISTAKES[code].partition(": ")[2]


ENUMERATIONS = [one for one in vars(tg._core).values() if isinstance(one, enum.EnumMeta)]


@pytest.mark.parametrize("cls", ENUMERATIONS, ids=lambda cls: cls.__name__)
def test_every_enumeration_asks_for_the_member_that_is_meant(cls: enum.EnumMeta) -> None:
    for name in cls.__members__:
        assert getattr(cls, name) is cls[name]
        with pytest.raises(AttributeError, match=rf"did you mean {name}\?$"):
            getattr(cls, name.lower())
        if len(name) >= 5:
            with pytest.raises(AttributeError, match="; did you mean "):
                getattr(cls, name[:2] + name[3:])


@pytest.mark.parametrize(("written", "meant"), [
    ("fitt", "fit"), ("predit", "predict"), ("execute_forwrd", "execute_forward"),
])  # fmt: skip
def test_python_asks_for_a_method_of_each_step_itself(written: str, meant: str) -> None:
    made = "import traingraph as tg; made = tg.MLCTrainingGraph(graph_objects=[tg.MLCGraph()])"
    run = [sys.executable, "-c", f"{made}; made.{written}"]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.endswith(f"no attribute '{written}'. Did you mean: '{meant}'?\n")


def test_words_of_other_libraries_are_no_members() -> None:
    model = objects()["model"]
    for owner in (model, type(model)):
        assert "execute" in dir(owner)
        assert "state_dict" not in dir(owner)
        assert not hasattr(owner, "state_dict")
        with pytest.raises(AttributeError, match=r"did you mean state\(\)\?$"):
            owner.state_dict  # noqa: B018
    assert "weights" in dir(tg.MLCFullyConnectedLayer)


def test_objects_whose_methods_are_called_in_each_step_keep_pythons_slot() -> None:
    """With another one Python makes an object for each call, some 80 ns of a step."""

    class Own(tg.MLCTrainingGraph):
        pass

    given = objects()
    assert tg.mps.MPSImage  # the classes of MPS are made, and all classes are walked again
    done = given["model"].execute(
        inputs_data={"x": given["x"]}, loss_labels_data={"y": given["y"]}, options="synchronous"
    )
    own, tensor = Own(graph_objects=[given["graph"]]), given["tensor"]
    for one, name in (
        (own, "execute"),
        (given["model"], "execute"),
        (tensor, "label"),
        (done, "wait"),
    ):
        assert hasattr(one, name)
        with pytest.raises(AttributeError) as raised:
            getattr(one, name + "t")
        assert str(raised.value).endswith(f"object has no attribute '{name}t'")
    with pytest.raises(AttributeError, match="did you mean layer_id"):
        given["model"].layers[0].layerid  # noqa: B018


def test_what_is_missing_is_still_missing() -> None:
    tensor = tg.MLCTensor(shape=[1])
    owners = (tg, nn, tg.mps, tg.augment, tensor, tg.MLCTensor, tg.MLCDataType, tg.MLCDataType.INT8)
    for owner in owners:
        assert not hasattr(owner, "optimm")
        assert getattr(owner, "optimm", 3) == 3
        assert not hasattr(owner, "__optimm__")

    class Own(tg.MLCTensor):
        def __getattr__(self, name: str) -> str:
            return name

    own = Own(shape=[1])
    own.lable = 4
    assert (own.labell, own.lable, own.label) == ("labell", 4, own.label)
    with pytest.raises(AttributeError, match="no setter"):
        tensor.descriptor = 3  # type: ignore[misc]


@pytest.mark.parametrize("make", [
    lambda text: nn.model([nn.dense(4)], input=8, loss=text),
    lambda text: nn.dense(4, **{text: 1}),
    lambda text: tg.EarlyStopping(patience=1, **{text: 1}),
    lambda text: nn.dense(4, activation=text),
    lambda text: tg.MLCTensor(shape=[2], data_type=text),
    lambda text: objects()["model"].fit({text: np.zeros((32, 8), np.float32)}),
    lambda text: objects()["model"].compile(device=text),
    lambda text: labelled(text).bind_and_write_data(np.zeros(3, np.float32)),
], ids=range(8))  # fmt: skip
def test_texts_of_many_letters_are_shortened(make: Any) -> None:
    with pytest.raises(KINDS) as raised:
        make("k" * 100_000)
    assert len(str(raised.value)) < 3_000


def labelled(text: str) -> tg.MLCTensor:
    tensor = tg.MLCTensor(shape=[2])
    tensor.label = text
    return tensor


def test_words_mean_what_there_is() -> None:
    """A hint of one name is a name of the module, of the package or of the module it names."""
    from traingraph import _words

    for word, meant in _words.WORDS.items():
        assert word == word.lower()
        if not meant.replace(".", "").replace("_", "").isalnum() or " " in meant:
            continue
        owner: Any = {"traingraph": tg, "nn": nn, "augment": tg.augment}
        first, *rest = meant.removeprefix("traingraph.").split(".")
        assert first in owner or any(hasattr(one, first) for one in (nn, tg)) or first in (
            "augment", "tensorboard"), word  # fmt: skip
        if not rest or first == "tensorboard":
            continue
        for name in rest:
            found = getattr(owner.get(first) or getattr(tg, first), name)
            assert found is not None


def test_other_modules_are_still_missing() -> None:
    run = (
        "import importlib.util as u; print(u.find_spec('traingraph.optimm'), u.find_spec('optim'))"
    )
    done = subprocess.run([sys.executable, "-c", run], capture_output=True, text=True, check=True)
    assert done.stdout == "None None\n"
    asks = subprocess.run(
        [sys.executable, "-c", "import traingraph as tg; tg.mps"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "did you mean 'import traingraph.mps' before it?" in asks.stderr
