"""A net of one LSTM layer, as the package makes it and as NumPy computes it."""

import math

import numpy as np

import traingraph as tg
from harness import Case, empty, tensor
from lstm_steps import USUAL, lstm


def descriptor(inputs=3, hidden=2, layers=1, **options):
    return tg.MLCLSTMDescriptor(
        input_size=inputs, hidden_size=hidden, layer_count=layers, **options
    )


def extents(inputs=3, hidden=2, layers=1, directions=1, peepholes=0, biases=True):
    """Shapes of all parameters, list by list."""
    first = [[1, inputs * hidden, 1, 1]] * 4
    later = [[1, directions * hidden * hidden, 1, 1]] * 4 * (layers - 1)
    each = layers * directions
    return (
        (first + later) * directions,
        [[1, hidden * hidden, 1, 1]] * 4 * each,
        [[1, hidden, 1, 1]] * peepholes * each,
        [[1, hidden, 1, 1]] * 4 * each * biases,
    )


def lists_of(flat, **counts):
    """The lists of parameters in a flat one."""
    lists, flat = [], list(flat)
    for shapes in extents(**counts):
        lists.append(flat[: len(shapes)])
        del flat[: len(shapes)]
    assert not flat
    return lists


def given(lists):
    names = ("input_weights", "hidden_weights", "peephole_weights", "biases")
    return {name: found for name, found in zip(names, lists, strict=True) if found}


class Net:
    """A layer of these options, as the package makes it and as NumPy computes it."""

    def __init__(self, inputs=3, hidden=2, layers=1, peepholes=0, biases=True, functions=USUAL,
                 activations=None, lengths=None, states=False, **options):  # fmt: skip
        self.directions = 1 + options.get("is_bidirectional", False)
        self.counts = {"inputs": inputs, "hidden": hidden, "layers": layers,
                       "directions": self.directions, "peepholes": peepholes,
                       "biases": biases}  # fmt: skip
        self.hidden, self.layers, self.options = hidden, layers, options
        self.functions, self.activations, self.lengths = functions, activations or {}, lengths
        self.states, self.time_first = states, not options.get("batch_first", True)
        self.descriptor = descriptor(inputs, hidden, layers, **options)

    def shapes(self):
        return [tuple(shape) for shapes in extents(**self.counts) for shape in shapes]

    def sources(self, sequences, steps):
        x = [steps, sequences] if self.time_first else [sequences, steps]
        state = (self.layers, self.directions, sequences, self.hidden)
        return [(*x, self.counts["inputs"]), *[state] * 2 * self.states]

    def layer(self, parameters):
        lists = given(lists_of(parameters, **self.counts))
        return tg.MLCLSTMLayer(descriptor=self.descriptor, **lists, **self.activations)

    def build(self, graph, sources, parameters):
        layer = self.layer(parameters)
        if self.lengths is not None:
            sources = [*sources, tg.MLCTensor(data=np.array(self.lengths, np.int32))]
        first = graph.node(layer, sources=sources)
        results = graph.result_tensors(layer)
        if len(results) == 1:
            return first
        flat = [
            graph.node(tg.MLCReshapeLayer(shape=[math.prod(r.descriptor.shape)]), source=r)
            for r in results
        ]
        return graph.node(tg.MLCConcatenationLayer(dimension=0), sources=flat)

    def results(self, x, *others):
        """The result, and the last h and c."""
        count = 2 * self.states
        states, lists = others[:count], lists_of(others[count:], **self.counts)
        w, u, p, b = ([a.reshape(-1, self.hidden) if k == 2 else a.reshape(self.hidden, -1)
                       for a in found] for k, found in enumerate(lists))  # fmt: skip
        x = x.swapaxes(0, 1) if self.time_first else x
        lengths = self.lengths
        if lengths is not None:
            inside = np.arange(x.shape[1])[:, None] < np.array(lengths)[:, None, None]
            x = np.where(inside, x, 0)
        ends = []
        for layer in range(self.layers):
            found = []
            for direction in range(self.directions):
                at = direction * self.layers + layer
                four = slice(4 * at, 4 * at + 4)
                sums = x @ np.concatenate(w[four]).T
                if b:
                    sums = sums + np.concatenate(b[four]).reshape(-1)
                own = [p[k] for k in range(len(p)) if k // (len(p) // self.places()) == at]
                peepholes = np.concatenate([own[0], own[1], own[-1]]) if own else None
                start = [s[layer, direction] for s in states] or [None, None]
                y, h, c = lstm(sums, np.concatenate(u[four]), *start, peepholes, lengths,
                               direction == 1, self.functions)  # fmt: skip
                found.append(y)
                ends.append((h, c))
            x = np.concatenate(found, axis=2)
        if not self.options.get("returns_sequences", True):
            last = np.full(len(x), x.shape[1]) if lengths is None else np.array(lengths)
            picked = x[np.arange(len(x)), np.maximum(last, 1) - 1]
            x = np.where(last[:, None] > 0, picked, 0)[:, None]
        x = x.swapaxes(0, 1) if self.time_first else x
        shape = (self.layers, self.directions, -1, self.hidden)
        return [x, *(np.stack(s).reshape(shape) for s in zip(*ends, strict=True))]

    def places(self):
        return self.layers * self.directions

    def expected(self, *arrays):
        found = self.results(*arrays)
        if self.options.get("result_mode", "output") == "output":
            return found[0]
        return np.concatenate([a.ravel() for a in found])

    def case(self, name, sequences=3, steps=4, **more):
        rng = np.random.default_rng(len(name))
        # Gates that are not saturated. Gradients of hidden weights are small beside the result.
        sources = [rng.uniform(-1, 1, shape) for shape in self.sources(sequences, steps)]
        parameters = [
            rng.uniform(-1, 1, shape) / max(1, (np.prod(shape) / self.hidden / 4) ** 0.5)
            for shape in self.shapes()
        ]
        more["step"] = 1e-5
        return Case(name, None, self.expected, sources, parameters, build=self.build, **more)


def filled(shapes, seed=1):
    rng = np.random.default_rng(seed)
    return [tensor(rng.uniform(-1, 1, shape), np.float32) for shape in shapes]


def made(net=None):
    net = net or Net()
    return net.layer(filled(net.shapes())), net


def layer_tensors(layer):
    lists = (layer.input_weights, layer.hidden_weights, layer.peephole_weights, layer.biases)
    return [t for found in lists for t in found or []]


def infer(layer, x, *others, device="cpu", batch_size=0):
    """All results."""
    graph = tg.MLCGraph()
    sources = [empty(a.shape, a.dtype.name) for a in (x, *others)]
    graph.node(layer, sources=sources)
    results = graph.result_tensors(layer)
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({f"source {k}": t for k, t in enumerate(sources)})
    inference.add_outputs({f"result {k}": t for k, t in enumerate(results)})
    inference.compile(device=device)
    found = {f"result {k}": np.empty(t.descriptor.shape, np.float32) for k, t in enumerate(results)}
    inference.execute(
        inputs_data={f"source {k}": a for k, a in enumerate((x, *others))},
        outputs_data=found, batch_size=batch_size, options="synchronous",
    )  # fmt: skip
    return list(found.values())
