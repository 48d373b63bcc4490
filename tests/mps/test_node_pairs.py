"""Nodes with one source: gradients by differences, and bit for bit those of the kernels by hand."""

import numpy as np
import pytest
from gradients import backward, forward, near, random
from graphs import assert_same, differences, encode, evaluate, graph_of, source
from kernels import array, batch, commands, run

from traingraph import InvalidArgument, Unsupported, _core, mps


def kernel(name, on, given, properties=None):
    made = getattr(_core, name)(device=on, **given)
    for key, value in (properties or {}).items():
        setattr(made, key, value)
    return made


def pad_kernel(on):
    made = kernel(
        "MPSNNPad", on, {"padding_size_before": (1, 0, 2), "padding_size_after": (0, 2, 1)}
    )
    made.edge_mode, made.fill_value = "constant", 1.5
    return made


def local(name, node_given, given, properties):
    """A local normalization: its node, and its two kernels."""
    return (
        f"MPSCNN{name}NormalizationNode", node_given, properties,
        lambda on: kernel(f"MPSCNN{name}Normalization", on, given, properties),
        lambda on: kernel(f"MPSCNN{name}NormalizationGradient", on, given, properties),
    )  # fmt: skip


def alike(name, node_given, given):
    """Kernels of the node's name."""
    return (
        f"{name}Node", node_given, {},
        lambda on: kernel(name, on, given),
        lambda on: kernel(f"{name}Gradient", on,
                          {k: v for k, v in given.items() if k != "align_corners"}),
    )  # fmt: skip


DIVISOR = {"alpha": 0.7, "beta": 0.6, "delta": 1.5}
WINDOW = {"kernel_width": 3, "kernel_height": 3}
SCALES = {"integer_scale_factor_x": 2, "integer_scale_factor_y": 3}
PAIRS = {
    "cross-channel": local("CrossChannel", {"kernel_size": 3}, {"kernel_size": 3}, DIVISOR),
    "spatial": local("Spatial", {"kernel_size": 3}, WINDOW, DIVISOR),
    "local contrast": local("LocalContrast", {"kernel_size": 3}, WINDOW,
                            {**DIVISOR, "p0": 0.9, "pm": 0.2, "ps": 1.3}),
    "nearest": alike("MPSCNNUpsamplingNearest", SCALES, SCALES),
    "bilinear": alike("MPSCNNUpsamplingBilinear", {**SCALES, "align_corners": True},
                      {**SCALES, "align_corners": True}),
    "spatial mean": ("MPSNNReductionSpatialMeanNode", {}, {},
                     lambda on: kernel("MPSNNReductionSpatialMean", on, {}),
                     lambda on: kernel("MPSNNReductionSpatialMeanGradient", on, {})),
    "gram": alike("MPSNNGramMatrixCalculation", {"alpha": 0.5}, {"alpha": 0.5}),
    "pad": ("MPSNNPadNode", {"padding_size_before": (1, 0, 2), "padding_size_after": (0, 2, 1),
                             "edge_mode": "constant"}, {"fill_value": 1.5}, pad_kernel,
            lambda on: mps.MPSNNPadGradient(device=on)),
    "mirrored": ("MPSNNPadNode", {"padding_size_before": (1, 2, 0),
                                  "padding_size_after": (2, 1, 0), "edge_mode": "mirror"},
                 {}, None, None),
    "reshape": ("MPSNNReshapeNode", {"result_width": 6, "result_height": 5,
                                     "result_feature_channels": 2}, {}, None, None),
}  # fmt: skip
BY_HAND = [name for name in PAIRS if PAIRS[name][3] is not None]
SHAPE = (2, 3, 4, 5)


def node_of(name, image):
    cls, given, properties, *_ = PAIRS[name]
    node = getattr(mps, cls)(source=image, **given)
    for key, value in properties.items():
        setattr(node, key, value)
    return node


