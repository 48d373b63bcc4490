"""Sums, means, extremes and their places: over the whole source, a part of it, and with weights."""

import numpy as np
import pytest
from gradients import backward, check, execute, forward, random
from gradients import device as made
from graphs import evaluate, source
from kernels import array, batch, commands, empty
from random_graphs.layer import Layer
from random_nodes.writing import node

from traingraph import InvalidArgument, ShapeError, Unsupported, _core, mps

AXES = {"Row": 3, "Column": 2, "FeatureChannels": 1}
FUNCTIONS = {"Sum": np.sum, "Mean": np.mean, "Min": np.min, "Max": np.max}
KINDS = [(axis, kind) for axis in AXES for kind in FUNCTIONS]
PLACES = {"ArgumentMin": np.argmin, "ArgumentMax": np.argmax}
# A rectangle that reaches beyond 2 x 5 x 7 images, as Metal gives it, and what it leaves of them.
BEYOND = mps.MTLRegion(mps.MTLOrigin(2, 1), mps.MTLSize(100, 3, 100))
INSIDE = np.s_[:, :, 1:4, 2:]

# --- for the tests about every class -------------------------------------------------------------

READ = {"clip_rect_source": mps.MTLRegion(mps.MTLOrigin(2, 1), mps.MTLSize(3, 4, 5))}
READ_BOTH = {
    "primary_source_clip_rect": READ["clip_rect_source"],
    "secondary_source_clip_rect": mps.MTLRegion(mps.MTLOrigin(1, 3), mps.MTLSize(3, 4, 5)),
}
CODED = {
    **{f"MPSNNReduce{axis}{kind}": ({}, READ) for axis, kind in KINDS},
    **{f"MPSNNReduceFeatureChannels{place}": ({}, READ) for place in PLACES},
    "MPSNNReduceFeatureChannelsSum": ({}, {**READ, "weight": 0.25}),
    "MPSNNReduceFeatureChannelsAndWeightsMean": ({}, READ_BOTH),
    "MPSNNReduceFeatureChannelsAndWeightsSum": (
        {"do_weighted_sum_by_non_zero_weights": True},
        READ_BOTH,
    ),
}
# In PyTorch; they have no gradient: other nodes go on with their results.
COMPUTED = {
    "Sum": lambda x, axis: x.sum(axis, keepdim=True),
    "Mean": lambda x, axis: x.mean(axis, keepdim=True),
    "Min": lambda x, axis: x.amin(axis, keepdim=True),
    "Max": lambda x, axis: x.amax(axis, keepdim=True),
    "ArgumentMin": lambda x, axis: x.argmin(axis, keepdim=True).to(x.dtype),
    "ArgumentMax": lambda x, axis: x.argmax(axis, keepdim=True).to(x.dtype),
}


def drawn(name, axis, kind):
    def shape(options, shapes):
        return [[1 if k == axis else extent for k, extent in enumerate(shapes[0])]]

    return Layer(
        lambda drawing, shape: {"options": {}, "stop": True},
        shape,
        lambda options, shapes, names: node(name, names, {}),
        lambda t, options, sources, at: COMPUTED[kind](sources[0], axis),
        often=2,
    )


DRAWN = {
    name: drawn(name, AXES[axis], kind)
    for axis, kind in [*KINDS, *(("FeatureChannels", place) for place in PLACES)]
    for name in [f"MPSNNReduction{axis}{kind}Node"]
}

# -------------------------------------------------------------------------------------------------


def kernel_of(name, on="reference", **properties):
    kernel = getattr(mps, f"MPSNNReduce{name}")(device=made(on))
    for key, value in properties.items():
        setattr(kernel, key, value)
    return kernel


def reduced(axis, kind, x):
    if kind in PLACES:
        return PLACES[kind](x, axis=1)[:, None].astype(x.dtype)
    return FUNCTIONS[kind](x, axis=AXES[axis], keepdims=True)


