"""Arithmetic and its two gradients, with broadcasting, scales and bounds; dropout."""

import numpy as np
import pytest
from gradients import backward, device, differences, execute, forward, near, random
from kernels import array, batch, commands, empty

from traingraph import ShapeError, mps

OPERATIONS = {
    "Add": np.add, "Subtract": np.subtract, "Multiply": np.multiply, "Divide": np.divide,
}  # fmt: skip
DIFFERENTIABLE = ("Add", "Subtract", "Multiply")
AXES = ("feature_channels", "pixels_y", "pixels_x")
# Strides of the primary and the secondary image along channels, rows and columns.
STRIDES = [
    ((1, 1, 1), (1, 1, 1)), ((1, 1, 1), (1, 0, 0)), ((1, 1, 1), (0, 0, 0)),
    ((0, 1, 1), (1, 1, 1)), ((0, 1, 1), (1, 0, 1)), ((0, 0, 0), (0, 1, 0)),
]  # fmt: skip
FULL = (3, 2, 4)


def kernel_of(name, primary=(1, 1, 1), secondary=(1, 1, 1), **properties):
    kernel = getattr(mps, f"MPSCNN{name}")(device=device())
    for axis, p, s in zip(AXES, primary, secondary, strict=True):
        setattr(kernel, f"primary_stride_in_{axis}", p)
        setattr(kernel, f"secondary_stride_in_{axis}", s)
    for key, value in properties.items():
        setattr(kernel, key, value)
    return kernel


def gradient_of(name, secondary):
    cls = getattr(mps, f"MPSCNN{name}Gradient")
    return cls(device=device(), is_secondary_source_filter=secondary)


def extents(strides, whole):
    """An axis of stride 0 has one element, or as many as the other image: the first counts."""
    return tuple(n if s or whole else 1 for n, s in zip(FULL, strides, strict=True))


def cut(x, strides):
    return x[(slice(None), *(slice(None) if s else slice(0, 1) for s in strides))]


@pytest.mark.parametrize("whole", [False, True], ids=["one element", "first of several"])
@pytest.mark.parametrize("strides", STRIDES, ids=str)
@pytest.mark.parametrize("name", OPERATIONS)
def test_values_and_gradients(name, strides, whole):
    properties = {"primary_scale": 0.5, "secondary_scale": -1.5, "bias": 0.25}
    kernel = kernel_of(name, *strides, **properties)
    a = random(1, 2, *extents(strides[0], whole))
    b = random(2, 2, *extents(strides[1], whole))
    y, states = forward(kernel, a, b)
    expected = OPERATIONS[name](0.5 * cut(a, strides[0]), -1.5 * cut(b, strides[1])) + 0.25
    np.testing.assert_allclose(y, np.broadcast_to(expected, y.shape), rtol=1e-12)
    if name not in DIFFERENTIABLE:
        return
    dy = random(3, *y.shape)
    found = backward(gradient_of(name, False), dy, b, states)
    by_a = differences(lambda moved: forward(kernel, moved, b)[0], a, dy)
    near(found, by_a)
    found = backward(gradient_of(name, True), dy, a, states)
    by_b = differences(lambda moved: forward(kernel, a, moved)[0], b, dy)
    near(found, by_b)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_nothing_flows_where_the_result_was_clamped(name):
    kernel = kernel_of(name, minimum_value=-0.5, maximum_value=0.6)
    a, b = random(4, 2, *FULL), random(5, 2, *FULL)
    y, states = forward(kernel, a, b)
    np.testing.assert_allclose(y, np.clip(OPERATIONS[name](a, b), -0.5, 0.6))
    assert 0 < np.sum((y == np.float32(-0.5)) | (y == np.float32(0.6))) < y.size
    dy = random(6, *y.shape)
    found = backward(gradient_of(name, False), dy, b, states)
    by_a = differences(lambda moved: forward(kernel, moved, b)[0], a, dy)
    near(found, by_a)
    # Part of the batch, with its own states.
    part = backward(gradient_of(name, True), dy[1:], a[1:], states[1:])
    dy[0] = 0
    by_b = differences(lambda moved: forward(kernel, a, moved)[0], b, dy)
    near(np.concatenate([np.zeros_like(b[:1]), part]), by_b)


