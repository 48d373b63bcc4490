"""Multi-head attention: masks, biases, dropout, micro-batches, memory of scores."""

import numpy as np
import pytest
from random_graphs.layer import Layer, Text, need, written

import traingraph as tg
from harness import Case, checks, empty, everywhere, node, tensor, train

INF = np.inf
M, D = tg.MLCMultiheadAttentionLayer, tg.MLCMultiheadAttentionDescriptor


def numbers(*shape, seed=0):
    drawn = np.random.default_rng([seed, *shape]).uniform(-1, 1, shape)
    return drawn.astype(np.float32).astype(np.float64)


def later(length, keys):
    """(L, S): whether a key is behind the query's position."""
    return np.arange(keys) > np.arange(length)[:, None]


def mask_of(kind, n, heads, length, keys):
    """A third is masked, never the first key."""
    rng = np.random.default_rng([n, heads, length, keys, len(kind)])
    rows = 1 if kind.startswith("shared") else n * heads
    shape = (n, keys) if kind == "key" else (rows, length, keys)
    if "numbers" in kind:
        return numbers(*shape, seed=9)
    drawn = rng.uniform(size=shape) < 1 / 3
    drawn[..., 0] = False
    return drawn


class Options:
    """One way to build the layer, with its sources and parameters."""

    def __init__(self, masks=(), *, extents=(2, 3, 4), model=4, key=None, value=None, heads=2,
                 biases=True, attention_biases=False, zero=False, causal=False):  # fmt: skip
        n, length, keys = extents
        self.model, self.heads, self.zero, self.causal = model, heads, zero, causal
        self.key, self.value = key or model, value or model
        self.biases, self.attention_biases = biases, attention_biases
        self.sources = [numbers(n, length, model, seed=1), numbers(n, keys, self.key, seed=2),
                        numbers(n, keys, self.value, seed=3)]  # fmt: skip
        self.masks = [mask_of(kind, n, heads, length, keys) for kind in masks]
        reads = (model, self.key, self.value, model)
        self.weights = [numbers(model, read, seed=k) for k, read in enumerate(reads)]
        count = 4 * biases, 2 * attention_biases
        self.given = [numbers(model, seed=10 + k) for k in range(count[0])]
        self.rows = [numbers(model, seed=20 + k) for k in range(count[1])]

    @property
    def parameters(self):
        return self.weights + self.given + self.rows

    @property
    def trained_masks(self):
        return [m for m in self.masks if m.dtype != bool]

    def layer(self, *parameters, dropout=0.0):
        descriptor = D(
            model_dimension=self.model,
            key_dimension=self.key,
            value_dimension=self.value,
            head_count=self.heads,
            dropout=dropout,
            has_biases=self.biases,
            has_attention_biases=self.attention_biases,
            adds_zero_attention=self.zero,
            causal=self.causal,
        )
        parameters = list(parameters)
        biases, rows = parameters[4 : 4 + len(self.given)], parameters[4 + len(self.given) :]
        return M(
            descriptor=descriptor,
            weights=parameters[:4],
            biases=biases or None,
            attention_biases=rows or None,
        )

    def build(self, graph, sources, parameters):
        given, trained = list(sources[:3]), iter(sources[3:])
        for mask in self.masks:
            given.append(tg.MLCTensor(data=mask) if mask.dtype == bool else next(trained))
        return graph.node(self.layer(*parameters), sources=given)

    def expected(self, *arrays):
        q, k, v = arrays[:3]
        floats = list(arrays[3 : 3 + len(self.trained_masks)])
        masks = [m if m.dtype == bool else floats.pop(0) for m in self.masks]
        parameters = arrays[3 + len(self.trained_masks) :]
        weights, rest = parameters[:4], parameters[4:]
        biases = rest[:4] if self.biases else [0.0] * 4
        rows = rest[4 * self.biases :]
        n, length = q.shape[:2]
        q, k, v = (x @ w.T + b for x, w, b in zip((q, k, v), weights, biases, strict=False))
        appended = []
        if self.attention_biases:
            appended.append(rows)
        if self.zero:
            appended.append([np.zeros(self.model)] * 2)
        for row in appended:
            k, v = (np.concatenate([x, np.broadcast_to(r, (n, 1, self.model))], 1)
                    for x, r in zip((k, v), row, strict=True))  # fmt: skip
        q, k, v = (x.reshape(n, -1, self.heads, self.model // self.heads).transpose(0, 2, 1, 3)
                   for x in (q, k, v))  # fmt: skip
        scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
        for mask in masks:
            known = scores[..., : mask.shape[-1]]
            if mask.ndim == 2:
                mask = mask[:, None, None]
            elif len(mask) > 1:
                mask = mask.reshape(n, self.heads, *mask.shape[1:])
            known[...] = np.where(mask, -INF, known) if mask.dtype == bool else known + mask
        if self.causal:
            scores[..., later(*scores.shape[2:])] = -INF
        p = np.exp(scores - scores.max(-1, keepdims=True))
        y = p / p.sum(-1, keepdims=True) @ v
        return y.transpose(0, 2, 1, 3).reshape(n, length, -1) @ weights[3].T + biases[3]

    def case(self, name):
        return Case(name, self.layer, self.expected, self.sources + self.trained_masks,
                    self.parameters, build=self.build)  # fmt: skip


def self_attention(graph, sources, parameters):
    return graph.node(SELF.layer(*parameters), sources=[sources[0]] * 3)


def causal_self_attention(graph, sources, parameters):
    return graph.node(CAUSAL.layer(*parameters), sources=[sources[0]] * 3)


SELF = Options(extents=(3, 5, 5), model=6, heads=3)
CAUSAL = Options(extents=(3, 5, 5), model=6, heads=3, causal=True)
OPTIONS = {
    "plain": Options(),
    "without biases": Options(biases=False),
    "dimensions": Options(("key",), model=6, key=5, value=3, heads=3),
    "appended rows": Options(attention_biases=True, zero=True),
    "appended rows and masks": Options(("key", "numbers"), attention_biases=True, zero=True),
    "zeros and a mask": Options(("per head",), zero=True, biases=False),
    "shared mask": Options(("shared",)),
    "shared numbers": Options(("key", "shared numbers"), attention_biases=True),
    "one head": Options(("numbers",), heads=1),
    "one sample": Options(("key",), extents=(1, 3, 4), attention_biases=True, zero=True),
    "one key": Options(extents=(2, 1, 1), model=2, heads=1),
    # Several tiles of queries and keys.
    "many": Options(("key",), extents=(1, 70, 131), model=8, zero=True),
    "causal": Options(causal=True, extents=(2, 4, 4)),
    "causal and masks": Options(("key", "numbers"), causal=True, extents=(2, 5, 5)),
    "causal and a shared mask": Options(("shared",), causal=True, extents=(2, 4, 4)),
    "causal, shared numbers": Options(("shared numbers",), causal=True, biases=False),
    "causal, fewer keys": Options(("key",), causal=True, extents=(2, 5, 3)),
    "causal, more keys": Options(("per head",), causal=True, extents=(2, 2, 6)),
    "causal, one query": Options(causal=True, extents=(2, 1, 3)),
    "causal, one key": Options(causal=True, extents=(2, 3, 1)),
    "causal, many": Options(("key",), causal=True, extents=(1, 131, 70), model=8),
}
CASES = [options.case(name) for name, options in OPTIONS.items()]
CASES.append(
    Case("self-attention", SELF.layer, lambda x, *p: SELF.expected(x, x, x, *p), [(3, 5, 6)],
         SELF.parameters, build=self_attention, rows=True)
)  # fmt: skip
CASES.append(
    Case("causal self-attention", CAUSAL.layer, lambda x, *p: CAUSAL.expected(x, x, x, *p),
         [(3, 5, 6)], CAUSAL.parameters, build=causal_self_attention, rows=True)
)  # fmt: skip
test_forward, test_gradient, test_backends, test_same_bits, test_batch = checks(CASES)


@everywhere
@pytest.mark.parametrize("number", [0.0, -1e4, -1e6, -1e9, -3e38])
def test_a_number_that_masks_all_keys_masks_none(number, device):
    """All scores of a query have it: probabilities are what is left, equal where it is large."""
    n, length, keys, d = 2, 3, 5, 4
    rng = np.random.default_rng(0)
    one = np.eye(d, dtype=np.float32)
    queries, k, v = (
        rng.normal(size=(n, rows, d)).astype(np.float32) for rows in (length, keys, keys)
    )
    if number < -1e5:
        queries[:] = 0  # scores far below the last bit of the number
    arrays = {"q": queries, "k": k, "v": v, "m": np.full((1, length, keys), number, np.float32)}
    sources = {name: empty(a.shape, "float32") for name, a in arrays.items()}
    graph = tg.MLCGraph()
    descriptor = D(
        model_dimension=d, key_dimension=d, value_dimension=d, head_count=1, has_biases=False
    )
    layer = M(descriptor=descriptor, weights=[tensor(one, "float32") for _ in range(4)])
    result = graph.node(layer, sources=list(sources.values()))
    training = tg.MLCTrainingGraph(graph_objects=[graph])
    training.add_inputs(sources)
    dy = training.allocate_user_gradient(result)
    training.compile(options="compute_all_gradients", device=device)
    training.bind_and_write_data(arrays, for_inputs=sources)
    y = training.execute_forward(options="synchronous").result
    given = rng.normal(size=(n, length, d)).astype(np.float32)
    training.bind_and_write_data({"dy": given}, for_inputs={"dy": dy})
    training.execute_gradient(options="synchronous")

    scores = queries.astype(np.float64) @ k.swapaxes(1, 2) / d**0.5
    p = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    slopes = given.astype(np.float64) @ v.swapaxes(1, 2)
    slopes = p * (slopes - (p * slopes).sum(-1, keepdims=True))
    right = {
        "q": slopes @ k / d**0.5, "k": slopes.swapaxes(1, 2) @ queries / d**0.5,
        "v": p.swapaxes(1, 2) @ given, "m": slopes.sum(0, keepdims=True),
    }  # fmt: skip
    # Beside 1e4 a score has ten bits behind the point left.
    bound = 1e-3 if number == -1e4 else 1e-6
    np.testing.assert_allclose(y, p @ v, atol=bound)
    for name, expected in right.items():
        found = np.empty(expected.shape, np.float32)
        training.gradient_tensor(for_input=sources[name]).copy_data_from_device_memory(found)
        np.testing.assert_allclose(found, expected, atol=4 * bound, err_msg=name)


# --- weights


@pytest.mark.parametrize("form", [lambda w: w, lambda w: w.reshape(1, -1, 1, 1), np.ravel])
def test_weights_of_any_shape(form):
    options = Options(attention_biases=True)
    built = Options(attention_biases=True)
    built.weights, built.given, built.rows = (
        [form(p) for p in some] for some in (options.weights, options.given, options.rows)
    )
    plain, shaped = options.case("a"), built.case("a")
    for ours, theirs in zip(train(shaped, plain.target)[1], train(plain, plain.target)[1],
                            strict=True):  # fmt: skip
        np.testing.assert_array_equal(ours.ravel(), theirs.ravel())


def test_the_layer_makes_its_own():
    tg.MLCPlatform.set_rng_seed_to(5)
    made = M(
        descriptor=D(
            model_dimension=64, key_dimension=32, value_dimension=16, head_count=4, dropout=0.0,
            has_biases=True, has_attention_biases=True, adds_zero_attention=False,
        )
    )  # fmt: skip
    for tensor_, read in zip(made.weights, (64, 32, 16, 64), strict=True):
        assert tensor_.data.shape == (64, read)
        limit = np.sqrt(6 / (64 + read))
        assert 0.9 * limit < np.abs(tensor_.data).max() <= limit
    assert [b.data.any() for b in made.biases] == [False] * 4
    assert [b.data.shape for b in made.attention_biases] == [(1, 1, 64)] * 2
    bare = M(
        descriptor=D(
            model_dimension=4, key_dimension=4, value_dimension=4, head_count=1, has_biases=False
        )
    )
    assert (len(bare.weights), bare.biases, bare.attention_biases) == (4, None, None)
    assert bare.biases_parameters is None


def test_properties():
    short = D(model_dimension=6, head_count=3)
    assert [short.model_dimension, short.key_dimension, short.value_dimension] == [6, 6, 6]
    assert (short.head_count, short.dropout, short.has_biases) == (3, 0.0, True)
    assert (short.has_attention_biases, short.adds_zero_attention, short.causal) == (False,) * 3
    causal = D(model_dimension=6, head_count=3, causal=True)
    assert causal.causal
    assert causal.copy().causal
    assert repr(M(descriptor=causal)).endswith("MultiheadAttention 6, 3 heads, causal>")
    options = Options(key=5, value=3, attention_biases=True, zero=True)
    tensors = [tensor(p, "float32") for p in options.parameters]
    made = options.layer(*tensors, dropout=0.25)
    d = made.descriptor.copy()
    assert [d.model_dimension, d.key_dimension, d.value_dimension, d.head_count] == [4, 5, 3, 2]
    assert (d.dropout, d.has_biases, d.has_attention_biases, d.adds_zero_attention) == (
        0.25, True, True, True,
    )  # fmt: skip
    assert made.weights == tensors[:4]
    assert made.biases == tensors[4:8]
    assert made.attention_biases == tensors[8:]
    assert [p.tensor for p in made.weights_parameters] == tensors[:4]
    assert [p.tensor for p in made.biases_parameters] == tensors[4:8]
    assert (made.label, repr(made).split(": ")[1]) == (
        "MultiheadAttention", "MultiheadAttention 4, 2 heads>",
    )  # fmt: skip


def test_a_parameter_may_be_held_still():
    """The property is the layer's own parameter."""
    options = Options(zero=True)  # else keys' biases move no probability

    def build(graph, sources, parameters):
        layer = options.layer(*parameters)
        layer.weights_parameters[1].is_updatable = False
        layer.biases_parameters[3].is_updatable = False
        return graph.node(layer, sources=sources)

    case = options.case("held")
    case.build = build
    _, gradients = train(case, case.target)
    held = [k for k, g in enumerate(gradients) if not g.any()]
    assert held == [3 + 1, 7 + 3]


# --- dropout


class Training:
    """sum((y - 0)²) over one head whose keys can be told apart: y is what probabilities became."""

    def __init__(self, n, length, keys, rate, device="reference", dtype="float64", micro=1):
        graph = tg.MLCGraph()
        eye = np.eye(keys, dtype=dtype)
        weights = [np.zeros((keys, keys), dtype)] * 2
        layer = M(
            descriptor=D(
                model_dimension=keys, key_dimension=keys, value_dimension=keys, head_count=1,
                dropout=rate, has_biases=False,
            ),
            weights=[tensor(w, dtype) for w in (*weights, eye, eye)],
        )  # fmt: skip
        shapes = {"q": (n, length, keys), "k": (n, keys, keys), "v": (n, keys, keys)}
        inputs = {name: empty(shape, dtype) for name, shape in shapes.items()}
        self.data = {name: np.zeros(shape, dtype) for name, shape in shapes.items()}
        self.data["v"][:] = eye
        self.y = np.zeros((n, length, keys), dtype)
        out = graph.node(layer, sources=list(inputs.values()))
        self.graph = tg.MLCTrainingGraph(
            graph_objects=[graph],
            loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="sum"),
            optimizer=tg.MLCSGDOptimizer(learning_rate=0.0),
        )
        self.graph.add_inputs(inputs, loss_labels={"y": empty(self.y.shape, dtype)})
        self.graph.add_outputs({"out": out})
        self.graph.micro_batches = micro
        self.graph.compile(device=device)

    def step(self, options="synchronous"):
        out = np.empty_like(self.y)
        self.graph.execute(inputs_data=self.data, loss_labels_data={"y": self.y},
                           outputs_data={"out": out}, options=options)  # fmt: skip
        return out


