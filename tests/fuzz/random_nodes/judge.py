"""What a program of nodes is to give, by PyTorch and its automatic differentiation."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from random_graphs import optimizers as rules
from random_graphs.numbers import numbers
from random_graphs.program import Program, parameters, shapes, trained
from random_graphs.torch_judge import Parameters, Rounding, compute_nodes

from . import losses, optimizers
from .script import counted, dropouts, flowing


def judge(
    program: Program, rounding: Rounding, found: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """`found` is what the run gave: masks are its own, and so is what is float32 in any program."""
    import torch as t

    noise = np.random.default_rng(rounding.seed)
    dtype, all_shapes = getattr(t, rounding.dtype), shapes(program)

    def tensor(name: str, step: int, shape: list[int], kind: str, scale: float = 1.0) -> Any:
        array = numbers(program["seed"], name, step, shape, kind, scale)
        array = array * (1 + rounding.inputs * noise.normal(size=array.shape))
        return t.tensor(array, dtype=dtype)

    kept = {name: tensor(name, 0, *what) for name, what in parameters(program).items()}
    names = trained(program)
    for name in names:
        kept[name].requires_grad_(True)
    layers = {name: Parameters() for name in program["nodes"]}
    for name, values in kept.items():
        layers[name.split("_")[0]][name.split("_")[1]] = values
    for name, at in layers.items():
        at.inference = name not in flowing(program)
    out: dict[str, Any] = {}
    buffers: dict[str, dict[str, Any]] = {}
    loss = program["losses"][0]
    shape = all_shapes[loss["source"]]
    for step, rows in enumerate(program["rows"]):
        at = (step, rows)

        def drawn(name: str, shape: list[int], kind: str, at: tuple[int, int] = at) -> Any:
            return tensor(name, at[0], [at[1], *shape[1:]], kind)

        for name in dropouts(program):
            out[f"mask {name} {step}"] = layers[name].mask = found[f"mask {name} {step}"]
        values = {name: drawn(name, v["shape"], v["kind"]) for name, v in program["values"].items()}
        inputs = dict(values)
        for one in inputs.values():
            one.requires_grad_(True)
        compute_nodes(t, program, values, layers, rounding, noise)
        y = values[loss["source"]]
        if loss["form"] == "seed":
            total = (y * drawn("y0", shape, "normal")).sum()
        else:
            kind, weights = losses.label(loss, shape)[1], None
            labels = values[loss["labels_from"]] if loss.get("labels_from") else None
            labels = drawn("y0", shape, kind) if labels is None else labels
            if loss["weighted"]:
                weights = drawn("w0", losses.weight_shape(loss, shape), "weight")
            out[f"loss {step}"] = value = losses.compute(t, loss, y, labels, weights)
            total = value.sum()
        if not total.isfinite():
            out[f"total {step}"] = total  # that says so where no loss does
        for name in names:
            kept[name].grad = None
        total.backward()
        out |= {f"result {name} {step}": values[name] for name in program["outputs"]}
        for name, one in inputs.items():
            if one.grad is not None:
                out[f"gradient {name} {step}"] = one.grad
        gradients = {name: kept[name].grad for name in names if kept[name].grad is not None}
        most = max([float(g.abs().max()) for g in gradients.values()], default=0) or 1.0
        for g in gradients.values():
            g += rounding.gradients * most * t.tensor(noise.normal(size=tuple(g.shape))).to(dtype)
        with t.no_grad():
            for style in ("gpu", "cpu"):
                own = {n: g for n, g in gradients.items() if style_of(program, n) == style}
                rule = optimizers.rule(program["optimizer"], style)
                rules.update(t, rule, kept, own, buffers, step + 1)
        if program["waits"] or step + 1 == len(program["rows"]):
            for name in names:
                key = f"trained {name} {step}"
                out[key] = kept[name].detach().clone()
                if is_single(program, key):
                    kept[name].data.copy_(t.tensor(found[key]).reshape(kept[name].shape))
            for name in counted(program):
                out[f"statistics {name} {step}"] = layers[name]["statistics"]
    if program["inference"]:
        for one in layers.values():
            one.inference = True
        compute_nodes(t, program, values := dict(inputs), layers, rounding, noise)
        out["inference"] = values[loss["source"]]
    return {k: plain(v) for k, v in out.items()}


def plain(values: Any) -> np.ndarray:
    values = values if isinstance(values, np.ndarray) else values.detach().numpy()
    return values.astype(np.float64).reshape(-1).copy()


def style_of(program: Program, name: str) -> str:
    return str(program["nodes"][name.split("_")[0]]["style"])


def is_single(program: Program, key: str) -> bool:
    """Whether a number is float32 in a program of float64: gamma and beta always are."""
    is_affine = key.startswith("trained ") and key.split()[1].endswith(("_gamma", "_beta"))
    return is_affine and bool(program["type"] == "float64")
