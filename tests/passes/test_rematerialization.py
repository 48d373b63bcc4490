"""Rematerialization of forward values: the copies, and which ones a limit chooses."""

import re

import numpy as np
import pytest

from op_harness import scalar_list

_testing = pytest.importorskip("traingraph._testing", reason="built with TRAINGRAPH_TESTING")

ROWS, WIDTH = 128, 64
BYTES = ROWS * WIDTH * 4  # of a value as large as the layers' results


class Chain:
    """x → products with a tanh and a relu behind each, and their gradients by hand.

    The gradient reads the products themselves beside what follows them, as that of batch norm does.
    """

    def __init__(self, layers=3):
        self.graph = _testing.Graph()
        rng = np.random.default_rng(7)
        self.arrays = {}

        def given(*shape):
            value = self.graph.add_input("float32", shape)
            self.arrays[value] = rng.normal(size=shape).astype(np.float32)
            return value

        h = given(ROWS, WIDTH)
        weights = [given(WIDTH, WIDTH) for _ in range(layers)]
        seed = given(ROWS, WIDTH)
        self.sources, self.products, self.bent, self.ends = [], [], [], []
        for w in weights:
            self.sources.append(h)
            self.products.append(self.op("matmul", {}, h, w))
            self.bent.append(self.scalar("tanh", self.products[-1]))
            h = self.scalar("relu", self.bent[-1])
            self.ends.append(h)
        result = self.scalar("identity", h)
        self.graph.keep(result)
        self.wanted = [result]
        self.graph.begin_gradient()
        for k in reversed(range(layers)):
            seed = self.scalar("multiply", seed, self.ends[k])
            seed = self.scalar("multiply", seed, self.bent[k])
            seed = self.scalar("multiply", seed, self.products[k])
            self.wanted.append(self.op("matmul", {"transpose_a": True}, self.sources[k], seed))
            self.graph.keep(self.wanted[-1])
            seed = self.op("matmul", {"transpose_b": True}, seed, weights[k])

    def op(self, name, attributes, *inputs):
        return self.graph.add_op(name, attributes, list(inputs))[0]

    def scalar(self, function, *inputs):
        return self.op("elementwise", scalar_list(function, len(inputs)), *inputs)


def results(graph, chain):
    return [a.tobytes() for a in graph.run("reference", chain.arrays, chain.wanted)]


def lines(graph, phase):
    """The ops of a phase as (results, function or op, operands)."""
    block = re.search(rf"^{phase}:\n(.*?)(?=^\w+:|\Z)", str(graph) + "\n", re.S | re.M).group(1)
    found = []
    for line in block.strip().splitlines():
        left, right = line.split(" = ", 1)
        numbers = [int(n) for n in re.findall(r"%(\d+)", right.split(")")[0])]
        found.append((int(re.search(r"%(\d+)", left).group(1)), right, numbers))
    return found


def test_a_copy_stands_before_its_first_reader_and_serves_all():
    chain = Chain()
    value = chain.ends[0]
    graph = _testing.with_rematerialized(chain.graph, [value])
    assert lines(graph, "forward") == lines(chain.graph, "forward")
    gradient = lines(graph, "gradient")
    (copy,) = [k for k, (_, text, operands) in enumerate(gradient) if operands == [chain.bent[0]]]
    assert "relu" in gradient[copy][1]
    again = gradient[copy][0]
    readers = [k for k, (_, _, operands) in enumerate(gradient) if again in operands]
    assert readers[0] == copy + 1
    assert len(readers) == 2  # the weights of the next layer, and its own gradient
    assert all(value not in operands for _, _, operands in gradient)
    assert results(graph, chain) == results(chain.graph, chain)


def test_a_copy_may_read_another_one():
    chain = Chain()
    graph = _testing.with_rematerialized(chain.graph, [chain.bent[1], chain.ends[1]])
    gradient = lines(graph, "gradient")
    tanh = next(k for k, (_, _, o) in enumerate(gradient) if o == [chain.products[1]])
    relu = next(k for k, (_, _, o) in enumerate(gradient) if o == [gradient[tanh][0]])
    assert relu == tanh + 1
    assert results(graph, chain) == results(chain.graph, chain)
    order = _testing.with_rematerialized(chain.graph, [chain.ends[1], chain.bent[1]])
    assert str(order) == str(graph)


def test_nothing_is_chosen_where_the_arena_fits():
    chain = Chain()
    values, arena, fits = _testing.choose_rematerialized(chain.graph, False, 1 << 30)
    assert (values, fits) == ([], True)
    assert _testing.choose_rematerialized(chain.graph, False, arena)[0] == []