@everywhere
def test_dropout(device):
    n, length, keys, rate = 4, 30, 37, 0.3
    training = Training(n, length, keys, rate, device, "float32")
    first, second = training.step(), training.step()
    kept = first != 0
    np.testing.assert_allclose(first[kept], 1 / keys / (1 - rate), rtol=1e-5)
    assert abs(kept.mean() - (1 - rate)) < 4 * np.sqrt(rate * (1 - rate) / first.size)
    assert 0.3 < (kept != (second != 0)).mean() < 0.55
    again = Training(n, length, keys, rate, device, "float32")
    np.testing.assert_array_equal(again.step(), first)
    parts = Training(n, length, keys, rate, device, "float32")
    same = tg.MLCExecutionOptions.SYNCHRONOUS | tg.MLCExecutionOptions.FORWARD_FOR_INFERENCE
    np.testing.assert_allclose(parts.step(same), 1 / keys, rtol=1e-5)
    reference = Training(n, length, keys, rate, "reference", "float32").step()
    np.testing.assert_array_equal(reference != 0, kept)


# --- sources


@everywhere
def test_masks_are_sources_of_a_step(device):
    """A mask of all queries goes with every batch; one per sample and head fixes the batch."""
    n, length, keys, heads = 4, 3, 5, 2

    def inference(*masks):
        options = Options(masks, extents=(n, length, keys), heads=heads, attention_biases=True,
                          zero=True)  # fmt: skip
        graph = tg.MLCGraph()
        arrays = options.sources + options.masks
        inputs = {f"s{k}": empty(a.shape, "bool" if a.dtype == bool else "float32")
                  for k, a in enumerate(arrays)}  # fmt: skip
        layer = options.layer(*(tensor(p, "float32") for p in options.parameters))
        graph.node(layer, sources=list(inputs.values()))
        made = tg.MLCInferenceGraph(graph_objects=[graph])
        made.add_inputs(inputs)
        made.compile(device=device)

        def run(batch=0):
            data = {f"s{k}": a.astype("bool" if a.dtype == bool else "float32")[: batch or None]
                    for k, a in enumerate(arrays)}  # fmt: skip
            return made.execute(inputs_data=data, batch_size=batch, options="synchronous").result

        return options, run

    for masks in (("key",), ("shared numbers",), ("key", "shared"), ("per head",)):
        options, run = inference(*masks)
        right = options.expected(*options.sources, *options.trained_masks, *options.parameters)
        np.testing.assert_allclose(run(), right, rtol=2e-5, atol=2e-6)
        if masks == ("key",):
            for batch in (1, 2):
                np.testing.assert_allclose(run(batch), right[:batch], rtol=2e-5, atol=2e-6)
        if masks == ("per head",):
            with pytest.raises(ValueError, match="batch"):
                run(2)


