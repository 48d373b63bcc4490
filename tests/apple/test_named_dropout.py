"""Dropout by name: masks are Apple's, a function of seed and count of encodings all the same."""

import metal_package
import numpy as np
import pytest
from test_named_kernels import arrays, images, values, works

from traingraph import _core, mps

pytestmark = metal_package.needs_doubles

N, C, H, W = SHAPE = 3, 5, 8, 6
KEEP = 0.75
STRIDES = [(1, 1, 1), (0, 0, 1), (1, 1, 0), (0, 1, 1), (0, 0, 0)]
CLASSES = ("MPSCNNDropout", "MPSCNNDropoutGradient")


class Pair:
    """A forward and a gradient kernel on a device."""

    def __init__(self, device="metal", **given):
        self.on = mps.MTLDevice(device=device)
        given = {"keep_probability": KEEP, "seed": 3} | given
        self.kernels = [getattr(_core, name)(device=self.on, **given) for name in CLASSES]
        for kernel in self.kernels:
            kernel.makes_temporary_images = False

    def run(self, encode):
        buffer = self.on.make_command_queue().make_command_buffer()
        result = encode(buffer)
        buffer.commit()
        buffer.wait_until_completed()
        return result

    def forward(self, x):
        y, states = self.run(
            lambda buffer: self.kernels[0].encode_batch(
                buffer, source_images=images(self.on, x), destination_state_is_temporary=False
            )
        )
        return arrays(y), states

    def backward(self, dy, states):
        batch = images(self.on, dy)
        return arrays(
            self.run(
                lambda buffer: self.kernels[1].encode_batch(
                    buffer, source_gradients=batch, source_images=batch, gradient_states=states
                )
            )
        )


def masks_of(states, shape=SHAPE[1:], strides=(1, 1, 1)):
    """As (N, C, H, W), as the states give them."""
    channels, rows, columns = (n if s else 1 for n, s in zip(shape, strides[::-1], strict=True))
    bits = [np.frombuffer(state.mask_data(), np.uint8) for state in states]
    return np.stack(bits).reshape(len(bits), rows, columns, channels).transpose(0, 3, 1, 2)


def counted(run):
    """What it returns, and works of the forward and the gradient class."""
    before = [works(name) for name in CLASSES]
    result = run()
    return result, [works(name) - count for name, count in zip(CLASSES, before, strict=True)]


@pytest.mark.parametrize("strides", STRIDES)
def test_forward_and_gradient(strides):
    pair = Pair(mask_stride_in_pixels=strides)
    x, dy = values(SHAPE), values(SHAPE, seed=1)
    (y, states), by_name = counted(lambda: pair.forward(x))
    assert by_name == [N, 0]
    masks = masks_of(states, strides=strides)
    assert 0 < masks.mean() < 1 or strides == (0, 0, 0)
    np.testing.assert_allclose(y, masks * x / np.float32(KEEP), rtol=1e-6)
    # In another command buffer, which fills states of its own.
    dx, by_name = counted(lambda: pair.backward(dy, states))
    assert by_name == [N, N]
    np.testing.assert_allclose(dx, masks * dy / np.float32(KEEP), rtol=1e-6)
    # Of a part of the batch, whose masks are those of its places.
    part, by_name = counted(lambda: pair.backward(dy[1:], states[1:]))
    assert by_name == [N, N]
    np.testing.assert_array_equal(part, dx[1:])


def test_masks_are_a_function_of_seed_and_count():
    x = values(SHAPE)
    pair, same, other = Pair(), Pair(), Pair(seed=4)
    first, second = pair.forward(x), pair.forward(x)
    assert (first[0] != second[0]).any()
    assert (first[0] != other.forward(x)[0]).any()
    assert (first[0] != Pair("reference").forward(x)[0]).any()
    # Gradients may come in any order, and after other encodings.
    dy = values(SHAPE, seed=1)
    for y, states in (second, first):
        np.testing.assert_array_equal(pair.backward(dy, states) == 0, y == 0)
        np.testing.assert_array_equal(masks_of(states), y != 0)
    for y, _ in (first, second):
        np.testing.assert_array_equal(same.forward(x)[0], y)


def test_one_run():
    """Two encodings and their gradients on one command buffer."""
    pair, x, dy = Pair(), values(SHAPE), values(SHAPE, seed=1)
    expected = [Pair().forward(x)[0]]
    again = Pair()
    again.forward(x)
    expected.append(again.forward(x)[0])

    def encode(buffer):
        found = []
        for _ in range(2):
            y, states = pair.kernels[0].encode_batch(
                buffer, source_images=images(pair.on, x), destination_state_is_temporary=True
            )
            gradients = images(pair.on, dy)
            found.append((y, pair.kernels[1].encode_batch(
                buffer, source_gradients=gradients, source_images=gradients, gradient_states=states
            )))  # fmt: skip
        return found

    for (y, dx), want in zip(pair.run(encode), expected, strict=True):
        np.testing.assert_array_equal(arrays(y), want)
        np.testing.assert_array_equal(arrays(dx) == 0, want == 0)


