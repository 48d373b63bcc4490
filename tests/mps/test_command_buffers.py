"""Recording, committing, temporaries and the cache of programs."""

import sys
import threading
import time

import numpy as np
import pytest
from kernels import Normalization, Weights, array, batch, commands, empty, image, run

from traingraph import mps


def scale(device, factor, label=""):
    d = mps.MPSNNNeuronDescriptor.cnn_neuron_descriptor(with_type="linear", a=factor, b=0.0)
    kernel = mps.MPSCNNNeuron(device=device, neuron_descriptor=d)
    kernel.label = label
    return kernel


@pytest.fixture
def device():
    return mps.MTLDevice(device="cpu")


def one(device, value=1.0):
    return image(device, np.full((1, 1, 2, 2), value, np.float32))


def test_life_of_a_command_buffer(device):
    buffer = commands(device)
    assert buffer.status == mps.MTLCommandBufferStatus.NOT_ENQUEUED
    out, seen = one(device), []
    scale(device, 3).encode(buffer, source_image=one(device, 2), destination_image=out)
    buffer.add_completed_handler(lambda b: seen.append((b.status, b is buffer)))
    run(buffer)
    assert buffer.status == mps.MTLCommandBufferStatus.COMPLETED
    assert buffer.error is None
    assert seen == [(mps.MTLCommandBufferStatus.COMPLETED, True)]
    assert 0 < buffer.gpu_start_time <= buffer.gpu_end_time
    assert array([out])[0, 0, 0, 0] == 6
    with pytest.raises(ValueError, match="one commit"):
        buffer.commit()
    with pytest.raises(ValueError, match=r"MPSCNNNeuron 'late'.*but got one that was committed"):
        scale(device, 3, "late").encode(buffer, source_image=one(device), destination_image=out)
    with pytest.raises(ValueError, match="handler before commit"):
        buffer.add_completed_handler(print)
    with pytest.raises(ValueError, match="a committed buffer to wait for"):
        commands(device).wait_until_completed()


def test_several_in_flight_run_in_order(device):
    x, y, order, buffers = one(device, 1), one(device), [], []
    double = scale(device, 2)
    for k in range(20):
        buffer = commands(device)
        double.encode(buffer, source_image=(x, y)[k % 2], destination_image=(y, x)[k % 2])
        buffer.add_completed_handler(lambda _, k=k: order.append(k))
        buffer.commit()
        buffers.append(buffer)
    buffers[-1].wait_until_completed()
    assert order == list(range(20))
    assert array([x])[0, 0, 0, 0] == 2**20


def test_a_handler_that_raises_is_reported(device, monkeypatch):
    seen = []
    monkeypatch.setattr(sys, "unraisablehook", lambda report: seen.append(report.exc_type))
    buffer = commands(device)
    scale(device, 2).encode(buffer, source_image=one(device), destination_image=one(device))
    buffer.add_completed_handler(lambda _: 1 / 0)
    run(buffer)
    assert seen == [ZeroDivisionError]


def test_data_sources_are_read_while_runs_with_handlers_are_queued(device):
    """Nobody waits with the lock that the handlers of queued runs need."""
    source = Weights(np.ones((1, 1, 1, 1), np.float32))
    kernel = mps.MPSCNNConvolution(device=device, weights=source)
    ones = np.ones(1, np.float32)
    norm = mps.MPSCNNBatchNormalization(device=device, data_source=Normalization(ones, 0 * ones))
    x, out, seen = one(device, 2), one(device), []
    for k in range(50):
        buffer = commands(device)
        kernel.encode(buffer, source_image=x, destination_image=out)
        norm.encode_batch(buffer, source_images=[out], destination_images=[one(device)])
        buffer.add_completed_handler(lambda _: seen.append(1))
        buffer.commit()
        source.array = np.full((1, 1, 1, 1), k, np.float32)
        kernel.reload_weights_and_biases_from_data_source()
        norm.reload_gamma_and_beta_from_data_source()
        norm.reload_mean_and_variance_from_data_source()
        x.write_bytes(np.full((1, 2, 2), 2, np.float32))
    buffer.wait_until_completed()
    assert len(seen) == 50
    assert array([out])[0, 0, 0, 0] == 2 * 48