@everywhere
def test_a_query_without_keys_gets_zeros(device):
    """What is left is the bias of the last projection, the same for all of them."""
    options = Options(("key",), extents=(2, 3, 4))
    options.masks[0][1] = True
    found = one_result(options, device)
    assert np.isfinite(found[0]).all()
    np.testing.assert_array_equal(found[1], np.broadcast_to(found[1, :1], found[1].shape))
    for more in ({"zero": True}, {"attention_biases": True}):
        appended = Options(("key",), extents=(2, 3, 4), **more)
        appended.masks[0][1] = True
        assert np.isfinite(one_result(appended, device)).all()


@everywhere
@pytest.mark.parametrize("precision", ["tf32", "mixed_bfloat16", "mixed_float16"])
def test_masks_of_numbers_keep_float32(precision, device):
    """Rounded to 16 bits the mask would have multiples of 32 or 4 only, and one key would win."""
    x = numbers(2, 7, 16).astype(np.float32)
    mask = 5000 + np.arange(7, dtype=np.float32) * np.ones((1, 7, 1), np.float32) / 4
    weights = [numbers(16, 16, seed=k) / 2 for k in range(4)]

    def result(chosen):
        graph = tg.MLCGraph()
        inputs = {"x": empty(x.shape, "float32"), "mask": empty(mask.shape, "float32")}
        layer = M(
            descriptor=D(model_dimension=16, head_count=2),
            weights=[tensor(w, "float32") for w in weights],
            biases=[tensor(np.zeros(16), "float32") for _ in weights],
        )
        graph.node(layer, sources=[inputs["x"]] * 3 + [inputs["mask"]])
        inference = tg.MLCInferenceGraph(graph_objects=[graph])
        inference.add_inputs(inputs)
        inference.compile(device=device, precision=chosen)
        data = {"x": x, "mask": mask}
        return inference.execute(inputs_data=data, options="synchronous").result

    exact = result("float32")
    np.testing.assert_allclose(result(precision), exact, atol=0.02 * np.abs(exact).max())


