"""The smallest memory limit that an error states is taken, and no smaller one is."""

import re

import pytest
from checked_networks import NETWORKS, Checked, channels, parts

import traingraph as tg

NOW = "synchronous"
DEVICES = ["cpu", "reference"]


def stated(error):
    return int(re.search(r"and (\d+) with \d+ values rematerialized", str(error)).group(1))


def counted(network):
    """What the limit is for, with the copies of data that is bound already."""
    return network.training.memory_plan().total_bytes


def bind(network):
    data = {**network.data, **network.label_data, **network.weight_data}
    tensors = {**network.inputs, **network.labels, **network.weights}
    network.training.bind_and_write_data(data, for_inputs=tensors)


def phases(network):
    bind(network)
    network.training.execute_forward(options=NOW)
    network.training.execute_gradient(options=NOW)


def compiled(network, limit):
    network.training.compile(device=network.device, precision=network.precision, memory_limit=limit)


CALLS = {
    "steps": ({}, lambda network: network.step()),
    "phases": ({}, phases),
    "micro-batches": ({"micro_batches": 2}, lambda network: [network.step() for _ in range(2)]),
    "mixed": ({"precision": "mixed_float16"}, lambda network: network.step()),
}


def refusal(network, limit, call):
    try:
        compiled(network, limit)
        call(network)
    except MemoryError as error:
        return stated(error)
    raise AssertionError(f"{limit} bytes were taken")


def deep(**options):
    """Batch norms in residual blocks: much that may be computed again, also more than helps."""
    net = Checked(**options)
    h = net.input(4, 4, 8, 8)
    for k in range(3):
        convolution = tg.MLCConvolutionLayer(
            weights=net.parameter(4, 4, 3, 3, seed=k), biases=net.parameter(4, seed=k),
            descriptor=channels(4, 4, 3),
        )  # fmt: skip
        normalization = tg.MLCBatchNormalizationLayer(feature_channel_count=4)
        inner = net.add(convolution, normalization, tg.MLCActivationLayer.tanh(), to=h)
        h = net.graph.node(tg.MLCArithmeticLayer(operation="add"), sources=[h, inner])
    net.label(4, 4, 8, 8)
    return net.compiled()


# The network of parts has micro-batches of its own.
CASES = [
    (make, kind)
    for make in (*NETWORKS, deep)
    for kind in CALLS
    if (make, kind) != (parts, "micro-batches")
]


@pytest.mark.parametrize("device", DEVICES)
def test_an_inference_graph_states_what_it_needs(device):
    network = deep(device=device)
    inference = tg.MLCInferenceGraph(graph_objects=[network.graph])
    inference.add_inputs(network.inputs)
    inference.compile(device=device)
    free = inference.memory_plan().total_bytes
    with pytest.raises(MemoryError) as error:
        inference.compile(device=device, memory_limit=1)
    assert stated(error.value) == free
    inference.compile(device=device, memory_limit=free)
    inference.execute(inputs_data=network.data, options=NOW)
    with pytest.raises(MemoryError):
        inference.compile(device=device, memory_limit=free - 1)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("make", "kind"), CASES, ids=[f"{make.__name__}-{kind}" for make, kind in CASES]
)
def test_the_stated_limit_is_the_smallest_that_is_taken(make, kind, device):
    options, call = CALLS[kind]
    network = make(device=device, **options)
    call(network)
    free = counted(network)
    compiled(network, free)
    call(network)
    assert counted(network) <= free
    # What a call needs that compile does not ask for is stated by that call.
    least = refusal(network, 1, call)
    try:
        compiled(network, least)
        call(network)
    except MemoryError as error:
        least = stated(error)
    compiled(network, least)
    call(network)
    assert counted(network) <= least <= free
    for smaller in (least - 1, least - 64):
        assert refusal(network, smaller, call) == least
    for limit in range(least, free, max(1, (free - least) // 5)):
        compiled(network, limit)
        call(network)
        assert counted(network) <= limit


# Devices with memory of their own have copies of all that is bound, in the first plan too; "null"
# has none.
HOSTS = ("cpu", "reference", "bnns")


@pytest.mark.parametrize("device", [*DEVICES, "null"])
def test_copies_of_what_is_bound_already_count(device):
    network = deep(device=device)
    free = counted(network)
    bind(network)
    whole = counted(network)
    assert whole > free if device in HOSTS else whole == free
    with pytest.raises(MemoryError, match=f"but got {whole}, and ") as error:
        compiled(network, 1)
    least = stated(error.value)
    with pytest.raises(MemoryError):
        compiled(network, least - 1)
    compiled(network, least)
    assert counted(network) <= least
    bind(network)
    assert counted(network) <= least  # in the place of those before


@pytest.mark.parametrize("device", DEVICES)
def test_copies_made_later_come_on_top(device):
    network = Checked(device=device)
    layer = network.dense(4, 4)
    network.add(layer, to=network.input(4, 4))
    network.label(4, 4)
    network.compiled()
    free = counted(network)
    compiled(network, free)
    bind(network)
    assert counted(network) > free if device in HOSTS else counted(network) == free
    network.training.execute(inputs_data={}, options=NOW)
    # A changed graph is compiled again, under the limit as it was.
    layer.biases_parameter.is_updatable = False
    network.training.execute(inputs_data={}, options=NOW)
    with pytest.raises(MemoryError):
        compiled(network, counted(network) - 1)
