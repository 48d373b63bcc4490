"""Nodes with several sources: arithmetic, concatenation and losses."""

import numpy as np
import pytest
from gradients import near, random
from graphs import assert_same, differences, encode, evaluate, graph_of, source
from kernels import array, batch, commands, empty, run
from test_nodes import loss_descriptor

from traingraph import InvalidArgument, ShapeError, Unsupported, _core, mps

NAMES = {"Addition": "Add", "Subtraction": "Subtract", "Multiplication": "Multiply"}
PLAIN = {}
SCALED = {"primary_scale": 0.5, "secondary_scale": -2.0, "bias": 0.3}
CLAMPED = {"minimum_value": -0.5, "maximum_value": 0.75}
SPREAD = {"secondary_stride_in_pixels_x": 0, "secondary_stride_in_pixels_y": 0}
BOTH = {"primary_stride_in_feature_channels": 0, "secondary_stride_in_pixels_x": 0}
SETTINGS = {
    "plain": (PLAIN, (2, 3, 2, 4), (2, 3, 2, 4)),
    "scaled": (SCALED, (2, 3, 2, 4), (2, 3, 2, 4)),
    "clamped": (CLAMPED, (2, 3, 2, 4), (2, 3, 2, 4)),
    "spread": ({**SPREAD, **SCALED, **CLAMPED}, (2, 3, 2, 4), (2, 3, 1, 1)),
    "both": (BOTH, (2, 1, 2, 4), (2, 3, 2, 1)),
}


def arithmetic(name, properties):
    node = getattr(mps, f"MPSNN{name}Node")(left_source=source("a"), right_source=source("b"))
    for key, value in properties.items():
        setattr(node, key, value)
    return node


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", NAMES)
def test_arithmetic_against_differences(name, setting):
    on = mps.MTLDevice(device="reference")
    properties, first, second = SETTINGS[setting]
    node = arithmetic(name, properties)
    terminals = node.training_graph(with_source_gradient=source("dy"))
    assert [type(one) for one in terminals] == [node.gradient_class()] * 2
    assert [one.is_secondary_source_filter for one in terminals] == [False, True]
    assert [one.result_image.handle for one in terminals] == ["a", "b"]
    given = {"a": random(1, *first), "b": random(2, *second)}
    given["dy"] = random(3, *evaluate(on, given, node.result_image)[0].shape)
    found = evaluate(on, given, *(one.result_image for one in terminals))
    for source_name, dx in zip("ab", found, strict=True):
        assert np.abs(dx).max() > 0
        expected = differences(on, node.result_image, given, source_name, given["dy"])
        near(dx, expected, 1e-7)


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", NAMES)
def test_arithmetic_has_the_bits_of_encoded_kernels(name, setting, device):
    on = mps.MTLDevice(device=device)
    properties, first, second = SETTINGS[setting]
    a, b = (random(k, *shape).astype(np.float32) for k, shape in ((1, first), (2, second)))
    hand = getattr(mps, f"MPSCNN{NAMES[name]}")(device=on)
    hand.makes_temporary_images = False
    for key, value in properties.items():
        setattr(hand, key, value)
    images = {"primary_images": batch(on, a), "secondary_images": batch(on, b)}
    buffer = commands(on)
    y, states = hand.encode_batch(buffer, **images, destination_state_is_temporary=False)
    dy = random(3, 2, y[0].feature_channels, y[0].height, y[0].width).astype(np.float32)
    expected = []
    for secondary, other in ((False, "secondary_images"), (True, "primary_images")):
        gradient = getattr(mps, f"MPSCNN{NAMES[name]}Gradient")(
            device=on, is_secondary_source_filter=secondary
        )
        gradient.makes_temporary_images = False
        expected += [
            gradient.encode_batch(
                buffer, source_gradients=batch(on, dy), source_images=images[other],
                gradient_states=states,
            )
        ]  # fmt: skip
    run(buffer)
    node = arithmetic(name, properties)
    made = node.gradient_filters(with_source=source("dy"))
    given = {"a": a, "b": b, "dy": dy}
    found = evaluate(on, given, node.result_image, *(one.result_image for one in made))
    for got, want in zip(found, [y, *expected], strict=True):
        assert_same(got, array(want), device)


