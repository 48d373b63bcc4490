"""Every family of layers between two products, in mixed precision beside float32.

Rounding to 16 bits errs by at most u of the number: 2^-8 for bfloat16 (8 significant bits), 2^-11
for float16 (11). A gradient passes some ten such roundings, of sign as if random and a third of u
in the mean, which add up to about u; where terms cancel they weigh more. So norms may differ by
4 u, and by more where a family says why.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

import traingraph as tg
from small_layers import convolution, dense, halving, regression

A = tg.MLCActivationLayer
UNITS = {"mixed_bfloat16": 2.0**-8, "mixed_float16": 2.0**-11}
FACTOR = 4


@dataclass
class Family:
    name: str
    # (graph, h) -> what the second product reads; h is what the first one gives
    build: Callable
    images: bool = False
    slack: float = 1.0

    def __repr__(self):
        return self.name


def layers(*makes):
    return lambda graph, h: tg.sequential(graph, h, [make() for make in makes])


def arithmetic(operation):
    def build(graph, h):
        # away from 0, for the divisor
        other = tg.sequential(graph, h, [A.tanh(), A.sigmoid()])
        return graph.node(tg.MLCArithmeticLayer(operation=operation), sources=[h, other])

    return build


def halves_swapped(graph, h):
    return graph.concatenate(graph.split(h, split_count=2, dimension=1)[::-1], dimension=1)


def indices():
    return tg.MLCTensor(data=np.array([7, 1, 2, 1, 0, 3, 5, 5], np.int64))


def selected(graph, h):
    condition = tg.MLCTensor(data=np.arange(32).reshape(4, 8) % 3 == 0)
    return graph.select([h, graph.node(A.tanh(), source=h)], condition=condition)


def scattered(graph, h):
    other = graph.node(A.tanh(), source=h)
    return graph.scatter(1, source=h, indices=indices(), copy_from=other, reduction_type="sum")


def matmul():
    return tg.MLCMatMulLayer(descriptor=tg.MLCMatMulDescriptor())


def products(graph, h):
    left = graph.reshape([4, 2, 4], source=h)
    other = graph.node(A.tanh(), source=h)
    right = graph.reshape([4, 4, 2], source=other)
    both = graph.node(matmul(), sources=[left, right])
    wide = graph.node(matmul(), sources=[both, left])
    return graph.reshape([4, 8], source=wide)


def attention(graph, h):
    words = graph.reshape([4, 2, 4], source=h)
    descriptor = tg.MLCMultiheadAttentionDescriptor(model_dimension=4, head_count=2)
    layer = tg.MLCMultiheadAttentionLayer(descriptor=descriptor)
    return graph.reshape([4, 8], source=graph.node(layer, sources=[words] * 3))


ACTIVATIONS = {
    "relu": A.relu,
    "leaky relu": A.leaky_relu,
    "gelu": A.gelu,
    "sigmoid": A.sigmoid,
    "tanh": A.tanh,
    "elu": A.elu,
    "soft plus": A.soft_plus,
    "soft sign": A.soft_sign,
    "hard swish": A.hard_swish,
    "silu": A.silu,
    "gelu erf": A.gelu_erf,
    "mish": A.mish,
    "squareplus": A.squareplus,
}
NORM = lambda: tg.MLCBatchNormalizationLayer(feature_channel_count=4)  # noqa: E731
FAMILIES = [
    *[Family(name, layers(make)) for name, make in ACTIVATIONS.items()],
    *[Family(name, arithmetic(name)) for name in ("add", "subtract", "multiply", "divide")],
    Family("softmax", layers(lambda: tg.MLCSoftmaxLayer(operation="softmax", dimension=1))),
    Family("dropout", layers(lambda: tg.MLCDropoutLayer(rate=0.25, seed=9))),
    Family("transpose", lambda g, h: g.transpose([0, 1], source=h)),
    Family("split and concatenate", halves_swapped),
    Family("gather", lambda g, h: g.gather(1, source=h, indices=indices())),
    Family("scatter", scattered),
    Family("selection", selected),
    # Products of products of small matrices cancel much of their terms.
    Family("matrix products", products, slack=3),
    Family("multi-head attention", attention),
    Family("convolution", layers(lambda: convolution(4, 4)), images=True),
    Family(
        "strided groups",
        layers(lambda: convolution(4, 4, strides=(2, 2), group_count=2)),
        images=True,
    ),
    Family(
        "transposed",
        layers(lambda: convolution(4, 4, type="transposed", strides=(2, 2), group_count=2)),
        images=True,
    ),
    Family("dilated", layers(lambda: convolution(4, 4, dilation_rates=(2, 2))), images=True),
    Family(
        "a first layer's size and stride",
        layers(lambda: convolution(4, 3, size=1), lambda: convolution(3, 8, 7, strides=(2, 2))),
        images=True,
    ),
    Family("batch norm", layers(NORM), images=True),
    Family("batch norm and relu", layers(NORM, A.relu), images=True),
    # Rounding may make another element the largest of its window, and gradients then move there.
    Family("max pooling", layers(lambda: halving("max")), images=True, slack=2),
    Family("average pooling", layers(lambda: halving("average")), images=True),
    Family("l2 pooling", layers(lambda: halving("l2_norm")), images=True),
]


def step(family, precision, device="reference"):
    """The loss, and the gradient of every parameter: what SGD with rate 1 subtracts."""
    tg.MLCPlatform.set_rng_seed_to(11)
    rng = np.random.default_rng(3)
    graph = tg.MLCGraph()
    if family.images:
        x = tg.MLCTensor(shape=[4, 2, 8, 8])
        first = convolution(2, 4)
        h = family.build(graph, graph.node(first, source=x))
        count = int(np.prod(h.descriptor.shape[1:]))
        h = graph.reshape([4, count], source=h)
    else:
        x = tg.MLCTensor(shape=[4, 6])
        first = dense(6, 8)
        h = family.build(graph, graph.node(first, source=x))
        count = 8
    result = graph.node(dense(count, 5), source=h)
    training = regression(graph, x, result, rate=1.0)
    training.compile(device=device, precision=precision)
    if training.loss_scale is not None:
        # So small that nothing overflows: a skipped step has no gradient to compare.
        training.load_state({**training.state(), "state.loss_scale": np.full(1, 64, np.float32)})
    before = {k: v for k, v in training.state().items() if v.dtype == np.float32}
    loss = training.execute(
        inputs_data={"x": rng.normal(size=x.descriptor.shape).astype(np.float32)},
        loss_labels_data={"y": rng.normal(size=result.descriptor.shape).astype(np.float32)},
        options="synchronous",
    ).result
    after = training.state()
    return loss, {k: v.astype(np.float64) - after[k] for k, v in before.items()}


def distance(got, expected):
    got, expected = (np.concatenate([v.ravel() for v in x.values()]) for x in (got, expected))
    return np.linalg.norm(got - expected) / np.linalg.norm(expected)


@pytest.mark.parametrize("precision", UNITS)
@pytest.mark.parametrize("family", FAMILIES, ids=repr)
@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_training_is_near_float32(device, family, precision):
    exact_loss, exact = step(family, "float32")
    loss, got = step(family, precision, device)
    names = [k for k in exact if not k.startswith("state.")]
    exact, got = ({k: x[k] for k in names} for x in (exact, got))
    bound = FACTOR * UNITS[precision] * family.slack
    assert loss == pytest.approx(exact_loss, rel=bound)
    found = distance(got, exact)
    assert 0 < found < bound, f"{found / UNITS[precision]:.1f} u"


@pytest.mark.parametrize("precision", UNITS)
def test_the_cpu_backend_is_near_the_reference(precision):
    """It computes by its own float32 loops, so bits may differ a little."""
    family = FAMILIES[0]
    loss, got = step(family, precision, "cpu")
    reference_loss, reference = step(family, precision)
    assert loss == pytest.approx(reference_loss, rel=UNITS[precision])
    assert distance(got, reference) < UNITS[precision]