@everywhere
def test_micro_batches_and_other_batches(device):
    """Parts of a step give what the whole gives: gradients, and masks of dropout."""
    options = Options(extents=(4, 3, 5), attention_biases=True, zero=True)

    def trained(micro, batches):
        tg.MLCPlatform.set_rng_seed_to(3)
        tensors = [tensor(p, "float32") for p in options.parameters]
        shapes = [s.shape for s in options.sources]
        inputs = {f"s{k}": empty(shape, "float32") for k, shape in enumerate(shapes)}
        graph = tg.MLCGraph()
        graph.node(options.layer(*tensors, dropout=0.4), sources=list(inputs.values()))
        training = tg.MLCTrainingGraph(
            graph_objects=[graph],
            loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="sum"),
            optimizer=tg.MLCSGDOptimizer(learning_rate=0.25),
        )
        training.add_inputs(inputs, loss_labels={"y": empty(shapes[0], "float32")})
        training.micro_batches = micro
        training.compile(device=device)
        first = 0
        for batch in batches:
            rows = slice(first, first + batch)
            data = {f"s{k}": s[rows].astype("float32") for k, s in enumerate(options.sources)}
            labels = {"y": np.ones((batch, *shapes[0][1:]), np.float32)}
            training.execute(inputs_data=data, loss_labels_data=labels, batch_size=batch,
                             options="synchronous")  # fmt: skip
            first += batch
        training.synchronize_updates()
        return [t.data - p.astype("float32")
                for t, p in zip(tensors, options.parameters, strict=True)]  # fmt: skip

    whole = trained(1, [4])
    for parts in ([2, 2], [1, 1, 2]):
        for one, right in zip(trained(len(parts), parts), whole, strict=True):
            np.testing.assert_allclose(one, right, rtol=0, atol=3e-6 * np.abs(right).max())