@pytest.mark.parametrize("device", ["reference", "cpu"])
@pytest.mark.parametrize("shape", [(2, 3, 5, 7), (1, 1, 1, 1), (2, 300, 1, 3), (1, 5, 2, 260)])
@pytest.mark.parametrize(
    ("axis", "kind"), [*KINDS, *(("FeatureChannels", place) for place in PLACES)]
)
def test_against_numpy(axis, kind, shape, device):
    x = random(1, *shape)
    narrow = device != "reference"
    if narrow:
        x = x.astype(np.float32)
    y, _ = forward(kernel_of(axis + kind, device), x)
    expected = reduced(axis, kind, x)
    assert y.dtype == x.dtype
    if kind in ("Sum", "Mean"):
        np.testing.assert_allclose(y, expected, rtol=1e-5 if narrow else 1e-12, atol=1e-6)
    else:
        np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_ties_and_what_is_no_number(device):
    """As NumPy has it: the first of equals, and NaN before numbers."""
    x = random(2, 1, 6, 3, 4).astype(np.float32)
    x[0, [1, 4], 0, 0] = x[0].max() + 1
    x[0, [2, 5], 0, 1] = x[0].min() - 1
    x[0, [3, 5], 1, 0] = np.nan
    x[0, [0, 1, 2], 1, 1] = np.inf, -np.inf, np.inf
    x[0, :, 2, 2] = -np.inf
    for kind in ("Min", "Max", "ArgumentMin", "ArgumentMax"):
        y, _ = forward(kernel_of(f"FeatureChannels{kind}", device), x)
        np.testing.assert_array_equal(y, reduced("FeatureChannels", kind, x), kind)


@pytest.mark.parametrize("kind", ["Max", "Min", "ArgumentMax"])
def test_sixteen_bits(kind):
    x = random(3, 2, 40, 2, 3).astype(np.float16)
    y, _ = forward(kernel_of(f"FeatureChannels{kind}", "cpu"), x)
    np.testing.assert_array_equal(y, reduced("FeatureChannels", kind, x))


def test_channels_that_are_read():
    """Places are counted from the first of them."""
    x = random(4, 2, 12, 2, 3)
    for kind in ("Max", "ArgumentMin"):
        kernel = kernel_of(f"FeatureChannels{kind}", source_feature_channel_offset=4,
                           source_feature_channel_max_count=6)  # fmt: skip
        np.testing.assert_array_equal(
            forward(kernel, x)[0], reduced("FeatureChannels", kind, x[:, 4:10])
        )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("axis", "kind"), [*KINDS, *(("FeatureChannels", place) for place in PLACES)]
)
def test_a_part_of_the_source(axis, kind, dtype):
    x = random(5, 2, 3, 5, 7).astype(dtype)
    kernel = kernel_of(axis + kind, "reference" if dtype == "float64" else "cpu")
    assert kernel.clip_rect_source == kernel.clip_rect
    kernel.clip_rect_source = BEYOND
    assert kernel.clip_rect_source == BEYOND
    expected = reduced(axis, kind, x[INSIDE])
    np.testing.assert_allclose(forward(kernel, x)[0], expected, rtol=1e-5)


def test_a_part_of_the_source_into_a_part_of_the_destination():
    on, x, old = made(), random(6, 2, 3, 5, 7), random(7, 2, 8, 6, 9)
    kernel = kernel_of("FeatureChannelsMax", clip_rect_source=BEYOND)
    kernel.clip_rect = ((1, 2), (5, 3))
    kernel.destination_feature_channel_offset = 4
    out = batch(on, old)
    execute(lambda b: kernel.encode_batch(b, source_images=batch(on, x), destination_images=out))
    expected = old.copy()
    expected[:, 4:5, 2:5, 1:6] = x[INSIDE].max(axis=1, keepdims=True)
    np.testing.assert_array_equal(array(out), expected)


@pytest.mark.parametrize("rectangle", [None, ((0, 0), (5, 4)), ((2, 1), (4, 3))])
def test_the_rectangle_of_the_source_replaces_the_offset(rectangle):
    on, x = made(), random(20, 1, 3, 5, 7)
    kernel = kernel_of("FeatureChannelsMin", offset=(2, 1))
    if rectangle is not None:
        kernel.clip_rect_source = rectangle
    kernel.clip_rect = ((0, 0), (3, 2))
    out = empty(on, (1, 1, 2, 3))
    execute(lambda b: kernel.encode_batch(b, source_images=batch(on, x), destination_images=out))
    left, top = rectangle[0] if rectangle else (0, 0)
    expected = x[:, :, top : top + 2, left : left + 3].min(axis=1, keepdims=True)
    np.testing.assert_array_equal(array(out), expected)


