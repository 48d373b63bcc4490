"""Rows of LSTM and attention."""

from typing import Any

import numpy as np
from random_graphs.layer import Shape, need
from random_graphs.table import LAYERS

from .sample import Row, Sample, Values

Choice = dict[str, Any]
FUNCTIONS = {
    "usual": None,
    "others": [
        {"type": "hard_sigmoid", "a": 0.2, "b": 0.5}, {"type": "soft_sign"}, {"type": "none"},
        {"type": "sigmoid"}, {"type": "tanh", "a": 1.5, "b": 0.5},
    ],
}  # fmt: skip
# Sequences, steps, features.
SEQUENCES: dict[str, Shape] = {
    "odd": [3, 4, 5], "ones": [1, 1, 1], "vector": [17, 2, 3], "large": [128, 8, 64]
}  # fmt: skip


def sample(name: str, options: Choice, sources: list[Values], **more: Any) -> Sample:
    made = Sample(LAYERS[name], options, sources, **more)
    made.layer.results(options, made.shapes)  # raises where they do not fit
    return made


def lstm(choice: Choice) -> Sample:
    count, steps, width = SEQUENCES[choice["size"]]
    first = choice["batch_first"]
    options = {
        "hidden": choice["hidden"], "layers": choice["layers"], "biases": choice["biases"] == "all",
        "uses_biases": choice["biases"] != "not used", "batch_first": first,
        "is_bidirectional": choice["is_bidirectional"], "dropout": choice["dropout"],
        "returns_sequences": choice["returns_sequences"], "result_mode": choice["result_mode"],
        "peepholes": choice["peepholes"], "states": choice["states"], "lengths": choice["lengths"],
    }  # fmt: skip
    if FUNCTIONS[choice["functions"]]:
        options["functions"] = FUNCTIONS[choice["functions"]]
    if choice["size"] == "large":  # what differences can be made of
        need(options["hidden"] == 3 and options["layers"] == 1)
    need(not choice["dropout"] or choice["layers"] > 1)
    shape = [count, steps, width] if first else [steps, count, width]
    sources = [Values(shape, -1, 1)]
    if choice["states"]:
        states = [choice["layers"], 1 + choice["is_bidirectional"], count, choice["hidden"]]
        sources += [Values(states, -1, 1)] * 2
    if choice["lengths"]:
        lengths = np.linspace(steps, 0, count).round().astype(np.int32)
        lengths[0] = steps
        sources.append(Values([count], kind="index", array=lengths))
    return sample("MLCLSTMLayer", options, sources, is_random=choice["dropout"] > 0)


ATTENTION = {
    "odd": (2, 3, 5, (6, 5, 3)), "ones": (1, 1, 1, (6, 1, 1)), "vector": (1, 17, 33, (6, 6, 6)),
    "large": (512, 4, 3, (36, 4, 6)),
}  # fmt: skip


def attention(choice: Choice) -> Sample:
    count, length, keys, (model, key, value) = ATTENTION[choice["size"]]
    heads, biases = choice["heads"], choice["biases"]
    options = {"heads": heads, "biases": biases, "rows": choice["rows"], "zero": choice["zero"],
               "weights": choice["weights"], "dropout": choice["dropout"],
               "causal": choice.get("causal", False)}  # fmt: skip
    sources = [Values([count, length, model], -1, 1), Values([count, keys, key], -1, 1),
               Values([count, keys, value], -1, 1)]  # fmt: skip
    random = np.random.default_rng(5)

    def mask(shape: Shape) -> Values:
        """A third of the keys is masked, but never the first."""
        drawn = random.random(shape) < 1 / 3
        drawn[..., 0] = False
        return Values(shape, kind="boolean", array=drawn)

    if choice["key_mask"]:
        sources.append(mask([count, keys]))
    shapes = {"shared": [1, length, keys], "each": [count * heads, length, keys]}
    if choice["mask"] in ("booleans", "booleans of each"):
        sources.append(mask(shapes["each" if "each" in choice["mask"] else "shared"]))
    if choice["mask"] in ("numbers", "numbers of each"):
        sources.append(Values(shapes["each" if "each" in choice["mask"] else "shared"]))
    return sample("MLCMultiheadAttentionLayer", options, sources, is_random=choice["dropout"] > 0)


def causal_attention(choice: Choice) -> Sample:
    """It has no appended rows."""
    return attention({"rows": False, "zero": False, "weights": "matrix", "causal": True, **choice})


BOTH = [False, True]
SIZES = ["odd", "ones", "vector", "large"]
ROWS = [
    Row("MLCLSTMLayer", "", {"size": SIZES, "hidden": [1, 3, 17], "layers": [1, 2],
        "biases": ["all", "none", "not used"], "batch_first": BOTH, "is_bidirectional": BOTH,
        "returns_sequences": BOTH, "result_mode": ["output", "output_and_states"],
        "peepholes": [0, 3], "states": BOTH, "lengths": BOTH, "functions": list(FUNCTIONS),
        "dropout": [0.0, 0.25]}, lstm),
    Row("MLCMultiheadAttentionLayer", "", {"size": SIZES, "heads": [1, 2, 3], "biases": BOTH,
        "rows": BOTH, "zero": BOTH, "weights": ["matrix", "image"], "key_mask": BOTH,
        "mask": ["", "booleans", "booleans of each", "numbers", "numbers of each"],
        "dropout": [0.0, 0.25]}, attention),
    Row("MLCMultiheadAttentionLayer", "causal", {"size": SIZES, "heads": [1, 3], "biases": BOTH,
        "key_mask": BOTH, "mask": ["", "booleans", "numbers of each"], "dropout": [0.0, 0.25]},
        causal_attention),
]  # fmt: skip
