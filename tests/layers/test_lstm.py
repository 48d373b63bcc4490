"""LSTM layers against NumPy: options, members, lengths, and what is refused."""

import itertools
import math

import numpy as np
import pytest
from random_graphs import activations
from random_graphs.layer import Layer, Text, need, written

import traingraph as tg
from harness import checks, empty, everywhere, node
from lstm_net import Net, descriptor, extents, filled, given, infer, layer_tensors, lists_of, made
from lstm_steps import sigmoid


def clipped(x):
    return np.clip(float(np.float32(0.2)) * x + 0.5, 0, 1)


OTHER = {
    "gate_activations": [
        tg.MLCActivationDescriptor(type="hard_sigmoid"),
        tg.MLCActivationDescriptor(type="soft_sign"),
        tg.MLCActivationDescriptor(type="none"),
        tg.MLCActivationDescriptor(type="sigmoid"),
    ],
    "output_result_activation": tg.MLCActivationDescriptor(type="tanh", a=1.5, b=0.5),
}
FUNCTIONS = (
    clipped,
    lambda x: x / (1 + np.abs(x)),
    lambda x: x,
    sigmoid,
    lambda x: 1.5 * np.tanh(0.5 * x),
)

# Lists of several functions, with long gradients.
LISTS = {
    "gate_activations": [tg.MLCActivationDescriptor(type="mish")] * 4,
    "output_result_activation": tg.MLCActivationDescriptor(type="squareplus", a=1, b=0.5),
}
OF_LISTS = [lambda x: x * np.tanh(np.log1p(np.exp(x)))] * 4
OF_LISTS += [lambda x: (x + np.sqrt(x * x + 0.5)) / 2]

OPTIONS = {
    "time first": {"batch_first": False},
    "bidirectional": {"is_bidirectional": True},
    "last step": {"returns_sequences": False},
    "states": {"states": True, "result_mode": "output_and_states"},
    "lengths": {"lengths": [4, 2, 0]},
    "peepholes": {"peepholes": 3},
    "stacked": {"layers": 2},
}
PAIRS = [(), *itertools.combinations(OPTIONS, 1), *itertools.combinations(OPTIONS, 2)]
PAIRS += [tuple(OPTIONS), tuple(name for name in OPTIONS if name != "time first")]


def net(*names, **more):
    options = {}
    for name in names:
        options |= OPTIONS[name]
    return Net(**options | more)


CASES = [net(*names).case(", ".join(names) or "plain") for names in PAIRS]
CASES += [
    Net(biases=False).case("no biases"),
    Net(biases=False, uses_biases=False).case("biases not used"),
    Net(layers=3, is_bidirectional=True, hidden=3).case("three layers", steps=2),
    Net(functions=FUNCTIONS, activations=OTHER).case("other functions"),
    Net(
        functions=FUNCTIONS, activations=OTHER, peepholes=3, lengths=[4, 4, 1], layers=2,
        is_bidirectional=True,
    ).case("other functions, more"),
    Net(functions=OF_LISTS, activations=LISTS).case("functions of lists"),
    Net(5, 17, layers=2, is_bidirectional=True).case("wide", sequences=20, steps=3),
    Net(1, 1).case("one of all", sequences=1, steps=1),
    Net(9, 33, returns_sequences=False).case("some", sequences=4, steps=6),
]  # fmt: skip
for one in (net(), net("bidirectional", "stacked", "peepholes"), net("last step")):
    CASES.append(one.case(f"rows {len(CASES)}", sequences=5, rows=True))

test_forward, test_gradient, test_backends, test_same_bits, test_batch = checks(CASES)


# --- members -------------------------------------------------------------------------------------


