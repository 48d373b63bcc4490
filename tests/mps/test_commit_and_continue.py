"""MPSCommandBuffer: parts that are committed while encoding goes on."""

import numpy as np
import pytest
from kernels import Normalization, Weights, array, batch, commands, empty, image
from test_command_buffers import one, scale

from traingraph import mps


@pytest.fixture
def device():
    return mps.MTLDevice(device="cpu")


def continuing(device):
    return mps.MPSCommandBuffer(from_command_queue=device.make_command_queue())


def finish(buffer):
    buffer.commit()
    buffer.wait_until_completed()


def test_parts_run_in_order_and_have_their_own_life(device):
    root = commands(device)
    buffer = mps.MPSCommandBuffer(command_buffer=root)
    assert isinstance(buffer, mps.MTLCommandBuffer)
    assert buffer.root_command_buffer is root
    assert buffer.command_buffer is root
    double, x, y, seen, parts = scale(device, 2), one(device), one(device), [], []
    for k in range(5):
        double.encode(buffer, source_image=(x, y)[k % 2], destination_image=(y, x)[k % 2])
        buffer.add_completed_handler(lambda part, k=k: seen.append((k, part is parts[k])))
        parts.append(buffer.root_command_buffer)
        buffer.commit_and_continue()
        assert buffer.status == mps.MTLCommandBufferStatus.NOT_ENQUEUED
        assert buffer.root_command_buffer is not parts[-1]
    with pytest.raises(ValueError, match="a committed buffer to wait for"):
        buffer.wait_until_completed()
    parts[-1].wait_until_completed()
    assert [part.status for part in parts] == [mps.MTLCommandBufferStatus.COMPLETED] * 5
    assert seen == [(k, True) for k in range(5)]
    assert array([y])[0, 0, 0, 0] == 32
    finish(buffer)
    assert len(seen) == 5


def test_nothing_is_encoded_after_the_last_commit(device):
    buffer, kernel = continuing(device), scale(device, 2, "late")
    buffer.commit_and_continue()
    finish(buffer)
    assert buffer.status == mps.MTLCommandBufferStatus.COMPLETED
    with pytest.raises(ValueError, match=r"MPSCNNNeuron 'late'.*one that was committed"):
        kernel.encode(buffer, source_image=one(device), destination_image=one(device))
    with pytest.raises(ValueError, match=r"MPSCommandBuffer.commit_and_continue.*was committed"):
        buffer.commit_and_continue()
    with pytest.raises(ValueError, match="one commit"):
        buffer.commit()
    with pytest.raises(ValueError, match="handler before commit"):
        buffer.add_completed_handler(print)
    with pytest.raises(TypeError, match="command_buffer"):
        mps.MPSCommandBuffer(command_buffer=None)


def test_temporary_images_live_on_in_later_parts(device):
    buffer, kernel, out = continuing(device), scale(device, 2), one(device)
    middle = kernel.encode(buffer, source_image=one(device, 3))
    middle.read_count = 3
    gone = kernel.encode(buffer, source_image=one(device))
    kernel.encode(buffer, source_image=gone, destination_image=one(device))
    buffer.commit_and_continue()
    late = kernel.encode(buffer, source_image=middle)
    with pytest.raises(ValueError, match="read count above 0"):
        kernel.encode(buffer, source_image=gone, destination_image=out)
    with pytest.raises(ValueError, match="temporary one of another"):
        kernel.encode(commands(device), source_image=middle, destination_image=out)
    buffer.commit_and_continue()
    buffer.commit_and_continue()
    kernel.encode(buffer, source_image=late, destination_image=out)
    also = one(device)
    kernel.encode(buffer, source_image=middle, destination_image=also)
    assert middle.read_count == 1
    finish(buffer)
    assert array([out, also])[:, 0, 0, 0].tolist() == [24, 12]
    with pytest.raises(ValueError, match="outlives its command buffer"):
        array([middle])


