"""What was encoded counts once its buffer is committed, or in the same buffer; never when the
buffer goes without a commit, and only behind the buffer that writes it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from clipped import convolution, linear
from gradients import device as device_of
from gradients import execute, random
from kernels import Normalization, Weights, array, batch, commands, empty, run

from traingraph import InvalidArgument, mps

SHAPE = (2, 4, 3, 3)


class Trained:
    """A convolution and its gradient, with an optimizer over their state."""

    def __init__(self) -> None:
        self.on = on = device_of("cpu")
        data = Weights(random(1, 3, 1, 1, 4))
        x, y = batch(on, random(2, *SHAPE)), empty(on, (2, 3, 3, 3))
        kernel = mps.MPSCNNConvolution(device=on, weights=data)
        self.back = mps.MPSCNNConvolutionGradient(device=on, weights=data)
        self.states = kernel.result_state_batch(for_source_image=x)
        given = {"source_images": x, "destination_states": self.states, "destination_images": y}
        execute(lambda b: kernel.encode_batch(b, **given), on)
        self.given = {"source_gradients": y, "source_images": x, "gradient_states": self.states}
        self.weights = mps.MPSCNNConvolutionWeightsAndBiasesState(
            device=on, cnn_convolution_descriptor=data.descriptor()
        )

    def gradient(self, buffer: Any) -> Any:
        self.back.encode_batch(buffer, **self.given)
        return buffer

    def update(self, buffer: Any) -> Any:
        rule = mps.MPSNNOptimizerStochasticGradientDescent(device=self.on, learning_rate=0.1)
        rule.encode(buffer, convolution_gradient_state=self.states[0],
                    convolution_source_state=self.weights, result_state=self.weights)  # fmt: skip
        return buffer

    def trained(self) -> bool:
        return bool(np.abs(np.array(self.weights.weights)).max() > 0)


class Normalized:
    """A batch normalization, its statistics and gradients, with an optimizer over the state."""

    def __init__(self) -> None:
        self.on = on = device_of("cpu")
        data = Normalization(np.ones(4, np.float32), np.zeros(4, np.float32))
        self.kernel = mps.MPSCNNBatchNormalization(device=on, data_source=data)
        self.x, self.y = batch(on, random(2, *SHAPE)), empty(on, SHAPE)
        (self.state, _) = self.kernel.result_state_batch(for_source_image=self.x)
        channels = {"device": on, "bytes": np.zeros(4, np.float32).tobytes()}
        self.result = mps.MPSCNNNormalizationGammaAndBetaState(
            gamma=mps.MTLBuffer(**channels), beta=mps.MTLBuffer(**channels)
        )

    def statistics(self, buffer: Any, images: Any = None) -> Any:
        mps.MPSCNNBatchNormalizationStatistics(device=self.on).encode_batch(
            buffer, source_images=images or self.x, batch_normalization_state=self.state
        )
        return buffer

    def normalize(self, buffer: Any) -> Any:
        self.kernel.encode_batch(buffer, source_images=self.x, destination_images=self.y,
                                 batch_normalization_state=self.state)  # fmt: skip
        return buffer

    def gradient(self, buffer: Any) -> Any:
        mps.MPSCNNBatchNormalizationStatisticsGradient(device=self.on).encode_batch(
            buffer, source_gradients=self.x, source_images=self.x,
            batch_normalization_state=self.state,
        )  # fmt: skip
        return buffer

    def update(self, buffer: Any) -> Any:
        rule = mps.MPSNNOptimizerStochasticGradientDescent(device=self.on, learning_rate=0.1)
        rule.encode(buffer, batch_normalization_state=self.state, result_state=self.result)
        return buffer

    def trained(self) -> bool:
        return bool(np.abs(np.frombuffer(np.array(self.result.beta).tobytes(), "f4")).max() > 0)


def started(one: Any) -> Any:
    if isinstance(one, Normalized):
        run(one.statistics(commands(one.on)))
    return one


KINDS = pytest.mark.parametrize("kind", [Trained, Normalized])


@KINDS
def test_gradients_of_a_dropped_buffer_are_none(kind: Callable[[], Any]) -> None:
    one = started(kind())
    one.gradient(commands(one.on))
    with pytest.raises(InvalidArgument, match="went without a commit"):
        one.update(commands(one.on))
    if kind is Trained:
        run(one.gradient(commands(one.on)))
        run(one.update(commands(one.on)))
        assert one.trained()


@KINDS
@pytest.mark.parametrize("order", ["one", "in order", "committed first"])
def test_gradients_of_a_buffer_that_is_committed_before(
    kind: Callable[[], Any], order: str
) -> None:
    one = started(kind())
    first = one.gradient(commands(one.on))
    if order == "one":
        run(one.update(first))
    elif order == "in order":
        second = one.update(commands(one.on))
        first.commit()
        run(second)
    else:
        run(first)
        run(one.update(commands(one.on)))
    assert one.trained()


@KINDS
def test_gradients_of_a_buffer_that_is_committed_behind(kind: Callable[[], Any]) -> None:
    one = started(kind())
    first = one.gradient(commands(one.on))
    second = one.update(commands(one.on))
    with pytest.raises(InvalidArgument, match=r"MPSNNOptimizer.* was not committed before"):
        second.commit()
    run(first)
    run(second)  # it was not committed
    assert one.trained()


def test_gradients_of_a_dropped_buffer_behind_the_encoding() -> None:
    one = Trained()
    first = one.gradient(commands(one.on))
    second = one.update(commands(one.on))
    del first
    with pytest.raises(InvalidArgument, match="was not committed before"):
        second.commit()


def test_statistics_of_a_dropped_buffer() -> None:
    """They counted: the merge of both was of zeros and of half the weight."""
    one = Normalized()
    one.statistics(commands(one.on))
    for refused in (one.statistics, one.normalize, one.gradient):
        with pytest.raises(InvalidArgument, match=r"without a commit; call reset\(\)"):
            refused(commands(one.on))
    one.state.reset()
    run(one.normalize(one.statistics(commands(one.on))))
    x = array(one.x)
    expected = (x - x.mean((0, 2, 3), keepdims=True)) / np.sqrt(
        x.var((0, 2, 3), keepdims=True) + 1e-3
    )
    np.testing.assert_allclose(array(one.y), expected, rtol=1e-4, atol=1e-5)


def test_statistics_of_parts_come_in_their_order() -> None:
    one = Normalized()
    first = one.statistics(commands(one.on), one.x[:1])
    second = one.normalize(one.statistics(commands(one.on), one.x[1:]))
    with pytest.raises(InvalidArgument, match="was not committed before"):
        second.commit()
    first.commit()
    run(second)
    assert abs(array(one.y).mean()) < 1e-5


def test_a_forward_kernel_sees_every_buffer_that_was_committed() -> None:
    """Not only the one that was encoded last."""
    kernel, on = linear(), device_of()
    x, y = batch(on, random(1, *SHAPE)), empty(on, SHAPE)
    states = kernel.result_state_batch(for_source_image=x)
    given = {"source_images": x, "destination_states": states, "destination_images": y}
    first, second = commands(on), commands(on)
    kernel.encode_batch(first, **given)
    kernel.encode_batch(second, **given)
    run(first)
    with pytest.raises(InvalidArgument, match="a buffer that was committed has written"):
        kernel.encode_batch(commands(on), **given)


def test_a_dropped_gradient_reads_no_state() -> None:
    kernel, on = convolution(), device_of()
    x, y = batch(on, random(1, 2, 4, 4, 4)), empty(on, (2, 8, 4, 2))
    states = kernel.result_state_batch(for_source_image=x)
    given = {"source_images": x, "destination_states": states, "destination_images": y}
    buffer = commands(on)
    kernel.encode_batch(buffer, **given)
    back = {"source_gradients": y, "source_images": x, "gradient_states": states}
    convolution(gradient=True).encode_batch(buffer, **back)
    with pytest.raises(InvalidArgument, match="a gradient kernel was encoded with"):
        kernel.encode_batch(buffer, **given)
    del buffer
    kernel.encode_batch(commands(on), **given)