def one_result(options, device, dtype="float32"):
    graph = tg.MLCGraph()
    sources = [empty(s.shape, dtype) for s in options.sources]
    options.build(graph, sources, [tensor(p, dtype) for p in options.parameters])
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({f"s{k}": s for k, s in enumerate(sources)})
    inference.compile(device=device)
    data = {f"s{k}": a.astype(dtype) for k, a in enumerate(options.sources)}
    return inference.execute(inputs_data=data, options="synchronous").result


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@everywhere
def test_sources_of_16_bits(dtype, device):
    """They are widened, and so is a mask of numbers."""
    graph = tg.MLCGraph()
    options = Options(("shared numbers",))
    sources = [empty(s.shape, dtype) for s in options.sources + options.masks]
    layer = options.layer(*(tensor(p, "float32") for p in options.parameters))
    graph.node(layer, sources=sources)
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({f"s{k}": s for k, s in enumerate(sources)})
    assert inference.compile(device=device)


# --- memory


@pytest.mark.parametrize("precision", ["float32", "tf32", "mixed_bfloat16", "mixed_float16"])
@pytest.mark.parametrize("masked", [False, True])
@everywhere
def test_no_value_of_all_scores(masked, precision, device):
    """Neither a value nor scratch has a byte per score."""
    length, model = 2048, 16
    graph = tg.MLCGraph()
    x = tg.MLCTensor(shape=[1, length, model])
    descriptor = D(
        model_dimension=model, key_dimension=model, value_dimension=model, head_count=2,
        dropout=0.1, has_attention_biases=True, adds_zero_attention=True,
    )  # fmt: skip
    inputs = {"x": x}
    if masked:
        inputs["mask"] = tg.MLCTensor(shape=[1, length], data_type="boolean")
    more = [inputs["mask"]] if masked else []
    result = graph.node(M(descriptor=descriptor), sources=[x, x, x, *more])
    training = tg.MLCTrainingGraph(
        graph_objects=[graph],
        loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="mean"),
        optimizer=tg.MLCSGDOptimizer(learning_rate=0.1),
    )
    labels = tg.MLCTensor(shape=list(result.descriptor.shape))
    training.add_inputs(inputs, loss_labels={"y": labels})
    training.compile(device=device, precision=precision)
    plan = training.memory_plan()
    assert max(entry.bytes for entry in plan.entries) < length * length
    assert any("attention" in entry.name for entry in plan.entries)