def test_an_image_of_the_first_part_may_be_written_in_a_later_one(device):
    buffer, kernel, out = continuing(device), scale(device, 2), one(device)
    unwritten = mps.MPSTemporaryImage.temporary_image(
        buffer,
        image_descriptor=mps.MPSImageDescriptor.image_descriptor(
            with_channel_format="float32", width=2, height=2, feature_channels=1
        ),
    )
    buffer.commit_and_continue()
    with pytest.raises(ValueError, match="an earlier encoding has written"):
        kernel.encode(buffer, source_image=unwritten, destination_image=out)
    kernel.encode(buffer, source_image=one(device, 5), destination_image=unwritten)
    buffer.commit_and_continue()
    kernel.encode(buffer, source_image=unwritten, destination_image=out)
    finish(buffer)
    assert array([out])[0, 0, 0, 0] == 20


def train(device, cuts):
    """Convolution, batch norm and their gradients; a new part before each encoding in `cuts`."""
    random = np.random.default_rng(7)

    def normal(*shape):
        return random.normal(size=shape).astype(np.float32)

    source = Weights(normal(3, 3, 3, 2), normal(3))
    numbers = Normalization(normal(3), normal(3))
    conv = mps.MPSCNNConvolution(device=device, weights=source)
    conv_gradient = mps.MPSCNNConvolutionGradient(device=device, weights=source)
    norm = mps.MPSCNNBatchNormalization(device=device, data_source=numbers)
    buffer, encoded = continuing(device), 0

    def cut():
        nonlocal encoded
        if encoded in cuts:
            buffer.commit_and_continue()
        encoded += 1

    x, seed = batch(device, normal(4, 2, 5, 5)), batch(device, normal(4, 3, 5, 5))
    middle, states = conv.encode_batch(buffer, source_images=x, destination_state_is_temporary=True)
    states[0].read_count = 2
    for one_of in middle:
        one_of.read_count = 4
    (state,) = set(norm.temporary_result_state_batch(buffer, source_image=middle))
    state.read_count = 5
    cut()
    mps.MPSCNNBatchNormalizationStatistics(device=device).encode_batch(
        buffer, source_images=middle, batch_normalization_state=state
    )
    cut()
    y = empty(device, (4, 3, 5, 5), "float32")
    norm.encode_batch(
        buffer, source_images=middle, batch_normalization_state=state, destination_images=y
    )
    cut()
    mps.MPSCNNBatchNormalizationStatisticsGradient(device=device).encode_batch(
        buffer, source_gradients=seed, source_images=middle, batch_normalization_state=state
    )
    cut()
    errors = mps.MPSCNNBatchNormalizationGradient(device=device).encode_batch(
        buffer, source_gradients=seed, source_images=middle, batch_normalization_state=state
    )
    cut()
    dx = empty(device, (4, 2, 5, 5), "float32")
    conv_gradient.destination_image_descriptor(
        for_source_images=[errors[0], x[0]], source_states=states
    )
    conv_gradient.encode_batch(
        buffer,
        source_gradients=errors,
        source_images=x,
        gradient_states=states,
        destination_gradients=dx,
    )
    cut()
    changed = mps.MPSCNNConvolutionWeightsAndBiasesState(
        device=device, cnn_convolution_descriptor=source.descriptor()
    )
    mps.MPSNNOptimizerStochasticGradientDescent(device=device, learning_rate=0.5).encode(
        buffer,
        convolution_gradient_state=states[0],
        convolution_source_state=conv.export_weights_and_biases(buffer),
        result_state=changed,
    )
    finish(buffer)
    return array(y), array(dx), np.array(changed.weights), np.array(changed.biases)


