"""Activations, losses and arithmetic at infinity and at the ends of their types."""

import numpy as np
import pytest

import traingraph as tg
from limits import assert_equals, at_once, limit, pairs, points
from scalar_formulas import COMPOSED, FUNCTIONS, INF, sigmoid

everywhere = pytest.mark.parametrize(
    ("device", "dtype"),
    [("reference", "float64"), ("reference", "float32"), ("cpu", "float32")],
)
A = tg.MLCActivationLayer

# By the descriptors' types: the function of the scalar table, and further a and b.
ACTIVATIONS = {
    "none": ("identity", []),
    "relu": ("leaky_relu", []),
    "linear": ("affine", [(0, 0.5), (0, 0)]),
    "sigmoid": ("sigmoid", []),
    "hard_sigmoid": ("hard_sigmoid", [(0, 0.5), (0, -1)]),
    "tanh": ("tanh", [(1.5, 0), (0, 0)]),
    "absolute": ("absolute", []),
    "soft_plus": ("soft_plus", [(1, 0), (0, 1), (0, -1), (0, 0)]),
    "soft_sign": ("soft_sign", []),
    "elu": ("elu", []),
    "relun": ("relun", []),
    "log_sigmoid": ("log_sigmoid", []),
    "selu": ("selu", []),
    "celu": ("celu", []),
    "hard_shrink": ("hard_shrink", []),
    "soft_shrink": ("soft_shrink", []),
    "tanh_shrink": ("tanh_shrink", []),
    "threshold": ("threshold", []),
    "gelu": ("gelu", []),
    "hard_swish": ("hard_swish", []),
    "clamp": ("clip", []),
    "silu": ("silu", []),
    "gelu_erf": ("gelu_erf", []),
    "mish": ("mish", []),
    "squareplus": ("squareplus", []),
}
FORMULAS = FUNCTIONS | COMPOSED
# Layers take finite parameters, but for the limits of clamp.
CASES = [
    (kind, name, *pq)
    for kind, (name, more) in ACTIVATIONS.items()
    for pq in [*FORMULAS[name].parameters, *more]
    if kind == "clamp" or INF not in np.abs(pq)
]


def test_every_type_is_covered():
    assert {tg.MLCActivationType[kind.upper()] for kind in ACTIVATIONS} == set(tg.MLCActivationType)


def layer_of(kind, p, q):
    return A(descriptor=tg.MLCActivationDescriptor(type=kind, a=p, b=q))


def differentiate(build, arrays, dtype, device):
    """The result of `build`, which adds nodes over tensors to a graph, and each one's gradient
    where that of the result is 1."""
    graph = tg.MLCGraph()
    sources = [tg.MLCTensor(shape=list(a.shape), data_type=dtype) for a in arrays]
    result = build(graph, *sources)
    training = tg.MLCTrainingGraph(graph_objects=[graph])
    inputs = {f"x{k}": t for k, t in enumerate(sources)}
    training.add_inputs(inputs)
    gradient = training.allocate_user_gradient(result)
    training.compile(options="compute_all_gradients", device=device)
    data = {f"x{k}": a for k, a in enumerate(arrays)}
    training.bind_and_write_data(data, for_inputs=inputs)
    training.execute_forward(options="synchronous")
    value = np.empty(result.descriptor.shape, dtype)
    result.copy_data_from_device_memory(value)
    gradient.bind_and_write_data(np.ones(result.descriptor.shape, dtype))
    training.execute_gradient(options="synchronous")
    slopes = [np.empty(a.shape, dtype) for a in arrays]
    for tensor, slope in zip(sources, slopes, strict=True):
        training.gradient_tensor(for_input=tensor).copy_data_from_device_memory(slope)
    return value, slopes


def single(*parameters):
    """As layers keep them: rounded to float32."""
    return np.array(parameters, np.float32).astype(np.longdouble)


def column(dtype):
    """Points and NaN, in a length that fills no vectors, as a batch of numbers."""
    return np.tile(np.append(points(dtype), np.array(np.nan, dtype)), 3)[:-2, None]


