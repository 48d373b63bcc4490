"""Arithmetic, upsampling, dropout and optimizers of the doubles against numpy."""

import math

import numpy as np
import pytest
from mps_session import Session, broken, session, values
from objective_c import Object, Runtime

FORWARD = "encodeBatchToCommandBuffer:sourceImages:destinationImages:"
BINARY = "encodeBatchToCommandBuffer:primaryImages:secondaryImages:destinationImages:"


def run_unary(s: Session, kernel: Object, x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    results = s.blank_batch(*shape)
    kernel.send(FORWARD, s.commands, s.batch(x), results)
    s.run()
    s.next_commands()
    return s.read_batch(results)


def run_binary(
    s: Session, kernel: Object, a: np.ndarray, b: np.ndarray, shape: tuple[int, ...]
) -> np.ndarray:
    results = s.blank_batch(*shape)
    kernel.send(BINARY, s.commands, s.batch(a), s.batch(b), results)
    s.run()
    s.next_commands()
    return s.read_batch(results)


# --- arithmetic ----------------------------------------------------------------------------------

OPERATIONS = {
    "Add": lambda a, b: a + b,
    "Subtract": lambda a, b: a - b,
    "Multiply": lambda a, b: a * b,
    "Divide": lambda a, b: a / b,
}
# What the second image has one of.
REPEATED = [(), (2,), (3,), (1,), (1, 2, 3)]
STRIDES = {1: "FeatureChannels", 2: "PixelsY", 3: "PixelsX"}


def repeat(kernel: Object, axes: tuple[int, ...]) -> None:
    for axis in axes:
        kernel.send(f"setSecondaryStrideIn{STRIDES[axis]}:", 0)


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("axes", REPEATED)
def test_arithmetic(runtime: Runtime, name: str, axes: tuple[int, ...]) -> None:
    shape = (2, 5, 3, 4)
    small = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    a, b = values(*shape), values(*small) + 2
    with session(runtime) as s:
        kernel = s.kernel(f"MPSCNN{name}")
        kernel.send("setPrimaryScale:", 2.0)
        kernel.send("setSecondaryScale:", 0.5)
        kernel.send("setBias:", 0.25)
        kernel.send("setMaximumValue:", 2.0)
        repeat(kernel, axes)
        found = run_binary(s, kernel, a, b, shape)
        expected = np.minimum(OPERATIONS[name](2 * a, b / 2) + 0.25, 2)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


COMPARISONS = [
    lambda a, b: abs(a - b) <= 0.5,
    lambda a, b: abs(a - b) > 0.5,
    lambda a, b: a < b - 0.5,
    lambda a, b: a <= b + 0.5,
    lambda a, b: a > b + 0.5,
    lambda a, b: a >= b - 0.5,
]


@pytest.mark.parametrize("kind", range(len(COMPARISONS)))
def test_comparison(runtime: Runtime, kind: int) -> None:
    shape = (2, 5, 3, 4)
    a, b = values(*shape), values(*shape)[::-1]
    with session(runtime) as s:
        kernel = s.kernel("MPSNNCompare")
        kernel.send("setComparisonType:", kind)
        kernel.send("setThreshold:", 0.5)
        found = run_binary(s, kernel, a, b, shape)
        expected = COMPARISONS[kind](a, b)
        assert 0 < expected.mean() < 1
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", ["Add", "Subtract", "Multiply"])
@pytest.mark.parametrize("axes", REPEATED)
@pytest.mark.parametrize("secondary", [False, True])
def test_gradient_of_arithmetic(
    runtime: Runtime, name: str, axes: tuple[int, ...], secondary: bool
) -> None:
    shape = (2, 5, 3, 4)
    small = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    a, b, e = values(*shape), values(*small), values(*shape)
    sign = -1 if name == "Subtract" and secondary else 1
    other = a if secondary else b
    expected = sign * e * (other if name == "Multiply" else 1)
    if secondary:
        expected = expected.sum(axes, keepdims=True)
    with session(runtime) as s:
        form = "initWithDevice:isSecondarySourceFilter:"
        kernel = s.kernel(f"MPSCNN{name}Gradient", form, secondary)
        assert kernel.send("isSecondarySourceFilter") == secondary
        kernel.send("setPrimaryScale:", float(sign))
        if not secondary:
            repeat(kernel, axes)
        found = run_binary(s, kernel, e, other, expected.shape)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


# --- upsampling ----------------------------------------------------------------------------------


def interpolation(size: int, factor: int, corners: bool) -> np.ndarray:
    """The matrix (result, source) of one axis."""
    result = np.zeros((size * factor, size))
    for index in range(size * factor):
        place = index / factor
        if corners:
            place = index * (size - 1) / (size * factor - 1)
        place = min(max(place, 0), size - 1)
        first = math.floor(place)
        result[index, first] += 1 - (place - first)
        result[index, min(first + 1, size - 1)] += place - first
    return result


@pytest.mark.parametrize("corners", [None, False, True])
def test_upsampling(runtime: Runtime, corners: bool | None) -> None:
    x, e = values(2, 5, 3, 4), values(2, 5, 6, 12)
    if corners is None:
        down, across = np.kron(np.eye(3), np.ones((2, 1))), np.kron(np.eye(4), np.ones((3, 1)))
    else:
        down, across = interpolation(3, 2, corners), interpolation(4, 3, corners)
    kind = "Nearest" if corners is None else "Bilinear"
    with session(runtime) as s:
        form, sizes = "initWithDevice:integerScaleFactorX:integerScaleFactorY:", (3, 2)
        if corners:
            kernel = s.kernel(f"MPSCNNUpsampling{kind}", f"{form}alignCorners:", *sizes, True)
        else:
            kernel = s.kernel(f"MPSCNNUpsampling{kind}", form, *sizes)
        expected = np.einsum("ih,nchw,jw->ncij", down, x, across)
        np.testing.assert_allclose(run_unary(s, kernel, x, e.shape), expected, atol=1e-6)
        if not corners:
            backward = s.kernel(f"MPSCNNUpsampling{kind}Gradient", form, *sizes)
            expected = np.einsum("ih,ncij,jw->nchw", down, e, across)
            found = run_binary(s, backward, e, x, x.shape)
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


# --- dropout -------------------------------------------------------------------------------------


@pytest.mark.parametrize("strides", [(1, 1, 1), (0, 0, 1), (1, 1, 0)])
@pytest.mark.parametrize("readings", ["strict", "lenient"])
def test_dropout(
    runtime: Runtime,
    strides: tuple[int, int, int],
    readings: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("APPLE_DOUBLE_READINGS", readings)
    x, e = values(2, 8, 6, 7) + 2, values(2, 8, 6, 7)
    with session(runtime) as s:
        form = "initWithDevice:keepProbability:seed:maskStrideInPixels:"
        forward = s.kernel("MPSCNNDropout", form, 0.75, 3, strides)
        backward = s.kernel("MPSCNNDropoutGradient", form, 0.75, 3, strides)
        sources, results, gradients = s.batch(x), s.blank_batch(*x.shape), s.blank_batch(*x.shape)
        states = forward.send(
            "resultStateBatchForSourceImage:sourceStates:destinationImage:", sources, None, results
        )
        one = states.send("objectAtIndex:", 0) == states.send("objectAtIndex:", 1)
        assert one == (readings == "strict")
        forward.send(
            "encodeBatchToCommandBuffer:sourceImages:destinationStates:destinationImages:",
            s.commands, sources, states, results,
        )  # fmt: skip
        backward.send(
            "encodeBatchToCommandBuffer:sourceGradients:sourceImages:gradientStates:"
            "destinationGradients:",
            s.commands, s.batch(e), sources, states, gradients,
        )  # fmt: skip
        s.run()
        y = s.read_batch(results)
        mask = y != 0
        np.testing.assert_allclose(y, mask * x / 0.75, rtol=1e-6)
        np.testing.assert_allclose(s.read_batch(gradients), mask * e / 0.75, rtol=1e-6)
        assert (mask[0] != mask[1]).any()
        # The mask repeats where its stride is 0.
        for axis, stride in zip((2, 1, 0), strides, strict=True):
            same = (mask[0] == mask[0].take([0], axis=axis)).all()
            assert same == (stride == 0)
        if strides == (1, 1, 1):
            assert abs(mask.mean() - 0.75) < 0.06


def test_dropout_needs_its_state(runtime: Runtime) -> None:
    def without(s: Session) -> None:
        form = "initWithDevice:keepProbability:seed:maskStrideInPixels:"
        kernel = s.kernel("MPSCNNDropout", form, 0.5, 1, (1, 1, 1))
        kernel.send(FORWARD, s.commands, s.batch(values(1, 1, 2, 2)), s.blank_batch(1, 1, 2, 2))

    assert "dropout is encoded with a state" in broken(runtime, without)


# --- optimizers ----------------------------------------------------------------------------------


class Steps:
    """Three updates by a double, and the same by numpy in float64."""

    def __init__(self, s: Session, l2: float = 0.0) -> None:
        self.s, self.l2 = s, l2
        self.w = values(7)
        self.gradients = [values(7) for _ in range(3)]
        self.descriptor = s.runtime.MPSNNOptimizerDescriptor.send(
            "optimizerDescriptorWithLearningRate:gradientRescale:applyGradientClipping:"
            "gradientClipMax:gradientClipMin:regularizationType:regularizationScale:",
            0.1, 0.5, True, 0.8, -0.6, 2 if l2 else 0, l2,
        )  # fmt: skip

    def prepared(self, gradient: np.ndarray, w: np.ndarray) -> np.ndarray:
        return np.clip(gradient, -0.6, 0.8) * 0.5 + self.l2 * w

    def run(self, kernel: Object, names: list[str], others: list[np.ndarray]) -> np.ndarray:
        value = self.s.vector(self.w)
        extra = [self.s.vector(other) for other in others]
        middle = "".join(f"input{name}Vector:" for name in names)
        form = (
            "encodeToCommandBuffer:inputGradientVector:inputValuesVector:"
            f"{middle}resultValuesVector:"
        )
        for gradient in self.gradients:
            vector = self.s.vector(gradient)
            kernel.send(form, self.s.commands, vector, value, *extra, value)
        self.s.run()
        return self.s.floats(value.send("data"))


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("l2", [0.0, 0.3])
def test_gradient_descent(runtime: Runtime, nesterov: bool, l2: float) -> None:
    with session(runtime) as s:
        it = Steps(s, l2)
        kernel = s.kernel(
            "MPSNNOptimizerStochasticGradientDescent",
            "initWithDevice:momentumScale:useNesterovMomentum:optimizerDescriptor:",
            0.9, nesterov, it.descriptor,
        )  # fmt: skip
        found = it.run(kernel, ["Momentum"], [np.zeros(7, np.float32)])
        w, m = it.w.astype(np.float64), np.zeros(7)
        for gradient in it.gradients:
            g = it.prepared(gradient, w)
            m = 0.9 * m + (g if nesterov else 0.1 * g)
            w = w - (0.1 * (g + 0.9 * m) if nesterov else m)
        np.testing.assert_allclose(found, w, rtol=1e-5, atol=1e-6)


def test_rms_prop(runtime: Runtime) -> None:
    with session(runtime) as s:
        it = Steps(s)
        form = "initWithDevice:decay:epsilon:optimizerDescriptor:"
        kernel = s.kernel("MPSNNOptimizerRMSProp", form, 0.7, 1e-3, it.descriptor)
        found = it.run(kernel, ["SumOfSquares"], [np.zeros(7, np.float32)])
        w, squares = it.w.astype(np.float64), np.zeros(7)
        for gradient in it.gradients:
            g = it.prepared(gradient, w)
            squares = 0.7 * squares + 0.3 * g * g
            w = w - 0.1 * g / (np.sqrt(squares) + 1e-3)
        np.testing.assert_allclose(found, w, rtol=1e-5, atol=1e-6)


def test_adam(runtime: Runtime) -> None:
    with session(runtime) as s:
        it = Steps(s)
        form = "initWithDevice:beta1:beta2:epsilon:timeStep:optimizerDescriptor:"
        kernel = s.kernel("MPSNNOptimizerAdam", form, 0.8, 0.9, 1e-3, 0, it.descriptor)
        zeros = np.zeros(7, np.float32)
        found = it.run(kernel, ["Momentum", "Velocity"], [zeros, zeros])
        assert kernel.send("timeStep") == 3
        w, m, v = it.w.astype(np.float64), np.zeros(7), np.zeros(7)
        for t, gradient in enumerate(it.gradients, 1):
            g = it.prepared(gradient, w)
            m, v = 0.8 * m + 0.2 * g, 0.9 * v + 0.1 * g * g
            rate = 0.1 * np.sqrt(1 - 0.9**t) / (1 - 0.8**t)
            w = w - rate * m / (np.sqrt(v) + 1e-3)
        np.testing.assert_allclose(found, w, rtol=1e-5, atol=1e-6)
