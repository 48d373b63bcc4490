"""Activations: values, gradients and kinks of every type, defaults of a and b, and factories."""

import math

import numpy as np
import pytest

import traingraph as tg
from harness import Case, checks, node, train

L = tg.MLCActivationLayer
SELU = 1.0507009873554805, 1.6732632423543772


def of(kind, *parameters):
    """A factory for the layer of a descriptor with these a, b."""
    named = dict(zip("abc", parameters, strict=False))
    return lambda: L(descriptor=tg.MLCActivationDescriptor(type=kind, **named))


def points(*kinks):
    """(4, 3, 2) numbers from -4 to 4 that keep away from kinks."""
    x = np.linspace(-4, 4, 24) + 0.013
    for kink in (0.0, *kinks):
        near = np.abs(x - kink) < 0.03
        x[near] = kink + 0.05
    return x.reshape(4, 3, 2)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gelu(x):
    return x / 2 * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))


def erf(x):
    return np.vectorize(math.erf)(x)


def case(name, layer, expected, *kinks):
    return Case(name, layer, expected, [points(*kinks)], rows=True)


CASES = [
    case("none", of("none"), lambda x: x),
    case("relu", L.relu, lambda x: np.maximum(x, 0)),
    case("relu a", of("relu", 0.3), lambda x: np.where(x >= 0, x, np.float32(0.3) * x)),
    case("relu negative a", of("relu", -0.5), lambda x: np.where(x >= 0, x, -0.5 * x)),
    case("leaky relu", L.leaky_relu, lambda x: np.where(x >= 0, x, np.float32(0.01) * x)),
    case(
        "leaky relu slope",
        lambda: L.leaky_relu(negative_slope=0.25),
        lambda x: np.where(x >= 0, x, 0.25 * x),
    ),
    case("linear", of("linear"), lambda x: x),
    case("linear a b", lambda: L.linear(scale=-1.5, bias=0.25), lambda x: -1.5 * x + 0.25),
    case("sigmoid", L.sigmoid, sigmoid),
    case(
        "hard sigmoid",
        L.hard_sigmoid,
        lambda x: np.clip(np.float32(0.2) * x + 0.5, 0, 1),
        -2.5,
        2.5,
    ),
    case(
        "hard sigmoid a b",
        of("hard_sigmoid", -0.25, 0.25),
        lambda x: np.clip(-0.25 * x + 0.25, 0, 1),
        1.0,
        -3.0,
    ),
    case("tanh", L.tanh, np.tanh),
    case("tanh a b", of("tanh", 1.5, -0.5), lambda x: 1.5 * np.tanh(-0.5 * x)),
    case("absolute", L.absolute, np.abs),
    case("soft plus", L.soft_plus, lambda x: np.log1p(np.exp(x))),
    case("soft plus beta", lambda: L.soft_plus(beta=2.0), lambda x: np.log1p(np.exp(2 * x))),
    case("soft plus a b", of("soft_plus", 0.5, -1.5), lambda x: 0.5 * np.log1p(np.exp(-1.5 * x))),
    case("soft sign", L.soft_sign, lambda x: x / (1 + np.abs(x))),
    case("elu", L.elu, lambda x: np.where(x >= 0, x, np.expm1(x))),
    case("elu a", lambda: L.elu(a=0.5), lambda x: np.where(x >= 0, x, 0.5 * np.expm1(x))),
    case(
        "elu negative a", lambda: L.elu(a=-0.5), lambda x: np.where(x >= 0, x, -0.5 * np.expm1(x))
    ),
    case("relun", of("relun"), lambda x: np.minimum(x, 1), 1.0),
    case("relu6", L.relu6, lambda x: np.clip(x, 0, 6)),
    case(
        "relun a b",
        lambda: L.relun(a=0.125, b=2.5),
        lambda x: np.minimum(np.where(x >= 0, x, 0.125 * x), 2.5),
        2.5,
    ),
    case("log sigmoid", L.log_sigmoid, lambda x: np.log(sigmoid(x))),
    case("selu", L.selu, lambda x: SELU[0] * np.where(x > 0, x, SELU[1] * np.expm1(x))),
    case("celu", L.celu, lambda x: np.where(x > 0, x, np.expm1(x))),
    case("celu a", lambda: L.celu(a=2.0), lambda x: np.where(x > 0, x, 2 * np.expm1(x / 2))),
    case("hard shrink", L.hard_shrink, lambda x: np.where(np.abs(x) > 0.5, x, 0), 0.5, -0.5),
    case(
        "hard shrink a",
        lambda: L.hard_shrink(a=1.5),
        lambda x: np.where(np.abs(x) > 1.5, x, 0),
        1.5,
        -1.5,
    ),
    case(
        "soft shrink",
        L.soft_shrink,
        lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.5, 0),
        0.5,
        -0.5,
    ),
    case("tanh shrink", L.tanh_shrink, lambda x: x - np.tanh(x)),
    case("threshold", of("threshold"), lambda x: np.where(x > 1, x, 1), 1.0),
    case(
        "threshold a b",
        lambda: L.threshold(threshold=-0.5, replacement=3.0),
        lambda x: np.where(x > -0.5, x, 3),
        -0.5,
    ),
    case("gelu", L.gelu, gelu),
    # Its two constants always, whatever a and b say.
    case("gelu without parameters", of("gelu"), gelu),
    case("hard swish", L.hard_swish, lambda x: x * np.clip(x + 3, 0, 6) / 6, -3.0, 3.0),
    case("clamp", of("clamp"), lambda x: np.ones_like(x)),
    case("clamp a b", lambda: L.clamp(min=-1.5, max=2.0), lambda x: np.clip(x, -1.5, 2), -1.5, 2.0),
    case("silu", L.silu, lambda x: x * sigmoid(x)),
    case("gelu erf", L.gelu_erf, lambda x: x / 2 * (1 + erf(x / np.sqrt(2)))),
    case("mish", L.mish, lambda x: x * np.tanh(np.log1p(np.exp(x)))),
    case("squareplus", L.squareplus, lambda x: (x + np.sqrt(x * x + 4)) / 2),
    case("squareplus b", lambda: L.squareplus(b=0.25), lambda x: (x + np.sqrt(x * x + 0.25)) / 2),
    Case("an image", L.relu, lambda x: np.maximum(x, 0), [(2, 3, 4, 5)], rows=True),
    Case("one number", L.tanh, np.tanh, [(1,)]),
]

