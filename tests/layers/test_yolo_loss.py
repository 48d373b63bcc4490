"""The YOLO loss against formulations in NumPy and PyTorch, and each member of its descriptor."""

import numpy as np
import pytest

import traingraph as tg
from differences import Slopes
from harness import BOUNDS, assert_near, empty, everywhere, node, tensor

ANCHORS = [(1.0, 1.5), (2.5, 0.75)]
CLASSES = 3
# A power of 2: updates are larger than predictions, whose rounding is then not the gradient's.
RATE = 64.0
MEMBERS = {
    "should_rescore": False,
    "scale_spatial_position_loss": 3.0,
    "scale_spatial_size_loss": 0.5,
    "scale_no_object_confidence_loss": 7.0,
    "scale_object_confidence_loss": 40.0,
    "scale_class_loss": 0.0,
    "minimum_iou_for_object_presence": 0.5,
    "maximum_iou_for_object_absence": 0.0625,
}


def descriptor(anchors=ANCHORS, **members):
    made = tg.MLCYOLOLossDescriptor(anchor_boxes=anchors, anchor_box_count=len(anchors))
    for name, value in members.items():
        setattr(made, name, value)
    return made


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def overlap(a, b):
    """Of boxes (…, 4) of middles and sizes."""
    low = np.maximum(a[..., :2] - a[..., 2:] / 2, b[..., :2] - b[..., 2:] / 2)
    high = np.minimum(a[..., :2] + a[..., 2:] / 2, b[..., :2] + b[..., 2:] / 2)
    common = np.prod(np.maximum(high - low, 0), axis=-1)
    return common / (np.prod(a[..., 2:], axis=-1) + np.prod(b[..., 2:], axis=-1) - common)


class Formula:
    """Box by box; overlaps are those of `fixed`, for no gradient flows through them."""

    def __init__(self, d, labels, fixed):
        self.d, self.labels = d, labels
        self.overlaps = {}
        for box in self.boxes():
            n, a, i, j = box
            truths = [self.truth(b) for b in self.boxes() if b[0] == n and self.has_object(b)]
            x, y, w, h = self.row(fixed, box)[:4]
            anchor = np.array(d.anchor_boxes[a])
            own = np.array([j + sigmoid(x), i + sigmoid(y), *(anchor * np.exp([w, h]))])
            best = max([0.0, *(overlap(own, truth) for truth in truths)])
            mine = overlap(own, self.truth(box)) if self.has_object(box) else None
            self.overlaps[box] = best, mine

    def boxes(self):
        images, _, height, width = self.labels.shape
        return list(np.ndindex(images, len(self.d.anchor_boxes), height, width))

    def row(self, array, box):
        n, a, i, j = box
        count = array.shape[1] // len(self.d.anchor_boxes)
        return array[n, a * count : (a + 1) * count, i, j]

    def has_object(self, box):
        return self.row(self.labels, box)[4] == 1

    def truth(self, box):
        x, y, w, h = self.row(self.labels, box)[:4]
        return np.array([box[3] + x, box[2] + y, w, h])

    def __call__(self, prediction):
        d, losses = self.d, np.zeros(len(prediction))
        for box in self.boxes():
            y, t = self.row(prediction, box), self.row(self.labels, box)
            best, mine = self.overlaps[box]
            softplus = np.logaddexp(0, y[4])
            if not self.has_object(box):
                if best < np.float32(d.maximum_iou_for_object_absence):
                    losses[box[0]] += d.scale_no_object_confidence_loss * softplus
                continue
            error = np.abs(y[2:4] - np.log(t[2:4] / np.array(d.anchor_boxes[box[1]])))
            size = np.where(error <= 1, error**2 / 2, error - 0.5).sum()
            position = ((sigmoid(y[:2]) - t[:2]) ** 2).sum()
            classes = (t[5:] * (np.logaddexp.reduce(y[5:]) - y[5:])).sum() if len(t) > 5 else 0
            target = mine if d.should_rescore else 1.0
            losses[box[0]] += (
                d.scale_spatial_position_loss * position
                + d.scale_spatial_size_loss * size
                + d.scale_object_confidence_loss * (softplus - target * y[4])
                + d.scale_class_loss * classes
            )
        return losses