def test_gradient_nodes_of_arithmetic_by_their_initialisers():
    on = mps.MTLDevice(device="reference")
    node = arithmetic("Multiplication", SCALED)
    seed = source("dy")
    made = [
        mps.MPSNNMultiplicationGradientNode(
            gradient_images=[seed], forward_filter=node, is_secondary_source_filter=secondary
        )
        for secondary in (False, True)
    ]
    assert [(m.primary_scale, m.secondary_scale) for m in made] == [(0.5, -2), (-2, 0.5)]
    given = {name: random(k, 2, 3, 2, 4) for k, name in enumerate(["a", "b", "dy"])}
    found = evaluate(on, given, *(m.result_image for m in made))
    np.testing.assert_allclose(found[0], -given["dy"] * given["b"], rtol=1e-12)
    np.testing.assert_allclose(found[1], -given["dy"] * given["a"], rtol=1e-12)
    made[0].primary_scale = 5.0
    assert (made[0].primary_scale, node.primary_scale) == (5, 0.5)
    (dx,) = evaluate(on, given, made[0].result_image)
    np.testing.assert_allclose(dx, -10 * given["dy"] * given["b"], rtol=1e-12)
    third = mps.MPSNNMultiplicationGradientNode(
        source_gradient=seed, source_image=source("b"), gradient_state=node.result_state,
        is_secondary_source_filter=False,
    )  # fmt: skip
    # Another source of the graph, beside those of the forward node.
    graph = graph_of(on, third.result_image)
    assert graph.source_image_handles == ["dy", "b", "a", "b"]
    assert isinstance(node.result_state, mps.MPSNNArithmeticGradientStateNode)
    assert isinstance(node.result_state, mps.MPSNNBinaryGradientStateNode)


def test_bad_arithmetic_is_refused():
    on = mps.MTLDevice(device="cpu")
    a, b, seed = source("a"), source("b"), source("dy")
    quotient = mps.MPSNNDivisionNode(left_source=a, right_source=b)
    given = {"a": np.full((1, 2, 1, 1), 3, np.float32), "b": np.full((1, 2, 1, 1), 2, np.float32)}
    assert (evaluate(on, given, quotient.result_image)[0] == 1.5).all()
    assert quotient.gradient_class() is None
    with pytest.raises(Unsupported, match=r"MPSNNDivisionNode.*this one has none"):
        quotient.gradient_filters(with_source=seed)
    with pytest.raises(InvalidArgument, match=r"MPSNNSubtractionNode.*two sources but got 3"):
        mps.MPSNNSubtractionNode(sources=[a, b, a])
    total = mps.MPSNNAdditionNode(sources=[a, b])
    total.label = "sum"
    with pytest.raises(InvalidArgument, match=r"MPSNNSubtractionGradientNode.*Addition.*'sum'"):
        mps.MPSNNSubtractionGradientNode(
            source_gradient=seed, source_image=a, gradient_state=total.result_state,
            is_secondary_source_filter=True,
        )  # fmt: skip
    with pytest.raises(InvalidArgument, match="two sources but got 2 and MPSNNAdditionNode 'sum'"):
        mps.MPSNNAdditionGradientNode(
            gradient_images=[seed, seed], forward_filter=total, is_secondary_source_filter=True
        )
    with pytest.raises(InvalidArgument, match="gradient_filters"):
        total.gradient_filter(with_sources=[seed])
    total.primary_stride_in_pixels_x = 2
    with pytest.raises(InvalidArgument, match="strides of 0 or 1 but got 2"):
        mps.MPSNNGraph(device=on, result_image=total.result_image)
    total.primary_stride_in_pixels_x = 1
    given["b"] = np.ones((1, 3, 1, 1), np.float32)
    with pytest.raises(ShapeError, match=r"MPSCNNAdd 'sum'.*stride of 0"):
        evaluate(on, given, total.result_image)