def test_descriptor():
    d = tg.MLCLSTMDescriptor(input_size=3, hidden_size=2, layer_count=4)
    assert (d.input_size, d.hidden_size, d.layer_count) == (3, 2, 4)
    assert (d.uses_biases, d.batch_first, d.is_bidirectional) == (True, True, False)
    assert (d.returns_sequences, d.dropout) == (True, 0.0)
    assert d.result_mode is tg.MLCLSTMResultMode.OUTPUT
    d = tg.MLCLSTMDescriptor(
        input_size=3, hidden_size=2, layer_count=1, uses_biases=False, batch_first=False,
        is_bidirectional=True, returns_sequences=False, dropout=0.25,
        result_mode="output_and_states",
    )  # fmt: skip
    assert (d.uses_biases, d.batch_first, d.is_bidirectional) == (False, False, True)
    assert (d.returns_sequences, d.dropout) == (False, 0.25)
    assert d.result_mode is tg.MLCLSTMResultMode.OUTPUT_AND_STATES
    assert tg.MLCLSTMResultMode.OUTPUT_AND_STATES.debug_description == "Output and States"
    copied = d.copy()
    assert repr(copied) == repr(d)
    assert copied is not d


def test_layer_shows_what_it_was_given():
    every = Net(layers=2, is_bidirectional=True, peepholes=3, activations=OTHER)
    tensors = filled(every.shapes())
    layer = every.layer(tensors)
    lists = given(lists_of(tensors, **every.counts))
    assert layer.descriptor.layer_count == 2
    for name, expected in lists.items():
        assert getattr(layer, name) == expected
        parameters = getattr(layer, f"{name}_parameters")
        assert [p.tensor for p in parameters] == expected
        assert all(p.is_updatable for p in parameters)
        parameters[0].is_updatable = False
        assert not getattr(layer, f"{name}_parameters")[0].is_updatable
    assert [a.activation_type.name for a in layer.gate_activations] == [
        "HARD_SIGMOID", "SOFT_SIGN", "NONE", "SIGMOID"
    ]  # fmt: skip
    assert layer.output_result_activation.a == 1.5
    assert layer.label == "LSTM"
    plain, _ = made(Net(biases=False))
    assert (plain.biases, plain.biases_parameters) == (None, None)
    assert (plain.peephole_weights, plain.peephole_weights_parameters) == (None, None)
    assert [a.activation_type.name for a in plain.gate_activations] == [
        "SIGMOID", "SIGMOID", "TANH", "SIGMOID"
    ]  # fmt: skip
    assert plain.output_result_activation.activation_type.name == "TANH"


@everywhere
@pytest.mark.parametrize("lengths", [None, [4, 1, 0]])
def test_three_results(lengths, device):
    one = Net(layers=2, is_bidirectional=True, result_mode="output_and_states", states=True,
              lengths=lengths)  # fmt: skip
    layer, _ = made(one)
    rng = np.random.default_rng(3)
    sources = [rng.uniform(-1, 1, s).astype(np.float32) for s in one.sources(3, 4)]
    more = [] if lengths is None else [np.array(lengths, np.int32)]
    found = infer(layer, *sources, *more, device=device)
    expected = one.results(*sources, *[t.data for t in layer_tensors(layer)])
    assert [a.shape for a in found] == [(3, 4, 4), (2, 2, 3, 2), (2, 2, 3, 2)]
    for got, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, right, atol=2e-6)


@everywhere
def test_states_among_the_declared_inputs(device):
    """They and x have no common extent of axis 0: every tensor has what it declares."""
    one = Net(states=True, layers=2)
    layer, _ = made(one)
    graph = tg.MLCGraph()
    sources = [empty(shape, "float32") for shape in one.sources(3, 4)]
    graph.node(layer, sources=sources)
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs(dict(zip(["x", "h", "c"], sources, strict=True)))
    inference.compile(device=device)
    rng = np.random.default_rng(3)
    arrays = [rng.uniform(-1, 1, s).astype(np.float32) for s in one.sources(3, 4)]
    data = dict(zip(["x", "h", "c"], arrays, strict=True))
    found = inference.execute(inputs_data=data, batch_size=0, options="synchronous").result
    expected = one.expected(*arrays, *[t.data for t in layer_tensors(layer)])
    np.testing.assert_allclose(found, expected, atol=2e-6)


