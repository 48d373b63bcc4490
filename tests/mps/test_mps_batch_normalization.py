"""The four kernels of batch normalization over one state."""

from collections.abc import Sequence

import numpy as np
import pytest
from gradients import near
from kernels import Normalization, array, batch, commands, differences, empty, run

from traingraph import mps

RANDOM = np.random.default_rng(7)
EPSILON = 1e-3
C = 3
GAMMA = RANDOM.normal(size=C).astype(np.float32)
BETA = RANDOM.normal(size=C).astype(np.float32)


def neuron(name):
    if name is None:
        return None
    return mps.MPSNNNeuronDescriptor.cnn_neuron_descriptor(with_type=name, a=0.1, b=1.0)


def definition(x, gamma, beta, fused):
    mean, variance = x.mean(axis=(0, 2, 3)), x.var(axis=(0, 2, 3))
    y = (x - mean[:, None, None]) / np.sqrt(variance + EPSILON)[:, None, None]
    y = y * gamma[:, None, None] + beta[:, None, None]
    if fused == "relu":
        return np.where(y < 0, 0.1 * y, y)
    return np.tanh(y) * 0.1 if fused == "tanh" else y


class Pass:
    """All four kernels, with the batch in parts."""

    def __init__(self, device, fused=None, buffers=1):
        self.device = mps.MTLDevice(device=device)
        options = {"fused_neuron_descriptor": neuron(fused)} if fused else {}
        self.forward = mps.MPSCNNBatchNormalization(
            device=self.device, data_source=Normalization(GAMMA, BETA, EPSILON), **options
        )
        self.statistics = mps.MPSCNNBatchNormalizationStatistics(device=self.device)
        self.statistics_gradient = mps.MPSCNNBatchNormalizationStatisticsGradient(
            device=self.device, **options
        )
        self.gradient = mps.MPSCNNBatchNormalizationGradient(device=self.device, **options)
        self.several = buffers > 1

    def next(self):
        if self.several:
            run(self.buffer)
            self.buffer = commands(self.device)

    def __call__(self, x, seed, cuts=()):
        self.buffer = commands(self.device)
        parts = [slice(a, b) for a, b in zip((0, *cuts), (*cuts, len(x)), strict=True)]
        sources, seeds = batch(self.device, x), batch(self.device, seed)
        results, gradients = (empty(self.device, x.shape, x.dtype.name) for _ in range(2))
        state = self.forward.result_state_batch(for_source_image=sources)[0]
        self.state = state
        for part in parts:
            self.statistics.encode_batch(self.buffer, source_images=sources[part],
                                         batch_normalization_state=state)  # fmt: skip
        self.next()
        for part in parts:
            self.forward.encode_batch(
                self.buffer, source_images=sources[part], batch_normalization_state=state,
                destination_images=results[part],
            )  # fmt: skip
        self.next()
        for part in parts:
            self.statistics_gradient.encode_batch(
                self.buffer, source_gradients=seeds[part], source_images=sources[part],
                batch_normalization_state=state,
            )  # fmt: skip
        self.next()
        for part in parts:
            self.gradient.encode_batch(
                self.buffer, source_gradients=seeds[part], source_images=sources[part],
                batch_normalization_state=state, destination_gradients=gradients[part],
            )  # fmt: skip
        run(self.buffer)
        return array(results), array(gradients)

    def buffers(self):
        names = ("mean", "variance", "gradient_for_gamma", "gradient_for_beta")
        return [np.asarray(getattr(self.state, name)()) for name in names]


@pytest.mark.parametrize("fused", [None, "relu", "tanh"])
@pytest.mark.parametrize("buffers", [1, 4])
@pytest.mark.parametrize("cuts", [(), (2,), (1, 4)])
def test_against_differences(fused, buffers, cuts):
    """One op where one encoding has the whole batch, sums over parts where it does not."""
    x, seed = RANDOM.normal(size=(5, C, 2, 3)) * 2 + 1, RANDOM.normal(size=(5, C, 2, 3))
    run_all = Pass("reference", fused, buffers)
    y, dx = run_all(x, seed, cuts)
    gamma, beta = GAMMA.astype(np.float64), BETA.astype(np.float64)
    np.testing.assert_allclose(y, definition(x, gamma, beta, fused), rtol=1e-6, atol=1e-7)

    def loss(v, g, b):
        return (definition(v, g, b, fused) * seed).sum()

    mean, variance, dgamma, dbeta = run_all.buffers()
    np.testing.assert_allclose(mean, x.mean(axis=(0, 2, 3)), rtol=1e-9)
    np.testing.assert_allclose(variance, x.var(axis=(0, 2, 3)), rtol=1e-9)
    near(dx, differences(lambda v: loss(v, gamma, beta), x))
    near(dgamma, differences(lambda g: loss(x, g, beta), gamma))
    near(dbeta, differences(lambda b: loss(x, gamma, b), beta))


