"""Batch normalization of parts of images: what the statistics count, and what is normalized."""

import numpy as np
import pytest
from gradients import differences, near, number_type, random
from kernels import Normalization, array, batch, commands, empty, run

from traingraph import ShapeError, Unsupported, mps

C, EPSILON = 4, 1e-3
GAMMA, BETA = (random(seed, C).astype(np.float32) for seed in (7, 8))
X, OLD = (3, 12, 6, 7), (3, 8, 8, 9)
# Columns, rows, width and height: what the statistics are made of, and what is normalized.
INSIDE = (2, 1, 4, 3)
FORMS = {
    "all of the statistics": (INSIDE, INSIDE),
    "statistics of the whole image": (None, INSIDE),
    "a part of the statistics": ((1, 1, 6, 4), INSIDE),
    "channels alone": (None, None),
}


def region(x, y, width, height):
    return mps.MTLRegion(mps.MTLOrigin(x, y), mps.MTLSize(width, height))


def of(x, rectangle):
    if rectangle is None:
        return x
    column, row, width, height = rectangle
    return x[..., row : row + height, column : column + width]


def definition(x, gamma, beta, counted, written, fused):
    """What is written of the channels from 4 on."""
    x = x[:, 4:8]
    seen = of(x, counted)
    mean, variance = seen.mean(axis=(0, 2, 3)), seen.var(axis=(0, 2, 3))
    y = (of(x, written) - mean[:, None, None]) / np.sqrt(variance + EPSILON)[:, None, None]
    y = y * gamma[:, None, None] + beta[:, None, None]
    return np.where(y < 0, 0.125 * y, y) if fused else y


class Pass:
    """The four kernels over channels and rectangles of a batch, in parts."""

    def __init__(self, on, counted, written, fused):
        self.on = mps.MTLDevice(device=on)
        neuron = mps.MPSNNNeuronDescriptor.cnn_neuron_descriptor(with_type="relu", a=0.125)
        options = {"fused_neuron_descriptor": neuron} if fused else {}
        self.forward = mps.MPSCNNBatchNormalization(
            device=self.on, data_source=Normalization(GAMMA, BETA, EPSILON), **options
        )
        self.statistics = mps.MPSCNNBatchNormalizationStatistics(device=self.on)
        self.statistics_gradient = mps.MPSCNNBatchNormalizationStatisticsGradient(
            device=self.on, **options
        )
        self.gradient = mps.MPSCNNBatchNormalizationGradient(device=self.on, **options)
        for kernel, rectangle in ((self.statistics, counted), (self.forward, written)):
            kernel.source_feature_channel_offset = 4
            kernel.source_feature_channel_max_count = C
            if rectangle is not None:
                kernel.offset = rectangle[:2]
        if counted is not None:
            self.statistics.clip_rect = region(0, 0, *counted[2:])
        if written is not None:
            self.forward.clip_rect = region(3, 2, *written[2:])
        self.forward.destination_feature_channel_offset = 4
        for kernel in (self.statistics_gradient, self.gradient):
            kernel.secondary_source_feature_channel_offset = 4
            kernel.secondary_source_feature_channel_max_count = C
            kernel.secondary_offset = (0, 0) if written is None else written[:2]
        self.gradient.destination_feature_channel_offset = 4
        self.gradient.makes_temporary_images = False

    def __call__(self, x, dy, old, cuts=(), several=False):
        parts = [slice(a, b) for a, b in zip((0, *cuts), (*cuts, len(x)), strict=True)]
        buffer = commands(self.on)
        sources, seeds, results = batch(self.on, x), batch(self.on, dy), batch(self.on, old)
        gradients = empty(self.on, x.shape, x.dtype.name)
        self.state = self.forward.result_state_batch(for_source_image=sources)[0]
        state = {"batch_normalization_state": self.state}

        def next_buffer():
            nonlocal buffer
            if several:
                run(buffer)
                buffer = commands(self.on)

        for part in parts:
            self.statistics.encode_batch(buffer, source_images=sources[part], **state)
        next_buffer()
        for part in parts:
            self.forward.encode_batch(buffer, source_images=sources[part], **state,
                                      destination_images=results[part])  # fmt: skip
        next_buffer()
        for part in parts:
            self.statistics_gradient.encode_batch(
                buffer, source_gradients=seeds[part], source_images=sources[part], **state
            )
        next_buffer()
        given = {"source_images": sources, "source_gradients": seeds}
        for part in parts:
            few = {key: value[part] for key, value in given.items()}
            self.gradient.encode_batch(
                buffer, **few, **state, destination_gradients=gradients[part]
            )
        returned = None if parts[1:] else self.gradient.encode_batch(buffer, **given, **state)
        run(buffer)
        if returned is not None:
            np.testing.assert_array_equal(array(returned), array(gradients))
        return array(results), array(gradients)

    def buffers(self):
        names = ("mean", "variance", "gradient_for_gamma", "gradient_for_beta")
        return [np.asarray(getattr(self.state, name)()) for name in names]