def test_what_was_encoded_keeps_its_rectangle():
    on, x = made(), random(8, 1, 2, 4, 4)
    kernel = kernel_of("RowMax", makes_temporary_images=False)
    buffer, images = commands(on), batch(on, x)
    whole = kernel.encode_batch(buffer, source_images=images)
    kernel.clip_rect_source = ((1, 1), (2, 2))
    part = kernel.encode_batch(buffer, source_images=images)
    buffer.commit()
    buffer.wait_until_completed()
    np.testing.assert_array_equal(array(whole), x.max(axis=3, keepdims=True))
    np.testing.assert_array_equal(array(part), x[:, :, 1:3, 1:3].max(axis=3, keepdims=True))


def test_bad_rectangles_are_refused():
    x = random(9, 2, 3, 5, 7)
    kernel = kernel_of("RowMin", label="least")
    for wrong in (((-1, 0), (1, 1)), ((0, 0), (0, 1))):
        with pytest.raises(InvalidArgument, match=r"'least'.*source rectangle of 1 pixel or more"):
            kernel.clip_rect_source = wrong
    with pytest.raises(Unsupported, match="source rectangle that leaves out the first images"):
        kernel.clip_rect_source = ((0, 0, 1), (1, 1))
    with pytest.raises(TypeError, match=r"MPSNNReduceRowMin\.clip_rect_source"):
        kernel.clip_rect_source = 3
    kernel.clip_rect_source = ((7, 0), (1, 1))
    with pytest.raises(ShapeError, match=r"MPSNNReduceRowMin 'least'.*at column 7, row 0"):
        forward(kernel, x)
    kernel.clip_rect_source = ((6, 4), (1, 1))
    np.testing.assert_array_equal(forward(kernel, x)[0], x[:, :, 4:, 6:])
    images, out = batch(made(), x), empty(made(), (2, 3, 5, 1))
    with pytest.raises(ShapeError, match="expected destination images 3x1x1 but got"):
        kernel.encode_batch(commands(made()), source_images=images, destination_images=out)


# --- the spatial mean ----------------------------------------------------------------------------


def test_the_spatial_mean_of_a_part_and_its_gradient():
    x = random(10, 2, 3, 5, 7)
    kernel = _core.MPSNNReductionSpatialMean(device=made())
    kernel.clip_rect_source = BEYOND
    gradient = _core.MPSNNReductionSpatialMeanGradient(device=made())
    check(kernel, gradient, x, x[INSIDE].mean(axis=(2, 3), keepdims=True))
    assert gradient.clip_rect_source == BEYOND
    _, states = forward(kernel, x)
    dx = backward(gradient, np.ones((2, 3, 1, 1)), x, states)
    assert (dx[INSIDE] == dx[0, 0, 1, 2]).all()
    assert np.count_nonzero(dx) == dx[INSIDE].size
    kernel.clip_rect_source = ((0, 5), (1, 1))
    with pytest.raises(ShapeError, match=r"SpatialMean.*at column 0, row 5"):
        forward(kernel, x)


# --- with weights --------------------------------------------------------------------------------


def weighted(name, x, w, on="reference", **properties):
    kernel = kernel_of(f"FeatureChannelsAndWeights{name}", on, makes_temporary_images=False)
    return apply(kernel, x, w, properties)


def apply(kernel, x, w, properties):
    for key, value in properties.items():
        setattr(kernel, key, value)
    on = kernel.device
    images = {"primary_images": batch(on, x), "secondary_images": batch(on, w)}
    return array(execute(lambda buffer: kernel.encode_batch(buffer, **images), on))


def by_non_zero_weights(on="reference"):
    kernel = mps.MPSNNReduceFeatureChannelsAndWeightsSum(
        device=made(on), do_weighted_sum_by_non_zero_weights=True
    )
    kernel.makes_temporary_images = False
    return kernel


