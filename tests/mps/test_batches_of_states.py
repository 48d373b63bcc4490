"""A gradient state belongs to one batch, and to a gradient of the size of what was written."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from clipped import convolution, dropout, instance, linear, local, pooling, transpose
from gradients import device as device_of
from gradients import execute, forward, random
from graphs import evaluate, source
from kernels import Normalization, Weights, array, batch, commands, empty, run

from traingraph import InvalidArgument, ShapeError, mps

SHAPE = (2, 4, 4, 4)


def full(gradient: bool = False) -> Any:
    cls = mps.MPSCNNFullyConnectedGradient if gradient else mps.MPSCNNFullyConnected
    return cls(device=device_of(), weights=Weights(random(3, 3, 4, 4, 4)))


def plain(name: str, **arguments: Any) -> Callable[..., Any]:
    def make(gradient: bool = False) -> Any:
        cls = getattr(mps, name + ("Gradient" if gradient else ""))
        return cls(device=device_of(), **arguments)

    return make


def padded(gradient: bool = False) -> Any:
    if gradient:
        return mps.MPSNNPadGradient(device=device_of())
    return mps.MPSNNPad(device=device_of(), padding_size_before=(1, 0, 0),
                        padding_size_after=(0, 2, 0))  # fmt: skip


TWICE = {"integer_scale_factor_x": 2, "integer_scale_factor_y": 2}
KERNELS: dict[str, Callable[..., Any]] = {
    "convolution": convolution, "transposed": transpose, "fully connected": full,
    "max": pooling("Max"), "average": pooling("Average"), "L2": pooling("L2Norm"),
    "neuron": linear, "softmax": plain("MPSCNNSoftMax"), "log softmax": plain("MPSCNNLogSoftMax"),
    "nearest": plain("MPSCNNUpsamplingNearest", **TWICE),
    "bilinear": plain("MPSCNNUpsamplingBilinear", **TWICE), "pad": padded,
    "reshape": plain("MPSNNReshape"), "gram": plain("MPSNNGramMatrixCalculation", alpha=1.0),
    "dropout": dropout, "instance": instance, "spatial": local,
    "cross-channel": plain("MPSCNNCrossChannelNormalization", kernel_size=3),
}  # fmt: skip


RESHAPED = {"reshaped_width": 8, "reshaped_height": 4, "reshaped_feature_channels": 2}


def type_on(on: Any) -> Any:
    return np.float64 if on == device_of("reference") else np.float32


def kernel_of(name: str, on: Any, gradient: bool = False) -> Any:
    return KERNELS[name](gradient).copy(device=on)


def encoded(name: str, on: Any) -> tuple[Any, Any, list[Any], list[Any]]:
    """A kernel, its source, the result and the states, after a run."""
    kernel = kernel_of(name, on)
    kernel.makes_temporary_images = False
    x = batch(on, random(1, *SHAPE).astype(type_on(on)))
    sizes = RESHAPED if name == "reshape" else {}
    y, states = execute(
        lambda b: kernel.encode_batch(
            b, source_images=x, destination_state_is_temporary=False, **sizes
        ),
        on,
    )
    return kernel, x, y, states


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_a_gradient_of_another_size_is_refused(name: str, device: str) -> None:
    on = device_of(device)
    _, x, y, states = encoded(name, on)
    gradient = kernel_of(name, on, gradient=True)
    n, (c, h, w) = len(y), (y[0].feature_channels, y[0].height, y[0].width)
    for shape in ((n, c, h + 1, w), (n, c, h, w + 1), (n, c, 2 * h, w), (n, c, h, 3 * w),
                  (n, c, w, h) if w != h else (n, c, h + 2, w + 2), (n, c + 4, h, w)):  # fmt: skip
        dy = empty(on, shape, type_on(on).__name__)
        given = {"source_gradients": dy, "source_images": y if "softmax" in name else x,
                 "gradient_states": states}  # fmt: skip
        with pytest.raises(ShapeError, match="expected source gradients"):
            gradient.encode_batch(commands(on), **given)
    if name == "reshape":  # as many elements
        dy = empty(on, (n, h, c, w) if h != c else (n, c * h, 1, w), type_on(on).__name__)
        with pytest.raises(ShapeError, match="the size of the forward kernel's result"):
            gradient.encode_batch(commands(on), **given | {"source_gradients": dy})
    dy = empty(on, (n, c, h, w), type_on(on).__name__)
    gradient.encode_batch(commands(on), **given | {"source_gradients": dy})


@pytest.mark.parametrize("name", KERNELS)
def test_a_state_belongs_to_one_batch(name: str) -> None:
    on = device_of()
    kernel, x, y, states = encoded(name, on)
    given = {"source_images": x, "destination_images": y}
    with pytest.raises(
        InvalidArgument, match=r"new state.*a buffer that was committed has written"
    ):
        kernel.encode_batch(commands(on), **given, destination_states=states)
    new = kernel.result_state_batch(for_source_image=x)
    buffer = commands(on)
    kernel.encode_batch(buffer, **given, destination_states=new)
    gradient = kernel_of(name, on, gradient=True)
    gradient.encode_batch(buffer, source_gradients=y, gradient_states=new,
                          source_images=y if "softmax" in name else x)  # fmt: skip
    # In the same buffer as well : a gradient kernel has read it.
    with pytest.raises(InvalidArgument, match=r"new state.*a gradient kernel was encoded with"):
        kernel.encode_batch(buffer, **given, destination_states=new)
    run(buffer)
    kernel.encode_batch(commands(on), **given)  # without states as ever


# Masks are those of images that were encoded together.
@pytest.mark.parametrize("name", [name for name in KERNELS if name != "dropout"])
def test_strips_and_single_images_are_of_one_batch(name: str) -> None:
    """Each image by itself, in one buffer: what all together give."""
    on = device_of()
    kernel, x, y, states = encoded(name, on)
    gradient = kernel_of(name, on, gradient=True)
    gradient.makes_temporary_images = False
    new = kernel.result_state_batch(for_source_image=x)
    buffer = commands(on)
    found = []
    for one, state, out in zip(x, new, y, strict=True):
        kernel.encode_batch(buffer, source_images=[one], destination_states=[state],
                            destination_images=[out])  # fmt: skip
    shared = new[0] is new[-1]
    dy = batch(on, random(5, len(y), y[0].feature_channels, y[0].height, y[0].width))
    secondary = y if "softmax" in name else x
    parts = [slice(0, 2)] if shared else [slice(0, 1), slice(1, 2)]
    for part in parts:
        found += gradient.encode_batch(
            buffer, source_gradients=dy[part], source_images=secondary[part],
            gradient_states=new[part],
        )  # fmt: skip
    run(buffer)
    expected = execute(
        lambda b: gradient.encode_batch(b, source_gradients=dy, source_images=secondary,
                                        gradient_states=states)
    )  # fmt: skip
    np.testing.assert_allclose(array(found), array(expected), rtol=1e-12)


@pytest.mark.parametrize("name", KERNELS)
def test_a_state_of_another_kind_is_refused(name: str) -> None:
    on = device_of()
    kernel, x, y, states = encoded(name, on)
    own = {"convolution", "transposed", "fully connected", "dropout", "instance"}
    kind = type(states[0]).__name__ if name in own else "MPSNNGradientState"
    other = linear() if name in own else full()
    wrong = other.result_state_batch(for_source_image=batch(on, random(1, *SHAPE)))
    with pytest.raises(InvalidArgument, match=f"expected an {kind} but got MPS"):
        kernel.encode_batch(commands(on), source_images=x, destination_states=wrong,
                            destination_images=y)  # fmt: skip


def test_arithmetic_and_losses() -> None:
    on = device_of()
    a, b, out = (batch(on, random(k, *SHAPE)) for k in range(3))
    kernel = mps.MPSCNNMultiply(device=on)
    states = kernel.result_state_batch(for_primary_image=a, secondary_image=b)
    given = {"primary_images": a, "secondary_images": b, "destination_states": states,
             "destination_images": out}  # fmt: skip
    execute(lambda buffer: kernel.encode_batch(buffer, **given))
    with pytest.raises(InvalidArgument, match=r"MPSCNNMultiply\] expected a new state"):
        kernel.encode_batch(commands(on), **given)
    d = mps.MPSCNNLossDescriptor.cnn_loss_descriptor(
        with_type="mean_squared_error", reduction_type="none"
    )
    loss = mps.MPSNNForwardLoss(device=on, loss_descriptor=d)
    states = loss.result_state_batch(for_source_image=a)
    given = {"source_images": a, "labels": b, "weights": None, "destination_states": states,
             "destination_images": out}  # fmt: skip
    execute(lambda buffer: loss.encode_batch(buffer, **given))
    with pytest.raises(InvalidArgument, match=r"MPSNNForwardLoss\] expected a new state"):
        loss.encode_batch(commands(on), **given)


def test_the_mask_of_a_dropout_state_stays() -> None:
    """A second batch in the same states gave the first one's gradient the second one's mask."""
    on = device_of()
    kernel, x, y, states = encoded("dropout", on)
    mask = [state.mask_data() for state in states]
    with pytest.raises(InvalidArgument, match=r"MPSCNNDropout\] expected a new state"):
        kernel.encode_batch(commands(on), source_images=x, destination_states=states,
                            destination_images=y)  # fmt: skip
    assert mask == [state.mask_data() for state in states]


def test_batch_normalization_in_several_buffers_until_reset() -> None:
    on = device_of()
    data = Normalization(np.ones(4, np.float32), np.zeros(4, np.float32))
    kernel = mps.MPSCNNBatchNormalization(device=on, data_source=data)
    statistics = mps.MPSCNNBatchNormalizationStatistics(device=on)
    back = mps.MPSCNNBatchNormalizationStatisticsGradient(device=on)
    x, y = batch(on, random(1, *SHAPE)), empty(on, SHAPE)
    (state, _) = kernel.result_state_batch(for_source_image=x)
    for one in x:  # strips of the statistics, and of what follows
        execute(lambda b, one=one: statistics.encode_batch(
            b, source_images=[one], batch_normalization_state=state))  # fmt: skip
    for one, out in zip(x, y, strict=True):
        execute(lambda b, one=one, out=out: kernel.encode_batch(
            b, source_images=[one], batch_normalization_state=state, destination_images=[out])
        )  # fmt: skip
    numbers = array(x)
    axes = (0, 2, 3)
    expected = (numbers - numbers.mean(axes, keepdims=True)) / np.sqrt(
        numbers.var(axes, keepdims=True) + 1e-3
    )
    np.testing.assert_allclose(array(y), expected, rtol=1e-5)
    execute(lambda b: back.encode_batch(
        b, source_gradients=y, source_images=x, batch_normalization_state=state))  # fmt: skip
    again = {"source_images": x, "batch_normalization_state": state}
    with pytest.raises(InvalidArgument, match="a gradient kernel was encoded with"):
        kernel.encode_batch(commands(on), **again, destination_images=y)
    with pytest.raises(InvalidArgument, match=r"call reset\(\) for another batch"):
        statistics.encode_batch(commands(on), **again)
    state.reset()
    buffer = commands(on)
    statistics.encode_batch(buffer, **again)
    kernel.encode_batch(buffer, **again, destination_images=y)
    run(buffer)


def test_parts_of_a_buffer_are_one_buffer() -> None:
    """A graph's buffer that is committed in parts may bring strips of one batch."""
    on = device_of()
    kernel = convolution()
    x = batch(on, random(1, *SHAPE))
    y = empty(on, (2, 8, 4, 2))
    states = kernel.result_state_batch(for_source_image=x)
    buffer = mps.MPSCommandBuffer(command_buffer=commands(on))
    for one, out in zip(x, y, strict=True):
        kernel.encode_batch(buffer, source_images=[one], destination_states=states[:1],
                            destination_images=[out])  # fmt: skip
        buffer.commit_and_continue()
    with pytest.raises(InvalidArgument, match="a buffer that was committed has written"):
        kernel.encode_batch(commands(on), source_images=x, destination_states=states,
                            destination_images=y)  # fmt: skip
    buffer.commit()
    buffer.wait_until_completed()