def test_an_addition_that_hands_its_gradient_on_is_still_an_image():
    """Exported, several results, and stopped: what is not encoded behaves like what is."""
    on = mps.MTLDevice(device="cpu")
    a, b = source("a"), source("b")
    inner = mps.MPSCNNNeuronTanHNode(source=a)
    total = mps.MPSNNAdditionNode(left_source=inner.result_image, right_source=b)
    square = mps.MPSNNMultiplicationNode(sources=[total.result_image, total.result_image])

    def handler(gradient, inference, inference_source, gradient_source):
        if inference is total:
            gradient.result_image.export_from_graph = True
            gradient.result_image.makes_temporary_images = False
        gradient.result_image.handle = inference_source.handle

    terminals = square.training_graph(with_source_gradient=source("dy"), node_handler=handler)
    ends = {one.result_image.handle: one for one in terminals}
    assert sorted(ends) == ["a", "b"]
    shape = (2, 3, 2, 4)
    given = {name: random(k, *shape).astype(np.float32) for k, name in enumerate(["a", "b", "dy"])}
    images, _ = encode(
        graph_of(on, ends["a"].result_image, square.result_image, dtype="float32"), given
    )
    y = np.tanh(given["a"]) + given["b"]
    expected = 2 * given["dy"] * y
    # The two results, and the gradient of the left source; the right one is not needed.
    assert len(images) == 3
    np.testing.assert_allclose(images[0], expected * (1 - np.tanh(given["a"]) ** 2), rtol=1e-5)
    np.testing.assert_allclose(images[1], y**2, rtol=1e-5)
    np.testing.assert_allclose(images[2], expected, rtol=1e-5)
    inner.result_image.stop_gradient = True
    (only,) = [
        one for one in square.training_graph(with_source_gradient=source("dy"))
        if one.result_image.handle == "b"
    ]  # fmt: skip
    (db,) = evaluate(on, given, only.result_image)
    np.testing.assert_allclose(db, expected, rtol=1e-5)


def test_an_incoming_gradient_may_be_a_result():
    on = mps.MTLDevice(device="cpu")
    total = mps.MPSNNAdditionNode(left_source=source("a"), right_source=source("b"))
    left, right = total.gradient_filters(with_source=source("dy"))
    tanh = mps.MPSCNNNeuronTanHNode(source=left.result_image)
    graph = mps.MPSNNGraph(
        device=on, result_images=[right.result_image, tanh.result_image],
        results_are_needed=[True, True],
    )  # fmt: skip
    x = random(1, 2, 3, 2, 2).astype(np.float32)
    buffer, images = commands(on), []
    # A temporary gradient: read once inside, and once more by whoever has the result.
    seed = mps.MPSCNNNeuronTanHNode(source=source("x"))
    given = mps.MPSNNGraph(device=on, result_image=seed.result_image).encode_batch(
        buffer, source_images=[batch(on, x)]
    )
    others = [batch(on, x) for name in graph.source_image_handles if name != "dy"]
    assert graph.source_image_handles[0] == "dy"
    result = graph.encode_batch(buffer, source_images=[given, *others], intermediate_images=images)
    kept = [empty(on, x.shape, "float32") for _ in range(2)]
    for source_images, to in zip([result, images[0]], kept, strict=True):
        mps.MPSNNSlice(device=on).encode_batch(
            buffer, source_images=source_images, destination_images=to
        )
    run(buffer)
    np.testing.assert_allclose(array(kept[0]), np.tanh(x), rtol=1e-6)
    np.testing.assert_allclose(array(kept[1]), np.tanh(np.tanh(x)), rtol=1e-6)


# --- concatenation -------------------------------------------------------------------------------


def concatenation():
    images = [source(name) for name in "abc"]
    tanh = mps.MPSCNNNeuronTanHNode(source=images[1])
    return mps.MPSNNConcatenationNode(
        sources=[images[0], tanh.result_image, images[2], images[0]]
    ), {name: random(k, 2, k + 1, 2, 3) for k, name in enumerate("abc")}


FIRST = {False: (0, 4, 8, 12), True: (0, 1, 3, 6)}  # channel of each source, packed or not


def beside_each_other(parts, packed):
    """Each from a multiple of four channels on, zeros behind it; or without a gap."""
    gaps = [(0, 0) if packed else (0, -part.shape[1] % 4) for part in parts]
    apart = [np.pad(part, [(0, 0), gap, (0, 0), (0, 0)])
             for part, gap in zip(parts, gaps, strict=True)]  # fmt: skip
    return np.concatenate(apart, axis=1)


