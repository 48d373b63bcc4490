"""The host writes what committed buffers read or write: they see the bytes of before, and what the
host wrote stays. All of it happens while earlier work keeps these buffers in the queue."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kernels import Normalization, Weights, array, batch, commands, empty, image
from test_command_buffers import scale

from traingraph import mps

OLD, NEW = 3.0, 11.0
LONG = {"cpu": 64, "reference": 16, "metal": 16, "bnns": 16, "cuda": 64}
"""Channels, and half the pixels of an edge, of the work before: tens of milliseconds."""


@pytest.fixture(params=["cpu", "reference"])
def device(request: pytest.FixtureRequest) -> Any:
    return mps.MTLDevice(device=request.param)


def pixels(value: float, rows: int = 1, channels: int = 1) -> np.ndarray:
    return np.full((rows, channels, 2, 2), value, np.float32)


def queued(device: Any, encode: Callable[[Any], None]) -> Any:
    """A committed buffer behind long work."""
    size = LONG[repr(device).removeprefix("<MTLDevice ").removesuffix(">")]
    source = Weights(np.ones((size, 3, 3, size), np.float32))
    kernel = mps.MPSCNNConvolution(device=device, weights=source)
    long = commands(device)
    shape = (1, size, 2 * size, 2 * size)
    kernel.encode_batch(
        long, source_images=empty(device, shape, "float32"),
        destination_images=empty(device, shape, "float32"),
    )  # fmt: skip
    buffer = commands(device)
    encode(buffer)
    long.commit()
    buffer.commit()
    return buffer


def done(buffer: Any) -> None:
    buffer.wait_until_completed()
    assert buffer.error is None


def whole(one: Any) -> None:
    one.write_bytes(pixels(NEW)[0])


def row(one: Any) -> None:
    one.batch_representation()[0].write_bytes(pixels(NEW)[0])


def part(one: Any) -> None:
    one.sub_image((0, 1)).write_bytes(pixels(NEW)[0])


def region(one: Any) -> None:
    for y in range(2):
        one.write_bytes(
            np.full((1, 1, 2), NEW, np.float32), data_layout="feature_channels_x_height_x_width",
            bytes_per_row=8, region=((0, y, 0), (2, 1, 1)), feature_channel_info=(0, 1),
            image_index=0,
        )  # fmt: skip


def doubled(device: Any) -> tuple[Any, Any, Any]:
    """A source, what will be twice that, and the buffer in flight that computes it."""
    x, y = image(device, pixels(OLD)), image(device, pixels(0))
    kernel = scale(device, 2)
    buffer = queued(device, lambda on: kernel.encode(on, source_image=x, destination_image=y))
    return x, y, buffer


@pytest.mark.parametrize("write", [whole, row, part, region])
def test_sources_are_read_as_they_were_at_the_commit(device: Any, write: Any) -> None:
    x, y, buffer = doubled(device)
    write(x)
    done(buffer)
    assert (array([y]) == 2 * OLD).all()
    assert (array([x]) == NEW).all()


@pytest.mark.parametrize("write", [whole, row, part, region])
def test_results_are_not_written_over_what_comes_after(device: Any, write: Any) -> None:
    _, y, buffer = doubled(device)
    write(y)
    done(buffer)
    assert (array([y]) == NEW).all()


def test_results_are_read_behind_the_run(device: Any) -> None:
    x, y = image(device, pixels(OLD)), image(device, pixels(0))
    kernel = scale(device, 2)
    queued(device, lambda on: kernel.encode(on, source_image=x, destination_image=y))
    assert (array([y]) == 2 * OLD).all()


def test_one_row_of_a_batch(device: Any) -> None:
    """The others of its memory are in flight as well, and keep what they have."""
    x, y = batch(device, pixels(OLD, rows=3)), empty(device, (3, 1, 2, 2), "float32")
    kernel = scale(device, 2)
    buffer = queued(
        device, lambda on: kernel.encode_batch(on, source_images=x, destination_images=y)
    )
    x[1].write_bytes(pixels(NEW)[0])
    y[2].write_bytes(pixels(NEW)[0])
    done(buffer)
    assert [value[0, 0, 0] for value in array(y)] == [2 * OLD, 2 * OLD, NEW]
    assert [value[0, 0, 0] for value in array(x)] == [OLD, NEW, OLD]


def test_weights_are_read_as_they_were(device: Any) -> None:
    source = Weights(np.full((1, 1, 1, 1), OLD, np.float32), np.zeros(1, np.float32))
    kernel = mps.MPSCNNConvolution(device=device, weights=source)
    x, y = batch(device, pixels(1)), empty(device, (1, 1, 2, 2), "float32")
    buffer = queued(
        device, lambda on: kernel.encode_batch(on, source_images=x, destination_images=y)
    )
    source.array, source.biases = source.array + NEW, source.biases + NEW
    kernel.reload_weights_and_biases_from_data_source()
    done(buffer)
    assert (array(y) == OLD).all()


def test_numbers_of_channels_are_read_as_they_were(device: Any) -> None:
    def numbers(value: float) -> np.ndarray:
        return np.full(1, value, np.float32)

    source = Normalization(numbers(OLD), numbers(1), epsilon=0)
    source.mean, source.variance = lambda: numbers(0), lambda: numbers(1)
    kernel = mps.MPSCNNBatchNormalization(device=device, data_source=source)
    x, y = batch(device, pixels(2)), empty(device, (1, 1, 2, 2), "float32")
    buffer = queued(
        device, lambda on: kernel.encode_batch(on, source_images=x, destination_images=y)
    )
    source.arrays = numbers(NEW), numbers(NEW)
    source.mean, source.variance = lambda: numbers(NEW), lambda: numbers(NEW)
    kernel.reload_gamma_and_beta_from_data_source()
    kernel.reload_mean_and_variance_from_data_source()
    done(buffer)
    np.testing.assert_allclose(array(y), 2 * OLD + 1, rtol=1e-6)


def test_states_are_read_as_they_were(device: Any) -> None:
    """Their bytes are shown where they lie, behind all work; buffers of a device wait too."""
    source = Weights(np.zeros((1, 1, 1, 1), np.float32), np.zeros(1, np.float32))
    kernel = mps.MPSCNNConvolution(device=device, weights=source)
    buffers = [mps.MTLBuffer(device=device, bytes=np.full(1, OLD, np.float32).tobytes())
               for _ in range(2)]  # fmt: skip
    state = mps.MPSCNNConvolutionWeightsAndBiasesState(weights=buffers[0], biases=buffers[1])
    x, y = batch(device, pixels(1)), empty(device, (1, 1, 2, 2), "float32")

    def encode(on: Any) -> None:
        kernel.reload_weights_and_biases(on, state=state)
        kernel.encode_batch(on, source_images=x, destination_images=y)

    buffer = queued(device, encode)
    # Of a GPU a copy is shown.
    in_place = repr(device) not in ("<MTLDevice cuda>", "<MTLDevice metal>")
    for one in buffers:
        shown = np.asarray(one).view(np.float32)
        assert shown.flags.writeable == in_place
        if in_place:
            shown[:] = NEW
    done(buffer)
    assert (array(y) == 2 * OLD).all()
    expected = NEW if in_place else OLD
    assert all((np.array(one).view(np.float32) == expected).all() for one in buffers)


def test_a_buffer_behind_a_write_reads_what_was_written(device: Any) -> None:
    x, first, second = (image(device, pixels(value)) for value in (OLD, 0, 0))
    kernel = scale(device, 2)
    before = queued(device, lambda on: kernel.encode(on, source_image=x, destination_image=first))
    x.write_bytes(pixels(NEW)[0])
    after = commands(device)
    kernel.encode(after, source_image=x, destination_image=second)
    after.commit()
    for buffer in (before, after):
        done(buffer)
    assert (array([first]) == 2 * OLD).all()
    assert (array([second]) == 2 * NEW).all()
