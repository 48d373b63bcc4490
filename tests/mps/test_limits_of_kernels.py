"""Neurons and losses of elements at infinity and at the ends of their types."""

import math

import numpy as np
import pytest
from gradients import backward, forward
from kernels import array, batch, commands, run

from limits import assert_equals, at_once, limit, points
from scalar_formulas import FUNCTIONS, INF, of, sigmoid
from traingraph import mps

everywhere = pytest.mark.parametrize(
    ("device", "dtype"),
    [("reference", "float64"), ("reference", "float32"), ("cpu", "float32")],
)


def not_of_apple(device):
    if device == "metal":
        pytest.skip("Apple's own kernels decide what its pages leave open")


def erf(x):
    return np.vectorize(math.erf)(np.asarray(x, float))


# Functions of x, a, b, c that are lowered here; the others are those of ML Compute's activations.
OWN = {
    "power": of(
        lambda x, a, b, c: (a * x + b) ** c,
        lambda x, a, b, c: a * c * (a * x + b) ** (c - 1),
        at=[(1, 0, c) for c in (1, 2, 3, -1, -2, -3, 0.5, 1.5, -0.5, 2.5)]
        + [(0, 2, 3), (0, 2, 0.5), (-0.5, 1, 2)],
    ),
    "exponential": of(
        lambda x, a, b, c: np.exp((a * x + b) * (1 if c == -1 else math.log(c))),
        lambda x, a, b, c: (
            a * (1 if c == -1 else math.log(c)) * OWN["exponential"].value(x, a, b, c)
        ),
        at=[(1, 0, -1), (-0.5, 1, 2), (0.25, 0, 0.5), (0, 1, -1)],
    ),
    "logarithm": of(
        lambda x, a, b, c: np.log(a * x + b) / (1 if c == -1 else math.log(c)),
        lambda x, a, b, c: a / (a * x + b) / (1 if c == -1 else math.log(c)),
        at=[(1, 0, -1), (-0.5, 1, 2), (1, 0, 0.5), (0, 2, -1)],
    ),
    "gelu": of(
        lambda x, a, b, c: x * (1 + erf(x / math.sqrt(2))) / 2,
        lambda x, a, b, c: (
            (1 + erf(x / math.sqrt(2))) / 2 + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
        ),
        at=[(1, 1, 1)],
    ),
}
SHARED = {
    "none": ("identity", []), "relu": ("leaky_relu", []), "linear": ("affine", [(0, 0.5)]),
    "sigmoid": ("sigmoid", []), "hard_sigmoid": ("hard_sigmoid", [(0, 0.5)]),
    "tanh": ("tanh", [(1.5, 0)]), "absolute": ("absolute", []),
    "soft_plus": ("soft_plus", [(1, 0), (0, 1)]), "soft_sign": ("soft_sign", []),
    "elu": ("elu", []), "relun": ("relun", []),
}  # fmt: skip
NEURONS = [(kind, OWN[kind], *abc) for kind in OWN for abc in OWN[kind].parameters]
NEURONS += [
    (kind, FUNCTIONS[name], *pq, 1)
    for kind, (name, more) in SHARED.items()
    for pq in [*FUNCTIONS[name].parameters, *more]
    if INF not in np.abs(pq) or kind == "relun"
]
SLOPES = [0.0, 0.25, -0.5]


def test_every_type_is_covered():
    covered = {mps.MPSCNNNeuronType[kind.upper()] for kind in [*OWN, *SHARED, "prelu"]}
    assert covered == set(mps.MPSCNNNeuronType)


def differentiate(descriptor, x, device):
    """The result and the gradient where that of the result is 1, of images (1, C, 1, W)."""
    on = mps.MTLDevice(device=device)
    value, states = forward(mps.MPSCNNNeuron(device=on, neuron_descriptor=descriptor), x)
    kernel = mps.MPSCNNNeuronGradient(device=on, neuron_descriptor=descriptor)
    return value, backward(kernel, np.ones_like(x), x, states)


def tends_to(f, formula, x, *parameters):
    """The limit of each, and NaN of NaN."""
    a, b, c = np.array(parameters, np.float32).astype(np.longdouble)
    slow = f is OWN["logarithm"] and a != 0  # as slow as to be finite beyond any type

    def over(x):
        return formula(x, a, b, c) if f in OWN.values() else formula(x, None, a, b)

    found = at_once(over, [x]) if slow else limit(over, [x])
    return np.where(np.isnan(x), np.nan, found).astype(x.dtype)


def column(dtype):
    return np.append(points(dtype), np.array(np.nan, dtype))


# exp(c log u) has the rounding of c log u.
LOOSE = {"power": {"rtol": 1e-5}, "exponential": {"rtol": 1e-5}}