@pytest.mark.parametrize("apart", [False, True])
def test_no_more_is_chosen_than_the_limit_asks_for(apart):
    chain = Chain(layers=4)
    arena = _testing.choose_rematerialized(chain.graph, apart, 1 << 30)[1]
    counts = []
    for limit in range(arena, 0, -BYTES):
        values, needed, fits = _testing.choose_rematerialized(chain.graph, apart, limit)
        assert fits == (needed <= limit)
        counts.append(len(values))
        graph = _testing.with_rematerialized(chain.graph, values)
        assert results(graph, chain) == results(chain.graph, chain)
        if not fits:
            break
    assert not fits
    assert counts == sorted(counts)
    assert counts[:2] == [0, 1]
    # Both results behind each product but the last, which are read at once.
    assert counts[-1] >= 3


def small(*forward_ops, gradient, keep=(), writes=(), through_views=False):
    """A product, what `forward_ops` make of it, enough beside it for a peak, and what reads it."""
    graph = _testing.Graph()
    x, w = graph.add_input("float32", (ROWS, WIDTH)), graph.add_input("float32", (WIDTH, WIDTH))
    p = graph.add_parameter(0, "float32", (ROWS, WIDTH))
    product = graph.add_op("matmul", {}, [x, w])[0]
    named = {"product": product, "parameter": p}
    for name, op, attributes, inputs in forward_ops:
        named[name] = graph.add_op(op, attributes, [named[i] for i in inputs])[0]
    for name in keep:
        graph.keep(named[name])
    for name in writes:
        graph.writes(named[name], p)
    second = graph.add_op("matmul", {}, [named["y"], w])[0]
    third = graph.add_op("matmul", {}, [second, w])[0]
    graph.keep(third)
    graph.begin_gradient()
    seed = graph.add_op("matmul", {"transpose_b": True}, [third, w])[0]
    seed = graph.add_op("matmul", {"transpose_b": True}, [seed, w])[0]
    for name in gradient:
        read = named[name]
        for shape in [(ROWS * WIDTH,), (ROWS, WIDTH)] if through_views else []:
            read = graph.add_op("reshape", {"shape": shape}, [read])[0]
        seed = graph.add_op("elementwise", scalar_list("multiply", 2), [seed, read])[0]
    graph.keep(seed)
    return graph, named


RELU = ("elementwise", scalar_list("relu", 1))
SUM = ("elementwise", scalar_list("add", 2))


def chosen(*forward_ops, **options):
    graph, named = small(*forward_ops, **options)
    values = _testing.choose_rematerialized(graph, False, 1)[0]
    return [name for name, value in named.items() if value in values]


def test_what_is_chosen_reads_what_is_there_anyway():
    y = ("y", *RELU, ["product"])
    assert chosen(y, gradient=["y", "product"]) == ["y"]
    # Nobody else keeps the product.
    assert chosen(y, gradient=["y"]) == []
    # A product costs more than it is worth.
    assert chosen(y, gradient=["product"]) == []
    # Whoever asked for it reads it behind its phase.
    assert chosen(y, gradient=["y", "product"], keep=["y"]) == []


def test_what_a_copy_reads_is_computed_again_with_it():
    bent = ("bent", "elementwise", scalar_list("tanh", 1), ["product"])
    y = ("y", *RELU, ["bent"])
    assert sorted(chosen(bent, y, gradient=["y", "product"])) == ["bent", "y"]
    assert chosen(bent, y, gradient=["y"]) == []


def test_a_value_that_a_view_shows_is_kept():
    y = ("y", *RELU, ["product"])
    view = ("view", "reshape", {"shape": (ROWS * WIDTH,)}, ["y"])
    assert chosen(y, view, gradient=["y", "product"]) == []


def test_a_view_in_the_gradient_phase_shows_the_copy():
    y = ("y", *RELU, ["product"])
    assert chosen(y, gradient=["y", "product"], through_views=True) == ["y"]
    assert chosen(y, gradient=["y"], through_views=True) == []
    graph, _ = small(y, gradient=["y", "product"], through_views=True)
    before = _testing.choose_rematerialized(graph, False, 1 << 30)[1]
    assert _testing.choose_rematerialized(graph, False, 1)[1] == before - BYTES


def test_parameters_are_read_again_unless_they_change_on_the_way():
    y = ("y", *SUM, ["product", "parameter"])
    running = ("running", *RELU, ["product"])
    assert chosen(y, gradient=["y", "product"]) == ["y"]
    assert chosen(y, running, gradient=["y", "product"], writes=["running"]) == []