def test_a_buffer_that_was_not_committed_has_written_nothing() -> None:
    on = device_of()
    kernel = linear()
    x, y = batch(on, random(1, *SHAPE)), empty(on, SHAPE)
    states = kernel.result_state_batch(for_source_image=x)
    given = {"source_images": x, "destination_states": states, "destination_images": y}
    kernel.encode_batch(commands(on), **given)  # and dropped
    buffer = commands(on)
    kernel.encode_batch(buffer, **given)
    run(buffer)
    np.testing.assert_allclose(array(y), 2 * array(x) + 0.5)


OPTIMIZERS = {
    "StochasticGradientDescent": {"learning_rate": 0.1}, "RMSProp": {"learning_rate": 0.1},
    "Adam": {"learning_rate": 0.1},
}  # fmt: skip


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_needs_gradients(name: str) -> None:
    on = device_of("cpu")
    data = Weights(np.ones((2, 1, 1, 2), np.float32), np.zeros(2, np.float32))
    forward_kernel = mps.MPSCNNConvolution(device=on, weights=data)
    gradient = mps.MPSCNNConvolutionGradient(device=on, weights=data)
    forward_kernel.makes_temporary_images = False
    x = batch(on, np.ones((2, 2, 3, 3), np.float32))
    weights = mps.MPSCNNConvolutionWeightsAndBiasesState(
        device=on, cnn_convolution_descriptor=data.descriptor()
    )
    optimizer = getattr(mps, f"MPSNNOptimizer{name}")(device=on, **OPTIMIZERS[name])
    buffer = commands(on)
    y, states = forward_kernel.encode_batch(
        buffer, source_images=x, destination_state_is_temporary=False
    )
    slots = {"StochasticGradientDescent": 0, "RMSProp": 1, "Adam": 2}[name]

    def vectors() -> list[Any]:
        size = mps.MPSVectorDescriptor.vector_descriptor
        return [mps.MPSVector(device=on, descriptor=size(with_length=n)) for n in (4, 2)]

    names = {0: (), 1: ("input_sum_of_squares_vectors",),
             2: ("input_momentum_vectors", "input_velocity_vectors")}[slots]  # fmt: skip
    given = {key: vectors() for key in names}

    def update() -> None:
        optimizer.encode(buffer, convolution_gradient_state=states[0],
                         convolution_source_state=weights, result_state=weights,
                         **given)  # fmt: skip

    with pytest.raises(InvalidArgument, match="a gradient kernel has written but got"):
        update()
    gradient.gradient_option = "gradient_with_data"
    back = {"source_gradients": y, "source_images": x, "gradient_states": states}
    gradient.encode_batch(buffer, **back)
    with pytest.raises(InvalidArgument, match="a gradient kernel has written but got"):
        update()
    gradient.gradient_option = "all"
    gradient.encode_batch(buffer, **back)
    update()
    run(buffer)
    assert np.abs(np.array(weights.weights)).max() > 0