def tends_to(formula, *arrays, held=()):
    """The limit of each row, and NaN of NaN."""
    found = limit(formula, [a.ravel() for a in arrays], held)
    known = ~np.any([np.isnan(a) for a in arrays], axis=0).ravel()
    return np.where(known, found, np.nan).astype(arrays[0].dtype)


@everywhere
@pytest.mark.parametrize(("kind", "name", "p", "q"), CASES)
def test_activation(kind, name, p, q, device, dtype):
    x = column(dtype)

    def over(formula):
        return tends_to(lambda a: formula(a, None, *single(p, q)), x)

    def build(graph, source):
        return graph.node(layer_of(kind, p, q), source=source)

    value, (slope,) = differentiate(build, [x], dtype, device)
    f = FORMULAS[name]
    assert_equals(value.ravel(), over(f.value), x.ravel())
    known = ~np.isnan(x.ravel())  # what flows there is the gradient of other layers times anything
    assert_equals(slope.ravel()[known], over(f.slopes[0])[known], x.ravel()[known])


# What the scalar table calls otherwise.
ROWS = {"min": "minimum", "max": "maximum"}
OF_TWO = {"add", "subtract", "multiply", "divide", "pow", "min", "max"}
OF_TWO |= {"multiply_no_nan", "divide_no_nan"}


@everywhere
@pytest.mark.parametrize("operation", [one.name.lower() for one in tg.MLCArithmeticOperation])
def test_arithmetic(operation, device, dtype):
    row = ROWS.get(operation, operation)
    f, parameters = FUNCTIONS[row], (1, 1) if row == "tanh" else (0, 0)
    arrays = pairs(dtype) if operation in OF_TWO else [points(dtype)]

    def build(graph, *sources):
        return graph.node(tg.MLCArithmeticLayer(operation=operation), sources=list(sources))

    value, slopes = differentiate(build, [a[:, None] for a in arrays], dtype, device)
    # What has no derivative in the table has the gradient 0.
    formulas = [f.value, *(f.slopes or [lambda x, *_: np.zeros_like(x)])]
    for found, formula in zip([value, *slopes], formulas, strict=True):

        def over(*given, formula=formula):
            return formula(*[*given, None][:2], *parameters)

        expected = at_once(over, arrays) if f.chooses else limit(over, arrays, f.held)
        assert_equals(found.ravel(), expected, *arrays)


def after_a_sum(kind, p, q):
    """The activation of x + 0, times 2: functions of elements that may be one pass."""

    def build(graph, x):
        def number(value):
            return tg.MLCTensor(data=np.full((1, 1), value, x.descriptor.data_type.name.lower()))

        total = graph.node(tg.MLCArithmeticLayer(operation="add"), sources=[x, number(0)])
        y = graph.node(layer_of(kind, p, q), source=total)
        return graph.node(tg.MLCArithmeticLayer(operation="multiply"), sources=[y, number(2)])

    return build


def after_a_product(kind, p, q, spatial=()):
    """The activation of 16 sums, all of which are the first of 16 numbers and products with 0."""

    def build(graph, x):
        dtype = x.descriptor.data_type.name.lower()
        extents = (1, 1) if spatial else (16, 16)
        shape = (16, 16, 1, 1) if spatial else (16, 16)
        d = tg.MLCConvolutionDescriptor(
            kernel_sizes=extents, input_feature_channel_count=16, output_feature_channel_count=16
        )
        cls = tg.MLCConvolutionLayer if spatial else tg.MLCFullyConnectedLayer
        product = cls(descriptor=d, weights=tg.MLCTensor(data=np.ones(shape, dtype)))
        return graph.node(layer_of(kind, p, q), source=graph.node(product, source=x))

    return build


