"""Rows of layers with weights, of products, pooling and normalizations."""

from typing import Any

from random_graphs.layer import Shape, need

from .movement import IMAGES, SIZES, sample
from .sample import Row, Sample, Values

Choice = dict[str, Any]


def fully_connected(choice: Choice) -> Sample:
    shapes: dict[str, Shape] = {
        "odd": [3, 5], "ones": [1, 1], "vector": [2, 33], "large": [1024, 64]
    }  # fmt: skip
    shape = shapes[choice["size"]]
    if choice["source"] == "sequence":
        shape = [1, *shape]
    if choice["source"] == "pixel":
        shape = [*shape, 1, 1]
    options = {"count": choice["count"], "weights": choice["weights"], "biases": choice["biases"]}
    return sample("MLCFullyConnectedLayer", options, [Values(shape)])


# --- windows

WINDOW = {
    "kernel": [[1, 1], [3, 3], [2, 5]], "strides": [[1, 1], [2, 2], [1, 3]],
    "dilation": [[1, 1], [2, 1], [2, 2]], "policy": ["same", "valid", (1, 1), (0, 2)],
}  # fmt: skip


def window(choice: Choice) -> Choice:
    options = {name: choice[name] for name in WINDOW}
    if isinstance(choice["policy"], tuple):
        options |= {"policy": "sized", "padding": list(choice["policy"])}
    return options


def convolution(choice: Choice) -> Sample:
    shape = list(IMAGES[choice["size"]])
    if choice["size"] == "odd":
        shape[1] = 6
    need(not (choice["type"] == "transposed" and choice["groups"] == "depthwise"))
    options = window(choice) | {name: choice[name] for name in ("each", "weights", "biases")}
    options["depthwise"] = choice["groups"] == "depthwise"
    options["groups"] = 1 if options["depthwise"] else choice["groups"]
    options["transposed"] = choice["type"] == "transposed"
    if choice["size"] == "large":  # what differences can be made of
        need(choice["kernel"] == [3, 3] and choice["each"] == 1 and choice["groups"] != 1)
    return sample("MLCConvolutionLayer", options, [Values(shape)])


def pooling(choice: Choice) -> Sample:
    options = window(choice) | {"type": choice["type"], "counted": choice["counted"]}
    need(choice["type"] == "average" or not choice["counted"])
    if choice["type"] == "l2_norm":  # away from 0, where it has a kink, but for ties
        source = Values(IMAGES[choice["size"]], 0.25, 2, "signed")
    else:
        source = Values(IMAGES[choice["size"]])
    return sample("MLCPoolingLayer", options, [source],
                  coarse=0.5 if choice["size"] == "ties" else 0.0)  # fmt: skip


def matmul(choice: Choice) -> Sample:
    rows, inner, columns = {
        "odd": (3, 5, 7), "ones": (1, 1, 1), "vector": (17, 33, 18), "large": (256, 256, 9)
    }[choice["size"]]  # fmt: skip
    first = [inner, rows] if choice["transposes_x"] else [rows, inner]
    second = [columns, inner] if choice["transposes_y"] else [inner, columns]
    lead = {"none": ([], []), "same": ([2], [2]), "first": ([2, 3], []), "second": ([], [3]),
            "broadcast": ([2, 1], [1, 3])}[choice["lead"]]  # fmt: skip
    need(choice["size"] != "large" or choice["lead"] == "none")
    options = {name: choice[name] for name in ("alpha", "transposes_x", "transposes_y")}
    sources = [Values([*lead[0], *first]), Values([*lead[1], *second])]
    return sample("MLCMatMulLayer", options, sources)


# --- normalizations

FORMS = ["plain", "row", "image"]
LEFT_OUT = [[], ["beta"], ["gamma"], ["beta", "gamma"]]
EPSILON = [1e-5, 1e-3, 0.1]
# Statistics are of one element where extents are 1, and of more than two elsewhere: those of two
# have no gradient but that of epsilon.
NORMALIZED: dict[str, Shape] = IMAGES | {"vector": [4, 17, 1, 33]}