def test_gradients_that_the_program_has_written_itself() -> None:
    on = device_of("cpu")
    data = Weights(np.ones((2, 1, 1, 2), np.float32))
    kernel = mps.MPSCNNConvolution(device=on, weights=data)
    (state,) = kernel.result_state_batch(for_source_image=batch(on, np.ones((1, 2, 1, 1), "f4")))
    weights = mps.MPSCNNConvolutionWeightsAndBiasesState(
        device=on, cnn_convolution_descriptor=data.descriptor()
    )
    np.asarray(state.gradient_for_weights)[:] = 1
    optimizer = mps.MPSNNOptimizerStochasticGradientDescent(device=on, learning_rate=0.5)
    execute(
        lambda b: optimizer.encode(b, convolution_gradient_state=state,
                                   convolution_source_state=weights, result_state=weights),
        on,
    )  # fmt: skip
    np.testing.assert_array_equal(np.array(weights.weights), -0.5)


# --- graphs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Addition", "Multiplication", "Subtraction"])
def test_arithmetic_in_graphs(name: str) -> None:
    """Also where the gradient is the incoming one, and nothing is encoded."""
    node = getattr(mps, f"MPSNN{name}Node")(left_source=source("a"), right_source=source("b"))
    made = node.gradient_filters(with_source=source("dy"))
    given = {"a": random(1, *SHAPE), "b": random(2, *SHAPE), "dy": random(3, 2, 4, 5, 4)}
    for one in made:
        tanh = mps.MPSCNNNeuronTanHNode(source=one.result_image)
        with pytest.raises(ShapeError, match="expected source gradients"):
            evaluate(device_of(), given, tanh.result_image)