# --- what is refused


def layer_of(**changes):
    given = {"model_dimension": 4, "key_dimension": 4, "value_dimension": 4, "head_count": 2}
    return D(**given | changes)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"head_count": 3}, "model dimension divisible by 3 heads but got 4"),
        ({"head_count": 0}, "head_count to be 1 or more but got 0"),
        ({"model_dimension": -4}, "model_dimension to be 1 or more but got -4"),
        ({"key_dimension": 0}, "key_dimension to be 1 or more but got 0"),
        ({"value_dimension": 0}, "value_dimension to be 1 or more but got 0"),
        ({"dropout": 1.0}, "dropout to be from 0 to less than 1 but got 1"),
        ({"dropout": np.nan}, "dropout to be from 0 to less than 1 but got nan"),
        (
            {"causal": True, "has_attention_biases": True},
            "no rows appended to keys of causal attention, .* but got has_attention_biases",
        ),
        ({"causal": True, "adds_zero_attention": True}, "but got adds_zero_attention"),
    ],
)
def test_wrong_descriptors(changes, text):
    with pytest.raises(tg.InvalidArgument, match=text):
        layer_of(**changes)


def test_wrong_parameters():
    def t(*shape):
        return empty(shape, "float32")

    square, row = [t(4, 4)] * 4, [t(4)] * 4
    with pytest.raises(tg.InvalidArgument, match=r"expected 4 weights, of query.* but got 3"):
        M(descriptor=layer_of(), weights=square[:3])
    with pytest.raises(tg.InvalidArgument, match=r"expected 4 biases, of query.* but got 1"):
        M(descriptor=layer_of(), weights=square, biases=row[:1])
    with pytest.raises(tg.InvalidArgument, match="expected no biases, as the descriptor has none"):
        M(descriptor=layer_of(has_biases=False), weights=square, biases=row)
    with pytest.raises(tg.InvalidArgument, match="expected no attention biases, as the descriptor"):
        M(descriptor=layer_of(), weights=square, attention_biases=row[:2])
    with_rows = layer_of(has_attention_biases=True)
    with pytest.raises(tg.InvalidArgument, match="expected 2 attention biases, of key and value"):
        M(descriptor=with_rows, weights=square, attention_biases=row)
    with pytest.raises(tg.ShapeError, match=r"value attention biases of 4 elements.*\(5,?\)"):
        M(descriptor=with_rows, weights=square, attention_biases=[t(4), t(5)])
    with pytest.raises(
        tg.ShapeError, match=r"key weights of 16 elements, \(4, 4\), but got \(4, 5"
    ):
        M(descriptor=layer_of(), weights=[t(4, 4), t(4, 5), t(4, 4), t(4, 4)])
    with pytest.raises(tg.ShapeError, match="output biases of 4 elements"):
        M(descriptor=layer_of(), weights=square, biases=[t(4), t(4), t(4), t(3)])
    with pytest.raises(TypeError, match="weights"):
        M(descriptor=layer_of(), weights=[1, 2, 3, 4])
    assert M(descriptor=with_rows, weights=square).attention_biases is None
    assert M(descriptor=layer_of(), weights=square).biases is None