def drawn(seed=1, shape=(3, 4, 5), anchors=ANCHORS, classes=CLASSES):
    """A prediction and its labels, of which an eighth has an object.

    Away from kinks: raw sizes differ by 0.01 or more from the ends of Huber's middle, and
    test_gradient looks whether any overlap is within 1e-4 of the limit.
    """
    random = np.random.default_rng(seed)
    images, height, width = shape
    count = len(anchors)
    y = random.normal(size=(images, count, 5 + classes, height, width))
    t = np.zeros_like(y)
    has = random.uniform(size=(images, count, height, width)) < 0.125
    has[0] = False  # an image without objects
    has[1, 0, 0, :2] = True  # neighbours
    t[:, :, :2] = random.uniform(0.05, 0.95, t[:, :, :2].shape)
    t[:, :, 2:4] = random.uniform(0.3, 4, t[:, :, 2:4].shape)
    if classes:
        hot = random.integers(0, classes, has.shape)
        t[:, :, 5:] = np.moveaxis(np.eye(classes)[hot], -1, 2)
    t = t * has[:, :, None]
    t[:, :, 4] = has
    with np.errstate(divide="ignore"):
        wanted = np.log(t[:, :, 2:4] / np.array(anchors)[:, :, None, None])
    near = np.abs(np.abs(y[:, :, 2:4] - wanted) - 1) < 0.01
    y[:, :, 2:4] += 0.05 * near
    flat = (images, count * (5 + classes), height, width)
    exact = [a.reshape(flat).astype(np.float32).astype(np.float64) for a in (y, t)]
    return exact[0], exact[1]


def run(d, y, t, weights=None, device="reference", dtype="float64"):
    """One step: the loss, and the gradient of the prediction."""
    graph, x = tg.MLCGraph(), tensor(y, dtype)
    graph.node(tg.MLCActivationLayer(descriptor=tg.MLCActivationDescriptor(type="none")), source=x)
    training = tg.MLCTrainingGraph(
        graph_objects=[graph],
        loss_layer=tg.MLCYOLOLossLayer(descriptor=d),
        optimizer=tg.MLCSGDOptimizer(learning_rate=RATE),
    )
    training.set_training_tensor_parameters([tg.MLCTensorParameter(tensor=x)])
    data = {"loss_labels_data": {"t": t.astype(dtype)}}
    named = {}
    if weights is not None:
        data["loss_label_weights_data"] = {"w": weights.astype(dtype)}
        named = {"loss_label_weights": {"w": empty(weights.shape, dtype)}}
    training.add_inputs({}, loss_labels={"t": empty(t.shape, dtype)}, **named)
    training.compile(device=device)
    loss = training.execute(inputs_data={}, options="synchronous", **data).result
    training.synchronize_updates()
    return np.asarray(loss), (y.astype(dtype) - x.data) / RATE


def infer(d, y, t, device="reference", dtype="float64"):
    graph, x, labels = tg.MLCGraph(), empty(y.shape, dtype), empty(t.shape, dtype)
    graph.node(tg.MLCYOLOLossLayer(descriptor=d), sources=[x], loss_labels=[labels])
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": x}, loss_labels={"t": labels}, loss_label_weights=None)
    inference.compile(device=device)
    return inference.execute(
        inputs_data={"x": y.astype(dtype)},
        loss_labels_data={"t": t.astype(dtype)},
        options="synchronous",
    ).result


VARIANTS = [{}, {"should_rescore": False}, MEMBERS]