@everywhere
@pytest.mark.parametrize(("kind", "f", "a", "b", "c"), NEURONS)
def test_neuron(kind, f, a, b, c, device, dtype):
    not_of_apple(device)
    x = column(dtype)
    descriptor = mps.MPSNNNeuronDescriptor.cnn_neuron_descriptor(with_type=kind, a=a, b=b, c=c)
    found = differentiate(descriptor, x.reshape(1, 1, 1, -1), device)
    for one, formula in zip(found, (f.value, *f.slopes), strict=True):
        known = slice(None) if one is found[0] else ~np.isnan(x)
        expected = tends_to(f, formula, x, a, b, c)
        assert_equals(one.ravel()[known], expected[known], x[known], **LOOSE.get(kind, {}))


@everywhere
def test_slopes_per_channel(device, dtype):
    not_of_apple(device)
    x = points(dtype)
    descriptor = mps.MPSNNNeuronDescriptor.cnn_neuron_prelu_descriptor(with_data=SLOPES)
    images = np.broadcast_to(x, (1, len(SLOPES), 1, len(x))).copy()
    found = differentiate(descriptor, images, device)
    f = FUNCTIONS["leaky_relu"]
    for one, formula in zip(found, (f.value, *f.slopes), strict=True):
        for channel, slope in enumerate(SLOPES):
            expected = limit(lambda x, s=slope, g=formula: g(x, None, s, 0), [x])
            assert_equals(one[0, channel, 0], expected, x)


def without(t, value):
    """0 where the label is 0, whatever the prediction is."""
    return np.where(t == 0, 0, value)


# Value and slope over prediction x and label t; whether they hold logarithms, which grow slowly.
# The cosine distance is 1 less a sum of products, in which 0 · ∞ is that of two operands.
LOSSES = {
    "mean_absolute_error": (lambda x, t: np.abs(x - t), lambda x, t: np.sign(x - t), False),
    "mean_squared_error": (lambda x, t: (x - t) ** 2, lambda x, t: 2 * (x - t), False),
    "sigmoid_cross_entropy": (
        lambda x, t: FUNCTIONS["sigmoid_cross_entropy"].value(x, t, 0, 0),
        lambda x, t: sigmoid(x) - t,
        False,
    ),
    "categorical_cross_entropy": (
        lambda x, t: without(t, -t * np.log(x)),
        lambda x, t: without(t, -t / x),
        True,
    ),
    "hinge": (
        lambda x, t: np.maximum(1 - without(t, t * x), 0),
        lambda x, t: np.where(1 - without(t, t * x) > 0, -t, 0),
        False,
    ),
    "huber": (
        lambda x, t: FUNCTIONS["huber"].value(x, t, 1, 0),
        lambda x, t: np.clip(x - t, -1, 1),
        False,
    ),
    "log": (
        lambda x, t: without(t, -t * np.log(x + 0.25)) - without(1 - t, (1 - t) * np.log(1.25 - x)),
        lambda x, t: without(t, -t / (x + 0.25)) + without(1 - t, (1 - t) / (1.25 - x)),
        True,
    ),
    "kullback_leibler_divergence": (
        lambda x, t: without(t, t * (np.log(t) - x)),
        lambda x, t: -t,
        False,
    ),
}


@everywhere
@pytest.mark.parametrize("name", LOSSES)
def test_loss_of_elements(name, device, dtype):
    not_of_apple(device)
    on = mps.MTLDevice(device=device)
    x, t = (a.ravel() for a in np.meshgrid(points(dtype), np.array([0, 0.25, 1], dtype)))
    d = mps.MPSCNNLossDescriptor.cnn_loss_descriptor(with_type=name, reduction_type="none")
    d.delta, d.epsilon = 1.0, 0.25
    kernel = mps.MPSNNForwardLoss(device=on, loss_descriptor=d)
    back = mps.MPSNNLossGradient(device=on, loss_descriptor=d)
    kernel.makes_temporary_images = back.makes_temporary_images = False
    given = {k: batch(on, a.reshape(1, 1, 1, -1)) for k, a in (("source_images", x), ("labels", t))}
    buffer = commands(on)
    value, states = kernel.encode_batch(buffer, **given, destination_state_is_temporary=False)
    ones = batch(on, np.ones((1, 1, 1, len(x)), dtype))
    slope = back.encode_batch(buffer, source_gradients=ones, source_states=states, **given)
    run(buffer)
    *formulas, slow = LOSSES[name]
    for images, formula in zip((value, slope), formulas, strict=True):
        found = array(images).ravel()
        expected = at_once(formula, [x, t]) if slow else limit(formula, [x, t], held=(1,))
        assert_equals(found, expected, x, t)