@pytest.mark.parametrize("device", ["reference", "cpu"])
@pytest.mark.parametrize(("cuts", "several"), [((), False), ((), True), ((1,), True)])
@pytest.mark.parametrize("fused", [False, True], ids=["plain", "relu"])
@pytest.mark.parametrize("form", FORMS)
def test_against_differences(form, fused, cuts, several, device):
    dtype = number_type(device)
    counted, written = FORMS[form]
    x, old = (2 * random(1, *X) + 1).astype(dtype), random(2, *OLD).astype(dtype)
    if written is None:
        old = old[:, :, :6, :7]
        part = (slice(None), slice(4, 8))
    else:
        part = (slice(None), slice(4, 8), slice(2, 5), slice(3, 7))
    dy = random(3, *old[part].shape).astype(dtype)
    gamma, beta = GAMMA.astype(float), BETA.astype(float)

    def defined(x, gamma, beta):
        return definition(x, gamma, beta, counted, written, fused)

    run_all = Pass(device, counted, written, fused)
    y, dx = run_all(x, dy, old, cuts, several)
    x = x.astype(np.float64)
    expected = old.copy()
    expected[part] = defined(x, gamma, beta)
    near(y, expected)
    mean, variance, dgamma, dbeta = run_all.buffers()
    seen = of(x[:, 4:8], counted)
    near(mean, seen.mean(axis=(0, 2, 3)), 1e-9)
    near(variance, seen.var(axis=(0, 2, 3)), 1e-9)
    assert np.abs(dx).max() > 1e-2
    near(dx, differences(lambda v: defined(v, gamma, beta), x, dy))
    near(dgamma, differences(lambda g: defined(x, g, beta), gamma, dy))
    near(dbeta, differences(lambda b: defined(x, gamma, b), beta, dy))


def test_a_part_of_the_gradient():
    """With a rectangle of its own the gradient kernel writes from the secondary offset on."""
    x, old = random(1, *X), random(2, *OLD)
    run_all = Pass("reference", INSIDE, INSIDE, False)
    dy = random(3, 3, C, 3, 4)
    _, dx = run_all(x, dy, old)
    on, gradient = run_all.on, run_all.gradient
    assert gradient.secondary_offset == (2, 1, 0)  # the last encoding took them from the state
    gradient.clip_rect, gradient.destination_feature_channel_offset = region(5, 1, 2, 2), 0
    before, buffer = random(4, 3, 4, 6, 9), commands(on)
    out = batch(on, before)
    gradient.encode_batch(
        buffer, source_gradients=batch(on, dy), source_images=batch(on, x),
        batch_normalization_state=run_all.state, destination_gradients=out,
    )  # fmt: skip
    run(buffer)
    after = before.copy()
    after[:, :, 1:3, 5:7] = dx[:, 4:8, 1:3, 2:4]
    np.testing.assert_allclose(array(out), after, rtol=1e-12)


def test_the_inherited_forms_read_the_state():
    """In a buffer of its own, where nothing else has named the state's buffers."""
    x, old, dy = random(1, *X), random(2, *OLD), random(3, 3, C, 3, 4)
    run_all = Pass("reference", None, INSIDE, True)
    _, dx = run_all(x, dy, old)
    on, buffer = run_all.on, commands(run_all.on)
    given = {"source_gradients": batch(on, dy), "source_images": batch(on, x)}
    found = mps.MPSCNNGradientKernel.encode_batch(
        run_all.gradient, buffer, **given, gradient_states=[run_all.state]
    )
    run(buffer)
    np.testing.assert_allclose(array(found), dx, rtol=1e-12)


def test_inference_of_a_part():
    """Without a state by the kernel's own statistics; the offset counts without a rectangle too."""
    on = mps.MTLDevice(device="reference")
    source = Normalization(GAMMA, BETA, EPSILON)
    source.mean = lambda: np.full(C, 0.5, np.float32)
    source.variance = lambda: np.full(C, 4, np.float32)
    kernel = mps.MPSCNNBatchNormalization(device=on, data_source=source)
    kernel.offset = (2, 1)
    x, buffer, out = random(1, 2, C, 5, 6), commands(on), empty(on, (2, C, 4, 3))
    kernel.encode_batch(buffer, source_images=batch(on, x), destination_images=out)
    run(buffer)
    scale = (GAMMA.astype(float) / np.sqrt(4 + np.float32(EPSILON)))[:, None, None]
    expected = (x[:, :, 1:, 2:5] - 0.5) * scale + BETA.astype(float)[:, None, None]
    np.testing.assert_allclose(array(out), expected, rtol=1e-6, atol=1e-7)


