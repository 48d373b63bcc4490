"""The z of offsets and clip rectangles: which images of an object with several take part."""

import numpy as np
import pytest
from clipped import convolution, dropout, instance, linear, local, pooling, transpose
from gradients import device, differences, execute, near, random
from kernels import array, commands, image, run

from traingraph import ShapeError, Unsupported, mps


def softmax(gradient=False):
    return getattr(mps, f"MPSCNNSoftMax{'Gradient' if gradient else ''}")(device=device())


KINDS = {
    "convolution": convolution, "transpose": transpose, "average": pooling("Average"),
    "max": pooling("Max"), "linear": linear, "spatial": local, "softmax": softmax,
}  # fmt: skip
READ, WRITTEN = slice(2, 4), slice(1, 3)  # of five images, into four
X = (5, 4, 4, 6)


def numbers(one):
    """All images of an object."""
    return array(one.batch_representation())


def region(first, count, width=2**40, height=2**40):
    return ((0, 0, first), (width, height, count))


def result_shape(make):
    """Of one image, under the padding policy."""
    d = make().destination_image_descriptor(for_source_images=[image(device(), np.zeros(X))])
    return (d.feature_channels, d.height, d.width)


def configured(make):
    """The offset of the padding policy, as the forms that return images have it."""
    kernel = make()
    kernel.destination_image_descriptor(for_source_images=[image(device(), np.zeros(X))])
    return kernel


def encoded(kernel, x, old, with_state=False):
    source, out = image(device(), x), image(device(), old)
    given = {"source_image": source, "destination_image": out}
    if with_state:
        given["destination_state"] = kernel.result_state(for_source_image=source)
    execute(lambda b: kernel.encode(b, **given))
    return numbers(out), given.get("destination_state")


def some(make, x, old, with_state=False):
    """Images 2 and 3 of the source to images 1 and 2 of what was there."""
    kernel = configured(make)
    kernel.offset = (kernel.offset.x, kernel.offset.y, 2)
    kernel.clip_rect = region(1, 2)
    return encoded(kernel, x, old, with_state)


@pytest.mark.parametrize("kind", [*KINDS, "instance"])
def test_forward(kind):
    make = {**KINDS, "instance": instance}[kind]
    x = random(1, *X)
    old = random(2, 4, *result_shape(make))
    expected = old.copy()
    expected[WRITTEN], _ = encoded(configured(make), x[READ], old[WRITTEN])
    np.testing.assert_array_equal(some(make, x, old)[0], expected)