@pytest.mark.parametrize("name", PAIRS)
def test_gradients_against_differences(name):
    on = mps.MTLDevice(device="reference")
    node = node_of(name, source("x"))
    (last,) = node.training_graph(with_source_gradient=source("dy"))
    assert type(last).__name__ == PAIRS[name][0].replace("Node", "GradientNode")
    x = random(1, *SHAPE)
    dy = random(2, *evaluate(on, {"x": x}, node.result_image)[0].shape)
    (dx,) = evaluate(on, {"x": x, "dy": dy}, last.result_image)
    assert np.abs(dx).max() > 0
    expected = differences(on, node.result_image, {"x": x}, "x", dy)
    near(dx, expected)


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("name", BY_HAND)
def test_the_bits_of_encoded_kernels(name, device):
    on = mps.MTLDevice(device=device)
    node = node_of(name, source("x"))
    made = node.gradient_filter(with_source=source("dy"))
    x = random(1, *SHAPE).astype(np.float32)
    y, states = forward(PAIRS[name][3](on), x)
    dy = random(2, *y.shape).astype(np.float32)
    dx = backward(PAIRS[name][4](on), dy, x, states)
    found = evaluate(on, {"x": x, "dy": dy}, node.result_image, made.result_image)
    assert_same(found[0], y, device)
    assert_same(found[1], dx, device)


def test_reshape_keeps_the_order():
    on = mps.MTLDevice(device="cpu")
    node = node_of("reshape", source("x"))
    made = node.gradient_filter(with_source=source("dy"))
    x, dy = random(1, *SHAPE), random(2, 2, 2, 5, 6)
    given = {"x": x.astype(np.float32), "dy": dy.astype(np.float32)}
    y, dx = evaluate(on, given, node.result_image, made.result_image)
    np.testing.assert_array_equal(y, given["x"].reshape(2, 2, 5, 6))
    np.testing.assert_array_equal(dx, given["dy"].reshape(SHAPE))


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_dropout_masks_are_the_kernels(device):
    on = mps.MTLDevice(device=device)
    given = {"keep_probability": 0.7, "seed": 11, "mask_stride_in_pixels": (1, 0, 1)}
    node = mps.MPSCNNDropoutNode(source=source("x"), **given)
    assert (node.seed, node.mask_stride_in_pixels) == (11, (1, 0, 1))
    node.result_state.export_from_graph = True
    made = node.gradient_filter(with_source=source("dy"))
    assert made.keep_probability == node.keep_probability
    graph = graph_of(on, node.result_image, made.result_image, dtype="float32")
    x, dy = (random(seed, *SHAPE).astype(np.float32) for seed in (1, 2))
    hand = kernel("MPSCNNDropout", on, given)
    masks = []
    for _ in range(2):
        (y, dx), (states,) = encode(graph, {"x": x, "dy": dy})
        assert_same(y, forward(hand, x)[0], device)
        bits = np.stack([np.frombuffer(one.mask_data(), np.uint8) for one in states])
        mask = bits.reshape(2, 1, 5, 3).transpose(0, 3, 1, 2)
        np.testing.assert_allclose(dx, dy * mask / np.float32(0.7), rtol=1e-6)
        masks.append(mask)
    assert (masks[0] != masks[1]).any()
    plain = mps.MPSCNNDropoutNode(source=source("x"))
    assert (plain.keep_probability, plain.seed, plain.mask_stride_in_pixels) == (0.5, 0, (1, 1, 1))


REDUCTIONS = {
    "Row": (3, {}), "Column": (2, {}), "FeatureChannels": (1, {"weight": 0.5}),
}  # fmt: skip


@pytest.mark.parametrize("axis", REDUCTIONS)
def test_reductions_without_gradients(axis):
    on = mps.MTLDevice(device="reference")
    x = random(1, *SHAPE)
    number, properties = REDUCTIONS[axis]
    total = getattr(mps, f"MPSNNReduction{axis}SumNode")(source=source("x"))
    mean = getattr(mps, f"MPSNNReduction{axis}MeanNode")(source=source("x"))
    for key, value in properties.items():
        setattr(total, key, value)
    assert total.result_state is None
    found = evaluate(on, {"x": x}, total.result_image)[0]
    expected = x.sum(axis=number, keepdims=True) * properties.get("weight", 1)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    found = evaluate(on, {"x": x}, mean.result_image)[0]
    np.testing.assert_allclose(found, x.mean(axis=number, keepdims=True), rtol=1e-12)
    with pytest.raises(Unsupported, match=f"MPSNNReduction{axis}SumNode.*this one has none"):
        total.gradient_filter(with_source=source("dy"))


