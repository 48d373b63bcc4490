"""Where parameters lie: as their first kernel reads them, whatever later ones ask for."""

import pytest

from op_harness import testing

if "cpu" not in testing.backends():
    pytest.skip("no CPU backend on this machine", allow_module_level=True)

CONVOLUTION = {
    "kernel": (3, 3),
    "stride": (1, 1),
    "dilation": (1, 1),
    "padding_before": (1, 1),
    "padding_after": (1, 1),
    "groups": 1,
}


def graph_of(softmax_first: bool):
    """Weights that a convolution reads and, before or after it, an op that wants them plain."""
    graph = testing.Graph()
    x = graph.add_input("float32", [8, 64, 16, 16])
    weights = graph.add_parameter(0, "float32", [64, 64, 3, 3])
    ops = [("softmax", {"axis": 3}, [weights]), ("convolution", CONVOLUTION, [x, weights])]
    for op in ops if softmax_first else ops[::-1]:
        graph.add_op(*op)
    graph = testing.with_layouts(graph, "cpu", parameters=1)
    lines = {name: line for line in str(graph).splitlines() for name, _, _ in ops if name in line}
    direct = {name: f"%{weights}" in line.split("[")[0] for name, line in lines.items()}
    return testing.layout(graph, weights), direct


def test_the_first_kernel_decides():
    layout, direct = graph_of(softmax_first=False)
    assert layout != "plain"
    assert direct == {"convolution": True, "softmax": False}  # the softmax reads a copy


def test_a_kernel_that_wants_plain_weights_decides_as_well():
    layout, direct = graph_of(softmax_first=True)
    assert layout == "plain"
    assert direct == {"convolution": False, "softmax": True}
