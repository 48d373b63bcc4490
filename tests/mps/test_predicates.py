"""MPSPredicate: four bytes on the device decide whether a kernel runs."""

import gc

import numpy as np
import pytest
from kernels import Normalization, Weights, array, batch, commands, empty, run, vector
from test_command_buffers import one, scale

from traingraph import mps

BITS = [0, 1, 2**31, 2**32 - 1, 2**23, 0x7F800000, 0xFF800001]


def buffer_of(device, *numbers):
    return mps.MTLBuffer(device=device, bytes=np.array(numbers, np.uint32).tobytes())


def decided(device, predicate, runs):
    """It with these bytes; where the host cannot write them, on a GPU, a new one."""
    try:
        memoryview(predicate.predicate_buffer).cast("B").cast("I")[0] = runs
    except BufferError:
        return mps.MPSPredicate(buffer=buffer_of(device, runs), offset=0)
    return predicate


def continuing(device, predicate=None):
    buffer = mps.MPSCommandBuffer(from_command_queue=device.make_command_queue())
    buffer.predicate = predicate
    return buffer


@pytest.mark.parametrize("device", ["reference", "cpu"])
@pytest.mark.parametrize("bits", BITS)
def test_any_bit_but_none_lets_kernels_run(device, bits):
    """Also bits that are as a float a denormal, a negative zero, an infinity or no number."""
    device = mps.MTLDevice(device=device)
    predicate = mps.MPSPredicate(buffer=buffer_of(device, 1 - min(bits, 1), bits), offset=4)
    x, y = one(device, 3), one(device, 7)
    buffer = continuing(device, predicate)
    scale(device, 2).encode(buffer, source_image=x, destination_image=y)
    run(buffer)
    assert array([y])[0, 0, 0, 0] == (6 if bits else 7)


@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_what_does_not_run_leaves_every_bit(device):
    device = mps.MTLDevice(device=device)
    odd = np.array([-0.0, np.inf, -np.inf, np.nan], np.float32).reshape(1, 1, 2, 2)
    predicate = mps.MPSPredicate(device=device)
    assert predicate.predicate_offset == 0
    assert predicate.predicate_buffer.length == 4
    for runs in (0, 1):
        predicate = decided(device, predicate, runs)
        x, y = batch(device, odd[..., ::-1].copy()), batch(device, odd)
        buffer = continuing(device, predicate)
        scale(device, 1).encode_batch(buffer, source_images=x, destination_images=y)
        run(buffer)
        expected = odd[..., ::-1] + np.float32(0) if runs else odd  # the kernel adds 0
        got = array(y)
        assert np.array_equal(np.isnan(got), np.isnan(expected))
        known = ~np.isnan(expected)
        np.testing.assert_array_equal(
            got.view(np.uint32)[known], expected.copy().view(np.uint32)[known]
        )


def test_a_kernel_of_the_same_buffer_decides():
    """An update writes the number that the next kernels read."""
    device = mps.MTLDevice(device="cpu")
    optimizer = mps.MPSNNOptimizerStochasticGradientDescent(device=device, learning_rate=1.0)
    values = vector(device, [1.0, 1.0])
    x, results = one(device, 3), [one(device, 7), one(device, 7), one(device, 7)]
    predicate = mps.MPSPredicate(buffer=values.data, offset=4)
    buffer = continuing(device, predicate)
    double = scale(device, 2)
    for result in results[:2]:
        double.encode(buffer, source_image=x, destination_image=result)
        buffer.predicate = None
        optimizer.encode(
            buffer,
            input_gradient_vector=vector(device, [0.0, 1.0]),
            input_values_vector=values,
            result_values_vector=values,
        )
        buffer.predicate = predicate
        if result is results[0]:
            continue
        double.encode(buffer, source_image=x, destination_image=results[2])
    run(buffer)  # read as 1, then 0, then -1
    assert [float(array([y])[0, 0, 0, 0]) for y in results] == [6, 7, 6]
    np.testing.assert_array_equal(np.array(values.data), [1, -1])


