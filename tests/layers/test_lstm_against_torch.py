"""LSTM layers beside torch.nn.LSTM: every pair of its options, forward and gradient."""

import itertools

import numpy as np
import pytest

import traingraph as tg
from harness import empty, tensor
from lstm_net import Net, given, lists_of

torch = pytest.importorskip("torch")

OPTIONS = {
    "layers": {"layers": 2},
    "bidirectional": {"is_bidirectional": True},
    "time first": {"batch_first": False},
    "no biases": {"biases": False, "uses_biases": False},
    "packed": {"lengths": [5, 3, 3, 1]},
    "states": {"states": True},
}
PAIRS = [(), *itertools.combinations(OPTIONS, 1), *itertools.combinations(OPTIONS, 2)]
PAIRS += [tuple(OPTIONS)]
# torch: input, forget, candidate, output, as here.
SEQUENCES, STEPS, INPUTS, HIDDEN = 4, 5, 3, 6


def theirs(net, lists, sources, target):
    """Outputs, states, and gradients of sources and lists."""
    options = net.options
    module = torch.nn.LSTM(
        INPUTS, HIDDEN, net.layers, bias="biases" in lists, dtype=torch.float64,
        batch_first=options.get("batch_first", True), bidirectional=net.directions == 2,
    )  # fmt: skip
    names = {"input_weights": "weight_ih", "hidden_weights": "weight_hh", "biases": "bias_ih"}
    owned = []
    with torch.no_grad():
        for name, arrays in lists.items():
            for at in range(net.directions * net.layers):
                direction, layer = divmod(at, net.layers)
                suffix = f"_l{layer}" + "_reverse" * direction
                own = getattr(module, names[name] + suffix)
                four = [torch.tensor(a) for a in arrays[4 * at : 4 * at + 4]]
                own.copy_(torch.cat([a.reshape(HIDDEN, *own.shape[1:]) for a in four]))
                owned.append((own, four))
                if name == "biases":
                    getattr(module, "bias_hh" + suffix).zero_()
    x, *states = (torch.tensor(a, requires_grad=True) for a in sources)
    flat = [s.reshape(-1, *s.shape[2:]) for s in states]
    # Theirs are layer by layer too, of each first forward, then backward.
    fed = x
    if net.lengths is not None:
        pack = torch.nn.utils.rnn.pack_padded_sequence
        fed = pack(x, net.lengths, batch_first=module.batch_first)
    y, (h, c) = module(fed, tuple(flat) if flat else None)
    if net.lengths is not None:
        unpack = torch.nn.utils.rnn.pad_packed_sequence
        y, _ = unpack(y, batch_first=module.batch_first, total_length=STEPS)
    results = [r.detach().numpy() for r in (y, h, c)]
    flat_results = torch.cat([r.reshape(-1) for r in (y, h, c)])
    ((flat_results - torch.tensor(target)) ** 2).sum().backward()
    gradients = [t.grad.numpy() for t in (x, *states)]
    for own, four in owned:
        gradients += list(np.split(own.grad.numpy(), 4))
        assert len(four) == 4
    return results, gradients


def ours(net, sources, parameters, target, device, dtype):
    """What one step of SGD subtracts, and the outputs before."""
    graph = tg.MLCGraph()
    tensors = [tensor(a, dtype) for a in sources]
    weights = [tensor(a, dtype) for a in parameters]
    result = net.build(graph, tensors, weights)
    training = tg.MLCTrainingGraph(
        graph_objects=[graph],
        loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="sum"),
        optimizer=tg.MLCSGDOptimizer(learning_rate=1.0),
    )
    training.set_training_tensor_parameters([tg.MLCTensorParameter(tensor=t) for t in tensors])
    label = empty(result.descriptor.shape, dtype)
    training.add_inputs({}, loss_labels={"y": label})
    training.add_outputs({"result": result})
    training.compile(device=device)
    found = np.empty(result.descriptor.shape, dtype)
    training.execute(
        inputs_data={}, loss_labels_data={"y": target.astype(dtype)},
        outputs_data={"result": found}, options="synchronous",
    )  # fmt: skip
    training.synchronize_updates()
    before = [*sources, *parameters]
    return found, [a - t.data for a, t in zip(before, tensors + weights, strict=True)]


@pytest.mark.parametrize(("device", "dtype", "bound"),
                         [("reference", "float64", 1e-12), ("cpu", "float32", 2e-5)])  # fmt: skip
@pytest.mark.parametrize("names", PAIRS, ids=", ".join)
def test_as_torch(names, device, dtype, bound):
    options = {"result_mode": "output_and_states"}
    for name in names:
        options |= OPTIONS[name]
    net = Net(INPUTS, HIDDEN, **options)
    rng = np.random.default_rng(len(names))
    sources, parameters = (
        [rng.uniform(-1, 1, s).astype(np.float32).astype(np.float64) for s in shapes]
        for shapes in (net.sources(SEQUENCES, STEPS), net.shapes())
    )
    lists = given(lists_of(parameters, **net.counts))
    count = SEQUENCES * HIDDEN * net.directions * (STEPS + 2 * net.layers)
    target = rng.uniform(-1, 1, count)
    results, gradients = theirs(net, lists, sources, target)
    found, slopes = ours(net, sources, parameters, target, device, dtype)
    expected = np.concatenate([r.ravel() for r in results])
    np.testing.assert_allclose(found, expected, atol=bound)
    for got, right in zip(slopes, gradients, strict=True):
        scale = max(1.0, np.abs(right).max())
        np.testing.assert_allclose(got.reshape(right.shape), right, atol=10 * bound * scale)