@everywhere
@pytest.mark.parametrize(("kind", "name", "p", "q"), CASES)
@pytest.mark.parametrize("chain", ["sum", "product", "convolution"])
def test_a_chain_is_what_its_parts_are(chain, kind, name, p, q, device, dtype):
    x = column(dtype)[~np.isnan(column(dtype))][:, None]
    if (kind, p, chain, device) == ("relu", 0, "convolution", "cpu"):
        # oneDNN's relu either hides NaN or, what is taken, makes it of -∞.
        x = x[x != -np.inf][:, None]
    f = FORMULAS[name]
    parameters = single(p, q)
    right = [
        limit(lambda a, g=g: g(a, None, *parameters), [x.ravel()]) for g in (f.value, *f.slopes)
    ]
    if chain == "sum":
        value, (slope,) = differentiate(after_a_sum(kind, p, q), [x], dtype, device)
        with np.errstate(all="ignore"):
            right = [2 * one for one in right]
    else:
        spatial = (2, 1) if chain == "convolution" else ()
        wide = np.zeros((len(x), 16, *spatial), dtype)
        wide[:, 0] = x.reshape(-1, *[1] * len(spatial))
        build = after_a_product(kind, p, q, spatial)
        value, (slope,) = differentiate(build, [wide], dtype, device)
        right = [right[0], 16 * right[1]]
    for found, expected in zip((value, slope), right, strict=True):
        rows = found.reshape(len(x), -1)
        for each in (rows[:, 0], rows[:, -1]):
            assert_equals(each, expected, x.ravel(), atol=2e-37 if dtype == "float32" else 1e-300)


LOSSES = {
    "hinge_loss": (
        lambda x, t: np.maximum(1 - (2 * t - 1) * x, 0),
        lambda x, t: np.where(1 - (2 * t - 1) * x > 0, 1 - 2 * t, 0),
    ),
    "mean_absolute_error": (lambda x, t: np.abs(x - t), lambda x, t: np.sign(x - t)),
    "mean_squared_error": (lambda x, t: (x - t) ** 2, lambda x, t: 2 * (x - t)),
    "huber_loss": (
        lambda x, t: FUNCTIONS["huber"].value(x, t, 1, 0),
        lambda x, t: np.clip(x - t, -1, 1),
    ),
    "sigmoid_cross_entropy": (
        lambda x, t: FUNCTIONS["sigmoid_cross_entropy"].value(x, t, 0, 0),
        lambda x, t: sigmoid(x) - t,
    ),
}


def lose(layer, x, labels, dtype, device, weights=None):
    """The value of a loss layer, and its gradient by the prediction."""
    tensor, label = (tg.MLCTensor(shape=list(a.shape), data_type=a.dtype.name) for a in (x, labels))
    graph = tg.MLCGraph()
    graph.node(A(descriptor=tg.MLCActivationDescriptor(type="none")), source=tensor)
    training = tg.MLCTrainingGraph(graph_objects=[graph], loss_layer=layer)
    declared, given = {"loss_labels": {"t": label}}, {"loss_labels_data": {"t": labels}}
    if weights is not None:
        weight = tg.MLCTensor(shape=list(weights.shape), data_type=dtype)
        declared["loss_label_weights"] = {"w": weight}
        given["loss_label_weights_data"] = {"w": weights}
    training.add_inputs({"x": tensor}, **declared)
    training.compile(options="compute_all_gradients", device=device)
    value = training.execute(inputs_data={"x": x}, options="synchronous", **given).result
    slope = np.empty(x.shape, dtype)
    training.gradient_tensor(for_input=tensor).copy_data_from_device_memory(slope)
    return value, slope


@everywhere
@pytest.mark.parametrize(
    ("name", "smoothing"), [*((name, 0) for name in LOSSES), ("sigmoid_cross_entropy", 0.25)]
)
def test_loss_of_elements(name, smoothing, device, dtype):
    x, t = (a[:, None] for a in pairs(dtype))
    if name != "sigmoid_cross_entropy":
        with np.errstate(all="ignore"):  # a distance that the type cannot hold is infinite
            keep = np.isfinite(x - t) | np.isinf(x) | np.isinf(t)
        x, t = x[keep][:, None], t[keep][:, None]
    if name == "hinge_loss":
        x, t = (a[(t >= 0) & (t <= 1)][:, None] for a in (x, t))
    options = {"label_smoothing": smoothing} if smoothing else {}
    layer = getattr(tg.MLCLossLayer, name)(reduction_type="none", **options)
    found = lose(layer, x, t, dtype, device)
    for one, formula in zip(found, LOSSES[name], strict=True):

        def over(x, t, formula=formula):
            return formula(x, t * (1 - smoothing) + smoothing / 2)

        expected = tends_to(over, x, t, held=(1,))
        assert_equals(one.ravel(), expected, x.ravel(), t.ravel())