def test_one_program_serves_both_ways():
    device = mps.MTLDevice(device="cpu")
    numbers = buffer_of(device, 0)
    predicate = mps.MPSPredicate.predicate(with_buffer=numbers, offset=0)
    kernel, before = scale(device, 2), None
    for k in range(6):
        np.asarray(numbers).view(np.uint32)[0] = k % 3
        y = one(device, 7)
        buffer = continuing(device, predicate)
        kernel.encode(buffer, source_image=one(device, 3), destination_image=y)
        run(buffer)
        assert array([y])[0, 0, 0, 0] == (6 if k % 3 else 7)
        before = before or device.compilations
        assert device.compilations == before


def test_updates_temporary_images_and_parts():
    """Without a run: weights stay, new temporary images are zeros, in later parts as well."""
    device = mps.MTLDevice(device="cpu")
    random = np.random.default_rng(3)
    source = Weights(random.normal(size=(3, 2, 2, 4)).astype(np.float32), np.ones(3, np.float32))
    kernel = mps.MPSCNNConvolution(device=device, weights=source)
    state = mps.MPSCNNConvolutionWeightsAndBiasesState(
        device=device, cnn_convolution_descriptor=source.sizes
    )
    predicate = mps.MPSPredicate(device=device)
    x = batch(device, random.normal(size=(2, 4, 5, 5)).astype(np.float32))
    expected = empty(device, (2, 3, 5, 5), "float32")
    kernel.offset = (1, 1)
    buffer = commands(device)
    kernel.encode_batch(buffer, source_images=x, destination_images=expected)
    run(buffer)

    buffer = continuing(device, predicate)
    kernel.reload_weights_and_biases(buffer, state=state)  # zeros
    kernel.makes_temporary_images = True
    temporary = kernel.encode_batch(buffer, source_images=x)
    buffer.commit_and_continue()
    assert buffer.predicate is predicate
    buffer.predicate = None
    got, still = (empty(device, (2, 3, 5, 5), "float32") for _ in range(2))
    scale(device, 1).encode_batch(buffer, source_images=temporary, destination_images=got)
    kernel.offset = (1, 1)
    kernel.encode_batch(buffer, source_images=x, destination_images=still)
    run(buffer)
    np.testing.assert_array_equal(array(got), 0)
    np.testing.assert_array_equal(array(still), array(expected))


def test_whom_it_concerns():
    """The object that it was set on: not the buffer inside, nor another one over it."""
    device = mps.MTLDevice(device="cpu")
    root = commands(device)
    buffer = mps.MPSCommandBuffer(command_buffer=root)
    other = mps.MPSCommandBuffer(command_buffer=buffer)
    assert buffer.predicate is None
    buffer.predicate = mps.MPSPredicate(device=device)
    results = [one(device, 7) for _ in range(3)]
    for target, y in zip((buffer, other, root), results, strict=True):
        scale(device, 2).encode(target, source_image=one(device, 3), destination_image=y)
    gc.collect()  # the predicate belongs to the buffer
    run(buffer)
    assert [float(array([y])[0, 0, 0, 0]) for y in results] == [7, 6, 6]