@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_weighted_reductions(device):
    x, w = random(11, 2, 5, 3, 4), random(12, 2, 5, 3, 4)
    w[np.abs(w) < 0.5] = 0
    w[0, :, 1, 2] = 0
    narrow = device != "reference"
    if narrow:
        x, w = x.astype(np.float32), w.astype(np.float32)
    total = (x * w).sum(axis=1, keepdims=True)
    near = {"rtol": 1e-5, "atol": 1e-6} if narrow else {"rtol": 1e-12}
    np.testing.assert_allclose(weighted("Sum", x, w, device), total, **near)
    np.testing.assert_allclose(weighted("Mean", x, w, device), total / 5, **near)
    count = np.maximum(np.count_nonzero(w, axis=1, keepdims=True), 1)
    assert len(np.unique(count)) > 2
    kernel = by_non_zero_weights(device)
    np.testing.assert_allclose(apply(kernel, x, w, {}), total / count, **near)
    assert kernel.do_weighted_sum_by_non_zero_weights
    assert not kernel_of("FeatureChannelsAndWeightsSum").do_weighted_sum_by_non_zero_weights


def test_weighted_reductions_of_parts():
    x, w = random(13, 2, 3, 5, 7), random(14, 2, 7, 3, 6)
    got = weighted("Mean", x, w, primary_source_clip_rect=BEYOND,
                   secondary_source_clip_rect=((1, 0), (100, 3, 2)),
                   secondary_source_feature_channel_offset=4)  # fmt: skip
    np.testing.assert_allclose(got, (x[INSIDE] * w[:, 4:, :, 1:]).mean(axis=1, keepdims=True))


def test_bad_weighted_reductions_are_refused():
    on, x, w = made(), random(15, 2, 3, 4, 5), random(16, 2, 3, 4, 4)
    with pytest.raises(ShapeError, match=r"AndWeightsSum.*weights of the image's size, 3x4x5"):
        weighted("Sum", x, w)
    with pytest.raises(InvalidArgument, match=r"AndWeightsMean.*source rectangle of 1 pixel"):
        weighted("Mean", x, x, primary_source_clip_rect=((0, 0), (0, 0)))
    with pytest.raises(ShapeError, match="at column 0, row 4"):
        weighted("Mean", x, x, secondary_source_clip_rect=((0, 4), (1, 1)))
    kernel = kernel_of("FeatureChannelsAndWeightsSum")
    images = {"primary_images": batch(on, x), "secondary_images": batch(on, x)}
    with pytest.raises(Unsupported, match="a state: the kernel has no gradient"):
        kernel.encode_batch(commands(on), **images, destination_state_is_temporary=True)


# --- nodes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("axis", "kind"), [*KINDS, *(("FeatureChannels", place) for place in PLACES)]
)
def test_nodes(axis, kind):
    x = random(17, 2, 3, 5, 7)
    node = getattr(mps, f"MPSNNReduction{axis}{kind}Node")(source=source("x"))
    found = evaluate(made(), {"x": x}, node.result_image)[0]
    np.testing.assert_allclose(found, reduced(axis, kind, x), rtol=1e-12)
    node.clip_rect_source = BEYOND
    assert node.clip_rect_source == BEYOND
    found = evaluate(made(), {"x": x}, node.result_image)[0]
    np.testing.assert_allclose(found, reduced(axis, kind, x[INSIDE]), rtol=1e-12)
    assert node.result_state is None
    with pytest.raises(Unsupported, match=f"{axis}{kind}Node.*this one has none"):
        node.gradient_filter(with_source=source("dy"))
    node.clip_rect_source = ((0, 0), (0, 1))
    with pytest.raises(InvalidArgument, match="source rectangle of 1 pixel or more"):
        evaluate(made(), {"x": x}, node.result_image)


def test_the_gradient_of_a_spatial_mean_node_of_a_part():
    x, dy = random(18, 2, 3, 5, 7), random(19, 2, 3, 1, 1)
    node = mps.MPSNNReductionSpatialMeanNode(source=source("x"))
    node.clip_rect_source = BEYOND
    back = node.gradient_filter(with_source=source("dy"))
    (dx,) = evaluate(made(), {"x": x, "dy": dy}, back.result_image)
    expected = np.zeros_like(x)
    expected[INSIDE] = dy / (3 * 5)
    np.testing.assert_allclose(dx, expected, rtol=1e-12)
