"""Parts of tensors, margins around images and larger images."""

import numpy as np
import pytest

import traingraph as tg
from harness import Case, checks, empty, everywhere, node

S, P, U = tg.MLCSliceLayer, tg.MLCPaddingLayer, tg.MLCUpsampleLayer

# shape, start, end, stride
SLICES = [
    ((4, 3), (0, 1), (4, 3), None),
    ((4, 5), (0, 0), (4, 5), (1, 2)),
    ((4, 5), (1, 1), (4, 5), (2, 3)),
    ((2, 3, 4, 5), (0, 1, 0, 2), (2, 3, 3, 5), None),
    ((2, 3, 4, 5), (0, 0, 1, 0), (2, 3, 4, 5), (1, 2, 2, 4)),
    ((7,), (2,), (6,), (3,)),
]
NUMPY = {
    "zero_padding": {"mode": "constant"},
    "constant_padding": {"mode": "constant", "constant_values": 1.5},
    "reflection_padding": {"mode": "reflect"},
    "symmetric_padding": {"mode": "symmetric"},
}
# shape, sizes as given, (top, bottom), (left, right)
MARGINS = [
    ((2, 3, 4, 5), [1], (1, 1), (1, 1)),
    ((2, 3, 4, 5), [2, 3], (0, 0), (2, 3)),
    ((2, 1, 4, 5), [3, 1, 0, 4], (3, 1), (0, 4)),
    ((3, 2, 2), [0, 1, 1, 1], (0, 1), (1, 1)),
    ((2, 2, 3, 3), [0], (0, 0), (0, 0)),
]
# shape, the result's last axes
SIZES = [
    ((2, 3, 2, 2), (4, 4)),
    ((2, 1, 3, 4), (9, 4)),
    ((1, 2, 3, 5), (7, 11)),
    ((2, 3, 4), (7,)),
    ((2, 2, 1, 1), (3, 2)),
    ((2, 2, 3, 3), (3, 3)),
]


def slices(start, end, stride):
    return tuple(slice(*one) for one in zip(start, end, stride or [1] * len(start), strict=True))


def padding(kind, sizes):
    more = {"constant_value": 1.5} if kind == "constant_padding" else {}
    return P(**{kind: sizes}, **more)


def padded(x, kind, rows, columns):
    return np.pad(x, [(0, 0)] * (x.ndim - 2) + [rows, columns], **NUMPY[kind])


def positions(own, wanted, aligned):
    if aligned:
        return np.arange(wanted) * (own - 1) / max(wanted - 1, 1)
    return np.maximum((np.arange(wanted) + 0.5) * own / wanted - 0.5, 0)