def test_what_cannot_be_is_refused():
    x, old, dy = random(1, *X), random(2, *OLD), random(3, 3, C, 3, 4)
    run_all = Pass("reference", INSIDE, INSIDE, False)
    on, buffer = run_all.on, commands(run_all.on)
    sources, seeds, out = batch(on, x), batch(on, dy), batch(on, old)
    state = run_all.forward.result_state_batch(for_source_image=sources)[0]
    given = {"source_images": sources, "batch_normalization_state": state}
    statistics = run_all.statistics
    for properties, error, match in [
        ({"destination_feature_channel_offset": 4}, Unsupported, "there is no result image"),
        ({"offset": (7, 0)}, ShapeError, "an offset within source images 4x6x7"),
        ({"offset": (0, 0, 1)}, Unsupported, "leaves out images: encode a part of the batch"),
        ({"clip_rect": ((0, 0, 1), (1, 1))}, Unsupported, "leaves out images: encode a part of"),
        ({"source_feature_channel_offset": 12}, ShapeError, "more than 12 channels, the offset"),
        ({"source_feature_channel_max_count": 3}, ShapeError, "expected source images of 4 chan"),
    ]:
        before = {name: getattr(statistics, name) for name in properties}
        for values in (properties, before):
            if values is before:
                with pytest.raises(error, match=match):
                    statistics.encode_batch(buffer, **given)
            for name, value in values.items():
                setattr(statistics, name, value)
    statistics.encode_batch(buffer, **given)
    for name, value in (("offset", (1, 1)), ("source_feature_channel_offset", 8)):
        before = getattr(statistics, name)
        setattr(statistics, name, value)
        with pytest.raises(ValueError, match=r"clip rectangle of the statistics before but got ot"):
            statistics.encode_batch(buffer, **given)
        setattr(statistics, name, before)
    run_all.forward.source_feature_channel_offset = 0
    with pytest.raises(
        ValueError, match=r"the statistics were made of, from 4 on, but got .* 0 on"
    ):
        run_all.forward.encode_batch(buffer, **given, destination_images=out)
    run_all.forward.source_feature_channel_offset = 4
    run_all.forward.encode_batch(buffer, **given, destination_images=out)

    kernel = run_all.statistics_gradient
    for properties, error, match in [
        ({"clip_rect": region(0, 0, 1, 1)}, Unsupported, "there is no result image"),
        ({"destination_feature_channel_offset": 4}, Unsupported, "there is no result image"),
        ({"primary_offset": (1, 0)}, Unsupported, "a primary offset or a kernel offset"),
        ({"secondary_source_feature_channel_offset": 0}, ValueError, "were made of, from 4 on"),
        ({"secondary_offset": (3, 1)}, ShapeError, "lie within 3x4 pixels but got 3x4 at column 1"),
        ({"primary_source_feature_channel_offset": 4}, ShapeError, "more than 4 channels, the off"),
    ]:
        before = {name: getattr(kernel, name) for name in properties}
        for name, value in properties.items():
            setattr(kernel, name, value)
        with pytest.raises(error, match=match):
            kernel.encode_batch(buffer, source_gradients=seeds, **given)
        for name, value in before.items():
            setattr(kernel, name, value)
    with pytest.raises(ShapeError, match="3x4, the size of the forward kernel's clip rectangle"):
        kernel.encode_batch(buffer, source_gradients=out, **given)
    kernel.encode_batch(buffer, source_gradients=seeds, **given)
    with pytest.raises(ValueError, match="36 elements per channel, but got 72"):
        kernel.encode_batch(buffer, source_gradients=seeds, **given)
    run_all.gradient.encode_batch(buffer, source_gradients=seeds, **given)
    run(buffer)


def test_pixels_beyond_the_statistics_have_no_gradient_here():
    x = random(1, *X)
    run_all = Pass("reference", INSIDE, None, False)
    with pytest.raises(ShapeError, match="lie within 3x4 pixels but got 6x7 at column -2, row -1"):
        run_all(x, random(3, 3, C, 6, 7), random(2, 3, 8, 6, 7))


@pytest.mark.parametrize("name", ["Statistics", "StatisticsGradient"])
def test_there_is_no_result_image(name):
    """Of the inherited forms."""
    on = mps.MTLDevice(device="reference")
    kernel = getattr(mps, f"MPSCNNBatchNormalization{name}")(device=on)
    images = batch(on, random(1, 1, C, 2, 2))
    if name == "Statistics":
        with pytest.raises(Unsupported, match="a state: MPSCNNBatchNormalization makes it"):
            kernel.result_state_batch(for_source_image=images)
        assert isinstance(kernel, mps.MPSCNNKernel)
        encode = mps.MPSCNNKernel.encode_batch
        given = {"source_images": images, "destination_images": images}
    else:
        assert isinstance(kernel, mps.MPSCNNGradientKernel)
        norm = mps.MPSCNNBatchNormalization(device=on, data_source=Normalization(GAMMA, BETA))
        state = norm.result_state_batch(for_source_image=images)
        buffer = commands(on)
        mps.MPSCNNBatchNormalizationStatistics(device=on).encode_batch(
            buffer, source_images=images, batch_normalization_state=state[0]
        )
        encode = mps.MPSCNNGradientKernel.encode_batch
        given = {"source_gradients": images, "source_images": images, "gradient_states": state}
    with pytest.raises(Unsupported, match="a result image: only encode_batch with a batch_norm"):
        encode(kernel, commands(on), **given)