@pytest.mark.parametrize("returned", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_gradients(kind, returned):
    make = KINDS[kind]
    x = random(3, *X)
    old = random(4, 4, *result_shape(make))
    dy = random(5, *old.shape)
    y, state = some(make, x, old, with_state=True)
    gradient = make(gradient=True)
    gradient.makes_temporary_images = False
    secondary = image(device(), y if kind == "softmax" else x)
    given = {"source_image": secondary, "gradient_state": state}
    if returned:
        # The incoming gradient is that of the images that were written.
        given["source_gradient"] = image(device(), dy[WRITTEN])
        found = numbers(execute(lambda b: gradient.encode(b, **given)))
    else:
        given["source_gradient"] = image(device(), dy)
        gradient.destination_image_descriptor(
            for_source_images=[given["source_gradient"], secondary], source_states=[state]
        )
        gradient.primary_offset = (*tuple(gradient.primary_offset)[:2], 1)
        before = np.full(X, 7.0)
        out = image(device(), before)
        execute(lambda b: gradient.encode(b, **given, destination_gradient=out))
        found = numbers(out)
    left = np.ones(X, bool)
    left[READ] = False
    assert (found[left] == (0 if returned else 7)).all()
    seed = np.zeros_like(dy)
    seed[WRITTEN] = dy[WRITTEN]
    slopes = differences(lambda moved: some(make, moved, old)[0], x, seed)
    near(np.where(left, 0, found), slopes)
    assert gradient.secondary_offset.z == (1 if kind == "softmax" else 2)
    assert gradient.clip_rect.origin.z == 2
    assert gradient.clip_rect.size.depth == 2


def test_weights_get_the_gradient_of_what_was_read():
    x, dy = random(6, *X), random(7, 2, *result_shape(convolution))
    _, state = some(convolution, x, np.zeros((4, *dy.shape[1:])), with_state=True)
    plain = configured(convolution)
    _, alone = encoded(plain, x[READ], np.zeros(dy.shape), with_state=True)
    for one, source in ((state, x), (alone, x[READ])):
        gradient = convolution(gradient=True)
        given = {"source_gradient": image(device(), dy), "source_image": image(device(), source),
                 "gradient_state": one}  # fmt: skip
        execute(lambda b, g=gradient, given=given: g.encode(b, **given))
    np.testing.assert_allclose(
        np.asarray(state.gradient_for_weights), np.asarray(alone.gradient_for_weights), rtol=1e-12
    )


def test_the_destination_says_how_many():
    """Fewer images than the source has, from the offset on, and the depth is an upper bound."""
    x = random(8, *X)
    kernel = linear()
    kernel.offset = (0, 0, 1)
    np.testing.assert_allclose(encoded(kernel, x, np.zeros((3, *X[1:])))[0], 2 * x[1:4] + 0.5)
    kernel.offset = (0, 0, 0)
    np.testing.assert_allclose(encoded(kernel, x, np.zeros((3, *X[1:])))[0], 2 * x[:3] + 0.5)
    kernel.clip_rect = region(0, 1)
    found = encoded(kernel, x, np.zeros(X))[0]
    np.testing.assert_allclose(found[0], 2 * x[0] + 0.5)
    assert not found[1:].any()
    kernel.clip_rect = region(3, 9, width=2)
    found = encoded(kernel, x, np.zeros(X))[0]
    np.testing.assert_allclose(found[3:, :, :, :2], 2 * x[:2, :, :, :2] + 0.5)
    assert not found[:3].any()
    assert not found[3:, :, :, 2:].any()


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_arithmetic(device):
    on = mps.MTLDevice(device=device)
    a, b, old = (random(k, *X).astype(np.float32) for k in (9, 10, 11))
    kernel = mps.MPSCNNMultiply(device=on)
    kernel.primary_offset, kernel.secondary_offset = (0, 0, 3), (0, 0, 1)
    kernel.clip_rect = region(2, 2)
    out = image(on, old)
    given = {"primary_image": image(on, a), "secondary_image": image(on, b)}
    execute(lambda buffer: kernel.encode(buffer, **given, destination_image=out), on)
    expected = old.copy()
    expected[2:4] = a[3:5] * b[1:3]
    np.testing.assert_allclose(numbers(out), expected, rtol=1e-6)
    state = kernel.result_state(
        for_primary_image=given["primary_image"], secondary_image=given["secondary_image"]
    )
    with pytest.raises(Unsupported, match="a state where images are left out"):
        kernel.encode(commands(on), **given, destination_image=out, destination_state=state)


@pytest.mark.parametrize("in_two_parts", [False, True])
def test_read_counts_and_what_was_never_written(in_two_parts):
    on = device()
    x = random(12, *X)
    d = mps.MPSImageDescriptor.image_descriptor(
        with_channel_format="float64", width=6, height=4, feature_channels=4, number_of_images=5
    )
    buffer = mps.MPSCommandBuffer(command_buffer=commands(on))
    first, second = (
        mps.MPSTemporaryImage.temporary_image(buffer, image_descriptor=d) for _ in range(2)
    )
    linear().encode(buffer, source_image=image(on, x), destination_image=first)
    kernel = linear()
    kernel.offset, kernel.clip_rect = (0, 0, 3), region(1, 2)
    kernel.encode(buffer, source_image=first, destination_image=second)
    assert first.read_count == 0
    assert second.read_count == 1
    if in_two_parts:
        buffer.commit_and_continue()
    out = image(on, np.ones(X))
    linear().encode(buffer, source_image=second, destination_image=out)
    run(buffer)
    expected = np.full(X, 0.5)
    expected[1:3] = 2 * (2 * (2 * x[3:5] + 0.5) + 0.5) + 0.5
    np.testing.assert_allclose(numbers(out), expected)


def test_a_states_next_encoding():
    """What was left out is no matter of the state once it was used for all."""
    x = random(13, *X)
    source, out = image(device(), x), image(device(), np.zeros(X))
    kernel, gradient = linear(), linear(gradient=True)
    state = kernel.result_state(for_source_image=source)
    given = {"source_image": source, "destination_image": out, "destination_state": state}
    kernel.clip_rect = region(0, 2)
    buffer = commands(device())
    for one in (kernel, linear()):
        one.encode(buffer, **given)
    run(buffer)
    gradient.makes_temporary_images = False
    dx = execute(
        lambda b: gradient.encode(b, source_gradient=source, source_image=source,
                                  gradient_state=state)
    )  # fmt: skip
    np.testing.assert_allclose(numbers(dx), 2 * x)


def test_the_forms_that_return_images_begin_with_the_first():
    x = random(14, *X)
    for make in (linear, pooling("Average")):
        kernel, plain = make(), make()
        kernel.offset, kernel.clip_rect = (0, 0, 3), region(1, 2)
        found = []
        for one in (kernel, plain):
            one.makes_temporary_images = False
            source = image(device(), x)
            found.append(numbers(execute(lambda b, k=one, s=source: k.encode(b, source_image=s))))
        np.testing.assert_array_equal(*found)
        assert kernel.offset.z == 0


def test_archives():
    kernel = linear()
    kernel.offset, kernel.clip_rect = (1, 0, 3), region(1, 2)
    data = mps.NSKeyedArchiver.archived_data(with_root_object=kernel)
    again = mps.MPSKeyedUnarchiver.unarchived_object_of_class(
        mps.MPSCNNNeuron, from_data=data, device=device()
    )
    for one in (again, kernel.copy()):
        assert (one.offset, one.clip_rect) == (kernel.offset, kernel.clip_rect)


def test_what_is_refused():
    x, old = random(15, *X), np.zeros(X)
    kernel = linear()
    for z in (-1, 4):
        kernel.offset = (0, 0, z)
        kernel.clip_rect = region(0, 2)
        with pytest.raises(ShapeError, match=f"2 images from index {z} on but got image"):
            encoded(kernel, x, old)
    kernel.offset = (0, 0, 0)
    kernel.clip_rect = region(5, 1)
    with pytest.raises(ShapeError, match=r"begins within destination images.*one at image 5"):
        encoded(kernel, x, old)
    kernel.clip_rect = region(1, 1)
    source = image(device(), x)
    with pytest.raises(ShapeError, match="as many source images as destinations, 1, where images"):
        kernel.encode_batch(
            commands(device()), source_images=source.batch_representation(),
            destination_images=[image(device(), old)],
        )  # fmt: skip
    for make in (dropout, instance):
        kernel = make()
        kernel.clip_rect = region(1, 1)
        with pytest.raises(Unsupported, match="a state where images are left out"):
            encoded(kernel, x, old, with_state=True)
    for make in (dropout, instance):
        kernel, gradient = make(), make(gradient=True)
        _, state = encoded(kernel, x, old, with_state=True)
        gradient.clip_rect = region(1, 1)
        with pytest.raises(Unsupported, match="leaves out images: encode a part of the batch"):
            gradient.encode(
                commands(device()), source_gradient=source, source_image=source,
                gradient_state=state, destination_gradient=image(device(), old),
            )  # fmt: skip