def test_concatenation_in_graphs() -> None:
    node = mps.MPSNNConcatenationNode(sources=[source("a"), source("b")])
    made = node.gradient_filters(with_source=source("dy"))
    given = {"a": random(1, *SHAPE), "b": random(2, *SHAPE)}
    for shape in ((2, 12, 4, 4), (2, 8, 5, 4)):
        for one in made:
            with pytest.raises(ShapeError, match="the size of the forward node's result"):
                evaluate(device_of(), given | {"dy": random(3, *shape)}, one.result_image)


@pytest.mark.parametrize("kind", ["convolution", "pooling"])
def test_windows_in_graphs(kind: str) -> None:
    if kind == "convolution":
        node = mps.MPSCNNConvolutionNode(source=source("x"), weights=Weights(random(1, 2, 3, 3, 4)))
    else:
        node = mps.MPSCNNPoolingMaxNode(source=source("x"), filter_size=2)
    made = node.gradient_filter(with_source=source("dy"))
    x = random(2, *SHAPE)
    (y,) = evaluate(device_of(), {"x": x}, node.result_image)
    wrong = random(3, *y.shape[:2], y.shape[2] + 1, y.shape[3])
    with pytest.raises(ShapeError, match="the size of the forward kernel's result"):
        evaluate(device_of(), {"x": x, "dy": wrong}, made.result_image)
    evaluate(device_of(), {"x": x, "dy": random(3, *y.shape)}, made.result_image)


def test_a_state_nobody_has_written_says_nothing_of_the_size() -> None:
    """Apple's programs may make one for a gradient kernel alone."""
    kernel, x = linear(), random(1, *SHAPE)
    y, _ = forward(kernel, x)
    states = kernel.result_state_batch(for_source_image=batch(device_of(), x))
    gradient = linear(gradient=True)
    gradient.makes_temporary_images = False
    dx = execute(lambda b: gradient.encode_batch(
        b, source_gradients=batch(device_of(), y), source_images=batch(device_of(), x),
        gradient_states=states))  # fmt: skip
    np.testing.assert_allclose(array(dx), 2 * y)
