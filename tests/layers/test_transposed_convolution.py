"""Transposed convolution: its definition, and the convolution that it is the adjoint of."""

import os
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest
import test_tf32_convolutions as tf32
from test_convolution import convolution

import traingraph as tg
from differences import assert_near
from harness import (
    Case,
    Inference,
    assert_all_near,
    checks,
    empty,
    everywhere,
    node,
    tensor,
    train,
)
from windows import policy


@dataclass(frozen=True)
class Transposed:
    """x (N, C, H, W) to (N, O, P, Q), by weights (C, O / groups, kh, kw)."""

    source: tuple[int, int, int, int]
    outputs: int
    kernel: tuple[int, int]
    groups: int = 1
    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    padding: object = "same"

    def descriptor(self):
        return tg.MLCConvolutionDescriptor(
            type="transposed",
            kernel_sizes=self.kernel,
            input_feature_channel_count=self.source[1],
            output_feature_channel_count=self.outputs,
            group_count=self.groups,
            strides=self.strides,
            dilation_rates=self.dilations,
            padding_policy=policy(self.padding),
        )

    def layer(self, weights=None, biases=None):
        given = {"weights": weights, "biases": biases} if weights is not None else {}
        return tg.MLCConvolutionLayer(descriptor=self.descriptor(), **given)

    def weights(self):
        return (self.source[1], self.outputs // self.groups, *self.kernel)

    def side(self, axis):
        """The extent of the result, and how much of the whole is cut off before it."""
        stride, source = self.strides[axis], self.source[2 + axis]
        reach = (self.kernel[axis] - 1) * self.dilations[axis] + 1
        whole = (source - 1) * stride + reach
        if self.padding == "same":
            return source * stride, max(reach - stride, 0) // 2
        cut = 0 if self.padding == "valid" else self.padding[axis]
        return whole - 2 * cut, cut

    def shape(self):
        return (self.source[0], self.outputs, self.side(0)[0], self.side(1)[0])

    def grouped(self, array, axis=1):
        """With the axis of channels as (groups, channels of one)."""
        shape = array.shape
        return array.reshape(*shape[:axis], self.groups, -1, *shape[axis + 1 :])

    def taps(self, canvas):
        """Each element of the kernel: where it is, and what of the canvas it meets."""
        for at in np.ndindex(*self.kernel):
            met = [
                slice(t * d, t * d + (m - 1) * s + 1, s)
                for t, d, s, m in zip(
                    at, self.dilations, self.strides, self.source[2:], strict=True
                )
            ]
            yield at, canvas[..., met[0], met[1]]

    def canvas(self, rows):
        """The whole, with what lies behind it, as (N, groups, O / groups, …); and the result in it
        as (N, O, P, Q)."""
        extents = []
        for axis in (0, 1):
            extent, cut = self.side(axis)
            reach = (self.kernel[axis] - 1) * self.dilations[axis] + 1
            whole = (self.source[2 + axis] - 1) * self.strides[axis] + reach
            extents.append((max(whole, cut + extent), slice(cut, cut + extent)))
        (height, at_rows), (width, at_columns) = extents
        whole = np.zeros((rows, self.groups, self.outputs // self.groups, height, width))
        return whole, whole[..., at_rows, at_columns]

    def forward(self, x, weights, biases=None):
        """Each element of the source times the kernel, added where the kernel then lies."""
        whole, result = self.canvas(len(x))
        w = self.grouped(weights.reshape(self.weights()), 0)
        for (i, j), met in self.taps(whole):
            met += np.einsum("ngchw,gco->ngohw", self.grouped(x), w[..., i, j], optimize=True)
        y = result.reshape(len(x), *self.shape()[1:])
        return y if biases is None else y + biases.reshape(1, -1, 1, 1)

    def backward(self, x, weights, dy):
        """The gradients of the source and of the weights."""
        whole, result = self.canvas(len(x))
        result[...] = dy.reshape(result.shape)
        x, w = self.grouped(x), self.grouped(weights.reshape(self.weights()), 0)
        dx, dw = np.zeros(x.shape), np.zeros(w.shape)
        for (i, j), met in self.taps(whole):
            dx += np.einsum("ngohw,gco->ngchw", met, w[..., i, j], optimize=True)
            dw[..., i, j] = np.einsum("ngchw,ngohw->gco", x, met, optimize=True)
        return dx.reshape(len(x), *self.source[1:]), dw.reshape(weights.shape)


def case(name, source, outputs, kernel, biases=True, weights=None, **more):
    one = Transposed(source, outputs, kernel, **more)
    count = int(np.prod(one.weights()[:2]))
    parameters = [weights or (1, count, *kernel)] + [(1, outputs, 1, 1)] * biases
    found = Case(name, one.layer, one.forward, [source], parameters, rows=source[0] > 1)
    found.of = one
    return found


CASES = [
    case("1x1", (2, 3, 4, 5), 4, (1, 1)),
    case("one pixel", (1, 1, 1, 1), 1, (1, 1)),
    case("one pixel, 3x3", (2, 2, 1, 1), 3, (3, 3), padding="valid"),
    case("same", (2, 3, 5, 4), 4, (3, 3)),
    case("same, even kernel", (2, 2, 4, 5), 3, (2, 4)),
    case("same, stride", (2, 2, 4, 3), 3, (3, 3), strides=(2, 2)),
    case("same, even kernel and stride", (2, 2, 3, 4), 3, (4, 4), strides=(2, 2)),
    case("same, stride beyond the kernel", (2, 2, 3, 2), 2, (1, 2), strides=(3, 4)),
    case("same, dilation", (2, 2, 4, 3), 2, (3, 2), dilations=(2, 3)),
    case("same, stride and dilation", (2, 2, 3, 3), 2, (2, 3), strides=(3, 2), dilations=(3, 1)),
    case("valid", (2, 3, 4, 3), 2, (3, 3), padding="valid"),
    case("valid, stride", (2, 2, 3, 4), 2, (3, 2), strides=(2, 3), padding="valid"),
    case("valid, stride beyond the kernel", (2, 2, 3, 2), 2, (1, 2), strides=(3, 4),
         padding="valid"),
    case("valid, dilation", (2, 2, 3, 4), 2, (3, 2), dilations=(2, 4), padding="valid"),
    case("sized", (2, 2, 4, 5), 3, (3, 3), padding=(1, 1)),
    case("sized, unequal", (2, 2, 3, 5), 3, (2, 3), padding=(0, 2)),
    case("sized, beyond the kernel", (2, 1, 7, 6), 2, (2, 1), padding=(3, 2)),
    case("sized, one row is left", (2, 2, 2, 3), 2, (4, 3), padding=(2, 0)),
    case("sized, stride and dilation", (2, 2, 4, 3), 2, (3, 2), strides=(2, 3), dilations=(2, 2),
         padding=(2, 1)),
    case("doubled", (2, 3, 3, 2), 2, (4, 4), strides=(2, 2), padding=(1, 1)),
    case("groups", (2, 4, 3, 3), 6, (3, 3), groups=2),
    case("groups of one", (2, 3, 3, 4), 3, (2, 2), groups=3, strides=(2, 1)),
    case("one channel to two in each group", (2, 3, 3, 3), 6, (3, 3), groups=3, strides=(2, 2)),
    case("groups, dilation", (2, 4, 4, 3), 2, (2, 3), groups=2, dilations=(2, 2),
         padding="valid"),
    case("without biases", (2, 2, 4, 4), 3, (3, 3), biases=False),
    case("weights as (C, O, kh, kw)", (2, 2, 4, 3), 3, (3, 2), weights=(2, 3, 3, 2)),
    case("flat weights", (2, 2, 4, 3), 3, (3, 2), weights=(36,)),
    case("whole blocks of channels", (2, 16, 2, 3), 16, (2, 1), strides=(2, 1)),
    case("part of a block of channels", (2, 17, 3, 2), 9, (1, 2)),
]  # fmt: skip

test_forward, test_gradient, test_backends, test_same_bits, test_batch = checks(CASES)

# Too many parameters for finite differences; other backends are held against the reference.
LARGE = [
    case("many channels", (3, 32, 8, 7), 32, (3, 3)),
    case("many channels, doubled", (2, 33, 6, 5), 47, (4, 4), strides=(2, 2), padding=(1, 1)),
    case("many channels, 1x1", (3, 48, 7, 7), 64, (1, 1), strides=(2, 2), biases=False),
    case("many groups", (2, 64, 6, 6), 32, (3, 3), groups=4, dilations=(2, 2)),
    case("many channels, a group each", (2, 40, 5, 5), 40, (5, 5), groups=40, strides=(2, 2)),
    case("to colour", (3, 16, 9, 8), 3, (7, 7), strides=(2, 2), padding=(3, 3)),
    case("kernel of a row", (2, 24, 6, 9), 8, (1, 9), padding="valid"),
]

test_large_backends, test_large_same_bits, test_large_batch = checks(LARGE)[2:]


# --- what it is


def test_the_kernel_is_not_flipped():
    one = case("corner", (1, 1, 1, 1), 1, (2, 2), padding="valid", biases=False)
    one.parameters = [np.array([[[[1.0, 10.0], [100.0, 1000.0]]]])]
    np.testing.assert_array_equal(
        Inference(one)(np.full((1, 1, 1, 1), 3.0)), [[[[3, 30], [300, 3000]]]]
    )


def test_positions_that_no_kernel_meets_have_the_bias_alone():
    one = case("gaps", (1, 1, 2, 1), 1, (1, 2), strides=(3, 4))
    one.parameters = [np.array([[[[2.0, 3.0]]]]), np.array([0.5])]
    rows = Inference(one)(np.array([[[[1.0], [10.0]]]]))[0, 0]
    expected = np.full((6, 4), 0.5)
    expected[[0, 0, 3, 3], [0, 1, 0, 1]] += [2, 3, 20, 30]
    np.testing.assert_array_equal(rows, expected)


@everywhere
@pytest.mark.parametrize("padding", ["same", "valid", (1, 2)])
@pytest.mark.parametrize(("strides", "dilations"), [((1, 1), (1, 1)), ((2, 3), (1, 2))])
def test_it_is_the_adjoint_of_a_convolution(padding, strides, dilations, device):
    """<conv(x), y> = <x, convT(y)> with the same weights in the same order."""
    one = Transposed((2, 6, 4, 5), 4, (3, 4), 2, strides, dilations, padding)
    rng = np.random.default_rng(3)
    weights = rng.normal(size=(6, 2, 3, 4)).astype(np.float32).astype(np.float64)
    y, x = rng.normal(size=one.source), rng.normal(size=one.shape())
    there = convolution(
        "there", x.shape, 6, one.kernel, 2, strides, dilations, padding, biases=False
    )
    back = Case("back", one.layer, one.forward, [y], [weights])
    there.parameters = [weights]
    dtype, bound = ("float64", 1e-13) if device == "reference" else ("float32", 2e-6)
    forth = Inference(there, device, dtype)(x).astype(np.float64)
    again = Inference(back, device, dtype)(y).astype(np.float64)
    assert forth.shape == y.shape
    scale = np.linalg.norm(forth) * np.linalg.norm(y)
    assert abs(np.sum(forth * y) - np.sum(x * again)) < bound * scale


def test_own_parameters_have_real_fans():
    one = Transposed((1, 64, 2, 2), 32, (3, 5), groups=2)
    own = one.layer()
    weights = own.weights.data
    assert weights.shape == (1, 64 * 16, 3, 5)
    limit = np.sqrt(6 / (16 * 15 + 32 * 15))
    assert 0.99 * limit < np.abs(weights).max() <= limit
    assert own.biases.data.shape == (1, 32, 1, 1)
    assert not own.biases.data.any()
    assert tg.MLCConvolutionLayer(descriptor=one.descriptor(), with_biases=False).biases is None


def test_members_of_descriptors():
    one = Transposed((1, 4, 2, 2), 6, (3, 5), 2, (2, 1), (1, 2), (1, 2)).descriptor()
    short = tg.MLCConvolutionDescriptor(
        transpose_with_kernel_width=5,
        kernel_height=3,
        input_feature_channel_count=4,
        output_feature_channel_count=6,
    )
    for d in (one, one.copy(), short, short.copy()):
        assert d.convolution_type is tg.MLCConvolutionType.TRANSPOSED
        assert d.is_convolution_transpose
        assert not d.uses_depthwise_convolution
        assert (d.kernel_sizes, d.kernel_height, d.kernel_width) == ((3, 5), 3, 5)
        assert (d.input_feature_channel_count, d.output_feature_channel_count) == (4, 6)
    assert (one.strides, one.stride_in_y, one.stride_in_x) == ((2, 1), 2, 1)
    assert (one.dilation_rates, one.dilation_rate_in_y, one.dilation_rate_in_x) == ((1, 2), 1, 2)
    assert one.padding_policy == tg.MLCPaddingPolicy.USE_PADDING_SIZE
    assert (one.padding_size_in_y, one.padding_size_in_x, one.group_count) == (1, 2, 2)
    assert (short.strides, short.dilation_rates, short.group_count) == ((1, 1), (1, 1), 1)
    assert short.padding_policy is tg.MLCPaddingPolicy.SAME
    assert (short.padding_size_in_y, short.padding_size_in_x) == (0, 0)
    made = tg.MLCConvolutionLayer(descriptor=short)
    assert node(made, (2, 4, 7, 8)).descriptor.shape == [2, 6, 7, 8]
    assert (made.descriptor.is_convolution_transpose, made.label) == (True, "Convolution")
    assert node(tg.MLCConvolutionLayer(descriptor=one), (2, 4, 3, 3)).descriptor.shape == [
        2, 6, 5, 7
    ]  # fmt: skip


# --- types and kernels


@pytest.mark.parametrize("case", CASES, ids=repr)
@pytest.mark.parametrize("device", ["cpu"])
def test_float64(device, case):
    result = Inference(case, device)(*case.sources)
    assert_near(result, case.expected(*case.arrays), 1e-12)
    loss, gradients = train(case, case.target, device)
    np.testing.assert_allclose(loss, case.reference[0], rtol=1e-12)
    assert_all_near(gradients, case.reference[1], 1e-12)


@everywhere
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sources_of_16_bits(dtype, device):
    """They are widened; what is computed is float32."""
    one = Transposed((2, 3, 3, 4), 4, (4, 3), strides=(2, 1))
    x = np.random.default_rng(2).integers(-4, 4, one.source).astype(np.float32) / 4
    w, b = (tensor(np.random.default_rng(5).normal(size=s), "float32")
            for s in (one.weights(), (1, 4, 1, 1)))  # fmt: skip
    graph, source = tg.MLCGraph(), tg.MLCTensor(shape=list(one.source), data_type=dtype)
    graph.node(one.layer(w, b), source=source)
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": source})
    inference.compile(device=device)
    bits = x.astype(np.float16) if dtype == "float16" else (x.view(np.uint32) >> 16).astype("u2")
    found = inference.execute(
        inputs_data={"x": tg.MLCTensorData(bytes_no_copy=bytearray(bits.tobytes()))},
        options="synchronous",
    ).result
    expected = one.forward(x, w.data, b.data)
    np.testing.assert_allclose(np.asarray(found, np.float32), expected, atol=4e-6)


@pytest.mark.parametrize("device", ["cpu"])
@pytest.mark.parametrize(
    "one",
    [
        Transposed((16, 64, 32, 32), 32, (4, 4), strides=(2, 2), padding=(1, 1)),
        Transposed((16, 64, 32, 32), 64, (3, 3)),
        Transposed((32, 64, 16, 16), 64, (3, 3), strides=(2, 2)),
        Transposed((32, 64, 32, 32), 3, (7, 7), strides=(2, 2), padding=(3, 3)),
        Transposed((32, 64, 32, 32), 64, (3, 3), groups=2, dilations=(2, 2)),
        Transposed((16, 70, 32, 32), 50, (3, 3)),
    ],
    ids=repr,
)
def test_all_passes_are_near_float64(one, device):
    """Large enough for tensor cores; see test_tf32_convolutions.py for the bounds."""
    n, c, h, w = one.source
    taps = int(np.prod(one.kernel)) / one.groups
    for precision, bound in tf32.TENSOR_CORES.get(device, tf32.EXACT).items():
        (x, labels, weights), arrays = tf32.passes(one, precision, device)
        y = one.forward(x.astype(np.float64), weights.astype(np.float64))
        dx, dw = one.backward(
            x.astype(np.float64), weights.astype(np.float64), 2 * (y - labels) / labels.size
        )
        products = (c * taps, one.outputs * taps, n * h * w)
        for found, right, count in zip(arrays, (y, dx, dw), products, strict=True):
            most = max(bound, tf32.FLOAT32 + tf32.PER_ROOT * np.sqrt(count))
            assert np.linalg.norm(found - right) < most * np.linalg.norm(right)


TRAIN = """
import numpy as np
import test_transposed_convolution as t
from harness import train
for one in t.CASES + t.LARGE:
    train(one, one.target, "cpu", "float32")
    t.Inference(one, "cpu", "float32")(*one.sources)
print("done")
"""


def test_the_cpu_takes_every_pass_itself():
    """Neither the forward pass nor a gradient is left to the reference implementation."""
    done = subprocess.run(
        [sys.executable, "-c", TRAIN],
        env={**os.environ, "TRAINGRAPH_VERBOSE": "dispatch", "PYTHONPATH": ":".join(sys.path)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "done\n"
    # A kernel that leaves it to the next one, which is the last before the reference.
    left = [line for line in done.stderr.splitlines() if "Winograd" not in line]
    assert not [line for line in left if "convolution" in line], done.stderr


# --- what is refused


def made(**fields):
    fields = {
        "type": "transposed",
        "kernel_sizes": (3, 3),
        "input_feature_channel_count": 4,
        "output_feature_channel_count": 6,
        "padding_policy": "valid",
        **fields,
    }
    return tg.MLCConvolutionLayer(descriptor=tg.MLCConvolutionDescriptor(**fields))


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"strides": (0, 1)}, "strides of 1 or more but got 0x1"),
        ({"strides": (1, 2**31)}, "strides of 2147483647 or less but got 1x2147483648"),
        ({"dilation_rates": (1, -1)}, "dilation rates of 1 or more but got 1x-1"),
        ({"kernel_sizes": (0, 3)}, "kernel sizes of 1 or more but got 0x3"),
        ({"group_count": 0}, "4 → 6 channels in 0 groups"),
        ({"group_count": 3}, "channels divisible by 3 groups but got 4 → 6"),
        ({"group_count": 4}, "channels divisible by 4 groups but got 4 → 6"),
        ({"input_feature_channel_count": 0}, "1 or more channels"),
    ],
)
def test_wrong_descriptors(fields, text):
    with pytest.raises(tg.InvalidArgument, match=r"\[Convolution\] expected .*" + text):
        made(**fields)


FAR = (2**31 - 1, 2**31 - 1)


@pytest.mark.parametrize(
    ("fields", "shape", "text"),
    [
        ({}, (2, 3, 5, 5), r"a source \(N, 4, H, W\) but got \(2, 3, 5, 5\) at layer"),
        ({}, (2, 4, 5), r"a source \(N, 4, H, W\) but got \(2, 4, 5\) at layer"),
        (
            {"padding_policy": policy((1, 3))},
            (2, 4, 5, 4),
            r"a result of 1 or more rows and columns but got \(2, 6, 5, 0\) of a source "
            r"\(2, 4, 5, 4\) at layer",
        ),
        ({"padding_policy": policy(FAR)}, (2, 4, 5, 4), r"but got \(2, 6, -4294967287, -42949"),
        (
            {"strides": FAR},
            (1, 4, 2**16, 2),
            r"a result of at most \d+ bytes but got \(1, 6, 140735340806148, 2147483650\) of a "
            r"source \(1, 4, 65536, 2\) at layer",
        ),
        ({"strides": FAR, "padding_policy": "same"}, (1, 4, 2**16, 2), "a result of at most"),
        ({"dilation_rates": FAR, "strides": FAR}, (1, 4, 2, 2), "a result of at most"),
    ],
    ids=str,
)
def test_wrong_sources(fields, shape, text):
    """Layer, expected and actual are named."""
    with pytest.raises(tg.ShapeError, match=r"\[Convolution 4 → 6 3x3.* transposed\] .*" + text):
        node(made(**fields), shape)


def test_wrong_types_and_counts():
    with pytest.raises(tg.InvalidArgument, match="expected 1 source but got 2 at layer"):
        node(made(), (2, 4, 5, 5), (2, 4, 5, 5))
    with pytest.raises(tg.DataTypeError, match="int32"):
        node(made(), (2, 4, 5, 5), dtype="int32")


def test_wrong_parameters():
    one = Transposed((1, 4, 5, 5), 6, (3, 3), groups=2)
    with pytest.raises(
        tg.ShapeError,
        match=r"weights of 108 elements, \(4, 3, 3, 3\), but got \(1, 24, 3, 3\) at layer",
    ):
        one.layer(empty((1, 24, 3, 3), "float32"))
    with pytest.raises(
        tg.ShapeError,
        match=r"biases of 6 elements, \(1, 6, 1, 1\), but got \(1, 4, 1, 1\) at layer",
    ):
        one.layer(empty((1, 12, 3, 3), "float32"), empty((1, 4, 1, 1), "float32"))