def test_the_destination_form_takes_scales_as_they_are():
    kernel = kernel_of("Subtract", secondary_scale=2.0)
    a, b = random(7, 1, *FULL), random(8, 1, *FULL)
    y, states = forward(kernel, a, b)
    dy = random(9, *y.shape)
    gradient = gradient_of("Subtract", True)

    def into():
        out = empty(device(), b.shape)
        execute(
            lambda buffer: gradient.encode_batch(
                buffer, source_gradients=batch(device(), dy), source_images=batch(device(), a),
                gradient_states=states, destination_gradients=out,
            )
        )  # fmt: skip
        return array(out)

    np.testing.assert_array_equal(into(), dy)
    gradient.primary_scale = -1
    np.testing.assert_array_equal(into(), -dy)
    gradient.destination_image_descriptor(
        for_source_images=[batch(device(), dy)[0], batch(device(), a)[0]], source_states=states
    )
    assert gradient.primary_scale == -2
    np.testing.assert_array_equal(into(), -2 * dy)


def test_bad_input_is_named():
    on = device()
    kernel = kernel_of("Add")
    with pytest.raises(ValueError, match=r"MPSCNNAdd.*strides of 0 or 1 but got 2"):
        kernel.secondary_stride_in_pixels_x = 2
    a, b = random(1, 1, 2, 2, 2), random(1, 1, 2, 1, 2)
    with pytest.raises(ShapeError, match=r"MPSCNNAdd.*primary ones' size"):
        forward(kernel, a, b)
    with pytest.raises(ShapeError, match="as many secondary images as primary ones, 1, but got 2"):
        kernel.encode_batch(
            commands(on), primary_images=batch(on, a),
            secondary_images=batch(on, random(1, 2, 2, 2, 2)),
        )  # fmt: skip
    _, states = forward(kernel, a, a)
    with pytest.raises(ValueError, match=r"MPSCNNMultiplyGradient\] expected a state"):
        backward(gradient_of("Multiply", False), a, a, states)
    assert not hasattr(mps, "MPSCNNDivideGradient")


def test_one_pair():
    on = device()
    a, b = random(1, 1, 2, 2, 2), random(2, 1, 2, 2, 2)
    kernel = kernel_of("Add")
    out = empty(on, a.shape)
    state = kernel.result_state(for_primary_image=batch(on, a)[0],
                                secondary_image=batch(on, b)[0])  # fmt: skip
    execute(
        lambda buffer: kernel.encode(
            buffer, primary_image=batch(on, a)[0], secondary_image=batch(on, b)[0],
            destination_state=state, destination_image=out[0],
        )
    )  # fmt: skip
    np.testing.assert_array_equal(array(out), a + b)
    gradient = gradient_of("Add", False)
    gradient.makes_temporary_images = False
    found = execute(
        lambda buffer: gradient.encode(
            buffer, source_gradient=batch(on, b)[0], source_image=batch(on, b)[0],
            gradient_state=state,
        )
    )  # fmt: skip
    np.testing.assert_array_equal(array([found]), b)


# --- dropout -------------------------------------------------------------------------------------


def dropout(keep=0.6, seed=5, strides=(1, 1, 1), on=None):
    given = {"keep_probability": keep, "seed": seed, "mask_stride_in_pixels": strides}
    on = device() if on is None else on
    return mps.MPSCNNDropout(device=on, **given), mps.MPSCNNDropoutGradient(device=on, **given)


def mask_of(state, shape):
    channels, rows, columns = shape
    mask = np.frombuffer(state.mask_data(), np.uint8).reshape(rows, columns, channels)
    return mask.transpose(2, 0, 1)


@pytest.mark.parametrize("strides", [(1, 1, 1), (0, 0, 1), (1, 1, 0), (0, 1, 1), (0, 0, 0)])
def test_dropout_follows_its_mask(strides):
    kernel, gradient = dropout(strides=strides)
    x = random(1, 3, 4, 5, 6)
    y, states = forward(kernel, x)
    columns, rows, channels = (n if s else 1 for n, s in zip((6, 5, 4), strides, strict=True))
    masks = np.stack([mask_of(state, (channels, rows, columns)) for state in states])
    scale = 1 / np.float32(0.6).astype(float)
    np.testing.assert_allclose(y, np.where(masks, x * scale, 0), rtol=1e-12)
    dy = random(2, *y.shape)
    np.testing.assert_allclose(
        backward(gradient, dy, x, states), np.where(masks, dy * scale, 0), rtol=1e-12
    )
    # Part of the batch.
    np.testing.assert_allclose(
        backward(gradient, dy[1:], x[1:], states[1:]),
        np.where(masks[1:], dy[1:] * scale, 0), rtol=1e-12,
    )  # fmt: skip
    # The mask does not depend on x: the gradient is what differences would give.
    again = dropout(strides=strides)[0]
    np.testing.assert_allclose(forward(again, x + 1)[0], np.where(masks, (x + 1) * scale, 0))