@pytest.mark.parametrize("packed", [False, True])
def test_concatenation_against_differences(packed):
    on = mps.MTLDevice(device="reference")
    node, given = concatenation()
    assert node.packs_channels is False
    node.packs_channels = packed
    assert len(node.result_states) == 4
    terminals = node.training_graph(with_source_gradient=source("dy"))
    # The image that is there twice has the sum of both slices.
    kinds = {one.result_image.handle: type(one).__name__ for one in terminals}
    assert kinds == {"a": "MPSNNAdditionNode", "b": "MPSCNNNeuronGradientNode",
                     "c": "MPSNNConcatenationGradientNode"}  # fmt: skip
    given["dy"] = random(9, 2, 7 if packed else 16, 2, 3)
    y, *found = evaluate(on, given, node.result_image, *(one.result_image for one in terminals))
    parts = [given["a"], np.tanh(given["b"]), given["c"], given["a"]]
    np.testing.assert_allclose(y, beside_each_other(parts, packed), rtol=1e-12)
    for one, dx in zip(terminals, found, strict=True):
        name = one.result_image.handle
        expected = differences(on, node.result_image, given, name, given["dy"])
        near(dx, expected, 1e-7)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_concatenation_slices_bit_for_bit(device, packed):
    on = mps.MTLDevice(device=device)
    node, given = concatenation()
    node.packs_channels = packed
    given = {name: x.astype(np.float32) for name, x in given.items()}
    given["dy"] = random(9, 2, 7 if packed else 16, 2, 3).astype(np.float32)
    made = node.gradient_filters(with_sources=[source("dy")])
    found = evaluate(on, given, *(one.result_image for one in made))
    for got, first, count in zip(found, FIRST[packed], (1, 2, 3, 1), strict=True):
        np.testing.assert_array_equal(got, given["dy"][:, first : first + count])
    states = node.result_states
    for state in states:
        state.export_from_graph = True
    _, exported = encode(graph_of(on, node.result_image, dtype="float32"), given)
    assert [len(one) for one in exported] == [2] * 4
    # Stopped inside: what is in front of the tanh has no gradient.
    node, _ = concatenation()
    seen = []

    def handler(gradient, inference, inference_source, gradient_source):
        seen.append(gradient)
        gradient.result_image.stop_gradient = len(seen) == 2

    node.training_graph(with_source_gradient=source("dy"), node_handler=handler)
    kinds = [type(one).__name__ for one in seen]
    assert kinds == ["MPSNNConcatenationGradientNode"] * 4 + ["MPSNNAdditionNode"]


def test_bad_concatenations_are_refused():
    on = mps.MTLDevice(device="cpu")
    node, given = concatenation()
    seed = source("dy")
    with pytest.raises(InvalidArgument, match="one or more sources but got none"):
        mps.MPSNNConcatenationNode(sources=[])
    with pytest.raises(InvalidArgument, match="this one has 4; use gradient_filters"):
        node.gradient_filter(with_source=seed)
    with pytest.raises(InvalidArgument, match="one gradient, for the one result, but got 4"):
        node.gradient_filters(with_sources=[seed] * 4)
    with pytest.raises(InvalidArgument, match=r"ConcatenationGradientNode.*MPSCNNSoftMaxNode"):
        mps.MPSNNConcatenationGradientNode(
            source_gradient=seed, source_image=seed,
            gradient_state=mps.MPSCNNSoftMaxNode(source=seed).result_state,
        )  # fmt: skip
    given["c"] = given["c"][:, :, :1]
    with pytest.raises(ShapeError, match=r"MPSNNConcatenation.*sources of one size"):
        evaluate(on, given, node.result_image)
    # What was refused leaves the nodes as they were.
    assert evaluate(on, concatenation()[1], concatenation()[0].result_image)[0].shape[1] == 16


def test_the_kernel_packs_unless_it_is_told():
    on = mps.MTLDevice(device="cpu")
    kernel = _core.MPSNNConcatenation(device=on)
    kernel.makes_temporary_images = False
    parts = [random(k, 2, k + 1, 2, 3).astype(np.float32) for k in range(4)]
    for packed in (True, False):
        assert kernel.packs_channels is packed
        buffer = commands(on)
        made = kernel.encode_batch(buffer, source_images=[batch(on, part) for part in parts])
        run(buffer)
        np.testing.assert_array_equal(array(made), beside_each_other(parts, packed))
        kernel.packs_channels = not packed