def test_a_run_leaves_no_kernel_behind():
    pair, x = Pair(), values(SHAPE)
    _, states = pair.forward(x)
    made = metal_package.doubles().apple_made_objects_of
    before = [made(name.encode()) for name in CLASSES]
    pair.backward(x[1:], states[1:])
    # The forward kernel whose states the gradient reads, and the gradient kernel.
    assert [made(name.encode()) - count for name, count in zip(CLASSES, before, strict=True)] == [
        1,
        1,
    ]
    for name in (*CLASSES, "MPSCNNDropoutGradientState", "MPSTemporaryImage"):
        assert metal_package.live(name) == 0


def test_a_state_that_nobody_reads_ends_the_program(metal_build, tmp_path):
    """The reads of all states end here."""
    part = """
import test_named_dropout as t

pair, x = t.Pair(), t.values(t.SHAPE)
_, states = pair.forward(x)
pair.backward(x[2:], states[2:])
"""
    change = ["dropout.mm", "        end_reads(states);\n", ""]
    ended = metal_package.run_changed(metal_build, tmp_path, change, part)
    assert ended.returncode == -6, (ended.returncode, ended.stderr[-2000:])
    assert "released with reads left in its readCount" in ended.stderr


def test_channels_of_an_image():
    """The mask is one for what the kernel reads."""
    pair, x = Pair(), values((N, 12, H, W))
    pair.kernels[0].source_feature_channel_offset = 4
    pair.kernels[0].source_feature_channel_max_count = 4
    y, states = pair.forward(x)
    masks = masks_of(states, (4, H, W))
    np.testing.assert_allclose(y, masks * x[:, 4:8] / np.float32(KEEP), rtol=1e-6)


def test_a_mask_that_was_given_is_kept_by_ops():
    given = (np.random.default_rng(0).random((N, H, W, C)) < KEEP).astype(np.uint8)
    x, dy, found = values(SHAPE), values(SHAPE, seed=1), []
    for pair in (Pair("reference"), Pair()):
        source = images(pair.on, x)
        out = images(pair.on, np.zeros(SHAPE, np.float32))
        states = pair.kernels[0].result_state_batch(for_source_image=source)
        for state, mask in zip(states, given, strict=True):
            state.set_mask_data(mask.tobytes())

        def run(pair=pair, source=source, out=out, states=states):
            pair.run(
                lambda buffer: pair.kernels[0].encode_batch(
                    buffer, source_images=source, destination_states=states, destination_images=out
                )
            )
            return arrays(out), pair.backward(dy, states)

        result, by_name = counted(run)
        assert by_name == [0, 0]
        found.append(result)
    np.testing.assert_array_equal(found[0], found[1])


def test_what_is_no_image_of_apples():
    """Rows beyond the largest texture: both kernels are composed, with this library's masks."""
    shape = (1, 1, 16385, 1)
    x, dy = values(shape), values(shape, seed=1)

    def run(pair):
        y, states = pair.forward(x)
        return y, pair.backward(dy, states), masks_of(states, shape[1:])

    (found, by_name), (expected, _) = (counted(lambda p=p: run(p))
                                       for p in (Pair(), Pair("reference")))  # fmt: skip
    assert by_name == [0, 0]
    for got, want in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)


SCRIPT = """
import numpy as np
import test_named_dropout as t

x, dy = t.values(t.SHAPE), t.values(t.SHAPE, seed=1)
pairs = [t.Pair(name, mask_stride_in_pixels=(1, 0, 1)) for name in ("reference", "metal")]
same = []
for step in range(2):
    results = []
    for pair in pairs:
        (y, states), forward = t.counted(lambda: pair.forward(x))
        dx, gradient = t.counted(lambda: pair.backward(dy, states))
        masks = t.masks_of(states, strides=(1, 0, 1))
        np.testing.assert_array_equal(y != 0, np.broadcast_to(masks, t.SHAPE))
        np.testing.assert_array_equal(dx != 0, y != 0)
        results.append(y)
    same.append((results[0] == results[1]).all())
print(*forward, *gradient, *same)
"""


@pytest.mark.parametrize("is_noted", [True, False])
def test_what_the_note_decides(is_noted, tmp_path):
    """Without it both kernels are composed, with other backends' masks."""
    done = metal_package.run_script(
        SCRIPT, **({} if is_noted else {"XDG_CACHE_HOME": str(tmp_path)})
    )
    assert done.returncode == 0, done.stderr
    composed = ["0", "0", "0", "0", "True", "True"]
    by_name = [str(N), "0", str(N), str(N), "False", "False"]
    assert done.stdout.split() == (by_name if is_noted else composed)