@everywhere
def test_lengths_of_the_source(device):
    """A tensor that knows its lengths needs no source of them; nor does a layer behind."""
    one = Net(lengths=[4, 2, 1])
    first, _ = made(one)
    second, _ = made(Net(2, 2))
    x = np.random.default_rng(5).uniform(-1, 1, (3, 4, 3)).astype(np.float32)
    x[1, 2:] = np.nan
    source = tg.MLCTensor(
        descriptor=tg.MLCTensorDescriptor(
            shape=[3, 4, 3], sequence_lengths=[4, 2, 1], sorted_sequences=True, data_type="float32"
        )
    )
    graph = tg.MLCGraph()
    between = graph.node(first, source=source)
    assert between.descriptor.sequence_lengths == [4, 2, 1]
    graph.node(second, source=between)
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": source})
    inference.compile(device=device)
    middle = one.expected(x, *[t.data for t in layer_tensors(first)])
    behind = Net(2, 2, lengths=[4, 2, 1])
    expected = behind.expected(middle, *[t.data for t in layer_tensors(second)])
    found = inference.execute(inputs_data={"x": x}, options="synchronous").result
    np.testing.assert_allclose(found, expected, atol=2e-6)
    part = inference.execute(inputs_data={"x": x[:2]}, batch_size=2, options="synchronous").result
    np.testing.assert_allclose(part, expected[:2], atol=2e-6)


@everywhere
@pytest.mark.parametrize("lengths", [[4, 0, 0], [1, 1, 1], [4, 4, 4], [0, 0, 0], [3, 3, 0]])
@pytest.mark.parametrize("returns_sequences", [True, False])
def test_lengths_of_none_and_one(lengths, returns_sequences, device):
    one = Net(is_bidirectional=True, lengths=lengths, returns_sequences=returns_sequences)
    layer, _ = made(one)
    x = np.random.default_rng(7).uniform(-1, 1, (3, 4, 3)).astype(np.float32)
    (found,) = infer(layer, x, np.array(lengths, np.int32), device=device)
    expected = one.expected(x, *[t.data for t in layer_tensors(layer)])
    np.testing.assert_allclose(found, expected, atol=2e-6)
    if not returns_sequences:
        assert not found[np.array(lengths) == 0].any()


@everywhere
@pytest.mark.parametrize("returns_sequences", [True, False])
def test_fewer_sequences_with_their_lengths(returns_sequences, device):
    one = Net(lengths=[4, 3, 1], is_bidirectional=True, returns_sequences=returns_sequences)
    layer, _ = made(one)
    graph = tg.MLCGraph()
    source, lengths = empty((3, 4, 3), "float32"), empty((3,), "int32")
    graph.node(layer, sources=[source, lengths])
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": source, "lengths": lengths})
    inference.compile(device=device)
    x = np.random.default_rng(3).uniform(-1, 1, (3, 4, 3)).astype(np.float32)
    expected = one.expected(x, *[t.data for t in layer_tensors(layer)])
    for count in (2, 3, 1):
        data = {"x": x[:count], "lengths": np.array(one.lengths[:count], np.int32)}
        found = inference.execute(inputs_data=data, batch_size=count, options="synchronous").result
        np.testing.assert_allclose(found, expected[:count], atol=2e-6)


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"input_size": 0}, "expected input_size to be from 1 to"),
        ({"hidden_size": -1}, "expected hidden_size to be from 1 to"),
        ({"layer_count": 0}, r"\[MLCLSTMDescriptor\] expected layer_count to be from 1 .* got 0"),
        ({"dropout": 1.0}, "expected dropout to be from 0 to less than 1 but got 1"),
        ({"dropout": math.nan}, "expected dropout to be from 0 to less than 1 but got nan"),
        ({"result_mode": "states"}, "output_and_states"),
        ({"result_mode": 2}, "MLCLSTMResultMode"),
    ],
)
def test_wrong_descriptors(options, text):
    with pytest.raises(ValueError, match=text):
        tg.MLCLSTMDescriptor(**{"input_size": 1, "hidden_size": 1} | options)


def wrong(change, **options):
    one = Net(**options)
    lists = given(lists_of(filled(one.shapes()), **one.counts))
    change(lists)
    tg.MLCLSTMLayer(descriptor=one.descriptor, **lists)


