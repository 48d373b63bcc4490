"""Transposed convolution of the doubles: convolutions of the widened source, by numpy."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from kernel_pairs import BACKWARD, FORWARD, differences, run_forward, run_pair, set_all
from mps_session import Session, broken, session, values
from objective_c import Object, Runtime


class Case(NamedTuple):
    kernel: int
    stride: int
    dilation: int = 1
    offset: int = 0
    kernel_offset: int = 0
    groups: int = 1
    depthwise: bool = False

    @property
    def reach(self) -> int:
        return (self.kernel - 1) * self.dilation + 1

    @property
    def split(self) -> int:
        return 8 if self.depthwise else self.groups


CASES = [
    Case(3, 1),
    Case(3, 2, kernel_offset=1),
    Case(2, 2, kernel_offset=1),
    Case(4, 3, offset=1, kernel_offset=-2),
    Case(3, 2, dilation=2, kernel_offset=1),
    Case(2, 1, dilation=3, offset=-1),
    Case(1, 2),
    Case(3, 2, groups=2),
    Case(3, 2, kernel_offset=1, depthwise=True),
]
INPUTS, OUTPUTS = 8, 8


class Transpose:
    """A case: its arrays, its kernels, and what numpy says of it."""

    def __init__(self, s: Session, case: Case) -> None:
        self.s, self.case = s, case
        self.x, self.e = values(2, INPUTS, 3, 4), values(2, OUTPUTS, 6, 7)
        self.w = values(OUTPUTS, case.kernel, case.kernel, INPUTS // case.split)
        self.b = values(OUTPUTS)
        names = ("MPSCNNConvolutionTranspose", "MPSCNNConvolutionTransposeGradient")
        self.forward, self.gradient = (
            s.kernel(name, "initWithDevice:weights:", self.source()) for name in names
        )
        offset = (case.offset, case.offset, 0)
        set_all(self.forward, offset=offset)
        set_all(self.gradient, secondaryOffset=offset)
        for kernel in (self.forward, self.gradient):
            set_all(kernel, kernelOffsetX=case.kernel_offset, kernelOffsetY=case.kernel_offset)

    def source(self) -> Object:
        kind = "DepthWiseConvolution" if self.case.depthwise else "Convolution"
        descriptor = getattr(self.s.runtime, f"MPSCNN{kind}Descriptor").send(
            "cnnConvolutionDescriptorWithKernelWidth:kernelHeight:inputFeatureChannels:"
            "outputFeatureChannels:",
            self.case.kernel, self.case.kernel, INPUTS, OUTPUTS,
        )  # fmt: skip
        for axis in "XY":
            descriptor.send(f"setStrideInPixels{axis}:", self.case.stride)
            descriptor.send(f"setDilationRate{axis}:", self.case.dilation)
        descriptor.send("setGroups:", self.case.groups)
        return self.s.make(
            "CheckWeights", "initWithDescriptor:weights:count:biases:",
            descriptor, self.w, self.w.size, self.b,
        )  # fmt: skip

    def result(self, x: np.ndarray, w: np.ndarray) -> np.ndarray:
        case, margin, split = self.case, 20, self.case.split
        n, channels, height, width = x.shape
        wide = np.zeros((n, channels, height * case.stride, width * case.stride))
        wide[:, :, :: case.stride, :: case.stride] = x
        wide = np.pad(wide, [(0, 0), (0, 0), (margin, margin), (margin, margin)])
        wide = wide.reshape(n, split, -1, *wide.shape[2:])
        taps = w.reshape(split, -1, *w.shape[1:])
        first = margin + case.offset * case.stride + case.kernel_offset - case.reach // 2
        y, (rows, columns) = 0, self.e.shape[2:]
        for q, p in np.ndindex(case.kernel, case.kernel):
            top, left = first + q * case.dilation, first + p * case.dilation
            part = wide[..., top : top + rows, left : left + columns]
            y = y + np.einsum("ngchw,gkc->ngkhw", part, taps[:, :, q, p])
        return y.reshape(self.e.shape) + self.b.astype(np.float64)[None, :, None, None]

    def state(self) -> Object:
        return self.forward.send(
            "resultStateForSourceImage:sourceStates:destinationImage:",
            self.s.image(self.x[0]), None, self.s.blank(self.e.shape[1:]),
        )  # fmt: skip

    def gradients_of_weights(self, option: int) -> tuple[np.ndarray, np.ndarray]:
        """By one state for the batch; the images are left as they are where they are not asked."""
        s, state = self.s, self.state()
        states = s.runtime.array([state] * len(self.x))
        set_all(self.gradient, gradientOption=option)
        sources = s.batch(self.x)
        self.forward.send(FORWARD, s.commands, sources, states, s.blank_batch(*self.e.shape))
        self.gradient.send(
            BACKWARD, s.commands, s.batch(self.e), sources, states, s.blank_batch(*self.x.shape)
        )
        s.run()
        weights, biases = (state.send(f"gradientFor{name}") for name in ("Weights", "Biases"))
        return s.floats(weights).reshape(self.w.shape), s.floats(biases)


@pytest.mark.parametrize("case", CASES)
def test_result_and_gradients(runtime: Runtime, case: Case) -> None:
    with session(runtime) as s:
        it = Transpose(s, case)
        y, dx = run_pair(s, it.forward, it.gradient, it.x, it.e)
        dw, db = it.gradients_of_weights(2)
        x, w = it.x.astype(np.float64), it.w.astype(np.float64)
        np.testing.assert_allclose(y, it.result(x, w), rtol=1e-5, atol=1e-5)
        expected = differences(lambda at: it.result(at, w), x, it.e)
        np.testing.assert_allclose(dx, expected, rtol=1e-5, atol=1e-5)
        expected = differences(lambda at: it.result(x, at), w, it.e)
        np.testing.assert_allclose(dw, expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(db, it.e.sum((0, 2, 3)), rtol=1e-4, atol=1e-5)


def test_one_state_for_the_batch(runtime: Runtime) -> None:
    with session(runtime) as s:
        it = Transpose(s, CASES[1])
        states = it.forward.send(
            "resultStateBatchForSourceImage:sourceStates:destinationImage:",
            s.batch(it.x), None, s.blank_batch(*it.e.shape),
        )  # fmt: skip
        first, second = (states.send("objectAtIndex:", index) for index in (0, 1))
        assert first == second
        assert first.send("convolutionTranspose") == it.forward


def test_weights_are_exported_and_reloaded(runtime: Runtime) -> None:
    with session(runtime) as s:
        it, other = Transpose(s, CASES[1]), Transpose(s, CASES[1])
        form = "exportWeightsAndBiasesWithCommandBuffer:resultStateCanBeTemporary:"
        state = it.forward.send(form, s.commands, False)
        other.forward.send("reloadWeightsAndBiasesWithCommandBuffer:state:", s.commands, state)
        y = run_forward(s, other.forward, it.x, it.e.shape)
        np.testing.assert_array_equal(y, run_forward(s, it.forward, it.x, it.e.shape))


def with_another_offset(it: Transpose) -> None:
    set_all(it.gradient, kernelOffsetX=3)
    it.gradients_of_weights(3)


def without_a_state(it: Transpose) -> None:
    form = "encodeBatchToCommandBuffer:primaryImages:secondaryImages:destinationImages:"
    s = it.s
    it.gradient.send(form, s.commands, s.batch(it.e), s.batch(it.x), s.blank_batch(*it.x.shape))


def with_the_source_of_another(it: Transpose) -> None:
    run_forward(it.s, it.forward, values(2, 4, 3, 3), it.e.shape)


@pytest.mark.parametrize(
    ("action", "sentence"),
    [
        (with_another_offset, "its offsets are not those of the forward kernel of its state"),
        (without_a_state, "works with a gradient state only"),
        (with_the_source_of_another, "the source has not the input channels of the weights"),
    ],
)
def test_broken_rules(runtime: Runtime, action: Callable[[Transpose], None], sentence: str) -> None:
    assert sentence in broken(runtime, lambda s: action(Transpose(s, CASES[1])))