@pytest.mark.parametrize("members", VARIANTS, ids=["defaults", "not rescored", "others"])
def test_gradient(members):
    y, t = drawn()
    d = descriptor(**members)
    formula = Formula(d, t, y)
    limit = d.maximum_iou_for_object_absence
    assert min(abs(best - limit) for best, _ in formula.overlaps.values()) > 1e-4
    loss, gradient = run(d, y, t)
    assert loss.shape == (3,)
    assert_near(loss, formula(y), 1e-12)
    Slopes(formula, y.copy(), elements=True).assert_near(gradient, 2e-8)


@pytest.mark.parametrize("members", VARIANTS, ids=["defaults", "not rescored", "others"])
@everywhere
def test_float32(members, device):
    y, t = drawn()
    d = descriptor(**members)
    expected, slopes = run(d, y, t)
    loss, gradient = run(d, y, t, device=device, dtype="float32")
    assert_near(loss.astype(np.float64), expected, BOUNDS["float32"])
    assert_near(gradient.astype(np.float64), slopes, 4 * BOUNDS["float32"])
    again = run(d, y, t, device=device, dtype="float32")
    assert (loss.tobytes(), gradient.tobytes()) == (again[0].tobytes(), again[1].tobytes())
    assert_near(infer(d, y, t, device, "float32").astype(np.float64), expected, BOUNDS["float32"])


@everywhere
def test_without_classes_and_with_one_anchor(device):
    y, t = drawn(4, (2, 1, 3), [(1.0, 2.0)], 0)
    t[1, 4, 0, 1], t[1, :4, 0, 1] = 1, 0.5
    d = descriptor([(1.0, 2.0)])
    loss, _ = run(d, y, t, device=device, dtype="float32")
    assert_near(loss.astype(np.float64), Formula(d, t, y)(y), BOUNDS["float32"])


