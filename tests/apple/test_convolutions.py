"""Convolution and fully connected of the doubles against plain sums."""

import numpy as np
import pytest
from convolution_case import CASES, Convolution
from mps_session import session, values
from objective_c import Runtime


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