def test_wrong_lists():
    def without_last(name):
        return lambda lists: lists[name].pop()

    def other_size(name, k):
        def change(lists):
            lists[name][k] = empty((7,), "float32")

        return change

    with pytest.raises(ValueError, match=r"expected 8 input weights, 4 per layer and .* but got 7"):
        wrong(without_last("input_weights"), layers=2)
    with pytest.raises(ValueError, match=r"expected 4 hidden weights, .* but got 3"):
        wrong(without_last("hidden_weights"))
    with pytest.raises(ValueError, match=r"expected 3 peephole weights, 3 per .* but got 2"):
        wrong(without_last("peephole_weights"), peepholes=3)
    with pytest.raises(ValueError, match=r"expected 8 biases, .* but got 7"):
        wrong(without_last("biases"), is_bidirectional=True)
    text = (
        r"input weights of the cell gate in layer 1 backward, tensor '.*', of 8 elements, \(2, 4\)"
    )
    with pytest.raises(ValueError, match=text):
        wrong(other_size("input_weights", 14), layers=2, is_bidirectional=True)
    with pytest.raises(ValueError, match=r"hidden weights of the forget gate in layer 0, tensor"):
        wrong(other_size("hidden_weights", 1))
    with pytest.raises(ValueError, match=r"peephole weights of the output gate in layer 0, tensor"):
        wrong(other_size("peephole_weights", 2), peepholes=3)
    with pytest.raises(
        ValueError, match=r"biases of the input gate in layer 0, tensor '.*', of 2 elem"
    ):
        wrong(other_size("biases", 0))
    with pytest.raises(ValueError, match="expected no biases, which the descriptor does not use"):
        wrong(lambda lists: None, uses_biases=False)
    with pytest.raises(ValueError, match=r"expected 4 gate activations, .* but got 1"):
        made(Net(activations={"gate_activations": OTHER["gate_activations"][:1]}))
    bad = tg.MLCActivationDescriptor(type="linear", a=math.nan, b=0.0)
    with pytest.raises(ValueError, match="expected a to be a finite number"):
        made(Net(activations={"output_result_activation": bad}))
    with pytest.raises(TypeError, match="input_weights"):
        tg.MLCLSTMLayer(descriptor=descriptor(), input_weights=3, hidden_weights=[])
    with pytest.raises(TypeError):
        wrong(lambda lists: lists["biases"].append(None))
    with pytest.raises(TypeError):
        tg.MLCLSTMLayer(descriptor=descriptor())


def test_wrong_sources():
    def refuses(text, *shapes, error=ValueError, dtypes=None, **options):
        layer, _ = made(Net(**options))
        with pytest.raises(error, match=text):
            node(layer, *shapes, dtypes=dtypes)

    floats, states = ["float32"] * 3, [(1, 1, 3, 2)] * 2
    refuses(r"\(N, T, 3\) but got \(3, 4, 2\) at layer", (3, 4, 2))
    refuses(r"\(T, N, 3\) but got \(3, 3\)", (3, 3), batch_first=False)
    refuses("expected 1 to 4 sources but got 5", *[(3, 4, 3)] * 5)
    refuses("of floating-point numbers but got int32", (3, 4, 3), error=TypeError, dtypes=["int32"])
    refuses("expected lengths of int32 as the last source but got float32", (3, 4, 3), (3,),
            error=TypeError)  # fmt: skip
    refuses("expected lengths of int32 .* got int64", (3, 4, 3), (3,), error=TypeError,
            dtypes=["float32", "int64"])  # fmt: skip
    refuses(r"expected 3 lengths, one per sequence, but got \(4,?\)", (3, 4, 3), (4,),
            dtypes=["float32", "int32"])  # fmt: skip
    refuses(r"hidden state \(layers, directions, N, H\) = \(1, 1, 3, 2\) but got \(1, 3, 2\)",
            (3, 4, 3), (1, 3, 2), (1, 1, 3, 2))  # fmt: skip
    refuses(r"cell state .* = \(1, 1, 3, 2\) but got \(1, 1, 4, 2\)", (3, 4, 3), (1, 1, 3, 2),
            (1, 1, 4, 2))  # fmt: skip
    refuses("hidden state of type float32 but got float64", (3, 4, 3), *states, error=TypeError,
            dtypes=["float32", "float64", "float32"])  # fmt: skip
    refuses("lengths of int32", (3, 4, 3), *states, (3,), error=TypeError,
            dtypes=[*floats, "float32"])  # fmt: skip


