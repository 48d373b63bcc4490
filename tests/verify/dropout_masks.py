"""Whether a device's own dropout kernels keep what is promised of masks.

They are a function of seed, count of encodings and element, in whichever run and process and for
both kernels. No ops give their numbers, so the masks themselves are looked at.
"""

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
from mps_kernels import array_of, images, kernel

from traingraph import mps

SHAPE = 3, 5, 8, 6
STEPS = 4
SEED = 7
# Keep probability, and which of channels, rows and columns have decisions of their own.
CASES = [(0.75, (1, 1, 1)), (0.5, (1, 0, 0)), (0.25, (0, 1, 1)), (0.75, (1, 1, 0))]


class Pair:
    """A forward and a gradient kernel, and runs of one encoding each."""

    def __init__(self, device, keep, own):
        self.on, self.keep = mps.MTLDevice(device=device), keep
        given = {"keep_probability": keep, "seed": SEED, "mask_stride_in_pixels": own[::-1]}
        self.forward_kernel = kernel("MPSCNNDropout", self.on, given, {})
        self.gradient_kernel = kernel("MPSCNNDropoutGradient", self.on, given, {})

    def run(self, encode):
        buffer = self.on.make_command_queue().make_command_buffer()
        result = encode(buffer)
        buffer.commit()
        buffer.wait_until_completed()
        return result

    def forward(self, x):
        """The mask by element, and the states."""
        y, states = self.run(
            lambda buffer: self.forward_kernel.encode_batch(
                buffer, source_images=images(self.on, x), destination_state_is_temporary=False
            )
        )
        return self.mask(array_of(y), x), states

    def backward(self, dy, x, states):
        dx = self.run(
            lambda buffer: self.gradient_kernel.encode_batch(
                buffer, source_gradients=images(self.on, dy), source_images=images(self.on, x),
                gradient_states=states,
            )
        )  # fmt: skip
        return self.mask(array_of(dx), dy)

    def mask(self, result, source):
        """Where a result is its source over the keep probability, and not 0."""
        kept = result != 0
        if not np.allclose(result[kept], (source / np.float32(self.keep))[kept], rtol=1e-4, atol=0):
            raise AssertionError("an element that is neither 0 nor scaled")
        return kept


def numbers(first):
    """Without zeros."""
    count = np.arange(np.prod(SHAPE), dtype=np.float32).reshape(SHAPE)
    return np.float32(first) * (1 + count % 7)


def masks_of(device, keep, own, first=1):
    """Of a fresh kernel at each step."""
    pair = Pair(device, keep, own)
    return [pair.forward(numbers(first))[0] for _ in range(STEPS)]


def check(device, keep, own):
    """Raises AssertionError saying what is not kept."""
    pair, x, other = Pair(device, keep, own), numbers(1), numbers(-3)
    masks, states = zip(*(pair.forward(x) for _ in range(STEPS)), strict=True)
    decisions = [
        mask[tuple(slice(None) if one else slice(1) for one in (1, *own))] for mask in masks
    ]
    for mask, decided in zip(masks, decisions, strict=True):
        assert (mask == decided).all(), "decisions that strides share differ"
    for mask, again in zip(masks, masks_of(device, keep, own, -3), strict=True):
        assert (mask == again).all(), "another kernel with this seed has another mask"
    for mask, state in reversed(list(zip(masks, states, strict=True))):
        found = pair.backward(x, other, list(state))
        assert (mask == found).all(), "the gradient has another mask"
        part = pair.backward(other[1:], x[1:], list(state)[1:])
        assert (mask[1:] == part).all(), "the gradient of a part has another mask"
    count = sum(one.size for one in decisions)
    spread = 6 * np.sqrt(count * keep * (1 - keep)) + 1
    kept = sum(int(one.sum()) for one in decisions)
    assert abs(kept - count * keep) <= spread, f"{kept} of {count} are kept"
    for later in masks[1:]:
        assert (later != masks[0]).any(), "two steps have one mask"


def digest(device):
    masks = [masks_of(device, *case) for case in CASES]
    return hashlib.sha256(np.packbits(masks).tobytes()).hexdigest()


def print_masks(device):
    print(digest(device))


def keeps_its_masks(device):
    """What is wrong, or nothing."""
    try:
        for case in CASES:
            check(device, *case)
    except AssertionError as error:
        return str(error)
    script = Path(__file__).with_name(f"{device}.py")
    other = subprocess.run([sys.executable, script, "--masks"], capture_output=True, text=True)
    return "" if other.stdout.strip() == digest(device) else "another process has other masks"
