"""Convolution and fully connected of the doubles against plain sums, and the rules of their use."""

import numpy as np
import pytest
from mps_session import Session, broken, session, values
from objective_c import Object, Runtime

# kernel, stride, dilation, offset, groups, source size
CASES = [
    (3, 1, 1, 0, 1, 6),
    (3, 1, 1, 1, 1, 6),
    (3, 2, 1, 1, 1, 7),
    (2, 1, 1, 0, 1, 5),
    (2, 2, 1, 1, 1, 6),
    (2, 1, 3, 2, 1, 8),
    (5, 3, 1, 2, 1, 11),
    (3, 1, 2, 2, 1, 8),
    (3, 1, 1, 1, 2, 5),
    (1, 2, 1, 0, 1, 5),
    (3, 2, 1, 1, "depthwise", 6),
]


class Convolution:
    """A case: its arrays, and what numpy says of it."""

    def __init__(self, case: tuple[int, int, int, int, int | str, int]) -> None:
        self.k, self.stride, self.dilation, self.offset, groups, self.size = case
        self.depthwise = groups == "depthwise"
        self.inputs = 8
        self.groups = self.inputs if self.depthwise else int(groups)
        self.outputs = self.inputs if self.depthwise else 4 * self.groups
        self.reach = (self.k - 1) * self.dilation + 1
        self.first = self.offset - self.reach // 2
        self.result = 3
        self.x = values(2, self.inputs, self.size, self.size + 1)
        self.w = values(self.outputs, self.k, self.k, self.inputs // self.groups)
        self.b = values(self.outputs)
        self.gradient = values(2, self.outputs, self.result, self.result)

    def taps(self):
        """Places in the source, for each result and tap: all reads that lie inside."""
        for i, j, q, p in np.ndindex(self.result, self.result, self.k, self.k):
            y = self.first + i * self.stride + q * self.dilation
            x = self.first + j * self.stride + p * self.dilation
            if 0 <= y < self.x.shape[2] and 0 <= x < self.x.shape[3]:
                yield i, j, q, p, y, x

    def split(self, array: np.ndarray) -> np.ndarray:
        """Channels (axis 1) as groups."""
        return array.reshape(array.shape[0], self.groups, -1, *array.shape[2:]).astype(np.float64)

    def expected(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """The result and the gradients of source, weights and biases."""
        x, e = self.split(self.x), self.split(self.gradient)
        w = self.w.reshape(self.groups, -1, *self.w.shape[1:]).astype(np.float64)
        y, dx, dw = np.zeros_like(e), np.zeros_like(x), np.zeros_like(w)
        for i, j, q, p, row, column in self.taps():
            tap = w[:, :, q, p]
            y[..., i, j] += np.einsum("ngc,gkc->ngk", x[..., row, column], tap)
            dx[..., row, column] += np.einsum("ngk,gkc->ngc", e[..., i, j], tap)
            dw[:, :, q, p] += np.einsum("ngk,ngc->gkc", e[..., i, j], x[..., row, column])
        y = y.reshape(self.gradient.shape) + self.b[None, :, None, None]
        return y, dx.reshape(self.x.shape), dw.reshape(self.w.shape), self.gradient.sum((0, 2, 3))

    def source(self, s: Session) -> Object:
        name = (
            "MPSCNNDepthWiseConvolutionDescriptor"
            if self.depthwise
            else "MPSCNNConvolutionDescriptor"
        )
        descriptor = getattr(s.runtime, name).send(
            "cnnConvolutionDescriptorWithKernelWidth:kernelHeight:inputFeatureChannels:"
            "outputFeatureChannels:",
            self.k, self.k, self.inputs, self.outputs,
        )  # fmt: skip
        for axis in "XY":
            descriptor.send(f"setStrideInPixels{axis}:", self.stride)
            descriptor.send(f"setDilationRate{axis}:", self.dilation)
        descriptor.send("setGroups:", 1 if self.depthwise else self.groups)
        return s.make(
            "CheckWeights", "initWithDescriptor:weights:count:biases:",
            descriptor, self.w, self.w.size, self.b,
        )  # fmt: skip

    def forward(self, s: Session) -> Object:
        kernel = s.kernel("MPSCNNConvolution", "initWithDevice:weights:", self.source(s))
        kernel.send("setOffset:", (self.offset, self.offset, 0))
        return kernel

    def backward(self, s: Session) -> Object:
        kernel = s.kernel("MPSCNNConvolutionGradient", "initWithDevice:weights:", self.source(s))
        even = 1 - self.reach % 2
        kernel.send("setKernelOffsetX:", even - self.offset)
        kernel.send("setKernelOffsetY:", even - self.offset)
        kernel.send("setSecondaryOffset:", (self.first, self.first, 0))
        return kernel


@pytest.mark.parametrize("case", CASES)
def test_convolution(runtime: Runtime, case) -> None:
    it = Convolution(case)
    y, dx, dw, db = it.expected()
    with session(runtime) as s:
        sources, results = s.batch(it.x), s.blank_batch(*it.gradient.shape)
        forward, backward = it.forward(s), it.backward(s)
        states = forward.send(
            "resultStateBatchForSourceImage:sourceStates:destinationImage:", sources, None, results
        )
        assert states.send("objectAtIndex:", 0) == states.send("objectAtIndex:", 1)
        forward.send(
            "encodeBatchToCommandBuffer:sourceImages:destinationStates:destinationImages:",
            s.commands, sources, states, results,
        )  # fmt: skip
        gradients = s.blank_batch(*it.x.shape)
        backward.send(
            "encodeBatchToCommandBuffer:sourceGradients:sourceImages:gradientStates:"
            "destinationGradients:",
            s.commands, s.batch(it.gradient), sources, states, gradients,
        )  # fmt: skip
        s.run()
        np.testing.assert_allclose(s.read_batch(results), y, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(s.read_batch(gradients), dx, rtol=1e-5, atol=1e-5)
        state = states.send("objectAtIndex:", 0)
        of_weights = s.floats(state.send("gradientForWeights")).reshape(it.w.shape)
        np.testing.assert_allclose(of_weights, dw, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(s.floats(state.send("gradientForBiases")), db, atol=1e-5)


def test_weights_are_reloaded_in_the_order_of_the_command_buffer(runtime: Runtime) -> None:
    it = Convolution(CASES[1])
    with session(runtime) as s:
        forward, sources = it.forward(s), s.batch(it.x)
        before, after = s.blank_batch(*it.gradient.shape), s.blank_batch(*it.gradient.shape)
        form = "encodeBatchToCommandBuffer:sourceImages:destinationImages:"
        forward.send(form, s.commands, sources, before)
        it.w, it.b = 2 * it.w, 2 * it.b
        weights = s.make(
            "MPSCNNConvolutionWeightsAndBiasesState", "initWithWeights:biases:",
            s.buffer(it.w), s.buffer(it.b),
        )  # fmt: skip
        forward.send("reloadWeightsAndBiasesWithCommandBuffer:state:", s.commands, weights)
        forward.send(form, s.commands, sources, after)
        s.run()
        np.testing.assert_allclose(s.read_batch(after), 2 * s.read_batch(before), rtol=1e-6)
        np.testing.assert_allclose(s.read_batch(after), it.expected()[0], atol=1e-5)


def test_weights_are_rounded_to_half_unless_float32_is_asked_for(runtime: Runtime) -> None:
    it = Convolution(CASES[0])
    with session(runtime) as s:
        source = it.source(s)
        source.send("setHalf:", 1)
        kernel = s.kernel("MPSCNNConvolution", "initWithDevice:weights:", source)
        results = s.blank_batch(*it.gradient.shape)
        kernel.send(
            "encodeBatchToCommandBuffer:sourceImages:destinationImages:",
            s.commands, s.batch(it.x), results,
        )  # fmt: skip
        s.run()
        it.w = it.w.astype(np.float16).astype(np.float32)
        np.testing.assert_allclose(s.read_batch(results), it.expected()[0], atol=1e-5)


def test_fully_connected(runtime: Runtime) -> None:
    x, w, b, e = values(3, 4, 2, 3), values(5, 2, 3, 4), values(5), values(3, 5, 1, 1)
    with session(runtime) as s:
        descriptor = s.runtime.MPSCNNConvolutionDescriptor.send(
            "cnnConvolutionDescriptorWithKernelWidth:kernelHeight:inputFeatureChannels:"
            "outputFeatureChannels:",
            3, 2, 4, 5,
        )  # fmt: skip
        source = s.make(
            "CheckWeights", "initWithDescriptor:weights:count:biases:", descriptor, w, w.size, b
        )
        forward = s.kernel("MPSCNNFullyConnected", "initWithDevice:weights:", source)
        backward = s.kernel("MPSCNNFullyConnectedGradient", "initWithDevice:weights:", source)
        sources, results, gradients = s.batch(x), s.blank_batch(*e.shape), s.blank_batch(*x.shape)
        states = forward.send(
            "temporaryResultStateBatchForCommandBuffer:sourceImage:sourceStates:destinationImage:",
            s.commands, sources, None, results,
        )  # fmt: skip
        forward.send(
            "encodeBatchToCommandBuffer:sourceImages:destinationStates:destinationImages:",
            s.commands, sources, states, results,
        )  # fmt: skip
        state = states.send("objectAtIndex:", 0)
        assert state.send("readCount") == 1
        backward.send(
            "encodeBatchToCommandBuffer:sourceGradients:sourceImages:gradientStates:"
            "destinationGradients:",
            s.commands, s.batch(e), sources, states, gradients,
        )  # fmt: skip
        assert state.send("readCount") == 0
        s.run()
        np.testing.assert_allclose(
            s.read_batch(results)[..., 0, 0], np.einsum("ncyx,kyxc->nk", x, w) + b, atol=1e-5
        )
        np.testing.assert_allclose(
            s.read_batch(gradients), np.einsum("nk,kyxc->ncyx", e[..., 0, 0], w), atol=1e-5
        )
        np.testing.assert_allclose(
            s.floats(state.send("gradientForWeights")).reshape(w.shape),
            np.einsum("nk,ncyx->kyxc", e[..., 0, 0], x),
            atol=1e-5,
        )


# --- broken rules --------------------------------------------------------------------------------


def encode(s: Session, kernel: Object, source: Object, result: Object) -> None:
    form = "encodeToCommandBuffer:sourceImage:destinationImage:"
    kernel.send(form, s.commands, source, result)


def gradient_encoding(s: Session, it: Convolution, backward: Object, states: Object) -> None:
    backward.send(
        "encodeBatchToCommandBuffer:sourceGradients:sourceImages:gradientStates:"
        "destinationGradients:",
        s.commands, s.batch(it.gradient), s.batch(it.x), states, s.blank_batch(*it.x.shape),
    )  # fmt: skip


def states_of(s: Session, it: Convolution) -> Object:
    return it.forward(s).send(
        "resultStateBatchForSourceImage:sourceStates:destinationImage:",
        s.batch(it.x), None, s.blank_batch(*it.gradient.shape),
    )  # fmt: skip


def test_a_temporary_image_is_read_as_often_as_it_says(runtime: Runtime) -> None:
    def twice(s: Session) -> None:
        it = Convolution(CASES[1])
        kernel, source = it.forward(s), s.temporary(it.x.shape[1:])
        for _ in range(2):
            encode(s, kernel, source, s.blank(it.gradient.shape[1:]))

    assert "read more often than its readCount says" in broken(runtime, twice)


def test_a_temporary_image_is_read_to_its_end(runtime: Runtime) -> None:
    def never(s: Session) -> None:
        s.temporary((4, 2, 2))

    assert "released with reads left in its readCount" in broken(runtime, never)


def test_a_temporary_image_has_one_command_buffer(runtime: Runtime) -> None:
    def other(s: Session) -> None:
        it = Convolution(CASES[1])
        source = s.temporary(it.x.shape[1:])
        s.next_commands()
        encode(s, it.forward(s), source, s.blank(it.gradient.shape[1:]))

    assert "another command buffer than its own" in broken(runtime, other)


def test_a_read_count_is_not_raised_from_zero(runtime: Runtime) -> None:
    def raised(s: Session) -> None:
        it = Convolution(CASES[1])
        source = s.temporary(it.x.shape[1:])
        encode(s, it.forward(s), source, s.blank(it.gradient.shape[1:]))
        source.send("setReadCount:", 1)

    assert "raised from 0" in broken(runtime, raised)


def test_a_destination_is_no_source(runtime: Runtime) -> None:
    def alias(s: Session) -> None:
        it = Convolution(CASES[1])
        image = s.image(it.x[0])
        encode(s, it.forward(s), image, image)

    assert "a destination image is also a source" in broken(runtime, alias)


def test_nothing_is_encoded_after_the_commit(runtime: Runtime) -> None:
    def late(s: Session) -> None:
        it = Convolution(CASES[1])
        s.run()
        encode(s, it.forward(s), s.image(it.x[0]), s.blank(it.gradient.shape[1:]))

    assert "after the commit of its command buffer" in broken(runtime, late)


def test_no_encoder_is_open_where_a_kernel_is_encoded(runtime: Runtime) -> None:
    def open_encoder(s: Session) -> None:
        it = Convolution(CASES[1])
        s.commands.send("computeCommandEncoder")
        encode(s, it.forward(s), s.image(it.x[0]), s.blank(it.gradient.shape[1:]))

    assert "while another encoder is not ended" in broken(runtime, open_encoder)


def test_a_source_has_the_channels_of_the_weights(runtime: Runtime) -> None:
    def fewer(s: Session) -> None:
        it = Convolution(CASES[1])
        encode(s, it.forward(s), s.image(it.x[0][:4]), s.blank(it.gradient.shape[1:]))

    assert "has not the input channels" in broken(runtime, fewer)


def test_offsets_of_a_gradient_are_set(runtime: Runtime) -> None:
    def unset(s: Session) -> None:
        it = Convolution(CASES[1])
        backward = it.backward(s)
        backward.send("setKernelOffsetX:", 0)
        gradient_encoding(s, it, backward, states_of(s, it))

    assert "belong to no offset of the forward kernel" in broken(runtime, unset)


def test_a_gradient_has_the_size_of_the_forward_result(runtime: Runtime) -> None:
    def smaller(s: Session) -> None:
        it = Convolution(CASES[1])
        it.gradient, states = it.gradient[..., :2, :2], states_of(s, it)
        it.gradient = np.concatenate([it.gradient, it.gradient], 3)
        gradient_encoding(s, it, it.backward(s), states)

    assert "not the size of the forward result" in broken(runtime, smaller)


def test_a_state_is_of_one_batch(runtime: Runtime) -> None:
    def again(s: Session) -> None:
        it = Convolution(CASES[1])
        states = states_of(s, it)
        gradient_encoding(s, it, it.backward(s), states)
        s.run()
        s.next_commands()
        gradient_encoding(s, it, it.backward(s), states)

    assert "a state of one command buffer is used with another one" in broken(runtime, again)


def test_gradients_of_weights_need_a_state(runtime: Runtime) -> None:
    def without(s: Session) -> None:
        it = Convolution(CASES[1])
        it.backward(s).send(
            "encodeToCommandBuffer:primaryImage:secondaryImage:destinationImage:",
            s.commands, s.image(it.gradient[0]), s.image(it.x[0]), s.blank(it.x.shape[1:]),
        )  # fmt: skip

    assert "works with a gradient state only" in broken(runtime, without)


def test_buffers_of_weights_are_long_enough(runtime: Runtime) -> None:
    def short(s: Session) -> None:
        it = Convolution(CASES[1])
        state = s.make(
            "MPSCNNConvolutionWeightsAndBiasesState", "initWithWeights:biases:",
            s.buffer(it.w[:1]), s.buffer(it.b),
        )  # fmt: skip
        it.forward(s).send("reloadWeightsAndBiasesWithCommandBuffer:state:", s.commands, state)

    assert "too short for the weights" in broken(runtime, short)
