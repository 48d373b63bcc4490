"""Reshaping, padding and Gram matrices of the doubles against numpy."""

import numpy as np
import pytest
from kernel_pairs import differences, run_forward, run_pair, set_all
from mps_session import Session, broken, session, values
from objective_c import Object, Runtime

CONSTANT = 4
# Edge modes by their numbers, with numpy's names.
EDGES = {0: "constant", 1: "edge", 2: "reflect", 3: "symmetric", CONSTANT: "constant"}


@pytest.fixture(autouse=True)
def kernels_give_states(monkeypatch: pytest.MonkeyPatch) -> None:
    """Headers say so of few kernels."""
    monkeypatch.setenv("APPLE_DOUBLE_READINGS", "lenient")


def test_reshape(runtime: Runtime) -> None:
    x, e = values(2, 6, 2, 4), values(2, 3, 8, 2)
    with session(runtime) as s:
        y, dx = run_pair(s, s.kernel("MPSNNReshape"), s.kernel("MPSNNReshapeGradient"), x, e)
    np.testing.assert_array_equal(y, x.reshape(e.shape))
    np.testing.assert_array_equal(dx, e.reshape(x.shape))


def test_reshape_keeps_the_number_of_elements(runtime: Runtime) -> None:
    said = broken(
        runtime,
        lambda s: run_forward(s, s.kernel("MPSNNReshape"), values(1, 3, 2, 2), (1, 3, 2, 3)),
    )
    assert "differ in their number of elements" in said


class Pad:
    """Sizes before and after along channels, rows and columns, and the two kernels."""

    def __init__(self, s: Session, edge: int, sizes: list[tuple[int, int]]) -> None:
        self.edge, self.sizes = edge, sizes
        (before, after), form = zip(*sizes, strict=True), "initWithDevice:paddingSizeBefore:"
        self.kernel = s.kernel("MPSNNPad", f"{form}paddingSizeAfter:", before[::-1], after[::-1])
        # With a given destination the offset says where the source lies.
        offset = (-before[2], -before[1], 0)
        set_all(self.kernel, offset=offset, edgeMode=edge, fillValue=0.5)
        self.gradient = s.kernel("MPSNNPadGradient")
        set_all(self.gradient, primaryOffset=before[::-1], secondaryEdgeMode=edge)

    def result(self, x: np.ndarray) -> np.ndarray:
        given = {"constant_values": 0.5} if self.edge == CONSTANT else {}
        return np.pad(x, [(0, 0), *self.sizes], EDGES[self.edge], **given)


@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize(
    "sizes",
    [
        [(0, 0), (1, 2), (2, 1)],
        [(1, 2), (0, 1), (1, 0)],
        # More than the source has, so that mirrors go there and back again.
        [(0, 0), (5, 3), (4, 9)],
    ],
)
def test_pad(runtime: Runtime, edge: int, sizes: list[tuple[int, int]]) -> None:
    x = values(2, 3, 3, 4)
    with session(runtime) as s:
        it = Pad(s, edge, sizes)
        e = values(*it.result(x).shape)
        y, dx = run_pair(s, it.kernel, it.gradient, x, e)
    np.testing.assert_array_equal(y, it.result(x))
    np.testing.assert_allclose(dx, differences(it.result, x, e), rtol=1e-5, atol=1e-6)


def test_a_fill_value_for_each_channel(runtime: Runtime) -> None:
    x, fills = values(2, 3, 2, 2), np.arange(5, dtype=np.float32)
    with session(runtime) as s:
        data = s.runtime.NSData.send("dataWithBytes:length:", fills, fills.nbytes)
        kernel = s.kernel(
            "MPSNNPad", "initWithDevice:paddingSizeBefore:paddingSizeAfter:fillValueArray:",
            (1, 0, 1), (0, 1, 1), data,
        )  # fmt: skip
        set_all(kernel, offset=(-1, 0, 0))
        y = run_forward(s, kernel, x, (2, 5, 3, 3))
    expected = np.broadcast_to(fills[:, None, None], y.shape).copy()
    expected[:, 1:4, :2, 1:] = x
    np.testing.assert_array_equal(y, expected)


def test_the_gradient_has_the_padding_of_its_state(runtime: Runtime) -> None:
    def other(s: Session) -> None:
        it = Pad(s, 1, [(0, 0), (1, 1), (1, 1)])
        set_all(it.gradient, primaryOffset=(0, 1, 0))
        run_pair(s, it.kernel, it.gradient, values(1, 1, 2, 2), values(1, 1, 4, 4))

    assert "not those of the forward kernel of its state" in broken(runtime, other)


def gram(alpha: float, x: np.ndarray) -> np.ndarray:
    return alpha * np.einsum("nfhw,nchw->nfc", x, x)[:, :, None, :]


def gram_kernels(s: Session, *alphas: float) -> list[Object]:
    names = ("MPSNNGramMatrixCalculation", "MPSNNGramMatrixCalculationGradient")
    return [
        s.kernel(name, "initWithDevice:alpha:", alpha)
        for name, alpha in zip(names, alphas, strict=True)
    ]


def test_gram_matrices(runtime: Runtime) -> None:
    x, e = values(2, 5, 3, 4), values(2, 5, 1, 5)
    with session(runtime) as s:
        y, dx = run_pair(s, *gram_kernels(s, 0.5, 0.5), x, e)
    np.testing.assert_allclose(y, gram(0.5, x), rtol=1e-5, atol=1e-6)
    expected = differences(lambda at: gram(0.5, at), x, e)
    np.testing.assert_allclose(dx, expected, rtol=1e-5, atol=1e-6)


def test_the_gradient_of_a_gram_matrix_has_its_alpha(runtime: Runtime) -> None:
    def other(s: Session) -> None:
        run_pair(s, *gram_kernels(s, 0.5, 1.0), values(1, 5, 3, 4), values(1, 5, 1, 5))

    assert "not those of the forward kernel of its state" in broken(runtime, other)