# --- losses --------------------------------------------------------------------------------------


def forward_loss(kind, reduction, weighted=False):
    d = loss_descriptor(kind, reduction)
    d.reduce_across_batch = reduction == "mean"
    scores = mps.MPSCNNNeuronTanHNode(source=source("x"))
    extra = {"weights": source("w")} if weighted else {}
    node = mps.MPSNNForwardLossNode(
        source=scores.result_image, labels=source("t"), loss_descriptor=d, **extra
    )
    return node, mps.MPSNNInitialGradientNode(source=node.result_image)


LOSSES = [
    ("mean_squared_error", "mean", False), ("sigmoid_cross_entropy", "sum", True),
    ("soft_max_cross_entropy", "mean", False), ("mean_squared_error", "none", True),
    ("hinge", "sum_by_non_zero_weights", True),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "reduction", "weighted"), LOSSES)
def test_losses_against_differences(kind, reduction, weighted):
    on = mps.MTLDevice(device="reference")
    node, ones = forward_loss(kind, reduction, weighted)
    (last,) = ones.training_graph()
    assert isinstance(last, mps.MPSCNNNeuronGradientNode)
    assert last.result_image.handle == "x"
    x = random(1, 2, 3, 1, 2)
    given = {"x": x, "t": np.abs(random(2, *x.shape)), "w": np.abs(random(3, *x.shape))}
    graph = graph_of(on, last.result_image, node.result_image)
    assert graph.source_image_handles[-1] in ("x", "w", "t")
    dx, loss = encode(graph, given)[0]
    expected = differences(on, node.result_image, given, "x", np.ones_like(loss))
    near(dx, expected)


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_losses_agree_with_the_loss_that_is_its_own_gradient(device):
    on = mps.MTLDevice(device=device)
    _, ones = forward_loss("soft_max_cross_entropy", "mean")
    (last,) = ones.training_graph()
    x, t = (random(k, 2, 3, 1, 1).astype(np.float32) for k in (1, 2))
    t = np.exp(t) / np.exp(t).sum(axis=1, keepdims=True)
    (dx,) = evaluate(on, {"x": x, "t": t}, last.result_image)
    scores = mps.MPSCNNNeuronTanHNode(source=source("x"))
    joined = mps.MPSCNNLossNode(source=scores.result_image, loss_descriptor=loss_descriptor())
    (other,) = joined.training_graph()
    graph = graph_of(on, other.result_image, dtype="float32")
    buffer = commands(on)
    labels = [
        mps.MPSCNNLossLabels(loss_image=a, labels_image=b)
        for a, b in zip(empty(on, (2, 1, 1, 1), "float32"), batch(on, t), strict=True)
    ]
    result = graph.encode_batch(buffer, source_images=[batch(on, x)], source_states=[labels])
    run(buffer)
    np.testing.assert_allclose(dx, array(result), rtol=1e-6, atol=1e-7)


def test_gradients_by_labels():
    on = mps.MTLDevice(device="reference")
    node, _ = forward_loss("mean_squared_error", "sum")
    seed = source("dy")
    by_source, by_labels = node.gradient_filters(with_source=seed)
    assert [m.is_labels_gradient_filter for m in (by_source, by_labels)] == [False, True]
    assert not node.gradient_filter(with_source=seed).is_labels_gradient_filter
    assert not node.gradient_filter(with_sources=[seed]).is_labels_gradient_filter
    x, t = random(1, 2, 3, 1, 2), random(2, 2, 3, 1, 2)
    given = {"x": x, "t": t, "dy": random(3, 2, 1, 1, 1)}
    found = evaluate(on, given, by_source.result_image, by_labels.result_image)
    expected = 2 * (np.tanh(x) - t) * given["dy"]
    np.testing.assert_allclose(found[0], expected, rtol=1e-9)
    np.testing.assert_allclose(found[1], -expected, rtol=1e-9)
    # A training graph has them where a node makes the labels.
    made = mps.MPSCNNNeuronTanHNode(source=source("z"))
    scores = mps.MPSCNNNeuronTanHNode(source=source("x"))
    node = mps.MPSNNForwardLossNode(
        sources=[scores.result_image, made.result_image], loss_descriptor=node_descriptor()
    )
    terminals = mps.MPSNNInitialGradientNode(source=node.result_image).training_graph()
    assert sorted(one.result_image.handle for one in terminals) == ["x", "z"]


