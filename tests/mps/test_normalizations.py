"""Local normalizations, instance and group normalization, with their gradients."""

import numpy as np
import pytest
from gradients import backward, check, device, execute, forward, random
from kernels import batch, commands, image

from traingraph import ShapeError, mps


def window_mean(x, rows, columns):
    """Over windows that reach floor(k / 2) before and floor((k - 1) / 2) behind, zeros beyond."""
    before = (rows // 2, columns // 2)
    after = ((rows - 1) // 2, (columns - 1) // 2)
    padded = np.pad(x, [(0, 0), (0, 0), *zip(before, after, strict=True)])
    result = np.zeros_like(x)
    for i in range(rows):
        for j in range(columns):
            result += padded[:, :, i : i + x.shape[2], j : j + x.shape[3]]
    return result / (rows * columns)


def channel_mean(x, size):
    n, c, h, w = x.shape
    return window_mean(x.reshape(n, 1, c, h * w), size, 1).reshape(x.shape)


def local_kernels(name, properties, **sizes):
    made = []
    for suffix in ("", "Gradient"):
        kernel = getattr(mps, f"MPSCNN{name}Normalization{suffix}")(device=device(), **sizes)
        for key, value in properties.items():
            setattr(kernel, key, value)
        made.append(kernel)
    return made


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_cross_channel(size):
    p = {"alpha": 0.7, "beta": 0.75, "delta": 1.5}
    kernel, gradient = local_kernels("CrossChannel", p, kernel_size=size)
    x = random(1, 2, 6, 2, 3)
    base = np.float32(1.5) + float(np.float32(0.7)) * channel_mean(x * x, size)
    check(kernel, gradient, x, x / base**0.75)
    assert kernel.kernel_size == size


@pytest.mark.parametrize("size", [(1, 1), (3, 3), (2, 4), (5, 2)])
def test_spatial(size):
    p = {"alpha": 0.5, "beta": 0.75, "delta": 1.5}
    kernel, gradient = local_kernels("Spatial", p, kernel_width=size[0], kernel_height=size[1])
    x = random(2, 2, 2, 5, 4)
    base = 1.5 + 0.5 * window_mean(x * x, size[1], size[0])
    check(kernel, gradient, x, x / base**0.75)


@pytest.mark.parametrize("size", [(3, 3), (2, 4), (5, 2)])
def test_local_contrast(size):
    p = {"alpha": 0.5, "beta": 0.75, "delta": 1.5, "p0": 0.5, "pm": 0.25, "ps": 2.0}
    sizes = {"kernel_width": size[0], "kernel_height": size[1]}
    kernel, gradient = local_kernels("LocalContrast", p, **sizes)
    x = random(3, 2, 2, 5, 4)
    mean = window_mean(x, size[1], size[0])
    base = 1.5 + 0.5 * (window_mean(x * x, size[1], size[0]) - mean**2)
    check(kernel, gradient, x, 0.25 + 2 * (x - 0.5 * mean) / base**0.75)


def test_defaults_are_apples():
    (cross, _) = local_kernels("CrossChannel", {}, kernel_size=5)
    assert (cross.alpha, cross.beta, cross.delta) == (1, 5, 1)
    (contrast, _) = local_kernels("LocalContrast", {}, kernel_width=3, kernel_height=3)
    assert (contrast.alpha, contrast.beta, contrast.delta) == (0, 0.5, 1 / 1024)
    assert (contrast.p0, contrast.pm, contrast.ps) == (1, 0, 1)


def test_the_headers_formulas_are_not_derivatives():
    x = random(4, 1, 5, 3, 3)
    p = {"alpha": 0.5, "beta": 0.75, "delta": 1.5}
    dy = random(5, *x.shape)
    kernel, gradient = local_kernels("CrossChannel", p, kernel_size=3)
    states = forward(kernel, x)[1]
    exact = backward(gradient, dy, x, states)
    gradient.header_formula = True
    base = 1.5 + 0.5 * channel_mean(x * x, 3)
    inner = 3 * channel_mean(dy * x * base**-1.75, 3)
    text = dy * base**-0.75 - 2 * 0.5 * 0.75 * x * inner
    found = backward(gradient, dy, x, states)
    np.testing.assert_allclose(found, text, rtol=1e-10)
    assert np.abs(found - exact).max() > 0.05

    kernel, gradient = local_kernels("Spatial", p, kernel_width=3, kernel_height=3)
    gradient.header_formula = True
    base = 1.5 + 0.5 * window_mean(x * x, 3, 3)
    text = dy * base**-0.75 - 2 * 0.5 * 0.75 * x * base**-1.75 * 9 * window_mean(dy * x, 3, 3)
    np.testing.assert_allclose(backward(gradient, dy, x, states), text, rtol=1e-10)

    p |= {"p0": 0.5, "pm": 0.25, "ps": 2.0}
    kernel, gradient = local_kernels("LocalContrast", p, kernel_width=3, kernel_height=3)
    states = forward(kernel, x)[1]
    exact = backward(gradient, dy, x, states)
    gradient.header_formula = True
    mean = window_mean(x, 3, 3)
    base = 1.5 + 0.5 * (window_mean(x * x, 3, 3) - mean**2)
    inner = 0.5 * window_mean(dy, 3, 3)
    inner += 2 * 0.5 * 0.75 * window_mean(dy * (x - 1), 3, 3) * (x - 0.5 * mean) / base
    found = backward(gradient, dy, x, states)
    np.testing.assert_allclose(found, 2 * base**-0.75 * (dy - inner), rtol=1e-9, atol=1e-12)
    assert np.abs(found - exact).max() > 0.05


def test_windows_are_checked():
    with pytest.raises(ValueError, match="window of 1 or more"):
        local_kernels("Spatial", {}, kernel_width=0, kernel_height=3)


# --- instance and group normalization ------------------------------------------------------------

CHANNELS = 6


class Source:
    """Gamma and beta; properties as in Apple's protocol."""

    def __init__(self, gamma, beta, groups=None, small=1e-3):
        self.arrays, self.number_of_groups, self.small = [gamma, beta], groups, small
        self.number_of_feature_channels = len(gamma)

    def gamma(self):
        return self.arrays[0].astype(np.float32)

    def beta(self):
        return None if self.arrays[1] is None else self.arrays[1].astype(np.float32)

    def epsilon(self):
        return self.small

    def label(self):
        return "norm1"


def normalized(x, source, groups):
    n, c = x.shape[:2]
    rows = x.reshape(n, groups, -1)
    centered = rows - rows.mean(axis=2, keepdims=True)
    small = float(np.float32(source.small))
    unit = centered / np.sqrt(rows.var(axis=2, keepdims=True) + small)
    gamma = source.gamma().astype(float).reshape(1, c, 1, 1)
    beta = 0 if source.beta() is None else source.beta().astype(float).reshape(1, c, 1, 1)
    return unit.reshape(x.shape) * gamma + beta


def kernels_for(groups, source):
    kind = "Instance" if groups == CHANNELS else "Group"
    kernel = getattr(mps, f"MPSCNN{kind}Normalization")(device=device(), data_source=source)
    return kernel, getattr(mps, f"MPSCNN{kind}NormalizationGradient")(device=device())


@pytest.mark.parametrize("groups", [CHANNELS, 3, 1])
def test_instances_and_groups(groups):
    gamma = random(1, CHANNELS).astype(np.float32).astype(float)
    beta = random(2, CHANNELS).astype(np.float32).astype(float)
    source = Source(gamma, beta, groups)
    kernel, gradient = kernels_for(groups, source)
    x = random(3, 3, CHANNELS, 2, 3) + 1
    check(kernel, gradient, x, normalized(x, source, groups))
    assert kernel.data_source is source
    assert kernel.label == "norm1"

    _, states = forward(kernel, x)
    dy = random(4, *x.shape)
    backward(gradient, dy, x, states)
    unit = normalized(x, Source(np.ones(CHANNELS), None, groups), groups)
    for k, state in enumerate(states):
        by_gamma = (dy[k] * unit[k]).sum(axis=(1, 2))
        np.testing.assert_allclose(np.asarray(state.gradient_for_gamma), by_gamma, rtol=1e-9)
        by_beta = dy[k].sum(axis=(1, 2))
        np.testing.assert_allclose(np.asarray(state.gradient_for_beta), by_beta, rtol=1e-9)
        np.testing.assert_allclose(np.asarray(state.gamma), gamma)
    of_state = "instance_normalization" if groups == CHANNELS else "group_normalization"
    assert getattr(states[0], of_state) is kernel

    # Gamma by differences: float32 in the data source, so the step is wide.
    step, both = 2.0**-4, []
    for sign in (1, -1):
        source.arrays[0] = gamma + sign * step * (np.arange(CHANNELS) == 2)
        kernel.reload_gamma_and_beta_from_data_source()
        both.append(np.sum(dy * forward(kernel, x)[0]))
    found = sum(np.asarray(state.gradient_for_gamma)[2] for state in states)
    np.testing.assert_allclose(found, (both[0] - both[1]) / (2 * step), rtol=1e-5)


def test_one_state_for_several_images_holds_their_sum():
    on = device()
    kernel, gradient = kernels_for(CHANNELS, Source(np.ones(CHANNELS), np.zeros(CHANNELS)))
    x, dy = random(5, 2, CHANNELS, 2, 2), random(6, 2, CHANNELS, 2, 2)
    state = kernel.result_state(for_source_image=image(on, x))
    execute(
        lambda buffer: gradient.encode(
            buffer, source_gradient=image(on, dy), source_image=image(on, x), gradient_state=state
        )
    )
    beta = np.asarray(state.gradient_for_beta)
    np.testing.assert_allclose(beta, dy.sum(axis=(0, 2, 3)), rtol=1e-9)


def test_gamma_and_beta_by_the_device():
    source = Source(np.ones(CHANNELS), np.zeros(CHANNELS))
    kernel, _ = kernels_for(CHANNELS, source)
    gamma = np.arange(CHANNELS, dtype=np.float32)
    state = mps.MPSCNNNormalizationGammaAndBetaState(
        gamma=mps.MTLBuffer(device=device(), bytes=gamma.tobytes()),
        beta=mps.MTLBuffer(device=device(), bytes=(gamma + 1).tobytes()),
    )
    execute(lambda buffer: kernel.reload_gamma_and_beta(buffer, gamma_and_beta_state=state))
    x = random(7, 1, CHANNELS, 2, 2)
    expected = normalized(x, Source(gamma, gamma + 1), CHANNELS)
    np.testing.assert_allclose(forward(kernel, x)[0], expected, rtol=1e-9)


def test_normalizations_refuse():
    source = Source(np.ones(CHANNELS), np.zeros(CHANNELS), 4)
    with pytest.raises(ValueError, match=r"MPSCNNGroupNormalization.*divide 6 channels but got 4"):
        mps.MPSCNNGroupNormalization(device=device(), data_source=source)
    kernel, gradient = kernels_for(CHANNELS, source)
    with pytest.raises(ShapeError, match=r"'norm1'\] expected source images of 6 channels"):
        forward(kernel, random(1, 1, 5, 2, 2))
    other = Source(np.ones(5), np.zeros(5))
    with pytest.raises(ShapeError, match="data source of 6 channels but got 5"):
        kernel.reload_data_source(data_source=other)
    source.number_of_groups = 3
    group, _ = kernels_for(3, source)
    x = random(2, 1, CHANNELS, 2, 2)
    _, states = forward(group, x)
    with pytest.raises(ValueError, match="state of the forward kernel"):
        backward(gradient, x, x, states)
    on = device()
    with pytest.raises(ValueError, match="expected a gradient state but got none"):
        gradient.encode_batch(
            commands(on), source_gradients=batch(on, x), source_images=batch(on, x),
            gradient_states=[],
        )  # fmt: skip