def in_torch(torch, d, prediction, labels):
    """One value per image, over all boxes at once. Overlaps are constants."""
    functional = torch.nn.functional
    images, _, height, width = prediction.shape
    count, cells = len(d.anchor_boxes), height * width
    rows, truth = (
        a.reshape(images, count, -1, cells).movedim(2, -1).reshape(images, count * cells, -1)
        for a in (prediction, labels)
    )
    has = truth[..., 4] == 1
    anchors = torch.tensor(np.array(d.anchor_boxes, np.float64)).repeat_interleave(cells, 0)
    at = [(k % width, k // width) for k in range(cells)]
    at = torch.tensor(at, dtype=torch.float64).repeat(count, 1)
    middle, size = rows[..., :2].sigmoid(), anchors * rows[..., 2:4].exp()

    def corners(at, extent):
        return at - extent / 2, at + extent / 2

    (low, high), (truth_low, truth_high) = (
        corners(middle.detach() + at, size.detach()),
        corners(truth[..., :2] + at, truth[..., 2:4]),
    )
    sides = torch.minimum(high[:, :, None], truth_high[:, None]) - torch.maximum(
        low[:, :, None], truth_low[:, None]
    )
    common = sides.clamp(min=0).prod(-1)
    areas = size.detach().prod(-1)[:, :, None] + truth[..., 2:4].prod(-1)[:, None]
    iou = common / (areas - common) * has[:, None]
    mine = iou.diagonal(dim1=1, dim2=2) if d.should_rescore else torch.ones_like(rows[..., 4])
    target = torch.where(has, mine, torch.zeros((), dtype=torch.float64))
    absent = ~has & (iou.amax(-1) < float(np.float32(d.maximum_iou_for_object_absence)))
    entropy = functional.binary_cross_entropy_with_logits(rows[..., 4], target, reduction="none")
    wanted = torch.where(has[..., None], truth[..., 2:4], anchors) / anchors
    sizes = functional.huber_loss(rows[..., 2:4], wanted.log(), reduction="none").sum(-1)
    terms = (
        d.scale_spatial_position_loss * (middle - truth[..., :2]).square().sum(-1)
        + d.scale_spatial_size_loss * sizes
        - d.scale_class_loss * (truth[..., 5:] * rows[..., 5:].log_softmax(-1)).sum(-1)
    )
    presence = d.scale_object_confidence_loss * has + d.scale_no_object_confidence_loss * absent
    return (terms * has + entropy * presence).sum(-1)


@pytest.mark.parametrize("members", VARIANTS, ids=["defaults", "not rescored", "others"])
def test_pytorch(members):
    """Its autograd."""
    torch = pytest.importorskip("torch")
    y, t = drawn(2)
    d = descriptor(**members)
    x = torch.tensor(y, requires_grad=True)
    losses = in_torch(torch, d, x, torch.tensor(t))
    losses.sum().backward()
    loss, gradient = run(d, y, t)
    assert_near(loss, losses.detach().numpy(), 1e-12)
    assert_near(gradient, x.grad.numpy(), 1e-10)


@pytest.mark.parametrize("name", MEMBERS)
def test_each_member(name):
    """What it changes is what the formula says; presence is said by the labels alone."""
    y, t = drawn()
    defaults, d = descriptor(), descriptor(**{name: MEMBERS[name]})
    before, after = run(defaults, y, t)[0], run(d, y, t)[0]
    assert_near(after, Formula(d, t, y)(y), 1e-12)
    changes = not np.array_equal(before, after)
    assert changes == (name != "minimum_iou_for_object_presence")


def test_descriptor():
    made = descriptor()
    assert made.anchor_boxes == ANCHORS
    assert made.anchor_box_count == 2
    defaults = [True, 10, 10, 5, 100, 2, np.float32(0.7), np.float32(0.3)]
    assert [getattr(made, name) for name in MEMBERS] == defaults
    for boxes in (np.float32(ANCHORS), np.float32(ANCHORS).tobytes(), [1, 1.5, 2.5, 0.75]):
        other = tg.MLCYOLOLossDescriptor(anchor_boxes=boxes, anchor_box_count=2)
        assert other.anchor_boxes == ANCHORS
    changed = descriptor(**MEMBERS)
    copy = changed.copy()
    layer = tg.MLCYOLOLossLayer(descriptor=changed)
    for one in (copy, layer.yolo_loss_descriptor):
        assert one.anchor_boxes == ANCHORS
        assert {name: getattr(one, name) for name in MEMBERS} == MEMBERS
    changed.scale_class_loss = 9.0
    assert copy.scale_class_loss == layer.yolo_loss_descriptor.scale_class_loss == 0
    assert isinstance(layer, tg.MLCLossLayer)
    assert layer.descriptor.reduction_type == tg.MLCReductionType.NONE
    assert layer.weights is None
    assert "2 anchors" in repr(layer)


def test_wrong_descriptors():
    make = tg.MLCYOLOLossDescriptor
    with pytest.raises(ValueError, match=r"anchor_box_count .* but got 3 and 2"):
        make(anchor_boxes=ANCHORS, anchor_box_count=3)
    with pytest.raises(ValueError, match="at least 1"):
        make(anchor_boxes=[], anchor_box_count=0)
    with pytest.raises(ValueError, match="8 bytes for each box but got 12"):
        make(anchor_boxes=bytes(12), anchor_box_count=1)
    for boxes in ([1.0, 2.0, 3.0], "ab", [[1, 2, 3]], 4.0, None, [None, 1]):
        with pytest.raises((TypeError, ValueError), match="anchor_boxes"):
            make(anchor_boxes=boxes, anchor_box_count=1)
    for size in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="finite sizes above 0"):
            make(anchor_boxes=[(1.0, size)], anchor_box_count=1)
    for name in MEMBERS:
        for wrong in () if name == "should_rescore" else (-0.5, np.nan, np.inf):
            made = descriptor()
            with pytest.raises(ValueError, match=name):
                setattr(made, name, wrong)
            assert getattr(made, name) == getattr(descriptor(), name)
    for name in ("minimum_iou_for_object_presence", "maximum_iou_for_object_absence"):
        with pytest.raises(ValueError, match=name):
            setattr(descriptor(), name, 1.5)


def test_wrong_sources():
    def layer():
        return tg.MLCYOLOLossLayer(descriptor=descriptor())

    good = (2, 16, 3, 4)
    node(layer(), good, good)
    for shape in [(2, 15, 3, 4), (2, 8, 3, 4), (2, 16, 3)]:
        with pytest.raises(ValueError, match=r"\(N, 2 \* \(5 \+ K\), H, W\) but got .* at layer"):
            node(layer(), shape, shape)
    with pytest.raises(ValueError, match="labels of the prediction's shape"):
        node(layer(), good, (2, 16, 4, 3))
    with pytest.raises(TypeError, match="labels of type float32 but got float64"):
        node(layer(), good, good, dtypes=["float32", "float64"])
    with pytest.raises(TypeError, match="floating-point"):
        node(layer(), good, good, dtype="int32")
    with pytest.raises(ValueError, match=r"one weight per loss value, \(2,?\), but got \(3,?\)"):
        node(layer(), good, good, (3,))
    with pytest.raises(ValueError, match="2 to 3 sources but got 1"):
        node(layer(), good)


@everywhere
def test_weights_of_samples(device):
    y, t = drawn()
    plain, slopes = run(descriptor(), y, t)
    weights = np.array([0.5, 0, 2])
    loss, gradient = run(descriptor(), y, t, weights, device, "float32")
    assert_near(loss.astype(np.float64), plain * weights, BOUNDS["float32"])
    expected = slopes * weights[:, None, None, None]
    assert_near(gradient.astype(np.float64), expected, 4 * BOUNDS["float32"])
    assert not gradient[1].any()


@everywhere
def test_labels_without_object_are_not_looked_at(device):
    """But for their confidence; and overlaps of exactly the limit are not below it."""
    y, t = drawn()
    loss, gradient = run(descriptor(), y, t, device=device, dtype="float32")
    rows = t.reshape(3, 2, 8, 4, 5).copy()
    empty_ones = np.broadcast_to(rows[:, :, 4:5] == 0, rows[:, :, :4].shape)
    rows[:, :, :4][empty_ones] = np.nan
    other = run(descriptor(), y, rows.reshape(t.shape), device=device, dtype="float32")
    np.testing.assert_array_equal(other[0], loss)
    np.testing.assert_array_equal(other[1], gradient)
    # Nothing is below 0, so only responsible anchors add to the loss.
    none, slopes = run(
        descriptor(maximum_iou_for_object_absence=0.0), y, t, device=device, dtype="float32"
    )
    assert none[0] == 0
    assert not slopes[0].any()


@everywhere
def test_fewer_rows(device):
    y, t = drawn()
    graph, x, labels = tg.MLCGraph(), empty(y.shape, "float32"), empty(t.shape, "float32")
    graph.node(tg.MLCActivationLayer.linear(scale=1.0, bias=0.0), source=x)
    training = tg.MLCTrainingGraph(
        graph_objects=[graph], loss_layer=tg.MLCYOLOLossLayer(descriptor=descriptor())
    )
    training.add_inputs({"x": x}, loss_labels={"t": labels})
    training.compile(device=device)
    expected = Formula(descriptor(), t, y)(y)
    for rows in (3, 1, 2):
        loss = training.execute(
            inputs_data={"x": y[:rows].astype(np.float32)},
            loss_labels_data={"t": t[:rows].astype(np.float32)},
            batch_size=rows,
            options="synchronous",
        ).result
        assert np.shape(loss) == (rows,)
        assert_near(loss.astype(np.float64), expected[:rows], BOUNDS["float32"])