def test_masks_differ_by_seed_and_encoding_and_repeat():
    x = np.ones((1, 8, 16, 16))
    kernel, _ = dropout(keep=0.25)
    first, second = forward(kernel, x)[0], forward(kernel, x)[0]
    assert abs(np.mean(first != 0) - 0.25) < 0.03  # three standard errors
    assert not np.array_equal(first, second)
    again, _ = dropout(keep=0.25)
    np.testing.assert_array_equal(forward(again, x)[0], first)
    np.testing.assert_array_equal(forward(again, x)[0], second)
    other, _ = dropout(keep=0.25, seed=6)
    assert not np.array_equal(forward(other, x)[0], first)


def test_a_mask_is_one_for_the_channels_that_are_read():
    kernel, _ = dropout()
    kernel.source_feature_channel_offset = 4
    kernel.source_feature_channel_max_count = 3
    x = random(6, 2, 8, 3, 5)
    y, states = forward(kernel, x)
    masks = np.stack([mask_of(state, (3, 3, 5)) for state in states])
    assert 0 < masks.mean() < 1
    np.testing.assert_array_equal(y != 0, masks)


def test_all_masks_of_a_kernel_are_shown_by_one_program():
    on = device()
    kernel, _ = dropout(on=on)
    x = random(7, 2, 3, 4, 5)
    states = [state for _ in range(2) for state in forward(kernel, x)[1]]
    states[0].mask_data()
    before = on.compilations
    masks = [state.mask_data() for state in states]
    assert on.compilations == before
    assert len(set(masks)) == len(masks)


def test_a_dropped_element_is_zero_even_if_it_was_infinite():
    x = np.full((1, 4, 4, 4), np.inf)
    y, _ = forward(dropout()[0], x)
    assert set(np.unique(y)) == {0.0, np.inf}


def test_one_program_serves_every_mask():
    on = device()
    kernel, _ = dropout(on=on)
    x = random(3, 1, 2, 3, 3)
    forward(kernel, x)
    before = on.compilations
    for _ in range(3):
        forward(kernel, x)
    assert on.compilations == before


def test_dropout_refuses():
    with pytest.raises(ValueError, match=r"MPSCNNDropout\].*above 0 and below 1 but got 1"):
        dropout(keep=1.0)
    with pytest.raises(ValueError, match="mask strides of 0 or 1 but got 2"):
        dropout(strides=(1, 2, 1))
    kernel, gradient = dropout()
    x = random(4, 2, 1, 2, 2)
    new = kernel.result_state_batch(for_source_image=batch(device(), x))
    with pytest.raises(ValueError, match=r"MPSCNNDropoutGradientState.*was encoded with"):
        new[0].mask_data()
    with pytest.raises(ValueError, match=r"MPSCNNDropoutGradient\].*not encoded"):
        backward(gradient, x, x, new)
    _, states = forward(kernel, x)
    with pytest.raises(ValueError, match="encoded together"):
        backward(gradient, x, x, states[::-1])
    with pytest.raises(ValueError, match="state of the forward kernel"):
        backward(dropout(seed=9)[1], x, x, states)
    # The refused encoding has left nothing behind.
    assert backward(gradient, x, x, states).shape == x.shape


@pytest.mark.parametrize("device", ["cpu"])
def test_dropout_agrees_between_devices(device):
    if device == "metal":
        pytest.skip("Apple's own kernel draws other numbers there")
    x = random(5, 2, 3, 4, 5).astype(np.float32)
    both = (mps.MTLDevice(device=name) for name in ("reference", device))
    results = [forward(dropout(on=on)[0], x)[0] for on in both]
    np.testing.assert_allclose(*results, rtol=1e-6)