Q, K = (2, 3, 4), (2, 5, 4)


@pytest.mark.parametrize(
    ("shapes", "dtypes", "error", "text"),
    [
        ([Q, K], None, tg.InvalidArgument, "expected 3 to 5 sources but got 2"),
        ([(2, 4), K, K], None, tg.ShapeError, r"a query \(N, L, 4\) but got \(2, 4\) at layer"),
        ([Q, (2, 5, 3), K], None, tg.ShapeError, r"a key \(N, S, 4\) but got \(2, 5, 3\)"),
        ([Q, K, Q], None, tg.ShapeError, r"a value \(2, 5, 4\) but got \(2, 3, 4\)"),
        ([Q, (1, 5, 4), K], None, tg.ShapeError, r"a key \(2, 5, 4\) but got \(1, 5, 4\)"),
        ([Q, K, K], ["int32"] * 3, TypeError, "a query of floating-point numbers but got int32"),
        ([Q, K, K, (2, 5)], ["float32"] * 4, TypeError, "a key mask of bool, or lengths"),
        ([Q, K, K, (2, 4)], [*["float32"] * 3, "bool"], tg.ShapeError, r"key mask \(2, 5\) but"),
        ([Q, K, K, (5,)], [*["float32"] * 3, "bool"], tg.ShapeError, r"a key mask \(2, 5\) but"),
        ([Q, K, K, (1, 3, 4)], None, tg.ShapeError, r"an attention mask \(1, 3, 5\) but got \(1"),
        ([Q, K, K, (2, 3, 5)], None, tg.ShapeError, r"1 row or \(4, 3, 5\) but got \(2, 3, 5\)"),
        ([Q, K, K, (1, 3, 5)], [*["float32"] * 3, "int32"], TypeError, "numbers but got int32"),
        ([Q, K, K, (1, 3, 5), (1, 3, 5)], None, tg.ShapeError, r"a key mask \(N, S\) before the"),
    ],
)
def test_wrong_sources(shapes, dtypes, error, text):
    with pytest.raises(error, match=text):
        node(M(descriptor=layer_of()), *shapes, dtypes=dtypes)


# --- the fuzz