def of_rank(choice: Choice) -> Shape:
    if choice["size"] == "large":
        return {2: [1024, 64], 3: [64, 16, 64], 4: [4, 4, 64, 64]}[choice["rank"]]
    return NORMALIZED[choice["size"]][: choice["rank"]]


def statistics(role_shape: Shape) -> dict[str, Values]:
    return {"mean": Values(role_shape, -0.5, 0.5), "variance": Values(role_shape, 0.5, 2)}


def batch_normalization(choice: Choice) -> Sample:
    shape = of_rank(choice)
    if choice["rank"] == 2 and choice["size"] in ("odd", "vector"):
        shape = [shape[0] * 4 + 1, shape[1]]
    options = {"momentum": choice["momentum"], "variance_epsilon": choice["epsilon"],
               "parameters": choice["form"], "left_out": choice["left_out"]}  # fmt: skip
    made = sample("MLCBatchNormalizationLayer", options, [Values(shape)], frozen=choice["frozen"])
    made.own = statistics(made.parameters()["mean"][0])
    return made


def group_normalization(choice: Choice) -> Sample:
    shape = of_rank(choice)
    need(choice["rank"] > 2 or choice["groups"] == 1 or choice["size"] == "ones")
    options = {"variance_epsilon": choice["epsilon"], "group_count": choice["groups"],
               "left_out": choice["left_out"]}  # fmt: skip
    return sample("MLCGroupNormalizationLayer", options, [Values(shape)])


def instance_normalization(choice: Choice) -> Sample:
    options = {"variance_epsilon": choice["epsilon"], "momentum": choice["momentum"],
               "running": choice["running"], "left_out": choice["left_out"]}  # fmt: skip
    need(choice["running"] or choice["momentum"] == 0.9)
    made = sample("MLCInstanceNormalizationLayer", options, [Values(of_rank(choice))],
                  frozen=choice["frozen"])  # fmt: skip
    if choice["running"]:
        made.own = statistics(made.parameters()["mean"][0])
    return made


def layer_normalization(choice: Choice) -> Sample:
    options = {"variance_epsilon": choice["epsilon"], "axes": choice["axes"],
               "left_out": choice["left_out"]}  # fmt: skip
    return sample("MLCLayerNormalizationLayer", options, [Values(of_rank(choice))])


NORM: Choice = {"size": SIZES, "rank": [2, 3, 4], "epsilon": EPSILON, "left_out": LEFT_OUT}
ROWS = [
    Row("MLCFullyConnectedLayer", "", {"size": SIZES, "source": ["matrix", "sequence", "pixel"],
        "count": [1, 3, 17], "weights": ["matrix", "row", "image"], "biases": ["", *FORMS]},
        fully_connected),
    Row("MLCConvolutionLayer", "", {"size": SIZES, **WINDOW,
        "type": ["standard", "transposed"], "groups": [1, 2, "depthwise"], "each": [1, 3, 17],
        "weights": ["image", "row"], "biases": ["", *FORMS]}, convolution),
    *(Row("MLCPoolingLayer", kind, {"size": [*SIZES[:3], "ties", "large"], **WINDOW,
        "type": [kind], "counted": [False, True] if kind == "average" else [False]}, pooling)
        for kind in ("max", "average", "l2_norm")),
    Row("MLCMatMulLayer", "", {"size": SIZES, "alpha": [1.0, -1.25],
        "transposes_x": [False, True], "transposes_y": [False, True],
        "lead": ["none", "same", "first", "second", "broadcast"]}, matmul),
    Row("MLCBatchNormalizationLayer", "", {**NORM, "form": FORMS, "momentum": [0.5, 0.99],
        "frozen": [False, True]}, batch_normalization),
    Row("MLCGroupNormalizationLayer", "", {**NORM, "groups": [1, 2, 3, 17]}, group_normalization),
    Row("MLCInstanceNormalizationLayer", "", {**NORM, "rank": [3, 4], "momentum": [0.5, 0.9],
        "running": [False, True], "frozen": [False, True]}, instance_normalization),
    Row("MLCLayerNormalizationLayer", "", {**NORM, "axes": [1, 2, 3]}, layer_normalization),
]  # fmt: skip