def resized(x, sizes, mode, aligned=False):
    for k, wanted in enumerate(sizes):
        axis = x.ndim - len(sizes) + k
        own = x.shape[axis]
        if mode == "nearest":
            x = np.take(x, np.arange(wanted) * own // wanted, axis)
            continue
        at = positions(own, wanted, aligned)
        below = np.floor(at).astype(int).clip(0, own - 1)
        share = (at - below).reshape([-1] + [1] * (x.ndim - axis - 1))
        above = np.minimum(below + 1, own - 1)
        x = (1 - share) * np.take(x, below, axis) + share * np.take(x, above, axis)
    return x


CASES = [
    Case(
        f"slice {shape} {start} {end} {stride}",
        lambda start=start, end=end, stride=stride: S(
            start=list(start), end=list(end), stride=stride and list(stride)
        ),
        lambda x, one=(start, end, stride): x[slices(*one)],
        [shape],
    )
    for shape, start, end, stride in SLICES
]
CASES += [
    Case(
        f"{kind} {shape} {sizes}",
        lambda kind=kind, sizes=sizes: padding(kind, sizes),
        lambda x, kind=kind, rows=rows, columns=columns: padded(x, kind, rows, columns),
        [shape],
        rows=True,
    )
    for kind in NUMPY
    for shape, sizes, rows, columns in MARGINS
    if kind[:3] not in ("ref", "sym") or (max(columns) < shape[-1] and max(rows) < shape[-2])
]
CASES += [
    Case(
        f"{mode} {shape} {sizes} {aligned}",
        lambda sizes=sizes, mode=mode, aligned=aligned: U(
            shape=list(sizes), sample_mode=mode, aligns_corners=aligned
        ),
        lambda x, sizes=sizes, mode=mode, aligned=aligned: resized(x, sizes, mode, aligned),
        [shape],
        rows=shape[0] > 1,
    )
    for shape, sizes in SIZES
    for mode, aligned in (("nearest", False), ("linear", False), ("linear", True))
]

test_forward, test_gradient, test_backends, test_same_bits, test_batch = checks(CASES)


def run(made, x, device, batch_size=0, declared=None):
    graph, source = tg.MLCGraph(), empty(declared or x.shape, x.dtype.name)
    graph.node(made, source=source)
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": source})
    inference.compile(device=device)
    return inference.execute(
        inputs_data={"x": x}, batch_size=batch_size, options="synchronous"
    ).result


@everywhere
def test_measured_values(device):
    x = np.float32([1, 2, 3, 4]).reshape(1, 1, 2, 2)
    one = S(start=[0, 0, 1, 1], end=[1, 1, 2, 2])
    assert run(one, x, device).ravel().tolist() == [4]
    row = np.float32([1, 2]).reshape(1, 1, 1, 2)
    for kind, right in (("reflection", [2, 1, 2, 1]), ("symmetric", [1, 1, 2, 2])):
        made = P(**{f"{kind}_padding": [1, 1]})
        assert run(made, row, device).ravel().tolist() == right
    found = run(U(shape=[4, 4]), x, device)
    np.testing.assert_array_equal(found[0, 0], np.kron([[1, 2], [3, 4]], np.ones((2, 2))))


@everywhere
@pytest.mark.parametrize("rows", [4, 1, 3])
def test_a_slice_of_all_rows_keeps_the_batch(rows, device):
    x = np.random.default_rng(1).normal(size=(rows, 5)).astype(np.float32)
    made = S(start=[0, 1], end=[4, 5], stride=[1, 2])
    np.testing.assert_array_equal(run(made, x, device, rows, (4, 5)), x[:, 1:5:2])


@everywhere
def test_other_slices_of_rows_fix_the_batch(device):
    x = np.arange(20, dtype=np.float32).reshape(4, 5)
    made = S(start=[1, 0], end=[4, 5])
    np.testing.assert_array_equal(run(made, x, device, 4, (4, 5)), x[1:])
    with pytest.raises(ValueError, match=r"layer \d+ 'Slice'"):
        run(S(start=[1, 0], end=[4, 5]), x[:3], device, 3, (4, 5))


@everywhere
def test_images_as_pytorch_makes_them(device):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(2)
    for shape, sizes in [((2, 3, 5, 4), (13, 9)), ((1, 2, 7, 3), (20, 3)), ((3, 1, 2, 2), (64, 5))]:
        x = rng.normal(size=shape).astype(np.float32)
        for mode, aligned in (("nearest", None), ("bilinear", False), ("bilinear", True)):
            right = torch.nn.functional.interpolate(
                torch.tensor(x), size=sizes, mode=mode, align_corners=aligned
            )
            kind = "nearest" if mode == "nearest" else "linear"
            made = U(shape=list(sizes), sample_mode=kind, aligns_corners=bool(aligned))
            np.testing.assert_allclose(run(made, x, device), right, rtol=2e-6, atol=2e-6)


@everywhere
def test_what_is_not_finite_stays_where_it_is(device):
    """Of a row only the neighbours of an infinity are no numbers."""
    x = np.ones((1, 1, 1, 9), np.float32)
    x[..., 4] = np.inf
    found = run(U(shape=[1, 27], sample_mode="linear"), x, device).ravel()
    assert np.isfinite(found[:10]).all()
    assert np.isfinite(found[17:]).all()
    assert not np.isfinite(found[12:15]).any()


WHOLE = {
    "slice": lambda: S(start=[0, 0, 0], end=[2, 3, 4]),
    "padding": lambda: P(symmetric_padding=[0]),
    "upsampling": lambda: U(shape=[3, 4]),
}


@everywhere
@pytest.mark.parametrize("kind", WHOLE)
def test_a_result_that_is_the_source_has_a_gradient_of_its_own(kind, device):
    """What other layers add to the source's is no part of it."""
    graph, x = tg.MLCGraph(), empty((2, 3, 4), "float32")
    layer = WHOLE[kind]()
    same = graph.node(layer, source=x)
    total = graph.node(tg.MLCArithmeticLayer(operation="add"), sources=[same, x])
    training = tg.MLCTrainingGraph(graph_objects=[graph])
    training.add_inputs({"x": x})
    gradient = training.allocate_user_gradient(total)
    (own,) = training.result_gradient_tensors(layer)
    training.add_outputs({"own": own})
    training.compile(options="compute_all_gradients", device=device)
    training.bind_and_write_data({"x": np.ones((2, 3, 4), np.float32)}, for_inputs={"x": x})
    training.execute_forward(options="synchronous")
    gradient.bind_and_write_data(np.ones((2, 3, 4), np.float32))
    found, whole = np.zeros((2, 3, 4), np.float32), np.zeros((2, 3, 4), np.float32)
    training.execute_gradient(options="synchronous", outputs_data={"own": found})
    training.gradient_tensor(for_input=x).copy_data_from_device_memory(whole)
    assert (found == 1).all()
    assert (whole == 2).all()


def test_properties_and_copies():
    made = P(constant_padding=[1, 2, 3, 4], constant_value=2.5)
    for one in (made, made.copy()):
        sizes = (one.padding_top, one.padding_bottom, one.padding_left, one.padding_right)
        assert (type(one), sizes) == (P, (1, 2, 3, 4))
        assert (one.padding_type.name, one.constant_value) == ("CONSTANT", 2.5)
    graph, x = tg.MLCGraph(), empty((1, 1, 2, 2), "float32")
    graph.node(made, source=x)
    tg.MLCGraph().node(made.copy(), source=x)  # the copy belongs to no graph
    assert P(zero_padding=[2]).padding_type.name == "ZERO"
    layer = S(start=[0], end=[2])
    assert (layer.start, layer.end, layer.stride) == ([0], [2], None)
    assert S(start=[0], end=[2], stride=[2]).stride == [2]
    layer = U(shape=[3, 4])
    assert (layer.shape, layer.sample_mode.name, layer.aligns_corners) == ([3, 4], "NEAREST", False)


def test_wrong_slices():
    for start, end, stride in [
        ([0], [2, 3], None), ([0, 0], [2, 3], [1]), ([-1, 0], [2, 3], None),
        ([0, 2], [2, 2], None), ([0, 0], [2, 3], [1, 0]), ([], [], None),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=r"\[Slice\] expected as many starts of at least 0"):
            S(start=start, end=end, stride=stride)
    with pytest.raises(ValueError, match=r"each axis of \(2, 3\).* but got \(2, 4\) at layer"):
        node(S(start=[0, 0], end=[2, 4]), (2, 3))
    with pytest.raises(ValueError, match="at most 16777216 elements along an axis but got"):
        node(S(start=[0], end=[2**40], stride=[2]), (2**40,))
    node(S(start=[0], end=[3], stride=[2**63 - 1]), (3,))
    with pytest.raises(ValueError, match=r"each axis of \(2, 3\).* but got \(2,?\) at layer"):
        node(S(start=[0], end=[2]), (2, 3))


def test_wrong_margins():
    for sizes in ([], [1, 2, 3], [1, 2, 3, 4, 5], [-1]):
        with pytest.raises(ValueError, match=r"\[Padding\] expected 1, 2 or 4 sizes"):
            P(zero_padding=sizes)
    with pytest.raises(
        ValueError, match=r"at most 1 elements to mirror .*\(1, 1, 2, 2\) but got 2"
    ):
        node(P(reflection_padding=[2]), (1, 1, 2, 2))
    node(P(symmetric_padding=[2]), (1, 1, 2, 2))
    with pytest.raises(ValueError, match=r"at most 2 elements to mirror .*but got 3 at layer"):
        node(P(symmetric_padding=[3]), (1, 1, 2, 2))
    with pytest.raises(ValueError, match=r"at least 3 axes but got \(2, 2\) at layer"):
        node(P(zero_padding=[1]), (2, 2))
    with pytest.raises(ValueError, match="at most 16777216 elements along an axis but got"):
        node(P(zero_padding=[2**40]), (1, 1, 2, 2))
    with pytest.raises(TypeError):
        P(zero_padding=[1], constant_value=2.0)
    wrong = [("int8", 128.0), ("int32", 2.5), ("uint8", -1.0), ("bool", 2.0), ("int64", np.inf)]
    for dtype, value in wrong:
        made = P(constant_padding=[1], constant_value=value)
        with pytest.raises(ValueError, match=rf"a constant that {dtype} holds but got .* at layer"):
            node(made, (1, 1, 2, 2), dtype=dtype)
    node(P(constant_padding=[1], constant_value=-128.0), (1, 1, 2, 2), dtype="int8")


def test_wrong_sizes():
    for shape in ([], [1, 2, 3], [0], [2**40]):
        with pytest.raises(ValueError, match=r"\[Upsampling\] expected a width, or a height and"):
            U(shape=shape)
    with pytest.raises(
        ValueError, match=r"no larger than \(2, 4\), but got \(1, 1, 3, 3\) at layer"
    ):
        node(U(shape=[2, 4]), (1, 1, 3, 3))
    with pytest.raises(ValueError, match=r"of more than 2 axes, .* but got \(3, 3\) at layer"):
        node(U(shape=[4, 4]), (3, 3))
    with pytest.raises(TypeError, match="floating-point numbers but got int32 at layer"):
        node(U(shape=[4, 4]), (1, 1, 3, 3), dtype="int32")
