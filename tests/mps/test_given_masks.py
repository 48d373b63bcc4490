"""Dropout with masks of another program: MPSCNNDropoutGradientState.set_mask_data."""

import numpy as np
import pytest
from gradients import backward, device, differences, execute, forward, near, number_type, random
from kernels import array, batch, commands, image
from test_mps_arithmetic import dropout

from traingraph import mps

X = (2, 3, 4, 5)
KEEP = float(np.float32(0.6))
STRIDES = [(1, 1, 1), (0, 0, 1), (1, 1, 0), (0, 1, 1), (0, 0, 0)]


def masks(seed, strides=(1, 1, 1)):
    """For each image rows, columns, channels, as a state has them."""
    columns, rows, channels = (n if s else 1 for n, s in zip((5, 4, 3), strides, strict=True))
    shape = (X[0], rows, columns, channels)
    return (np.random.default_rng(seed).random(shape) < 0.6).astype(np.uint8)


def encoded(kernel, x, given):
    """The result and the states, with these masks."""
    sources, out = batch(kernel.device, x), batch(kernel.device, np.zeros_like(x))
    states = kernel.result_state_batch(for_source_image=sources)
    for state, mask in zip(states, given, strict=True):
        state.set_mask_data(mask.tobytes())
    execute(
        lambda b: kernel.encode_batch(
            b, source_images=sources, destination_states=states, destination_images=out
        ),
        kernel.device,
    )
    return array(out), states


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("strides", STRIDES)
def test_forward_and_gradient(strides, device):
    dtype = number_type(device)
    close = {"rtol": 1e-12 if dtype is np.float64 else 1e-6}
    kernel, gradient = dropout(strides=strides, on=mps.MTLDevice(device=device))
    x, dy = random(1, *X).astype(dtype), random(2, *X).astype(dtype)
    given = masks(3, strides)
    seen = np.broadcast_to(given.transpose(0, 3, 1, 2), X)
    assert 0 < seen.mean() < 1 or strides == (0, 0, 0)
    y, states = encoded(kernel, x, given)
    np.testing.assert_allclose(y, seen * x / KEEP, **close)
    np.testing.assert_allclose(backward(gradient, dy, x, states), seen * dy / KEEP, **close)
    # Of a part of the batch.
    part = backward(gradient, dy[1:], x[1:], states[1:])
    np.testing.assert_allclose(part, (seen * dy / KEEP)[1:], **close)
    assert [state.mask_data() for state in states] == [mask.tobytes() for mask in given]


def test_the_gradient_by_differences():
    kernel, gradient = dropout()
    x, dy, given = random(4, *X), random(5, *X), masks(6)
    _, states = encoded(kernel, x, given)
    expected = differences(lambda moved: encoded(kernel, moved, given)[0], x, dy)
    near(backward(gradient, dy, x, states), expected)


def test_a_mask_that_was_exported_gives_the_same_bits():
    x, dy = random(7, *X), random(8, *X)
    kernel, gradient = dropout()
    y, states = forward(kernel, x)
    given = [np.frombuffer(state.mask_data(), np.uint8) for state in states]
    other, _ = dropout()
    forward(other, x)  # its next mask is another one
    again, later = encoded(other, x, given)
    np.testing.assert_array_equal(again, y)
    np.testing.assert_array_equal(
        backward(gradient, dy, x, later), backward(gradient, dy, x, states)
    )
    # Encodings without given masks have the kernel's own, and count those with given ones.
    forward(kernel, x)
    np.testing.assert_array_equal(forward(other, x)[0], forward(kernel, x)[0])


def test_several_images_in_one_object():
    on = device()
    kernel, gradient = dropout()
    x, given = random(9, *X), masks(10)
    source, out = image(on, x), image(on, np.zeros(X))
    state = kernel.result_state(for_source_image=source)
    state.set_mask_data((given * 7).tobytes())  # whatever is not 0 keeps
    assert state.mask_data() == given.tobytes()
    execute(
        lambda b: kernel.encode(
            b, source_image=source, destination_state=state, destination_image=out
        )
    )
    expected = given.transpose(0, 3, 1, 2) * x / KEEP
    np.testing.assert_allclose(array(out.batch_representation()), expected, rtol=1e-12)
    gradient.makes_temporary_images = False
    dx = execute(
        lambda b: gradient.encode(
            b, source_gradient=source, source_image=source, gradient_state=state
        )
    )
    np.testing.assert_allclose(array(dx.batch_representation()), expected, rtol=1e-12)


def test_a_dropped_element_is_zero_even_if_it_was_infinite():
    y, _ = encoded(dropout()[0], np.full(X, np.inf), masks(11))
    assert set(np.unique(y)) == {0.0, np.inf}


def test_new_masks_compile_nothing():
    kernel, _ = dropout()
    x = random(12, *X)
    encoded(kernel, x, masks(13))
    before = kernel.device.compilations
    encoded(kernel, x, masks(14))
    assert kernel.device.compilations == before


def test_what_is_refused():
    kernel, _ = dropout()
    sources = batch(device(), random(15, *X))
    states = kernel.result_state_batch(for_source_image=sources)
    with pytest.raises(ValueError, match="one byte per element of a mask 3x4x5 but got 59"):
        states[0].set_mask_data(bytes(59))
    states[0].set_mask_data(bytes(60))
    given = {"source_images": sources, "destination_states": states}
    out = batch(device(), np.zeros(X))
    with pytest.raises(ValueError, match="masks for all images or for none but got 1 for 2"):
        kernel.encode_batch(commands(device()), **given, destination_images=out)
    kernel.source_feature_channel_max_count = 2
    states[1].set_mask_data(bytes(60))
    with pytest.raises(ValueError, match="own for some of the channels"):
        kernel.encode_batch(
            commands(device()), **given, destination_images=batch(device(), np.zeros((2, 2, 4, 5)))
        )
    kernel.source_feature_channel_max_count = 3
    _, states = forward(dropout()[0], random(15, *X))
    with pytest.raises(ValueError, match="expected a new state but got one that has a mask"):
        states[0].set_mask_data(bytes(60))
