"""Arithmetic by name, and its gradients: their states come from forward kernels over zeros."""

import metal_package
import numpy as np
import pytest
from test_named_kernels import C, H, N, W, compare, images, kernel_of, values

from traingraph import mps

pytestmark = metal_package.needs_doubles

SCALES = {"primary_scale": 0.5, "secondary_scale": 2, "bias": 1}
BOUNDS = {"minimum_value": 1, "maximum_value": 1.5}
AXES = ("feature_channels", "pixels_y", "pixels_x")
GRADIENTS = ("Add", "Subtract", "Multiply")


@pytest.mark.parametrize(
    "properties",
    [SCALES, BOUNDS,
     {"secondary_stride_in_pixels_x": 0, "secondary_stride_in_feature_channels": 0}],
    ids=lambda properties: "-".join(properties),
)  # fmt: skip
@pytest.mark.parametrize("name", [*GRADIENTS, "Divide"])
def test_arithmetic(name, properties):
    def run(device, buffer):
        kernel = kernel_of(f"MPSCNN{name}", device, {}, properties)
        a, b = images(device, values()), images(device, values(seed=1))
        return [kernel.encode_batch(buffer, primary_images=a, secondary_images=b)]

    compare(f"MPSCNN{name}", N, run)


@pytest.mark.parametrize("comparison", mps.MPSNNComparisonType, ids=lambda one: one.name)
def test_comparison(comparison):
    properties = {"comparison_type": comparison, "threshold": 0.25, "secondary_scale": 0.5}

    def run(device, buffer):
        kernel = kernel_of("MPSNNCompare", device, {}, properties)
        a, b = images(device, values()), images(device, values(seed=1))
        return [kernel.encode_batch(buffer, primary_images=a, secondary_images=b)]

    compare("MPSNNCompare", N, run)


def strides(primary, secondary):
    return {f"{which}_stride_in_{axis}": stride
            for which, row in (("primary", primary), ("secondary", secondary))
            for axis, stride in zip(AXES, row, strict=True)}  # fmt: skip


def encoded(device, buffer, name, properties, sources, secondary):
    """The gradient of one of two sources."""
    forward = kernel_of(f"MPSCNN{name}", device, {}, properties)
    a, b = (images(device, source) for source in sources)
    y, states = forward.encode_batch(
        buffer, primary_images=a, secondary_images=b, destination_state_is_temporary=False
    )
    arguments = {"is_secondary_source_filter": secondary}
    gradient = kernel_of(f"MPSCNN{name}Gradient", device, arguments, {})
    first = y[0]
    shape = (N, first.feature_channels, first.height, first.width)
    return gradient.encode_batch(
        buffer,
        source_gradients=images(device, values(shape, seed=2) - 1),
        source_images=a if secondary else b,
        gradient_states=states,
    )


# Properties of the forward kernel, and the extents of its two sources.
FULL = (C, H, W)
BY_NAME = [
    (SCALES, FULL, FULL),
    (strides((1, 1, 1), (1, 0, 0)), FULL, (C, 1, 1)),
    (strides((1, 1, 1), (0, 1, 0)), FULL, (1, H, 1)),
    (strides((0, 0, 0), (1, 1, 1)) | SCALES, (1, 1, 1), FULL),
    (strides((0, 1, 1), (1, 0, 0)), (1, H, W), (C, 1, 1)),
]
# Of several elements the first stands for all, or bounds were set.
COMPOSED = [(strides((0, 1, 1), (1, 0, 1)), FULL, FULL), (BOUNDS, FULL, FULL)]


def named(case):
    properties, *extents = case
    return "-".join(["x".join(map(str, one)) for one in extents] + list(properties)[:1])


@pytest.mark.parametrize("secondary", [False, True])
@pytest.mark.parametrize("case", BY_NAME, ids=named)
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradient(name, case, secondary):
    properties, *extents = case
    sources = [values((N, *one), seed) for seed, one in enumerate(extents)]

    def run(device, buffer):
        return [encoded(device, buffer, name, properties, sources, secondary)]

    compare(f"MPSCNN{name}Gradient", N, run)
    compare(f"MPSCNN{name}", 2 * N, run)  # once more for the states


@pytest.mark.parametrize("case", COMPOSED, ids=named)
@pytest.mark.parametrize("name", GRADIENTS)
def test_a_gradient_that_is_composed(name, case):
    """Of the source whose part was read, or of a clamped result."""
    properties, *extents = case
    sources = [values((N, *one), seed) for seed, one in enumerate(extents)]

    def run(device, buffer):
        return [encoded(device, buffer, name, properties, sources, False)]

    compare(f"MPSCNN{name}Gradient", 0, run)


@pytest.mark.parametrize("secondary", [False, True])
def test_what_is_not_finite_passes(secondary):
    """It does not come to the forward kernel, which could take it for clamped."""
    a, b = values(), values(seed=1)
    b[0, 1, 2, 3], b[1, 0, 0, 0], a[0, 0, 1, 1] = np.inf, np.nan, -np.inf

    def run(device, buffer):
        return [encoded(device, buffer, "Multiply", {}, (a, b), secondary)]

    compare("MPSCNNMultiplyGradient", N, run)


SCRIPT = """
import numpy as np
import test_named_arithmetic as t
from test_named_kernels import arrays
from traingraph import mps

found = []
for device in ("reference", "metal"):
    on = mps.MTLDevice(device=device)
    buffer = on.make_command_queue().make_command_buffer()
    sources = t.values(), t.values(seed=1)
    result = t.encoded(on, buffer, "Subtract", {}, sources, True)
    buffer.commit()
    buffer.wait_until_completed()
    found.append(arrays(result))
np.testing.assert_allclose(found[1], found[0], rtol=1e-5)
"""


def test_a_state_that_was_not_filled_ends_the_program(metal_build, tmp_path):
    encode = "[forward.get() encodeBatchToCommandBuffer"
    change = ["arithmetic.mm", encode, f"if (false) {encode}"]
    ended = metal_package.run_changed(metal_build, tmp_path, change, SCRIPT)
    assert ended.returncode == -6, (ended.returncode, ended.stderr[-2000:])
    assert "the gradient of arithmetic before the forward kernel with its state" in ended.stderr
