"""Every callable of the modules refuses wrong calls in the library's own words, and survives them.

pybind11's own refusal lists C++ types and what it was "Invoked with". Methods are called on the
class too, with None as the object, where C++ would have a null pointer.
"""

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from odd_values import FOREIGN, Nameless, Text, Undecided, closed, lying, released

import traingraph as tg
from traingraph import _core, mps

WRONG: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((), {}),
    ((None,), {}),
    ((object(),), {}),
    ((None, None), {}),
    ((None, object(), object(), object()), {}),
    ((None,), {"nonsense": object()}),
    ((), {"nonsense": object()}),
]


def is_ours(value: object) -> bool:
    made = type(_core.MLCTensor.copy), type(_core.version), type(_core.MLCTrainingGraph.execute)
    return isinstance(value, made)


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """But for those of properties, which Python calls with one argument or two."""
    assert _core.MPSKernel  # makes all of MPS's classes
    for name, value in vars(_core).items():
        if is_ours(value):
            yield name, value
        if not isinstance(value, type) or value.__module__ != "traingraph._core":
            continue
        for part, inner in vars(value).items():
            if isinstance(inner, staticmethod):
                yield f"{name}.{part}", inner.__func__
            elif is_ours(inner) and not part.startswith("_pybind11"):
                yield f"{name}.{part}", inner


TYPES = (AttributeError, BufferError, LookupError, TypeError, ValueError, tg.Error)


def refusal(call: Callable[[], object]) -> str:
    try:
        call()
    except TYPES as error:
        return str(error)
    return ""


def assert_own(name: str, text: str) -> None:
    assert not any(words in text for words in FOREIGN), (name, text)


def test_wrong_calls_are_refused_in_our_words() -> None:
    count = 0
    for name, function in functions():
        for given, keywords in WRONG:
            assert_own(name, refusal(lambda: function(*given, **keywords)))  # noqa: B023
            count += 1
    assert count > 4000


def test_properties_of_other_objects_are_refused_in_our_words() -> None:
    count = 0
    for name, cls in vars(_core).items():
        for part, inner in vars(cls).items() if isinstance(cls, type) else ():
            if not isinstance(inner, property):
                continue
            for one in (None, object()):
                assert_own(f"{name}.{part}", refusal(lambda: inner.fget(one)))  # noqa: B023
                if inner.fset is not None:
                    assert_own(f"{name}.{part}", refusal(lambda: inner.fset(one, one)))  # noqa: B023
                count += 1
    assert count > 1500


def objects() -> list[object]:
    x = tg.MLCTensor(shape=[4, 2])
    graph = tg.MLCGraph()
    graph.node(tg.MLCActivationLayer.relu(), source=x)
    queue = mps.create_system_default_device().make_command_queue()
    descriptor = mps.MPSImageDescriptor.image_descriptor(
        with_channel_format="float32", width=2, height=1, feature_channels=1
    )
    image = mps.MPSImage(device="cpu", image_descriptor=descriptor)
    return [
        *(tg, mps, mps.MPSNNImageNode(), image, image.batch_representation()),
        *(x, graph, tg.MLCDevice.cpu(), tg.MLCDropoutLayer(rate=0.5), tg.MLCAdamOptimizer),
        *(tg.MLCTrainingGraph(graph_objects=[graph]), tg.MLCInferenceGraph(graph_objects=[graph])),
        *(queue, queue.make_command_buffer(), mps.MPSCommandBuffer(from_command_queue=queue)),
        mps.MPSCNNPoolingMax(device="cpu", kernel_width=2, kernel_height=2),
    ]


ODD = [
    *(None, 1.5, "\ud800", object(), [None], {1: 2}, 2**70, 10**5000, b"\xff", Text("sum")),
    *(np.ones(3), np.ones((2, 2), int), lying([1, 2, 3]), [np.ones(3)], np.str_("x")),
    *(Nameless(), Nameless, Undecided(), released(), closed(), {Text("a"): released()}),
    (Text("b"), 1),
    *(memoryview(np.zeros((2, 2), np.float32)), memoryview(np.zeros(2, np.float16))),
]


@pytest.mark.parametrize("wrong", ODD, ids=lambda value: type.__repr__(type(value)))
def test_wrong_types_are_refused_in_our_words(
    wrong: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # some are names of files
    for one in objects():
        for name in dir(one):
            method = getattr(one, name, None)
            if name.startswith("_") or not getattr(method, "__text_signature__", None):
                continue
            named = method.__text_signature__.strip("()").split(", ")
            parameters = [one for one in named if one.isidentifier() and one != "self"]
            if not parameters:
                continue
            for given in [dict.fromkeys(parameters, wrong), {parameters[0]: wrong}]:
                assert_own(name, refusal(lambda: method(**given)))  # noqa: B023
            assert_own(name, refusal(lambda: method(wrong)))  # noqa: B023


@pytest.mark.parametrize("wrong", ODD, ids=lambda value: type.__repr__(type(value)))
def test_wrong_values_of_properties_are_refused_in_our_words(wrong: object) -> None:
    for one in objects():
        for name in dir(type(one)):
            found = inspect.getattr_static(type(one), name)
            if isinstance(found, property) and found.fset is not None:
                assert_own(name, refusal(lambda: setattr(one, name, wrong)))  # noqa: B023


def test_classes_without_a_constructor() -> None:
    count = 0
    for name, cls in vars(_core).items():
        if isinstance(cls, type) and type(cls).__name__ == "pybind11_type":
            text = refusal(cls)
            assert_own(name, text)
            own = f"[{name}] expected a class with a constructor but {name} has none"
            count += text == own
            assert text.startswith("[") or not text
    assert count > 10


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: tg.MLCTensor.device_data(None),
            "[MLCTensor.device_data] expected self: MLCTensor but got 'NoneType'",
        ),
        (lambda: tg.get_num_threads(1), "[get_num_threads] no form takes (1 by position)"),
        (lambda: tg.MLCDevice.cpu(0), "[MLCDevice.cpu] expected no arguments but got 1"),
        (lambda: tg.MLCGraph().summary(1), "[MLCGraph.summary] expected no arguments but got 1"),
        (
            lambda: tg.MLCGraph().result_tensors("x"),
            "[MLCGraph.result_tensors] expected layer: MLCLayer but got 'str'",
        ),
    ],
)
def test_the_words(call: Callable[[], object], text: str) -> None:
    assert refusal(call).startswith(text)