def test_the_same_recording_compiles_once(device):
    kernel = scale(device, 2)

    def step(n):
        x = np.random.default_rng(n).normal(size=(n, 1, 2, 2)).astype(np.float32)
        buffer, out = commands(device), empty(device, x.shape, "float32")
        middle = kernel.encode_batch(buffer, source_images=batch(device, x))
        kernel.encode_batch(buffer, source_images=middle, destination_images=out)
        run(buffer)
        np.testing.assert_array_equal(array(out), 4 * x)

    step(3)
    before = device.compilations
    for _ in range(4):
        step(3)
    assert device.compilations == before
    step(5)
    assert device.compilations == before + 1
    # Of the other kernel it is another program.
    kernel.offset = (1, 0)
    step(3)
    assert device.compilations == before + 2


def test_read_counts_of_temporary_images(device):
    buffer, x, out = commands(device), one(device, 3), one(device)
    kernel = scale(device, 2, "twice")
    middle = kernel.encode(buffer, source_image=x)
    assert isinstance(middle, mps.MPSTemporaryImage)
    assert middle.read_count == 1
    middle.read_count += 1
    kernel.encode(buffer, source_image=middle, destination_image=one(device))
    kernel.encode(buffer, source_image=middle, destination_image=out)
    assert middle.read_count == 0
    with pytest.raises(ValueError, match=r"MPSCNNNeuron 'twice'.*read count above 0.*1x2x2"):
        kernel.encode(buffer, source_image=middle, destination_image=out)
    with pytest.raises(ValueError, match="that has not run out but got 1"):
        middle.read_count = 1
    # What was refused has left nothing behind.
    run(buffer)
    assert array([out])[0, 0, 0, 0] == 12
    with pytest.raises(ValueError, match="outlives its command buffer"):
        array([middle])


def test_misuse_is_refused_and_leaves_the_buffer_usable(device):
    buffer, x, out = commands(device), one(device, 3), one(device)
    kernel = scale(device, 2)
    with pytest.raises(ValueError, match="destination images apart from the sources"):
        kernel.encode(buffer, source_image=x, destination_image=x)
    unwritten = mps.MPSTemporaryImage.temporary_image(
        buffer,
        image_descriptor=mps.MPSImageDescriptor.image_descriptor(
            with_channel_format="float32", width=2, height=2, feature_channels=1
        ),
    )
    with pytest.raises(ValueError, match="an earlier encoding has written"):
        kernel.encode(buffer, source_image=unwritten, destination_image=out)
    foreign = kernel.encode(commands(device), source_image=x)
    with pytest.raises(ValueError, match="temporary one of another"):
        kernel.encode(buffer, source_image=foreign, destination_image=out)
    wide = image(device, np.ones((1, 2, 2, 2), np.float32))
    with pytest.raises(ValueError, match="destination images 1x2x2 but got image 2x2x2"):
        kernel.encode(buffer, source_image=x, destination_image=wide)
    other = mps.MTLDevice(device="reference")
    with pytest.raises(ValueError, match="of device"):
        kernel.encode(buffer, source_image=one(other), destination_image=out)
    with pytest.raises(ValueError, match="source images but got none"):
        kernel.encode_batch(buffer, source_images=[])
    with pytest.raises(TypeError, match="no form takes"):
        kernel.encode(buffer, source=x)
    kernel.encode(buffer, source_image=x, destination_image=out)
    run(buffer)
    assert array([out])[0, 0, 0, 0] == 6


def test_a_destination_at_another_index_of_the_batch_is_no_source(device):
    """Rows of one image are apart from each other; overlapping ones are not."""
    x = image(device, np.arange(12, dtype=np.float32).reshape(3, 1, 2, 2))
    rows = x.batch_representation()
    buffer, kernel = commands(device), scale(device, 2)
    with pytest.raises(ValueError, match="apart from the sources"):
        kernel.encode_batch(buffer, source_images=rows[:2], destination_images=rows[1:])
    kernel.encode_batch(buffer, source_images=rows[:1], destination_images=rows[2:])
    run(buffer)
    expected = np.arange(12, dtype=np.float32).reshape(3, 1, 2, 2)
    expected[2] = 2 * expected[0]
    np.testing.assert_array_equal(array(rows), expected)


