"""The same pairs of kernels as in kernel_pairs.py, by traingraph.mps on the reference backend."""

from typing import Any

import numpy as np

from traingraph import mps

DEVICE = mps.MTLDevice(device="reference")


def images(array: np.ndarray) -> list[Any]:
    """A batch of (N, C, H, W)."""
    descriptor = mps.MPSImageDescriptor.image_descriptor(
        with_channel_format="float32", width=array.shape[3], height=array.shape[2],
        feature_channels=array.shape[1], number_of_images=array.shape[0],
    )  # fmt: skip
    made = mps.MPSImage(device=DEVICE, image_descriptor=descriptor)
    for index, one in enumerate(array):
        made.write_bytes(np.ascontiguousarray(one, np.float32), image_index=index)
    return made.batch_representation()


def numbers(batch: list[Any], shape: tuple[int, ...]) -> np.ndarray:
    found = np.empty(shape, np.float32)
    for index, image in enumerate(batch):
        image.read_bytes(found[index])
    return found


def run_pair_by_mps(
    kernel: Any, gradient: Any, x: np.ndarray, e: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The result, which has the shape of its gradient e, and the gradient of the source."""
    sources, results, gradients = images(x), images(0 * e), images(np.zeros_like(x))
    states = kernel.result_state_batch(for_source_image=sources)
    buffer = DEVICE.make_command_queue().make_command_buffer()
    kernel.encode_batch(
        buffer, source_images=sources, destination_states=states, destination_images=results
    )
    gradient.encode_batch(
        buffer, source_gradients=images(e), source_images=sources, gradient_states=states,
        destination_gradients=gradients,
    )  # fmt: skip
    buffer.commit()
    buffer.wait_until_completed()
    return numbers(results, e.shape), numbers(gradients, x.shape)