def sequences(lengths, sorted_sequences=True, shape=None):
    return tg.MLCTensor(
        descriptor=tg.MLCTensorDescriptor(
            shape=shape or [len(lengths), 4, 3], sequence_lengths=lengths,
            sorted_sequences=sorted_sequences, data_type="float32",
        )
    )  # fmt: skip


def test_wrong_lengths_of_a_tensor():
    layer, _ = made()
    with pytest.raises(ValueError, match=r"that descend but got \(1, 4\) at layer"):
        tg.MLCGraph().node(layer, source=sequences([1, 4], False))
    layer, _ = made(Net(batch_first=False))
    with pytest.raises(ValueError, match="expected lengths as a source, for only batch-first"):
        tg.MLCGraph().node(layer, source=sequences([4, 1]))
    layer, _ = made()
    with pytest.raises(ValueError, match=r"of 1 sequences in the source but got \(4, 2\)"):
        tg.MLCGraph().node(layer, source=sequences([4, 2], shape=[1, 4, 3]))


@everywhere
@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize(
    ("lengths", "text"),
    [
        ([5, 1, 0], r"\[lengths '.*'\] expected a length from 0 to 4 but got 5 at \(0,?\)"),
        ([2, 1, -1], r"from 0 to 4 but got -1 at \(2,?\)"),
        ([2, 3, 1], r"expected lengths that descend but got 3 after 2 at \(1,?\)"),
    ],
)
def test_wrong_lengths(lengths, text, declared, device):
    layer, _ = made(Net(lengths=lengths))
    given_lengths = np.array(lengths, np.int32)
    x = np.zeros((3, 4, 3), np.float32)
    if declared:
        with pytest.raises(ValueError, match=text):
            infer(layer, x, given_lengths, device=device)
        return
    graph, source = tg.MLCGraph(), empty(x.shape, "float32")
    graph.node(layer, sources=[source, tg.MLCTensor(data=given_lengths)])
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": source})
    with pytest.raises(ValueError, match=text):
        inference.compile(device=device)


# --- the fuzz ------------------------------------------------------------------------------------


def draw(drawing, shape):
    need(len(shape) == 3)
    return {"options": {
        "hidden": drawing.choice([1, 2, 3, 5, 17]), "layers": drawing.choice([1, 1, 2]),
        "is_bidirectional": drawing.chance(0.3), "returns_sequences": drawing.chance(0.7),
        "biases": drawing.chance(0.7),
    }}  # fmt: skip


def drawn_counts(options, shape):
    return {"inputs": shape[2], "hidden": options["hidden"], "layers": options["layers"],
            "directions": 1 + options["is_bidirectional"], "biases": options["biases"],
            "peepholes": options.get("peepholes", 0)}  # fmt: skip


def roles(options, shapes):
    need(len(shapes[0]) == 3)
    found = {}
    for name, each in zip("wupb", extents(**drawn_counts(options, shapes[0])), strict=True):
        scale = 1 / math.sqrt(shapes[0][2] if name == "w" else 4) if name in "wu" else 0.5
        found |= {f"{name}{k}": (shape, "normal", scale) for k, shape in enumerate(each)}
    return found


def results(options, shapes):
    need(len(shapes[0]) == 3)
    steps, count = sorted_extents(options, shapes[0])
    directions = 1 + options["is_bidirectional"]
    steps = steps if options["returns_sequences"] else 1
    found = [count, steps] if options.get("batch_first", True) else [steps, count]
    states = [options["layers"], directions, count, options["hidden"]]
    more = [states] * 2 if options.get("result_mode") == "output_and_states" else []
    return [[*found, options["hidden"] * directions], *more]