def test_a_batch_of_separate_images(device):
    images = [one(device, k) for k in range(4)]
    outs = [one(device) for _ in range(4)]
    buffer = commands(device)
    scale(device, 2).encode_batch(buffer, source_images=images, destination_images=outs)
    # A part of what was written, and in another order.
    last = [one(device) for _ in range(2)]
    scale(device, 10).encode_batch(buffer, source_images=[outs[3], outs[1]],
                                   destination_images=last)  # fmt: skip
    run(buffer)
    assert array(outs)[:, 0, 0, 0].tolist() == [0, 2, 4, 6]
    assert array(last)[:, 0, 0, 0].tolist() == [60, 20]


def test_row_19_source_arrays_may_be_longer_than_the_batch(device):
    x = batch(device, np.arange(20, dtype=np.float32).reshape(5, 1, 2, 2))
    out = empty(device, (3, 1, 2, 2), "float32")
    buffer = commands(device)
    scale(device, 2).encode_batch(buffer, source_images=x, destination_images=out)
    with pytest.raises(ValueError, match="as many source images as destinations, 3, but got 2"):
        scale(device, 2).encode_batch(buffer, source_images=x[:2], destination_images=out)
    run(buffer)
    np.testing.assert_array_equal(array(out), 2 * np.arange(12).reshape(3, 1, 2, 2))


def test_images_in_both_layouts(device):
    x = image(device, np.zeros((2, 3, 2, 4), np.float32))
    pixels = np.arange(24, dtype=np.float32).reshape(2, 4, 3)
    x.write_bytes(pixels, data_layout="height_x_width_x_feature_channels", image_index=1)
    back = np.empty((2, 4, 3), np.float32)
    x.read_bytes(back, data_layout="height_x_width_x_feature_channels", image_index=1)
    np.testing.assert_array_equal(back, pixels)
    np.testing.assert_array_equal(array(x.batch_representation())[1], pixels.transpose(2, 0, 1))
    with pytest.raises(ValueError, match="image index below 2 but got 2"):
        x.read_bytes(back, image_index=2)
    with pytest.raises(ValueError, match="expected 96 bytes but got 48"):
        x.write_bytes(np.zeros((3, 2, 2), np.float32))
    with pytest.raises(ValueError, match="extents of 1 or more"):
        image(device, np.zeros((1, 0, 2, 2), np.float32))


def test_devices_and_buffers():
    assert mps.MTLDevice(device="cpu") == mps.MTLDevice(device="cpu")
    assert mps.create_system_default_device().name
    buffer = mps.MTLBuffer(device="cpu", length=16)
    view = np.asarray(buffer)
    assert view.dtype == np.float32
    assert view.tolist() == [0, 0, 0, 0]
    view[1] = 2
    assert np.asarray(buffer).tolist() == [0, 2, 0, 0]
    with pytest.raises(ValueError, match="1 byte or more"):
        mps.MTLBuffer(device="cpu", length=0)


def longest_wait(device, kernels):
    """Of another thread that makes buffers while one is committed: its share of that time."""
    buffer, x, double = commands(device), one(device), scale(device, 2)
    for _ in range(kernels):
        y = one(device)
        double.encode(buffer, source_image=x, destination_image=y)
        x = y
    made, committed = [], threading.Event()

    def make():
        while not committed.is_set():
            commands(device)
            made.append(time.monotonic())

    other = threading.Thread(target=make)
    other.start()
    while not made:
        time.sleep(0.001)
    begin = time.monotonic()
    buffer.commit()
    end = time.monotonic()
    committed.set()
    other.join()
    inside = [moment for moment in made if begin < moment < end]
    return np.diff([begin, *inside, end]).max() / (end - begin)


def test_others_use_the_device_while_a_buffer_is_compiled(device):
    assert any(longest_wait(device, 3000 + k) < 0.5 for k in range(3))