@pytest.mark.parametrize("cuts", [{0}, {1}, {2}, {3}, {4}, {5}, {0, 1, 2, 3, 4, 5}, {1, 3, 5}])
def test_a_training_step_may_be_cut_anywhere(device, cuts):
    """Temporary images and states of earlier parts are read by later ones."""
    for whole, parts in zip(train(device, ()), train(device, cuts), strict=True):
        assert np.abs(whole).max() > 0
        np.testing.assert_allclose(parts, whole, rtol=1e-5, atol=1e-6)


def test_parts_are_compiled_once(device):
    kernel, x, out = scale(device, 2), one(device, 3), one(device)

    def step():
        buffer = continuing(device)
        middle = kernel.encode(buffer, source_image=x)
        buffer.commit_and_continue()
        kernel.encode(buffer, source_image=middle, destination_image=out)
        finish(buffer)

    step()
    before = device.compilations
    for _ in range(5):
        step()
    assert device.compilations == before
    assert array([out])[0, 0, 0, 0] == 12


def test_what_failed_fails_the_parts_after_it(device):
    """A run without memory for its result; the values it leaves are not read."""
    wide, high = 1 << 23, 3 << 21  # beyond any address space, within what a tensor may have
    huge = mps.MPSImage(
        device=device,
        image_descriptor=mps.MPSImageDescriptor.image_descriptor(
            with_channel_format="float32", width=wide, height=high, feature_channels=1
        ),
    )
    spread = mps.MPSCNNUpsamplingNearest(
        device=device, integer_scale_factor_x=wide // 2, integer_scale_factor_y=high // 2
    )
    buffer, out = continuing(device), one(device, 7)
    middle = scale(device, 2).encode(buffer, source_image=one(device))
    spread.encode(buffer, source_image=one(device), destination_image=huge)
    first = buffer.root_command_buffer
    buffer.commit_and_continue()
    scale(device, 2).encode(buffer, source_image=middle, destination_image=out)
    buffer.commit()
    with pytest.raises(MemoryError):
        first.wait_until_completed()
    with pytest.raises(MemoryError):
        buffer.wait_until_completed()
    assert buffer.status == mps.MTLCommandBufferStatus.ERROR
    assert isinstance(buffer.error, MemoryError)
    assert array([out])[0, 0, 0, 0] == 7


def test_buffers_over_one_go_on_together(device):
    inner = continuing(device)
    outer = mps.MPSCommandBuffer(command_buffer=inner)
    assert outer.command_buffer is inner
    kernel, out = scale(device, 2), one(device)
    middle = kernel.encode(inner, source_image=one(device, 3))
    outer.commit_and_continue()
    assert inner.root_command_buffer is outer.root_command_buffer
    kernel.encode(outer, source_image=middle, destination_image=out)
    inner.commit()
    outer.wait_until_completed()
    assert array([out])[0, 0, 0, 0] == 12


def test_graphs_encode_into_parts(device):
    node = mps.MPSCNNNeuronReLUNode(source=mps.MPSNNImageNode(handle="x"), a=0.5)
    graph = mps.MPSNNGraph(
        device=device, result_image=node.result_image, result_image_is_needed=True
    )
    buffer, out = continuing(device), one(device)
    result = graph.encode(buffer, source_images=[image(device, np.full((1, 1, 2, 2), -4, "f"))])
    buffer.commit_and_continue()
    scale(device, 3).encode(buffer, source_image=result, destination_image=out)
    finish(buffer)
    assert array([out])[0, 0, 0, 0] == -6


def test_prefetched_memory(device):
    buffer, out = continuing(device), one(device)
    buffer.prefetch_heap(for_workload_size=1 << 20)
    with pytest.raises(MemoryError):
        buffer.prefetch_heap(for_workload_size=1 << 60)
    with pytest.raises((TypeError, ValueError)):
        buffer.prefetch_heap(for_workload_size=-1)
    scale(device, 2).encode(buffer, source_image=one(device, 3), destination_image=out)
    finish(buffer)
    assert array([out])[0, 0, 0, 0] == 6