test_forward, test_gradient, test_backends, test_same_bits, test_batch = checks(CASES)


def test_every_type_has_a_case():
    covered = {c.layer().descriptor.activation_type for c in CASES}
    assert covered == set(tg.MLCActivationType)


KINKS = [
    # layer, x, slope there
    (L.relu, 0, 0),
    (lambda: L.leaky_relu(negative_slope=0.25), 0, 0.25),
    (lambda: L.elu(a=0.5), 0, 0.5),
    (lambda: L.relun(a=0.25, b=2.0), 0, 0.25),
    (lambda: L.relun(a=0.25, b=2.0), 2, 0),
    (L.absolute, 0, 0),
    (lambda: L.clamp(min=-1.0, max=2.0), -1, 0),
    (lambda: L.clamp(min=-1.0, max=2.0), 2, 0),
    (of("hard_sigmoid", 0.25, 0.5), -2, 0),
    (of("hard_sigmoid", 0.25, 0.5), 2, 0),
    (L.hard_shrink, 0.5, 0),
    (L.hard_shrink, -0.5, 0),
    (L.soft_shrink, 0.5, 0),
    (L.soft_shrink, -0.5, 0),
    (lambda: L.threshold(threshold=0.5, replacement=9.0), 0.5, 0),
]


@pytest.mark.parametrize(("layer", "x", "slope"), KINKS)
def test_kink(layer, x, slope):
    at = Case("kink", layer, lambda x: x, [np.full((1, 1), float(x))])
    # One step with each target: the difference of the gradients is 2 * slope * 1.
    gradients = [train(at, np.full((1, 1), t))[1][0].item() for t in (0.0, -1.0)]
    assert (gradients[1] - gradients[0]) / 2 == pytest.approx(slope, abs=1e-12)


DEFAULTS = {
    "none": (1, 1, 1),
    "relu": (0, 1, 1),
    "linear": (1, 0, 1),
    "hard_sigmoid": (0.2, 0.5, 1),
    "tanh": (1, 1, 1),
    "soft_plus": (1, 1, 1),
    "elu": (1, 1, 1),
    "relun": (1, 1, 1),
    "celu": (1, 1, 1),
    "hard_shrink": (0.5, 1, 1),
    "soft_shrink": (0.5, 1, 1),
    "threshold": (1, 1, 1),
    "clamp": (1, 1, 1),
    "silu": (1, 1, 1),
    "gelu_erf": (1, 1, 1),
    "mish": (1, 1, 1),
    "squareplus": (1, 4, 1),
}


@pytest.mark.parametrize("kind", DEFAULTS)
def test_descriptor_defaults(kind):
    d = tg.MLCActivationDescriptor(type=kind)
    assert (d.a, d.b, d.c) == pytest.approx(DEFAULTS[kind])
    d = tg.MLCActivationDescriptor(type=kind, a=0.75)
    assert (d.a, d.b, d.c) == pytest.approx((0.75, *DEFAULTS[kind][1:]))
    d = tg.MLCActivationDescriptor(type=kind, a=0.75, b=3.0)
    assert (d.a, d.b, d.c) == pytest.approx((0.75, 3, 1))


@pytest.mark.parametrize(
    ("layer", "a", "b"),
    [
        (L.relu, 0, 1),
        (L.relu6, 0, 6),
        (L.leaky_relu, 0.01, 1),
        (lambda: L.soft_plus(beta=3.0), 1, 3),
        (L.tanh_shrink, 0, 1),
        (L.gelu, 0.7978845608, 0.044715),
        (lambda: L.threshold(threshold=2.0, replacement=5.0), 2, 5),
        (lambda: L.clamp(min=-2.0, max=5.0), -2, 5),
    ],
)
def test_factory_descriptors(layer, a, b):
    d = layer().descriptor
    assert (np.float32(d.a), np.float32(d.b)) == (np.float32(a), np.float32(b))


def test_celu_refuses_zero():
    with pytest.raises(ValueError, match="expected a of CELU other than 0"):
        L.celu(a=0.0)


@pytest.mark.parametrize("b", [0.0, -4.0])
def test_squareplus_refuses_what_has_no_root(b):
    with pytest.raises(
        ValueError, match=rf"\[Activation\] expected b to be 2\*\*-126 or more but got {b:g}"
    ):
        L.squareplus(b=b)


def test_wrong_sources():
    with pytest.raises(ValueError, match=r"expected 1 source but got 2 at layer \d+"):
        node(L.relu(), (2, 3), (2, 3))
    with pytest.raises(TypeError, match="floating-point numbers but got int32"):
        node(L.relu(), (2, 3), dtype="int32")
