"""Losses of a program's own over ranks."""

from typing import Any

import numpy as np
from rank_networks import ROWS, Options

import traingraph
from traingraph import nn

FEATURES, STEPS = 6, 5


def expression(name: str, difference: Any) -> Any:
    square = nn.square(difference)
    mean = nn.mean(square)
    return {
        "rows": square,
        "means": 0.5 * mean + nn.reshape((1,))(nn.mean(nn.abs(difference))) / 4 - 0.1,
        "rows and means": square + 0.1 * mean - nn.sum(nn.mean(nn.abs(difference), axis=0)),
        "sum": nn.sum(square),
        "root": nn.sqrt(mean),
        "product": mean * mean,
        "centred": nn.square(difference - nn.mean(difference, axis=0)),
        "most": nn.mean(square) + 0.1 * nn.sum(nn.square(difference), axis=0),
    }[name]


def of_expression(name: str, rows: int, world: Any) -> Any:
    x, y = nn.Input(FEATURES, name="x"), nn.Input(1, name="y")
    prediction = nn.dense(1)(nn.dense(8, activation="tanh")(x))
    return nn.model(
        inputs=x,
        outputs=prediction,
        loss=expression(name, prediction - y),
        optimizer=nn.sgd(0.05),
        batch_size=rows,
        device="cpu",
        distributed=world,
    )


def of_layers(name: str, rows: int, world: Any) -> Any:
    """What layers make of losses."""
    graph = traingraph.MLCGraph()
    x, y = (traingraph.MLCTensor(shape=[rows, count]) for count in (FEATURES, 1))
    prediction = nn.sequential(graph, x, [nn.dense(8), "tanh", nn.dense(1)])

    def loss(reduction: str) -> Any:
        layer = traingraph.MLCLossLayer.mean_squared_error(reduction_type=reduction)
        return graph.node(layer, sources=[prediction, y])

    def reduced(kind: str) -> Any:
        layer = traingraph.MLCReductionLayer(reduction_type=kind, dimensions=[0, 1])
        return graph.node(layer, source=loss("none"))

    if name == "none, mean":
        reduced("mean")
    elif name == "none, sum":
        reduced("sum")
    elif name == "softmax over rows":
        softmax = traingraph.MLCSoftmaxLayer(operation="softmax", dimension=0)
        prediction = graph.node(softmax, source=prediction)
        loss("mean")
    elif name == "mean and sum":
        graph.node(
            traingraph.MLCArithmeticLayer(operation="add"), sources=[loss("mean"), loss("sum")]
        )
    training = traingraph.MLCTrainingGraph(
        graph_objects=[graph],
        optimizer=traingraph.MLCSGDOptimizer(
            descriptor=traingraph.MLCOptimizerDescriptor(learning_rate=0.01)
        ),
    )
    training.add_inputs({"x": x}, loss_labels={"y": y})
    training.compile(device="cpu", distributed=world)
    return training


def losses(options: Options, world: Any) -> Options:
    """What five steps leave of the parameters."""
    traingraph.MLCPlatform.set_rng_seed_to(7)
    make = of_expression if options.get("expression") else of_layers
    try:
        model = make(options["loss"], ROWS // world.size, world)
    except traingraph.Unsupported as error:
        return {"error": str(error)}
    random = np.random.default_rng(3)
    x = random.standard_normal((STEPS * ROWS, FEATURES)).astype(np.float32)
    y = random.standard_normal((STEPS * ROWS, 1)).astype(np.float32)
    for step in range(STEPS):
        rows = ROWS // world.size
        part = slice(step * ROWS + world.rank * rows, step * ROWS + (world.rank + 1) * rows)
        model.execute(inputs_data={"x": x[part]}, loss_labels_data={"y": y[part]}).wait()
    return {"state": [value.ravel().tolist() for value in model.state().values()]}
