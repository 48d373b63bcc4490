"""Which tensors follow the batch: what is made of the inputs, whatever their extents are."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from networks import identity

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


@pytest.mark.parametrize("call", ["execute", "bind"])
@pytest.mark.parametrize("batch_size", [0, 4])
def test_the_array_of_other_columns_is_named(call: str, batch_size: int) -> None:
    """Not one behind it, whose rows it would not have."""
    x, second, y = (tg.MLCTensor(shape=shape) for shape in ([4, 2], [4, 2], [4, 2]))
    graph = tg.MLCGraph()
    graph.node(tg.MLCArithmeticLayer(operation="add"), sources=[x, second])
    training = tg.MLCTrainingGraph(
        graph_objects=[graph], loss_layer=tg.MLCLossLayer.mean_squared_error("sum")
    )
    training.add_inputs({"x": x, "second": second}, loss_labels={"y": y})
    training.compile(device="cpu")
    tensors = {"x": x, "second": second, "y": y}
    good = {name: np.ones((4, 2), np.float32) for name in tensors}

    def give(given: dict[str, np.ndarray]) -> None:
        if call == "bind":
            training.bind_and_write_data(given, for_inputs=tensors, batch_size=batch_size)
            return
        labels = {"y": given.pop("y")}
        training.execute(inputs_data=given, loss_labels_data=labels, batch_size=batch_size)

    for wrong in tensors:
        for shape in ((4, 3), (4, 4), (2, 4), (8,), (4, 2, 2)):
            start, end = f"[tensor '{wrong}'] expected shape (4, 2)", f"but got {shape}"
            with pytest.raises(tg.ShapeError, match=f"{re.escape(start)}.*{re.escape(end)}"):
                give(good | {wrong: np.ones(shape, np.float32)})


def test_arrays_of_other_rows_are_refused_where_they_are_bound() -> None:
    training, tensors = squares("cpu")
    arrays = {name: np.ones((3, 3), np.float32) for name in tensors}
    arrays["w"] = np.ones((2, 3), np.float32)
    with pytest.raises(tg.ShapeError, match=r"'w'\] expected 3 rows as .* but got \(2, 3\)"):
        training.bind_and_write_data(arrays, for_inputs=tensors)
    # Raw bytes have no rows: beside them the tensors' number is meant.
    arrays = {name: np.ones((4, 3), np.float32) for name in tensors} | {"x": bytes(48)}
    training.bind_and_write_data(arrays, for_inputs=tensors)
    assert float(training.execute_forward(options="synchronous").result) == 12
    arrays["y"] = arrays["w"] = np.ones((3, 3), np.float32)
    with pytest.raises(tg.ShapeError, match=r"expected (at least .* bytes|shape \(4, 3, 1\))"):
        training.bind_and_write_data(arrays, for_inputs=tensors, batch_size=4)


# --- inputs of one row ---------------------------------------------------------------------------


def masked_attention(mask: tg.MLCTensor, heads: int) -> tuple[tg.MLCGraph, tg.MLCTensor]:
    x, graph = tg.MLCTensor(shape=[4, 3, 4]), tg.MLCGraph()
    size = iter(range(1, 9))
    layer = tg.MLCMultiheadAttentionLayer(
        descriptor=tg.MLCMultiheadAttentionDescriptor(model_dimension=4, head_count=heads),
        weights=[tg.MLCTensor(data=numbers(4, 4, seed=next(size))) for _ in range(4)],
        biases=[tg.MLCTensor(data=numbers(4, seed=next(size))) for _ in range(4)],
    )
    graph.node(layer, sources=[x, x, x, mask])
    return graph, x


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("kind", ["boolean", "float32"])
def test_a_mask_of_one_row_is_the_same_as_an_input_and_as_a_constant(
    heads: int, device: str, kind: str
) -> None:
    boolean = kind == "boolean"
    mask = np.triu(np.ones((1, 3, 3), bool), 1) if boolean else numbers(1, 3, 3, seed=20)
    given = tg.MLCTensor(shape=[1, 3, 3], data_type=kind)
    graph, x = masked_attention(given, heads)
    as_input = tg.MLCInferenceGraph(graph_objects=[graph])
    as_input.add_inputs({"x": x, "mask": given})
    as_input.compile(device=device)
    graph, x = masked_attention(tg.MLCTensor(data=mask), heads)
    as_constant = tg.MLCInferenceGraph(graph_objects=[graph])
    as_constant.add_inputs({"x": x})
    as_constant.compile(device=device)
    data = numbers(9, 3, 4, seed=21)
    for rows in (4, 1, 2, 9):
        found = [
            inference.execute(inputs_data=inputs, batch_size=size, options="synchronous").result
            for size in (0, rows)
            for inference, inputs in (
                (as_input, {"x": data[:rows], "mask": mask}), (as_constant, {"x": data[:rows]}),
            )
        ]  # fmt: skip
        assert found[0].shape == (rows, 3, 4)
        for other in found[1:]:
            np.testing.assert_array_equal(other, found[0])
    whole = as_constant.predict({"x": data}, batch_size=2)
    np.testing.assert_array_equal(as_input.predict({"x": data, "mask": mask}, batch_size=2), whole)
    with pytest.raises(tg.ShapeError, match=r"'mask'\] expected shape \(1, 3, 3\) but got \(2, 3"):
        as_input.execute(inputs_data={"x": data[:2], "mask": np.repeat(mask, 2, 0)})


def row_network(device: str) -> tuple[tg.MLCTrainingGraph, dict[str, tg.MLCTensor]]:
    """(x + row - y)², where the row is an input."""
    tensors = {name: tg.MLCTensor(shape=shape)
               for name, shape in {"x": [4, 3], "row": [1, 3], "y": [4, 3]}.items()}  # fmt: skip
    graph = tg.MLCGraph()
    both = [tensors["x"], tensors["row"]]
    total = graph.node(tg.MLCArithmeticLayer(operation="add"), sources=both)
    graph.node(identity(3), source=total)
    made = tg.MLCTrainingGraph(
        graph_objects=[graph], loss_layer=tg.MLCLossLayer.mean_squared_error("mean"),
        optimizer=tg.MLCSGDOptimizer(learning_rate=0.0),
    )  # fmt: skip
    made.add_inputs({k: tensors[k] for k in ("x", "row")}, loss_labels={"y": tensors["y"]})
    made.compile(device=device, options="compute_all_gradients")
    return made, tensors


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_an_input_of_one_row_serves_all_samples_of_every_call(device: str) -> None:
    training, tensors = row_network(device)
    x, row, y = numbers(10, 3), numbers(1, 3, seed=1), numbers(10, 3, seed=2)
    for rows in (4, 3, 1, 7):
        error = x[:rows] + row - y[:rows]
        given = {"x": x[:rows], "row": row, "y": y[:rows]}
        training.bind_and_write_data(given, for_inputs=tensors)
        loss = training.execute_forward(options="synchronous").result
        assert float(loss) == pytest.approx(float((error**2).mean()), rel=1e-5)
        training.execute_gradient(options="synchronous")
        gradient = np.empty((1, 3), np.float32)
        training.gradient_tensor(tensors["row"]).copy_data_from_device_memory(gradient)
        np.testing.assert_allclose(gradient[0], 2 * error.sum(0) / error.size, rtol=1e-4)
    training.execute_optimizer_update(options="synchronous")
    expected = float(((x + row - y) ** 2).mean())
    labels, inputs = {"y": y}, {"x": x, "row": row}
    assert training.evaluate(inputs, labels).loss == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(training.predict(inputs), x + row, rtol=1e-5, atol=1e-6)
    for shuffle in (False, True):
        epochs = training.fit(inputs, labels, epochs=2, shuffle=shuffle, batch_size=3)
        assert epochs[0].steps == 4
        assert epochs[1].loss == pytest.approx(expected, rel=1e-5)
    with pytest.raises(tg.ShapeError, match=r"inputs 'row': expected shape \(1, 3\), for all samp"):
        training.fit({"x": x, "row": x}, labels)


def test_samples_of_the_right_count_and_other_axes_are_refused_before_the_first_batch() -> None:
    x, graph = tg.MLCTensor(shape=[2, 3, 4]), tg.MLCGraph()
    graph.node(tg.MLCActivationLayer.relu(), source=x)
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": x})
    inference.compile(device="cpu")
    with pytest.raises(tg.ShapeError, match=r"\[predict\] inputs 'x': .*\(N, 3, 4\), but got"):
        inference.predict(np.ones((6, 4, 3), np.float32))
    assert inference.predict(np.ones((6, 3, 1, 4), np.float32)).shape == (6, 3, 4)