def draw(drawing, shape):
    need(len(shape) == 3)
    model, length = shape[2], shape[1]
    heads = drawing.choice([h for h in (1, 2, 3, 4, 8) if model % h == 0])
    fits = lambda other: len(other) == 3 and other[0] == shape[0]  # noqa: E731
    memory = drawing.flow(fits)
    keys = drawing.shapes[memory][1]
    values = drawing.flow(lambda other: fits(other) and other[1] == keys)
    options = {
        "heads": heads,
        "biases": drawing.chance(0.7),
        "rows": drawing.chance(0.4),
        "zero": drawing.chance(0.4),
        "causal": drawing.chance(0.4),
        "weights": drawing.choice(["matrix", "image"]),
    }
    if options["causal"]:
        options["rows"] = options["zero"] = False
    more = [memory, values]
    # Where a row is appended no query loses all of its keys.
    booleans = options["rows"] or options["zero"]
    if booleans and drawing.chance(0.4):
        more.append(drawing.value("input", [shape[0], keys], "boolean"))
    if drawing.chance(0.4):
        role = drawing.choice(["constant", "trained"])
        kind = "boolean" if booleans and role == "constant" and drawing.chance(0.5) else "normal"
        more.append(drawing.value(role, [1, length, keys], kind))
    return {"options": options, "more": more}


def results(options, shapes):
    need(len(shapes) >= 3)
    query, key, value, *masks = shapes
    need(len(query) == len(key) == len(value) == 3 and query[2] % options["heads"] == 0)
    need(query[0] == key[0] == value[0] and key[1] == value[1])
    for mask in masks:
        each = query[0] * options["heads"]
        need(mask in ([query[0], key[1]], [1, query[1], key[1]], [each, query[1], key[1]]))
    need(not options.get("causal") or not (options["rows"] or options["zero"]))
    need("dropout" in options or query[0] * query[1] * key[1] * query[2] < 3e5, "much work")
    return [list(query)]


def parameters(options, shapes):
    model, key, value = (s[2] for s in shapes[:3])
    found = {}
    for role, read in zip("qkvo", (model, key, value, model), strict=True):
        shape = [model, read] if options["weights"] == "matrix" else [1, model * read, 1, 1]
        found[f"weights{role}"] = (shape, "normal", read**-0.5)
    for role in "qkvo" if options["biases"] else "":
        found[f"biases{role}"] = ([model], "normal", 0.5)
    for role in "kv" if options["rows"] else "":
        found[f"rows{role}"] = ([1, 1, model], "normal", 0.5)
    return found


def expression(options, shapes, names):
    model, key, value = (s[2] for s in shapes[:3])
    descriptor = written(
        "MLCMultiheadAttentionDescriptor",
        model_dimension=model, key_dimension=key, value_dimension=value,
        head_count=options["heads"], dropout=options.get("dropout", 0.0),
        has_biases=options["biases"], has_attention_biases=options["rows"],
        adds_zero_attention=options["zero"], causal=options.get("causal", False),
    )  # fmt: skip
    lists = {
        what: [Text(name) for role, name in names.items() if role.startswith(prefix)] or None
        for what, prefix in
        [("weights", "weights"), ("biases", "biases"), ("attention_biases", "rows")]
    }  # fmt: skip
    return written("MLCMultiheadAttentionLayer", descriptor=Text(descriptor), **lists)


def compute(t, options, sources, at):
    query, key, value, *masks = sources
    model, heads = query.shape[2], options["heads"]

    def projected(x, role):
        y = x @ at[f"weights{role}"].reshape(model, x.shape[2]).T
        return y + at[f"biases{role}"] if options["biases"] else y

    q, k, v = (projected(x, r) for x, r in zip((query, key, value), "qkv", strict=True))
    known = k.shape[1]
    appended = [(at["rowsk"], at["rowsv"])] if options["rows"] else []
    if options["zero"]:
        appended.append((t.zeros(1, 1, model, dtype=q.dtype),) * 2)
    for rows in appended:
        k, v = (t.cat([x, r.expand(x.shape[0], 1, model)], 1)
                for x, r in zip((k, v), rows, strict=True))  # fmt: skip
    q, k, v = (x.reshape(x.shape[0], x.shape[1], heads, -1).transpose(1, 2) for x in (q, k, v))
    scores = q @ k.transpose(-1, -2) / (model // heads) ** 0.5
    first, rest = scores[..., :known], scores[..., known:]
    for mask in masks:
        if mask.dim() == 2:
            mask = mask[:, None, None]
        else:
            mask = mask.reshape(-1, heads if len(mask) > 1 else 1, *mask.shape[1:])
        first = first.masked_fill(mask, -INF) if mask.dtype == t.bool else first + mask
    if options.get("causal"):
        first = first.masked_fill(t.ones(first.shape[2:], dtype=t.bool).triu(1), -INF)
    y = t.softmax(t.cat([first, rest], -1), -1) @ v
    return projected(y.transpose(1, 2).reshape(query.shape), "o")


DRAWN = {"MLCMultiheadAttentionLayer": Layer(draw, results, expression, compute, parameters)}
