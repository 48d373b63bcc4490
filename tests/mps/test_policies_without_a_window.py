"""A padding policy of the program's own sizes and places what kernels give that move no window."""

from typing import Any

import numpy as np
import pytest
from gradients import device as device_of
from gradients import execute, random
from graphs import source
from kernels import array, batch, commands

from traingraph import InvalidArgument, Unsupported, mps

METHOD = mps.MPSNNPaddingMethod
X = (2, 2, 6, 7)


class Resized:
    """A result of 3 rows and 2 columns, from an offset of each source."""

    def __init__(self, first: tuple[int, int] = (0, 0), second: tuple[int, int] = (0, 0)) -> None:
        self.offsets = (first, second)
        self.asked: list[tuple[Any, ...]] = []

    def padding_method(self) -> Any:
        return METHOD.CUSTOM

    def destination_image_descriptor(self, for_source_images: Any, source_states: Any,
                                     for_kernel: Any,
                                     suggested_descriptor: Any) -> Any:  # fmt: skip
        self.asked.append((for_source_images, for_kernel))
        for name, (x, y) in zip(("primary_offset", "secondary_offset"), self.offsets, strict=True):
            if hasattr(for_kernel, name):
                setattr(for_kernel, name, (x, y, 0))
            elif name == "primary_offset":
                for_kernel.offset = (x, y, 0)
        made = suggested_descriptor.copy()
        made.height, made.width = 3, 2
        return made


def part(x: np.ndarray, offset: tuple[int, int]) -> np.ndarray:
    column, row = offset
    return x[:, :, row : row + 3, column : column + 2]


def back(dy: np.ndarray, offset: tuple[int, int]) -> np.ndarray:
    made = np.zeros((*dy.shape[:2], *X[2:]))
    part(made, offset)[:] = dy
    return made


OFFSETS = pytest.mark.parametrize("offset", [(0, 0), (1, 2)])


@OFFSETS
def test_one_source(offset: tuple[int, int]) -> None:
    """The same size at any offset: part of the result of the whole source."""
    on = device_of()
    d = mps.MPSNNNeuronDescriptor.cnn_neuron_descriptor(with_type="linear", a=2.0, b=1.0)
    kernel = mps.MPSCNNNeuron(device=on, neuron_descriptor=d)
    gradient = mps.MPSCNNNeuronGradient(device=on, neuron_descriptor=d)
    kernel.makes_temporary_images = gradient.makes_temporary_images = False
    kernel.padding = Resized(offset)
    x = random(1, *X)
    images = batch(on, x)
    y, states = execute(lambda b: kernel.encode_batch(
        b, source_images=images, destination_state_is_temporary=False))  # fmt: skip
    np.testing.assert_array_equal(array(y), 2 * part(x, offset) + 1)
    dy = random(2, 2, 2, 3, 2)
    dx = execute(lambda b: gradient.encode_batch(
        b, source_gradients=batch(on, dy), source_images=images, gradient_states=states)
    )  # fmt: skip
    np.testing.assert_array_equal(array(dx), back(2 * dy, offset))


@OFFSETS
@pytest.mark.parametrize("kind", ["Add", "Subtract", "Multiply"])
def test_two_sources(kind: str, offset: tuple[int, int]) -> None:
    on = device_of()
    kernel = getattr(mps, "MPSCNN" + kind)(device=on)
    kernel.makes_temporary_images = False
    assert kernel.padding == METHOD.SIZE_SAME
    kernel.padding = own = Resized(offset, (2, 1))
    assert kernel.padding is own
    assert kernel.copy().padding is own
    a, b = random(1, *X), random(2, *X)
    images = batch(on, a), batch(on, b)
    y, states = execute(lambda buffer: kernel.encode_batch(
        buffer, primary_images=images[0], secondary_images=images[1],
        destination_state_is_temporary=False))  # fmt: skip
    ((sources, asked),) = own.asked
    assert asked is kernel
    assert all(one is other for one, other in zip(sources, [*images[0], *images[1]], strict=True))
    first, second = part(a, offset), part(b, (2, 1))
    expected = {"Add": first + second, "Subtract": first - second, "Multiply": first * second}[kind]
    np.testing.assert_array_equal(array(y), expected)
    dy = random(3, *expected.shape)
    for secondary in (False, True):
        gradient = getattr(mps, f"MPSCNN{kind}Gradient")(
            device=on, is_secondary_source_filter=secondary
        )
        gradient.makes_temporary_images = False
        found = execute(lambda buffer, g=gradient, k=secondary: g.encode_batch(
            buffer, source_gradients=batch(on, dy), source_images=images[0 if k else 1],
            gradient_states=states))  # fmt: skip
        factor = {"Add": 1, "Subtract": -1 if secondary else 1,
                  "Multiply": first if secondary else second}[kind]  # fmt: skip
        np.testing.assert_array_equal(
            array(found), back(dy * factor, (2, 1) if secondary else offset)
        )
    d = kernel.destination_image_descriptor(
        for_source_images=[images[0][0], images[1][0]], source_states=None
    )
    assert (d.height, d.width) == (3, 2)
    with pytest.raises(Unsupported, match="own padding policy"):
        mps.NSKeyedArchiver.archived_data(with_root_object=kernel)