@pytest.mark.parametrize("cuts", [(), (3,)])
def test_cpu_equals_reference(cuts):
    x = RANDOM.normal(size=(6, C, 4, 4)).astype(np.float32)
    seed = RANDOM.normal(size=x.shape).astype(np.float32)
    one, other = Pass("cpu", "relu"), Pass("reference", "relu")
    for a, b in zip(one(x, seed, cuts), other(x, seed, cuts), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    for a, b in zip(one.buffers(), other.buffers(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_inference_uses_the_kernels_own_statistics():
    device = mps.MTLDevice(device="cpu")
    source = Normalization(GAMMA, BETA, EPSILON)
    source.mean = lambda: np.full(C, 0.5, np.float32)
    source.variance = lambda: np.full(C, 4, np.float32)
    kernel = mps.MPSCNNBatchNormalization(device=device, data_source=source)
    x = RANDOM.normal(size=(2, C, 2, 2)).astype(np.float32)
    buffer, out = commands(device), empty(device, x.shape, "float32")
    kernel.encode_batch(buffer, source_images=batch(device, x), destination_images=out)
    run(buffer)
    scale = (GAMMA / np.sqrt(4 + EPSILON))[:, None, None]
    np.testing.assert_allclose(
        array(out), (x - 0.5) * scale + BETA[:, None, None], rtol=1e-5, atol=1e-5
    )


def test_the_order_is_checked():
    whole = Pass("cpu")
    x = np.ones((2, C, 2, 2), np.float32)
    sources, out = batch(whole.device, x), empty(whole.device, x.shape, "float32")
    state = whole.forward.result_state_batch(for_source_image=sources)[0]
    buffer = commands(whole.device)
    arguments = {"source_images": sources, "batch_normalization_state": state}
    gradients = {"source_gradients": batch(whole.device, x), **arguments}
    missing = "state with statistics but MPSCNNBatchNormalizationStatistics was not encoded"
    with pytest.raises(ValueError, match=missing):
        whole.forward.encode_batch(buffer, destination_images=out, **arguments)
    with pytest.raises(ValueError, match=missing):
        whole.statistics_gradient.encode_batch(buffer, **gradients)
    assert state.gradient_for_gamma() is None
    whole.statistics.encode_batch(buffer, **arguments)
    whole.forward.encode_batch(buffer, destination_images=out, **arguments)
    with pytest.raises(ValueError, match="statistics before the normalization"):
        whole.statistics.encode_batch(buffer, **arguments)
    with pytest.raises(ValueError, match=r"over 8 elements per channel, but .* encoded for 0"):
        whole.gradient.encode_batch(buffer, **gradients)
    half = {
        key: value[:1] if isinstance(value, Sequence) else value for key, value in gradients.items()
    }
    whole.statistics_gradient.encode_batch(buffer, **half)
    with pytest.raises(ValueError, match=r"over 8 elements per channel, but .* encoded for 4"):
        whole.gradient.encode_batch(buffer, **gradients)
    with pytest.raises(ValueError, match="8 elements per channel, but got 12"):
        whole.statistics_gradient.encode_batch(buffer, **gradients)
    whole.statistics_gradient.encode_batch(buffer, **half)
    whole.gradient.encode_batch(buffer, destination_gradients=out, **gradients)
    run(buffer)
    state.reset()
    assert state.gradient_for_gamma() is None


def test_only_the_batch_form_with_a_state():
    device = mps.MTLDevice(device="cpu")
    for name in ("Statistics", "StatisticsGradient"):
        kernel = getattr(mps, f"MPSCNNBatchNormalization{name}")(device=device)
        with pytest.raises(NotImplementedError, match="only encode_batch with a batch_norm"):
            kernel.encode(commands(device), source_image=None)
        with pytest.raises(TypeError, match="missing: "):
            kernel.encode_batch(commands(device), source_images=[])
        assert kernel.append_batch_barrier()


def test_the_fused_neuron_must_be_the_forward_kernels():
    whole = Pass("cpu", "relu")
    x = np.ones((1, C, 2, 2), np.float32)
    sources = batch(whole.device, x)
    state = whole.forward.result_state_batch(for_source_image=sources)[0]
    buffer = commands(whole.device)
    whole.statistics.encode_batch(buffer, source_images=sources, batch_normalization_state=state)
    other = mps.MPSCNNBatchNormalizationStatisticsGradient(device=whole.device)
    with pytest.raises(ValueError, match="fused neuron of the forward kernel"):
        other.encode_batch(buffer, source_gradients=sources, source_images=sources,
                           batch_normalization_state=state)  # fmt: skip


def test_a_temporary_state_counts_its_readers():
    whole = Pass("cpu")
    x = np.ones((2, C, 2, 2), np.float32)
    sources, out = batch(whole.device, x), empty(whole.device, x.shape, "float32")
    buffer = commands(whole.device)
    state = whole.forward.temporary_result_state_batch(buffer, source_image=sources)[0]
    state.read_count = 2
    arguments = {"source_images": sources, "batch_normalization_state": state}
    whole.statistics.encode_batch(buffer, **arguments)
    whole.forward.encode_batch(buffer, destination_images=out, **arguments)
    assert state.read_count == 0
    with pytest.raises(ValueError, match="read count above 0 of MPSCNNBatchNormalizationState"):
        whole.statistics_gradient.encode_batch(buffer, source_gradients=sources, **arguments)
    run(buffer)
    np.testing.assert_allclose(array(out), np.broadcast_to(BETA[:, None, None], x.shape), atol=1e-6)
    # Another command buffer does not take it.
    with pytest.raises(ValueError, match="temporary one of another"):
        whole.statistics.encode_batch(commands(whole.device), **arguments)


@pytest.mark.parametrize("name", ["StatisticsGradient", "Gradient"])
def test_copies_and_bytes(name):
    """Copies, archives with the device given, and coders that provide the device."""
    cls = getattr(mps, f"MPSCNNBatchNormalization{name}")
    slopes = mps.MPSNNNeuronDescriptor.cnn_neuron_prelu_descriptor(with_data=[0.5, 0.25])
    kernel = cls(device="cpu", fused_neuron_descriptor=slopes)
    kernel.label = "norm"
    data = mps.NSKeyedArchiver.archived_data(with_root_object=kernel)
    unarchive = mps.MPSKeyedUnarchiver.unarchived_object_of_class
    coder = mps.MPSKeyedUnarchiver(for_reading_from=data, device="reference")
    others = [
        kernel.copy(), kernel.copy(device="reference"),
        unarchive(cls, from_data=data, device="cpu"),
        cls(coder=coder), cls(coder=coder, device="cpu"),
    ]  # fmt: skip
    devices = ["cpu", "reference", "cpu", "reference", "cpu"]
    for other, device in zip(others, devices, strict=True):
        assert other is not kernel
        assert (type(other), other.label) == (cls, "norm")
        assert other.device == mps.MTLDevice(device=device)
        neuron = other.fused_neuron_descriptor
        assert (neuron.neuron_type, neuron.data) == (mps.MPSCNNNeuronType.PRELU, [0.5, 0.25])
    other = mps.MPSCNNBatchNormalizationStatistics
    with pytest.raises(TypeError, match=f"expected {other.__name__} but got {cls.__name__}"):
        unarchive(other, from_data=data, device="cpu")
    with pytest.raises(ValueError, match="expected an archive but got 5 other bytes"):
        unarchive(cls, from_data=b"wrong", device="cpu")
    archiver = mps.NSKeyedArchiver()
    with pytest.raises(ValueError, match="or a coder that provides one"):
        cls(coder=archiver)
    with pytest.raises(TypeError, match="object that can be coded but got int"):
        mps.NSKeyedArchiver.archived_data(with_root_object=1)


def test_a_decoded_kernel_computes_the_same():
    x, seed = RANDOM.normal(size=(4, C, 2, 2)), RANDOM.normal(size=(4, C, 2, 2))
    one, other = Pass("reference", "tanh"), Pass("reference", "tanh")
    expected = one(x, seed)[1], one.buffers()
    data = mps.NSKeyedArchiver.archived_data(with_root_object=other.statistics_gradient)
    other.statistics_gradient = mps.MPSKeyedUnarchiver.unarchived_object_of_class(
        mps.MPSCNNBatchNormalizationStatisticsGradient, from_data=data, device="reference"
    )
    other.gradient = other.gradient.copy()
    np.testing.assert_array_equal(other(x, seed)[1], expected[0])
    for a, b in zip(other.buffers(), expected[1], strict=True):
        np.testing.assert_array_equal(a, b)