def node_descriptor():
    return mps.MPSCNNLossDescriptor.cnn_loss_descriptor(
        with_type="mean_squared_error", reduction_type="sum"
    )


def test_loss_gradient_nodes_by_their_initialisers():
    on = mps.MTLDevice(device="reference")
    d = node_descriptor()
    x, t, w, seed = (source(name) for name in ("x", "t", "w", "dy"))
    node = mps.MPSNNForwardLossNode(source=x, labels=t, weights=w, loss_descriptor=d)
    node.label = "error"
    assert (node.loss_type, node.reduction_type) == (d.loss_type, d.reduction_type)
    assert (node.weight, node.reduce_across_batch, node.label_smoothing) == (1, False, 0)
    assert (node.number_of_classes, node.delta) == (d.number_of_classes, 1)
    sources = {"source_gradient": seed, "source_image": x, "labels": t, "weights": w}
    rest = {"loss_descriptor": d, "is_labels_gradient_filter": False}
    made = [
        mps.MPSNNLossGradientNode(**sources, gradient_state=node.result_state, **rest),
        mps.MPSNNLossGradientNode(sources=[seed, x, t, w], gradient_state=None, **rest),
    ]
    assert made[0].loss_type == node.loss_type
    given = {name: random(k, 2, 3, 1, 2) for k, name in enumerate("xtw")}
    given["dy"] = random(5, 2, 1, 1, 1)
    expected = 2 * (given["x"] - given["t"]) * given["w"] * given["dy"]
    for one in made:
        (dx,) = evaluate(on, given, one.result_image)
        np.testing.assert_allclose(dx, expected, rtol=1e-9)
    other = node_descriptor()
    other.weight = 2.0
    with pytest.raises(InvalidArgument, match="descriptor of MPSNNForwardLossNode 'error'"):
        mps.MPSNNLossGradientNode(
            **sources, gradient_state=node.result_state, loss_descriptor=other,
            is_labels_gradient_filter=False,
        )  # fmt: skip
    with pytest.raises(InvalidArgument, match=r"MPSNNForwardLossNode.*but got 1 sources"):
        mps.MPSNNForwardLossNode(sources=[x], loss_descriptor=d)
    with pytest.raises(InvalidArgument, match=r"MPSNNLossGradientNode.*but got 2 sources"):
        mps.MPSNNLossGradientNode(sources=[seed, x], gradient_state=None, **rest)
    with pytest.raises(InvalidArgument, match=r"MPSNNLossGradientNode.*MPSCNNSoftMaxNode"):
        mps.MPSNNLossGradientNode(
            **sources, gradient_state=mps.MPSCNNSoftMaxNode(source=x).result_state, **rest
        )
    with pytest.raises(Unsupported, match="already the gradient"):
        mps.MPSNNInitialGradientNode(source=x).gradient_filter(with_source=seed)


class Weight:
    calls = 0

    def scalar_weight(self, source_image, destination_image):
        self.calls += 1
        return 0.25 * source_image.width


def test_weights_by_a_call_at_each_encoding():
    on = mps.MTLDevice(device="reference")
    node, ones = forward_loss("mean_squared_error", "sum")
    back = node.property_call_back = Weight()
    (last,) = ones.training_graph()
    given = {"x": random(1, 2, 3, 1, 2), "t": random(2, 2, 3, 1, 2)}
    found = evaluate(on, given, last.result_image, node.result_image)
    assert back.calls == 2  # the loss, and its gradient
    other, ones = forward_loss("mean_squared_error", "sum")
    (last,) = ones.training_graph()
    plain = evaluate(on, given, last.result_image, other.result_image)
    for got, want in zip(found, plain, strict=True):
        np.testing.assert_allclose(got, want / 2, rtol=1e-12)
