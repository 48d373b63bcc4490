"""Which tensors follow the batch: what is made of the inputs, whatever their extents are."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import traingraph as tg

Build = Callable[[tg.MLCGraph, tg.MLCTensor], tg.MLCTensor]


def constant(*shape: int) -> tg.MLCTensor:
    size = int(np.prod(shape))
    return tg.MLCTensor(data=np.arange(1, size + 1, dtype=np.float32).reshape(shape))


def indices(*shape: int, below: int = 4) -> tg.MLCTensor:
    size = int(np.prod(shape))
    return tg.MLCTensor(data=(np.arange(size) * 3 % below).astype(np.int32).reshape(shape))


def condition(*shape: int) -> tg.MLCTensor:
    return tg.MLCTensor(data=np.arange(int(np.prod(shape))).reshape(shape) % 2 == 0)


def arithmetic(operation: str, *sources: tg.MLCTensor) -> tg.MLCTensor:
    graph, x, y = sources
    return graph.node(tg.MLCArithmeticLayer(operation=operation), sources=[x, y])


def product(graph: tg.MLCGraph, x: tg.MLCTensor, y: tg.MLCTensor, **options: bool) -> tg.MLCTensor:
    descriptor = tg.MLCMatMulDescriptor(**options)
    return graph.node(tg.MLCMatMulLayer(descriptor=descriptor), sources=[x, y])


def inference(build: Build, shape: tuple[int, ...]) -> Callable[..., np.ndarray]:
    x, graph = tg.MLCTensor(shape=list(shape)), tg.MLCGraph()
    build(graph, x)
    compiled = tg.MLCInferenceGraph(graph_objects=[graph])
    compiled.add_inputs({"x": x})
    compiled.compile(device="cpu")

    def run(rows: int) -> np.ndarray:
        data = 1 + np.arange(rows * np.prod(shape[1:]), dtype=np.float32)
        return np.asarray(
            compiled.execute(
                inputs_data={"x": data.reshape(rows, *shape[1:])},
                batch_size=rows,
                options="synchronous",
            ).result
        )

    return run


# Over x (N, 4): constants of one row, or that stand for themselves.
FOLLOW: dict[str, Build] = {
    "add": lambda g, x: arithmetic("add", g, x, constant(1, 4)),
    "subtract from": lambda g, x: arithmetic("subtract", g, constant(1, 4), x),
    "multiply": lambda g, x: arithmetic("multiply", g, x, constant(1, 1)),
    "divide": lambda g, x: arithmetic("divide", g, x, constant(4)),
    "select by a condition": lambda g, x: g.select(
        [x, arithmetic("add", g, x, x)], condition=condition(1, 4)
    ),
    "select one row or x": lambda g, x: g.select([constant(1, 4), x], condition=condition(1, 4)),
    "select by one value": lambda g, x: g.select([x, constant(1, 1)], condition=condition(4)),
    "product": lambda g, x: product(g, x, constant(4, 2)),
    "gather": lambda g, x: g.gather(1, source=x, indices=indices(3)),
    "gather of constants": lambda g, x: arithmetic(
        "add", g, x, g.gather(1, source=constant(1, 8), indices=indices(1, 4))
    ),
    "scatter": lambda g, x: g.scatter(1, source=x, indices=indices(4), copy_from=x,
                                      reduction_type="sum"),
    "scatter of constants": lambda g, x: arithmetic("add", g, x, g.scatter(
        1, source=constant(1, 2), indices=indices(1, 2), copy_from=constant(1, 4),
        reduction_type="none")),
    "select among constants": lambda g, x: arithmetic("multiply", g, x, g.select(
        [constant(1, 4), constant(1, 4)], condition=condition(1, 4))),
    "concatenation of constants": lambda g, x: arithmetic(
        "add", g, x, g.concatenate([constant(1, 2), constant(1, 2)], dimension=1)),
}  # fmt: skip


@pytest.mark.parametrize("name", FOLLOW)
def test_a_row_of_constants_serves_every_batch(name: str) -> None:
    """A declared batch of one row means the same as one of two."""
    one, two = inference(FOLLOW[name], (1, 4)), inference(FOLLOW[name], (2, 4))
    for rows in (1, 2, 3):
        found = one(rows)
        assert len(found) == rows
        np.testing.assert_array_equal(found, two(rows))


def test_one_matrix_of_constants_serves_every_batch() -> None:
    for declared in (1, 2):
        run = inference(lambda g, x: product(g, x, constant(1, 4, 2)), (declared, 3, 4))
        left = inference(
            lambda g, x: product(g, constant(1, 2, 4), x, transposes_y=True), (declared, 3, 4)
        )
        for rows in (1, 2, 3):
            x = 1 + np.arange(rows * 12, dtype=np.float32).reshape(rows, 3, 4)
            np.testing.assert_array_equal(run(rows), x @ np.arange(1, 9).reshape(4, 2))
            np.testing.assert_array_equal(
                left(rows), np.arange(1, 9).reshape(2, 4) @ x.transpose(0, 2, 1)
            )


# By declared rows: what takes axis 0 for something else, and the label of the layer that does.
FIXED: dict[str, tuple[str, int, Build]] = {
    "one row over many": ("Arithmetic", 1, lambda g, x: arithmetic("add", g, x, constant(5, 4))),
    "row by row": ("Arithmetic", 2, lambda g, x: arithmetic("add", g, x, constant(2, 4))),
    "an axis before": ("Arithmetic", 2, lambda g, x: arithmetic("add", g, x, constant(1, 1, 4))),
    "x as condition's row": (
        "Selection", 1, lambda g, x: g.select([x, x], condition=condition(5, 4))),
    "turned": ("Transpose", 2, lambda g, x: g.transpose([1, 0], source=x)),
    "flat": ("Reshape", 2, lambda g, x: g.reshape([8], source=x)),
    "one row more": (
        "Concat", 1, lambda g, x: g.concatenate([x, constant(1, 4)], dimension=0)),
    "a column more": (
        "Concat", 1, lambda g, x: g.concatenate([x, constant(1, 2)], dimension=1)),
    "cut": ("Split", 3, lambda g, x: g.split(x, split_count=3, dimension=0)[1]),
    "picked rows": ("Gather", 3, lambda g, x: g.gather(0, source=x, indices=indices(2, below=3))),
    "picked elements": ("Gather", 1, lambda g, x: g.gather(1, source=x, indices=indices(1, 4))),
    "onto one row": (
        "Scatter", 1,
        lambda g, x: g.scatter(1, source=x, indices=indices(4), copy_from=constant(1, 4),
                               reduction_type="sum")),
    "the right factor": ("MatMul", 2, lambda g, x: product(g, constant(3, 2), x)),
    "turned factor": (
        "MatMul", 2, lambda g, x: product(g, x, constant(2, 3), transposes_x=True)),
    "softmax over it": (
        "Softmax", 2, lambda g, x: g.node(tg.MLCSoftmaxLayer(operation="softmax", dimension=0),
                                          source=x)),
}  # fmt: skip


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize("name", FIXED)
def test_the_layer_that_fixes_the_batch_is_named(name: str, behind: bool) -> None:
    """Not one behind it, which other rows would not fit."""
    label, declared, build = FIXED[name]

    def built(graph: tg.MLCGraph, x: tg.MLCTensor) -> tg.MLCTensor:
        result = build(graph, x)
        size = int(np.prod(result.descriptor.shape))
        if behind:
            result = graph.reshape([size, 1], source=result)
            result = product(graph, constant(2, size), result)
        return result

    run = inference(built, (declared, 4))
    assert run(declared).size > 0
    for rows in {1, 2, 3, 5} - {declared}:
        expected = (
            rf"expected batch size {declared}, which layer \d+ '{label}' fixes, but got {rows}"
        )
        with pytest.raises(tg.InvalidArgument, match=expected):
            run(rows)


@pytest.mark.parametrize(("declared", "matrices"), [(1, 5), (2, 2)])
def test_a_matrix_per_sample_is_for_the_declared_batch(declared: int, matrices: int) -> None:
    run = inference(lambda g, x: product(g, x, constant(matrices, 4, 2)), (declared, 3, 4))
    assert run(declared).shape == (matrices, 3, 2)
    for rows in {1, 2, 3, 5} - {declared}:
        with pytest.raises(tg.InvalidArgument, match=rf"batch size {declared}, .* 'MatMul' fixes"):
            run(rows)


def training(
    build: Build, rows: int, labels: tuple[int, ...], reduction: str = "sum", data: Any = None
) -> tg.MLCTrainingGraph:
    x, y, graph = tg.MLCTensor(shape=[rows, 4]), tg.MLCTensor(shape=labels), tg.MLCGraph()
    build(graph, x)
    made = tg.MLCTrainingGraph(
        graph_objects=[graph], loss_layer=tg.MLCLossLayer.mean_squared_error(reduction)
    )
    made.add_inputs({"x": x}, loss_labels={"y": y})
    constants = (
        {"input_tensors": {"y": y}, "input_tensors_data": {"y": data}} if data is not None else {}
    )
    made.compile(device="cpu", **constants)
    return made


def test_losses_of_one_row_over_many_constants_are_all_reported() -> None:
    """Labels that are constants leave a declared batch of one row, which the losses are not."""
    made = training(FIXED["one row over many"][2], 1, (5, 4), "none",
                    np.zeros((5, 4), np.float32))  # fmt: skip
    seen = []
    found = made.execute(
        inputs_data={"x": np.ones((1, 4), np.float32)}, options="synchronous",
        completion_handler=lambda result, error, seconds: seen.append(np.array(result.data)),
    ).result  # fmt: skip
    expected = (2 + np.arange(20, dtype=np.float32).reshape(5, 4)) ** 2
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(seen[0], expected)


@pytest.mark.parametrize("name", ["one row over many", "turned", "flat", "one row more"])
def test_labels_of_the_declared_batch_do_not_fit_what_lost_it(name: str) -> None:
    _, declared, build = FIXED[name]
    with pytest.raises(tg.ShapeError, match=rf"\[Loss .* labels of .* \({declared}, 4\) at layer"):
        training(build, declared, (declared, 4))


@pytest.mark.parametrize("name", ["one row over many", "turned", "one row more"])
def test_labels_of_what_lost_the_batch_make_a_graph_without_one(name: str) -> None:
    _, declared, build = FIXED[name]
    shape = {"one row over many": (5, 4), "turned": (4, 2), "one row more": (2, 4)}[name]
    made = training(build, declared, shape)
    x, y = np.ones((declared, 4), np.float32), np.zeros(shape, np.float32)
    data = {"inputs_data": {"x": x}, "loss_labels_data": {"y": y}, "options": "synchronous"}
    assert np.isfinite(made.execute(**data).result)
    with pytest.raises(tg.InvalidArgument, match=r"no batch_size, because .* \('x' \(.*'y' \("):
        made.execute(**data, batch_size=declared)
    data["loss_labels_data"] = {"y": y[:1]}
    with pytest.raises(tg.ShapeError, match=rf"tensor 'y'\] expected shape \({shape[0]}, 4?"):
        made.execute(**data)


# Results over x (N, 2) of two rows: those of a batch of that size look as if they had the samples.
NO_SAMPLES: dict[str, Build] = {
    "turned": lambda g, x: g.transpose([1, 0], source=x),
    "made of constants": lambda g, x: arithmetic("add", g, constant(2, 2), constant(2, 2)),
    "cut and joined": lambda g, x: g.concatenate(
        g.split(x, split_count=2, dimension=0), dimension=0),
}  # fmt: skip


@pytest.mark.parametrize("name", NO_SAMPLES)
def test_predict_needs_the_samples_in_the_result(name: str) -> None:
    x, graph = tg.MLCTensor(shape=[2, 2]), tg.MLCGraph()
    NO_SAMPLES[name](graph, x)
    compiled = tg.MLCInferenceGraph(graph_objects=[graph])
    compiled.add_inputs({"x": x})
    compiled.compile(device="cpu")
    with pytest.raises(tg.ShapeError, match=r"\[predict\] .*samples on axis 0 but got \(2, 2\)"):
        compiled.predict(np.ones((4, 2), np.float32))


def squares(device: str) -> tuple[tg.MLCTrainingGraph, dict[str, tg.MLCTensor]]:
    x, y = tg.MLCTensor(shape=[4, 3]), tg.MLCTensor(shape=[4, 3, 1])
    weights = tg.MLCTensor(shape=[4, 3])
    graph = tg.MLCGraph()
    graph.node(tg.MLCActivationLayer.absolute(), source=graph.reshape(shape=[4, 3, 1], source=x))
    training = tg.MLCTrainingGraph(
        graph_objects=[graph],
        loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="sum"),
    )
    training.add_inputs({"x": x}, loss_labels={"y": y}, loss_label_weights={"w": weights})
    training.compile(device=device)
    return training, {"x": x, "y": y, "w": weights}


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("rows", [1, 3, 4, 9])
def test_a_call_without_batch_size_has_the_rows_of_its_arrays(device: str, rows: int) -> None:
    data = np.arange(3.0 * rows, dtype=np.float32).reshape(rows, 3)
    given = {
        "inputs_data": {"x": data},
        "loss_labels_data": {"y": np.zeros((rows, 3), np.float32)},  # without the axis of extent 1
        "loss_label_weights_data": {"w": np.ones((rows, 3), np.float32)},
    }
    training, tensors = squares(device)
    loss = training.execute(**given, options="synchronous").result
    assert float(loss) == (data**2).sum()
    # So have forward passes after a binding, and gradients after these.
    arrays = {name: data for group in given.values() for name, data in group.items()}
    training.bind_and_write_data(arrays, for_inputs=tensors)
    loss = training.execute_forward(options="synchronous").result
    assert float(loss) == (data**2).sum()
    training.execute_gradient(options="synchronous")


@pytest.mark.parametrize("rows", [3, 5])
def test_arrays_that_do_not_agree(rows: int) -> None:
    training, _ = squares("cpu")
    x, y = np.ones((rows, 3), np.float32), np.zeros((4, 3), np.float32)
    weights = np.ones((4, 3), np.float32)
    for inputs, message in (
        (x, rf"'y'\] expected {rows} rows as in the arrays before but got \(4, 3\)"),
        (x.tobytes() if rows == 3 else x[:, :2], r"'x'\] expected .*\(4, 3\)"),
    ):
        with pytest.raises(tg.ShapeError, match=message):
            training.execute(
                inputs_data={"x": inputs}, loss_labels_data={"y": y},
                loss_label_weights_data={"w": weights},
            )  # fmt: skip
    raw = training.execute(
        inputs_data={"x": bytes(48)}, loss_labels_data={"y": y},
        loss_label_weights_data={"w": weights}, options="synchronous",
    )  # fmt: skip
    assert float(raw.result) == 0