def test_parameters_of_gradient_nodes_are_the_forward_nodes_until_they_are_set():
    on = mps.MTLDevice(device="reference")
    node = mps.MPSCNNSpatialNormalizationNode(source=source("x"))
    made = node.gradient_filter(with_source=source("dy"))
    assert (node.alpha, node.beta, node.delta, node.kernel_width) == (1, 5, 1, 5)
    node.beta, node.kernel_height = 0.75, 3
    assert (made.beta, made.kernel_width, made.kernel_height) == (0.75, 5, 3)
    x, dy = random(1, *SHAPE), random(2, *SHAPE)
    before = evaluate(on, {"x": x, "dy": dy}, made.result_image)[0]
    made.beta = 0.5
    assert node.beta == 0.75
    assert np.abs(evaluate(on, {"x": x, "dy": dy}, made.result_image)[0] - before).max() > 1e-3
    contrast = mps.MPSCNNLocalContrastNormalizationNode(source=source("x"))
    assert (contrast.alpha, contrast.beta, contrast.delta) == (1, 0.5, 1 / 1024)
    assert (contrast.p0, contrast.pm, contrast.ps) == (1, 0, 1)
    channels = mps.MPSCNNCrossChannelNormalizationNode(source=source("x"))
    assert channels.kernel_size_in_feature_channels == 5


EXPLICIT = [
    ("cross-channel", {"kernel_size": 3}, {"kernel_size": 5}),
    ("spatial", {"kernel_size": 3}, {"kernel_size": 5}),
    ("local contrast", WINDOW, {"kernel_width": 3, "kernel_height": 1}),
    ("nearest", {"scale_factor_x": 2.0, "scale_factor_y": 3.0},
     {"scale_factor_x": 2.0, "scale_factor_y": 2.0}),
    ("bilinear", {"scale_factor_x": 2.0, "scale_factor_y": 3.0},
     {"scale_factor_x": 2.5, "scale_factor_y": 3.0}),
    ("gram", {"alpha": 0.5}, {"alpha": 1.0}),
    ("pad", {}, None),
    ("reshape", {}, None),
    ("spatial mean", {}, None),
]  # fmt: skip


@pytest.mark.parametrize(("name", "right", "wrong"), EXPLICIT)
def test_explicit_gradient_nodes(name, right, wrong):
    on = mps.MTLDevice(device="reference")
    image, seed = source("x"), source("dy")
    node = node_of(name, image)
    node.label = "there"
    cls = getattr(mps, PAIRS[name][0].replace("Node", "GradientNode"))
    sources = {"source_gradient": seed, "source_image": image}
    made = cls(**sources, gradient_state=node.result_state, **right)
    x = random(1, *SHAPE)
    dy = random(2, *evaluate(on, {"x": x}, node.result_image)[0].shape)
    given = {"x": x, "dy": dy}
    other = node.gradient_filter(with_source=seed)
    np.testing.assert_array_equal(
        evaluate(on, given, made.result_image)[0], evaluate(on, given, other.result_image)[0]
    )
    if wrong is not None:
        with pytest.raises(InvalidArgument, match=rf"{cls.__name__}.*Node 'there' has, but got"):
            cls(**sources, gradient_state=node.result_state, **wrong)
    stranger = mps.MPSCNNSoftMaxNode(source=image)
    with pytest.raises(InvalidArgument, match=rf"{cls.__name__}.*MPSCNNSoftMaxNode"):
        cls(**sources, gradient_state=stranger.result_state, **right)
    with pytest.raises(Unsupported, match="no gradients of gradient nodes"):
        made.gradient_filters(with_sources=[seed])


def test_a_state_of_another_size_is_refused():
    on = mps.MTLDevice(device="cpu")
    node = node_of("nearest", source("x"))
    other = node_of("nearest", source("z"))
    made = mps.MPSCNNUpsamplingNearestGradientNode(
        source_gradient=source("dy"), source_image=source("z"), gradient_state=node.result_state,
        scale_factor_x=2.0, scale_factor_y=3.0,
    )  # fmt: skip
    graph = graph_of(on, made.result_image, other.result_image, dtype="float32")
    given = {"x": (2, 3, 4, 5), "z": (2, 3, 2, 5), "dy": (2, 3, 6, 10)}
    arrays = {name: np.ones(shape, np.float32) for name, shape in given.items()}
    with pytest.raises(InvalidArgument, match=r"UpsamplingNearestGradient.*made for"):
        encode(graph, arrays)
    arrays["x"], arrays["z"] = arrays["x"][:, :, :2], arrays["z"]
    assert encode(graph, arrays)[0][0].shape == given["z"]