def test_bad_predicates():
    device = mps.MTLDevice(device="cpu")
    with pytest.raises(ValueError, match="multiple of 4 below 8 but got 6"):
        mps.MPSPredicate(buffer=buffer_of(device, 1, 1), offset=6)
    with pytest.raises(ValueError, match="multiple of 4 below 8 but got 8"):
        mps.MPSPredicate(buffer=buffer_of(device, 1, 1), offset=8)
    with pytest.raises(ValueError, match="multiple of 4 bytes but got 3"):
        mps.MPSPredicate(buffer=mps.MTLBuffer(device=device, length=3), offset=0)
    buffer = continuing(device)
    with pytest.raises(ValueError, match="of another"):
        buffer.predicate = mps.MPSPredicate(device="reference")
    state = mps.MPSCNNConvolutionWeightsAndBiasesState(
        device=device,
        cnn_convolution_descriptor=Weights(np.zeros((1, 2, 2, 1), np.float32)).sizes,
    )
    buffer.predicate = mps.MPSPredicate(buffer=state.weights, offset=0)
    with pytest.raises(NotImplementedError, match="a row of float32"):
        scale(device, 2).encode(buffer, source_image=one(device), destination_image=one(device))
    buffer.predicate = None
    y = one(device)
    scale(device, 2).encode(buffer, source_image=one(device, 3), destination_image=y)
    run(buffer)
    assert array([y])[0, 0, 0, 0] == 6


class Trained(Weights):
    """Its optimizer has momentum."""

    def __init__(self, device):
        random = np.random.default_rng(5)
        super().__init__(
            random.normal(size=(2, 2, 2, 3)).astype(np.float32), np.ones(2, np.float32)
        )
        self.slots = [vector(device, np.zeros(n)) for n in (24, 2)]
        self.optimizer = mps.MPSNNOptimizerStochasticGradientDescent(
            device=device, momentum_scale=0.5, use_nesterov_momentum=False,
            optimizer_descriptor=mps.MPSNNOptimizerDescriptor(learning_rate=0.01),
        )  # fmt: skip

    def update(self, command_buffer, gradient_state, source_state):
        self.state = source_state
        self.optimizer.encode(
            command_buffer, convolution_gradient_state=gradient_state,
            convolution_source_state=source_state, input_momentum_vectors=self.slots,
            result_state=source_state,
        )  # fmt: skip
        return source_state

    def numbers(self):
        buffers = [self.state.weights, self.state.biases, *(one.data for one in self.slots)]
        return np.concatenate([np.array(one).ravel() for one in buffers])


def trained(device, predicate, steps):
    """Batch normalization, convolution and loss; what the steps have left, step by step."""
    x = np.random.default_rng(6).normal(size=(4, 3, 5, 5)).astype(np.float32)
    norm = mps.MPSCNNBatchNormalizationNode(
        source=mps.MPSNNImageNode(handle="x"),
        data_source=Normalization(np.array([1, 2, 3.0]), np.array([0, 1, 2.0])),
    )
    source = Trained(device)
    convolution = mps.MPSCNNConvolutionNode(source=norm.result_image, weights=source)
    loss = mps.MPSCNNLossNode(
        source=convolution.result_image,
        loss_descriptor=mps.MPSCNNLossDescriptor.cnn_loss_descriptor(
            with_type="mean_squared_error", reduction_type="mean"
        ),
    )
    (last,) = loss.training_graph()
    graph = mps.MPSNNGraph(
        device=device, result_image=last.result_image, result_image_is_needed=False
    )
    truth = batch(device, np.ones((4, 2, 5, 5), np.float32))
    labels = [
        mps.MPSCNNLossLabels(device=device, loss_image_size=(1, 1, 1), labels_image=one)
        for one in truth
    ]
    found = []
    for runs in steps:
        if predicate is not None:
            predicate = decided(device, predicate, runs)
        buffer = continuing(device, predicate)
        graph.encode_batch(buffer, source_images=[batch(device, x)], source_states=[labels])
        run(buffer)
        losses = array([one.loss_image() for one in labels]).ravel()
        found.append(np.concatenate([source.numbers(), losses]))
    return found


@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_training_steps_that_do_not_count(device):
    device = mps.MTLDevice(device=device)
    always = trained(device, None, [1, 1])
    some = trained(device, mps.MPSPredicate(device=device), [1, 0, 1, 0])
    np.testing.assert_allclose(some[0], always[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(some[1], some[0])
    np.testing.assert_allclose(some[2], always[1], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(some[3], some[2])
    assert np.abs(some[2] - some[0]).max() > 0.01
