"""Local normalizations of the doubles against numpy, their gradients against differences."""

import numpy as np
import pytest
from kernel_pairs import differences, run_pair, set_all
from mps_session import Session, broken, session, values
from objective_c import Object, Runtime
from reference_pairs import DEVICE, run_pair_by_mps

from traingraph import mps

PARAMETERS = {"alpha": 0.5, "beta": 0.75, "delta": 1.5}
CONTRAST = PARAMETERS | {"p0": 0.5, "pm": 0.25, "ps": 2.0}
DEFAULTS = {
    "CrossChannel": {"alpha": 1, "beta": 5, "delta": 1},
    "Spatial": {"alpha": 1, "beta": 5, "delta": 1},
    "LocalContrast": {"alpha": 0, "beta": 0.5, "delta": 1 / 1024, "p0": 1, "pm": 0, "ps": 1},
}
# Channels, rows and columns of a window.
CASES = [
    *(("CrossChannel", (size, 1, 1)) for size in (1, 2, 3, 4, 5)),
    *(("Spatial", (1, *size)) for size in ((1, 1), (3, 3), (4, 2), (2, 5))),
    *(("LocalContrast", (1, *size)) for size in ((3, 3), (4, 2), (2, 5))),
]


def window_mean(x: np.ndarray, sizes: tuple[int, int, int]) -> np.ndarray:
    """Over windows that reach floor(k / 2) before and floor((k - 1) / 2) behind, zeros beyond."""
    around = [(0, 0), *((size // 2, (size - 1) // 2) for size in sizes)]
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, around), sizes, axis=(1, 2, 3))
    return windows.mean(axis=(4, 5, 6))


def normalized(kind: str, sizes: tuple[int, int, int], x: np.ndarray) -> np.ndarray:
    p, squares = CONTRAST, window_mean(x * x, sizes)
    if kind != "LocalContrast":
        return x / (p["delta"] + p["alpha"] * squares) ** p["beta"]
    mean = window_mean(x, sizes)
    base = p["delta"] + p["alpha"] * (squares - mean**2)
    return p["pm"] + p["ps"] * (x - p["p0"] * mean) / base ** p["beta"]


def made(s: Session, kind: str, sizes: tuple[int, int, int]) -> list[Object]:
    across = kind == "CrossChannel"
    form = "initWithDevice:kernelSize:" if across else "initWithDevice:kernelWidth:kernelHeight:"
    arguments = sizes[:1] if across else (sizes[2], sizes[1])
    name = f"MPSCNN{kind}Normalization"
    return [s.kernel(f"{name}{suffix}", form, *arguments) for suffix in ("", "Gradient")]


@pytest.mark.parametrize(("kind", "sizes"), CASES)
def test_local_normalization(runtime: Runtime, kind: str, sizes: tuple[int, int, int]) -> None:
    x, e = 2 * values(2, 6, 4, 5), values(2, 6, 4, 5)
    with session(runtime) as s:
        pair = made(s, kind, sizes)
        for kernel in pair:
            set_all(kernel, **(CONTRAST if kind == "LocalContrast" else PARAMETERS))
        y, dx = run_pair(s, *pair, x, e)
    exact = x.astype(np.float64)
    np.testing.assert_allclose(y, normalized(kind, sizes, exact), rtol=1e-5, atol=1e-6)
    expected = differences(lambda at: normalized(kind, sizes, at), exact, e)
    np.testing.assert_allclose(dx, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", DEFAULTS)
def test_as_traingraph_mps_with_its_defaults(runtime: Runtime, kind: str) -> None:
    x, e = 2 * values(2, 6, 4, 5), values(2, 6, 4, 5)
    with session(runtime) as s:
        pair = made(s, kind, (3, 1, 1) if kind == "CrossChannel" else (1, 2, 3))
        for name, value in DEFAULTS[kind].items():
            assert all(kernel.send(name) == value for kernel in pair)
        found = run_pair(s, *pair, x, e)
    sizes = (
        {"kernel_size": 3} if kind == "CrossChannel" else {"kernel_width": 3, "kernel_height": 2}
    )
    name = f"MPSCNN{kind}Normalization"
    by_mps = [
        getattr(mps, f"{name}{suffix}")(device=DEVICE, **sizes) for suffix in ("", "Gradient")
    ]
    for double, expected in zip(found, run_pair_by_mps(*by_mps, x, e), strict=True):
        np.testing.assert_allclose(double, expected, rtol=1e-4, atol=1e-4)


def test_borders_are_zeros(runtime: Runtime) -> None:
    def clamped(s: Session) -> None:
        kernel, gradient = made(s, "Spatial", (1, 3, 3))
        set_all(kernel, edgeMode=1)
        run_pair(s, kernel, gradient, values(1, 1, 3, 3), values(1, 1, 3, 3))

    assert "reads zeros beyond its image" in broken(runtime, clamped)