def sorted_extents(options, shape):
    """Steps and sequences."""
    return shape[1::-1] if options.get("batch_first", True) else shape[:2]


def expression(options, shapes, names):
    lists = {"w": "input_weights", "u": "hidden_weights", "p": "peephole_weights", "b": "biases"}
    given_names = {
        lists[letter]: [Text(name) for role, name in names.items() if role[0] == letter]
        for letter in dict.fromkeys(role[0] for role in names)
    }
    kept = ("is_bidirectional", "returns_sequences", "batch_first", "result_mode", "dropout",
            "uses_biases")  # fmt: skip
    made_descriptor = written(
        "MLCLSTMDescriptor", input_size=shapes[0][2], hidden_size=options["hidden"],
        layer_count=options["layers"], **{k: options[k] for k in kept if k in options},
    )  # fmt: skip
    if "functions" in options:
        *gates, last = (Text(written("MLCActivationDescriptor", **f)) for f in options["functions"])
        given_names |= {"gate_activations": gates, "output_result_activation": last}
    return written("MLCLSTMLayer", descriptor=Text(made_descriptor), **given_names)


# Of the gates input, forget, cell and output, and of the result.
TYPES = [{"type": name} for name in ("sigmoid", "sigmoid", "tanh", "sigmoid", "tanh")]


def compute(t, options, sources, at):
    x, hidden, layers = sources[0], options["hidden"], options["layers"]
    counts = drawn_counts(options, list(x.shape))
    w, u, p, b = ([at[f"{name}{k}"] for k in range(len(each))]
                  for name, each in zip("wupb", extents(**counts), strict=True))  # fmt: skip
    act = [lambda y, f=f: activations.compute(t, f, [y], None)
           for f in options.get("functions", TYPES)]  # fmt: skip
    x = x if options.get("batch_first", True) else x.transpose(0, 1)
    lengths = sources[-1] if options.get("lengths") else t.full((x.shape[0],), x.shape[1])
    last_states = []
    for layer in range(layers):
        found = []
        for direction in range(counts["directions"]):
            place = direction * layers + layer
            four = range(4 * place, 4 * place + 4)
            h = c = t.zeros(x.shape[0], hidden, dtype=x.dtype)
            if options.get("states"):
                h, c = (s[layer, direction] for s in sources[1:3])
            pi, pf, po = (q.reshape(-1) for q in p[3 * place : 3 * place + 3]) if p else (0, 0, 0)
            ys = {}
            for step in range(x.shape[1])[:: -1 if direction else 1]:
                inside = (step < lengths)[:, None]
                sums = [t.where(inside, x[:, step], 0) @ w[k].reshape(hidden, -1).T
                        + h @ u[k].reshape(hidden, -1).T for k in four]  # fmt: skip
                if b:
                    sums = [s + b[k].reshape(-1) for s, k in zip(sums, four, strict=True)]
                moved = act[1](sums[1] + pf * c) * c + act[0](sums[0] + pi * c) * act[2](sums[2])
                y = act[3](sums[3] + po * moved) * act[4](moved)
                c, h = t.where(inside, moved, c), t.where(inside, y, h)
                ys[step] = t.where(inside, h, 0)
            found.append(t.stack([ys[k] for k in range(x.shape[1])], 1))
            last_states.append((h, c))
        x = t.cat(found, 2)
    if not options["returns_sequences"]:
        last = x[t.arange(x.shape[0]), (lengths - 1).clamp(min=0).long()]
        x = t.where((lengths > 0)[:, None], last, 0)[:, None]
    x = x if options.get("batch_first", True) else x.transpose(0, 1)
    if options.get("result_mode") != "output_and_states":
        return x
    shape = (layers, counts["directions"], -1, hidden)
    return [x, *(t.stack(list(s)).reshape(shape) for s in zip(*last_states, strict=True))]


DRAWN = {"MLCLSTMLayer": Layer(draw, results, expression, compute, roles)}