def test_wrong_parameters_are_refused():
    on = mps.MTLDevice(device="cpu")
    image = source("x")
    for node, text in [
        (mps.MPSCNNDropoutNode(source=image, keep_probability=1.5), "keep probability above 0"),
        (mps.MPSNNReshapeNode(source=image, result_width=0, result_height=1,
                              result_feature_channels=1), "MPSNNReshape.*1 or more"),
        (mps.MPSCNNUpsamplingNearestNode(source=image, integer_scale_factor_x=0,
                                         integer_scale_factor_y=1), "scale factors of 1 or more"),
        (mps.MPSNNPadNode(source=image, padding_size_before=(-1, 0, 0),
                          padding_size_after=(0, 0, 0), edge_mode="zero"), "sizes of 0 or more"),
    ]:  # fmt: skip
        with pytest.raises(InvalidArgument, match=text):
            mps.MPSNNGraph(device=on, result_image=node.result_image)
    with pytest.raises(TypeError, match="MPSCNNDropoutNode"):
        mps.MPSCNNDropoutNode(source=image, mask_stride_in_pixels=(1, 1))


class Alpha:
    def __init__(self):
        self.seen = []

    def alpha(self, source_image, destination_image):
        self.seen.append((source_image.width, destination_image.width))
        return 1.0 / source_image.width


def test_alpha_by_a_call_at_each_encoding():
    on = mps.MTLDevice(device="reference")
    node = mps.MPSNNGramMatrixCalculationNode(source=source("x"), alpha=3.0)
    made = node.gradient_filter(with_source=source("dy"))
    node.property_call_back = back = Alpha()
    assert node.property_call_back is back
    fixed = mps.MPSNNGramMatrixCalculationNode(source=source("x"), alpha=0.25)
    expected = fixed.gradient_filter(with_source=source("dy"))
    x, dy = random(1, 2, 3, 2, 4), random(2, 2, 3, 1, 3)
    given = {"x": x, "dy": dy}
    found = evaluate(on, given, node.result_image, made.result_image)
    assert back.seen == [(4, 3)]
    for a, b in zip(found, evaluate(on, given, fixed.result_image, expected.result_image),
                    strict=True):  # fmt: skip
        np.testing.assert_array_equal(a, b)
    with pytest.raises(TypeError, match=r"property_call_back.*alpha\(for_source_image"):
        node.property_call_back = 3
    node.property_call_back = None
    assert node.property_call_back is None


def test_exported_images_of_a_chain_may_be_read_once():
    on = mps.MTLDevice(device="cpu")
    node = node_of("nearest", source("x"))
    node.result_image.export_from_graph = True
    last = mps.MPSNNReductionSpatialMeanNode(source=node.result_image)
    graph = mps.MPSNNGraph(device=on, result_image=last.result_image)
    buffer, images = commands(on), []
    result = graph.encode_batch(
        buffer, source_images=[batch(on, np.ones(SHAPE, np.float32))], intermediate_images=images
    )
    assert [one.read_count for one in [*result, *images[0]]] == [1] * 4
    kept = batch(on, np.zeros((2, 3, 12, 10), np.float32))
    mps.MPSNNSlice(device=on).encode_batch(buffer, source_images=images[0], destination_images=kept)
    run(buffer)
    assert (array(kept) == 1).all()


# --- formats -------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_graphs_of_sixteen_bits(device):
    """Every pair in one chain, in images of 16 bits and of 32."""
    on = mps.MTLDevice(device=device)
    node = mps.MPSCNNNeuronTanHNode(source=source("x"))
    for name in ("bilinear", "spatial", "pad", "cross-channel", "reshape", "nearest"):
        if name == "reshape":
            node = mps.MPSNNReshapeNode(source=node.result_image, result_width=66,
                                        result_height=14, result_feature_channels=1)  # fmt: skip
            continue
        node = node_of(name, node.result_image)
    node = mps.MPSNNReductionSpatialMeanNode(source=node.result_image)
    both = mps.MPSNNConcatenationNode(sources=[node.result_image, node.result_image])
    product = mps.MPSNNMultiplicationNode(sources=[both.result_image, both.result_image])
    product.maximum_value = 10.0
    (last,) = product.training_graph(with_source_gradient=source("dy"))
    found = []
    for dtype in (np.float16, np.float32):
        given = {"x": random(1, *SHAPE).astype(np.float16).astype(dtype),
                 "dy": random(2, 2, 8, 1, 1).astype(np.float16).astype(dtype)}  # fmt: skip
        found.append(evaluate(on, given, last.result_image)[0])
    assert found[0].dtype == np.float16
    assert np.abs(found[1]).max() > 1e-4
    # Four roundings to float16.
    atol = 4 * 2.0**-11 * np.abs(found[1]).max()
    np.testing.assert_allclose(found[0], found[1], rtol=0, atol=atol)