@OFFSETS
@pytest.mark.parametrize("kind", ["Addition", "Subtraction", "Multiplication"])
def test_two_sources_in_graphs(kind: str, offset: tuple[int, int]) -> None:
    on = device_of()
    node = getattr(mps, f"MPSNN{kind}Node")(sources=[source("a"), source("b")])
    node.padding_policy = own = Resized(offset, (2, 1))
    lasts = node.gradient_filters(with_source=source("dy"))
    graph = mps.MPSNNGraph(
        device=on, result_images=[*[last.result_image for last in lasts], node.result_image],
        results_are_needed=[True] * 3,
    )  # fmt: skip
    graph.format, graph.makes_temporary_images = "float64", False
    given = {"a": random(1, *X), "b": random(2, *X), "dy": random(3, 2, 2, 3, 2)}
    images = {name: batch(on, value) for name, value in given.items()}
    first, second, dy = part(given["a"], offset), part(given["b"], (2, 1)), given["dy"]
    y = {"Addition": first + second, "Subtraction": first - second,
         "Multiplication": first * second}[kind]  # fmt: skip
    slopes = {"Addition": (dy, dy), "Subtraction": (dy, -dy),
              "Multiplication": (dy * second, dy * first)}[kind]  # fmt: skip
    expected = {(3, 2): [y], X[2:]: [back(slopes[0], offset), back(slopes[1], (2, 1))]}
    for count in range(1, 5):
        results: list[Any] = []
        da = execute(lambda b, results=results: graph.encode_batch(
            b, source_images=[images[handle] for handle in graph.source_image_handles],
            intermediate_images=results))  # fmt: skip
        assert len(own.asked) == count
        for found in (da, *results):
            all_of_size = expected[found[0].height, found[0].width]
            assert any(np.array_equal(array(found), one) for one in all_of_size)


def test_where_a_policy_has_no_say() -> None:
    on = device_of("cpu")
    d = mps.MPSCNNLossDescriptor.cnn_loss_descriptor(
        with_type="mean_squared_error", reduction_type="none"
    )
    for node in (
        mps.MPSNNConcatenationNode(sources=[source("x"), source("y")]),
        mps.MPSNNForwardLossNode(source=source("x"), labels=source("y"), loss_descriptor=d),
        mps.MPSCNNLossNode(source=source("x"), loss_descriptor=d),
    ):
        for policy in (Resized(), METHOD.CUSTOM):
            node.padding_policy = policy
            with pytest.raises(Unsupported, match=rf"{type(node).__name__}\] a padding policy"):
                mps.MPSNNGraph(device=on, result_image=node.result_image)
    x = batch(on, random(1, *X).astype(np.float32))
    loss = mps.MPSNNForwardLoss(device=on, loss_descriptor=d)
    loss.padding = Resized()
    with pytest.raises(Unsupported, match=r"MPSNNForwardLoss\] a padding policy with CUSTOM"):
        loss.encode_batch(commands(on), source_images=x, labels=x, weights=None,
                          destination_state_is_temporary=False)  # fmt: skip
    add = mps.MPSCNNAdd(device=on)
    add.padding = METHOD.CUSTOM
    with pytest.raises(InvalidArgument, match=r"MPSCNNAdd\] expected a padding policy that is an"):
        add.encode_batch(commands(on), primary_images=x, secondary_images=x)
