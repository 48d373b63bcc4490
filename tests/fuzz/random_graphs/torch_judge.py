"""What a program is to give, by PyTorch and its automatic differentiation."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from . import losses, optimizers
from .numbers import numbers
from .program import (
    ENTRIES,
    Program,
    first,
    inputs_with_gradients,
    parameters,
    running,
    shapes,
    trained,
)


@dataclass(frozen=True)
class Rounding:
    """Changes of the size of rounding, by which a judge tells how well a program is conditioned."""

    inputs: float = 0.0
    gradients: float = 0.0
    results: float = 0.0  # of each node: what is constant for any input shows its rounding so
    # Of gradients that are brought to the limit of their norm, all of which is one number for a
    # gradient of one: what a regularization of just that size leaves of it is rounding.
    clipped: float = 0.0
    seed: int = 0
    dtype: str = "float64"


class Parameters(dict):  # type: ignore[type-arg]
    """By role; and what a run says of the layer: whether it is frozen, or no longer trained, the
    mask that it had, and what disturbs numbers like rounding, if anything does; `has_run`: what
    the layer does to its parameters when it is made is done."""

    frozen = inference = has_run = False
    mask: Any = None
    disturbed: Any = None


def compute_nodes(t: Any, program: Program, values: dict[str, Any], layers: dict[str, Parameters],
                  rounding: Rounding, noise: Any) -> None:  # fmt: skip
    """Adds the results of all nodes to `values`."""

    def sized(one: Any) -> Any:
        return rounding.results * t.tensor(noise.normal(size=one.shape)).to(one.dtype)

    def disturbed(one: Any) -> Any:
        return one * (1 + sized(one))

    def with_derivative(one: Any, sources: list[Any]) -> Any:
        """A derivative of an element, as 1 - y * y, is a difference of numbers of the size of 1."""
        for source in sources:
            if source.shape == one.shape and source.is_floating_point():
                one = one + sized(one) * (source - source.detach())
        return one

    for name, node in program["nodes"].items():
        if rounding.results:
            layers[name].disturbed = disturbed
        sources = [values[source] for source in node["sources"]]
        made = ENTRIES[node["layer"]].compute(t, node["options"], sources, layers[name])
        made = made if isinstance(made, list) else [made]
        if rounding.results:
            made = [with_derivative(disturbed(one), sources) for one in made]
        if node.get("stop"):
            made = [one.detach().requires_grad_(True) for one in made]
        values |= {f"{name}_{k}": one for k, one in enumerate(made)}


def judge(program: Program, rounding: Rounding) -> dict[str, np.ndarray]:
    import torch as t

    noise = np.random.default_rng(rounding.seed)
    dtype = getattr(t, rounding.dtype)
    found, rows_of = shapes(program), program["rows"]

    def tensor(name: str, step: int, shape: list[int], kind: str, **more: Any) -> Any:
        array = numbers(program["seed"], name, step, shape, kind, **more)
        if array.dtype.kind in "ib":
            return t.tensor(array)
        array = array * (1 + rounding.inputs * noise.normal(size=array.shape))
        return t.tensor(array, dtype=dtype)

    kept = {
        name: tensor(name, 0, shape, kind, scale=scale)
        for name, (shape, kind, scale) in parameters(program).items()
    }
    for name, v in program["values"].items():
        if v["role"] != "input":
            kept[name] = tensor(name, 0, v["shape"], v["kind"], below=v.get("below", 1))
    names = trained(program)
    for name in names:
        kept[name].requires_grad_(True)
    layers = {}
    for name, node in program["nodes"].items():
        at = layers[name] = layers.get(first(program, name)) or Parameters()
        at.frozen = bool(node.get("frozen"))
        if "again" not in node:
            at |= {k.split("_")[1]: v for k, v in kept.items() if k.startswith(f"{name}_")}
            layers[name] = at
            at.frozen = bool(node.get("frozen"))
    out: dict[str, Any] = {}
    buffers: dict[str, dict[str, Any]] = {}

    def bind(step: int) -> None:
        """Buffers of the optimizer that the program brings."""
        for name in names:
            for slot, kind, scale in optimizers.slots(program["optimizer"]):
                what = (kept[name].shape, kind, scale)
                given = numbers(program["seed"], f"{name} {slot}", step, *what)
                buffers.setdefault(name, {})[slot] = t.tensor(given, dtype=dtype)

    if program.get("buffers"):
        bind(0)
    for step, rows in enumerate(rows_of):

        def sized(shape: list[int], rows: int = rows) -> list[int]:
            return [rows, *shape[1:]] if program["batch"] else list(shape)

        values = dict(kept)
        for name, v in program["values"].items():
            if v["role"] == "input":
                more = {"below": v.get("below", 1)}
                values[name] = tensor(name, step, sized(v["shape"]), v["kind"], **more)
                if values[name].is_floating_point():
                    values[name].requires_grad_(True)
        compute_nodes(t, program, values, layers, rounding, noise)
        for name in program.get("inner", []):
            values[name].retain_grad()
        parts, total = [], 0
        for k, loss in enumerate(program["losses"]):
            shape = found[loss["source"]]
            label_shape, kind = losses.label(loss, shape)
            below = shape[1] if kind == "class" else 1
            labels = tensor(f"y{k}", step, sized(label_shape), kind, below=below)
            weights = None
            if loss["weighted"]:
                weights = tensor(f"w{k}", step, sized(losses.weight_shape(loss, shape)), "weight")
            parts.append(losses.compute(t, loss, values[loss["source"]], labels, weights))
            share = program["micro"] if loss["reduction_type"] == "mean" else 1
            total = total + parts[-1].sum() / share
        out[f"loss {step}"] = parts[0] if len(parts) == 1 else sum(p.sum() for p in parts)
        if program.get("handles"):
            out[f"handled {step}"] = out[f"loss {step}"]
        if program.get("user"):
            shape = sized(found[program["user"]])
            total = total + (values[program["user"]] * tensor("user", step, shape, "normal")).sum()
        if step % program["micro"] == 0:
            for name in names:
                kept[name].grad = None
        if total.requires_grad:
            total.backward()
        out |= {f"result {name} {step}": values[name] for name in program["outputs"]}
        out |= {f"inner {name} {step}": values[name].grad for name in program.get("inner", [])}
        for name in inputs_with_gradients(program):
            out[f"gradient {name} {step}"] = values[name].grad
        if (step + 1) % program["micro"] == 0:
            gradients = {n: kept[n].grad for n in names if kept[n].grad is not None}
            most = max([float(g.abs().max()) for g in gradients.values()], default=0) or 1.0
            if rounding.gradients:
                for g in gradients.values():
                    g += rounding.gradients * most * t.tensor(noise.normal(size=tuple(g.shape)))

            def rounded(g: Any) -> Any:
                return g * (1 + rounding.clipped * t.tensor(noise.normal(size=g.shape)).to(dtype))

            with t.no_grad():
                count = (step + 1) // program["micro"]
                optimizers.update(t, program["optimizer"], kept, gradients, buffers, count, rounded)
            if program.get("waits", True):
                out |= {f"trained {name} {step}": kept[name].detach().clone() for name in names}
        if step == 0 and program.get("rebound"):
            bind(1)
    if program.get("buffers"):
        for name in names:
            for k, (slot, _, _) in enumerate(optimizers.slots(program["optimizer"])):
                out[f"buffer {name} {k}"] = buffers[name][slot]
    if program.get("inference"):
        for at in layers.values():
            at.frozen = True
        compute_nodes(t, program, values, layers, rounding, noise)
        out["inference"] = values[program["losses"][0]["source"]]
        if program.get("loss_layer"):
            out["inference result"] = out["inference"]
    if not program.get("waits", True):  # an inference graph may have changed a table
        last = len(rows_of) - 1
        out |= {f"trained {name} {last}": kept[name].detach().clone() for name in names}
    for name in running(program):
        node, role = name.split("_")
        out[f"running {name}"] = layers[node][role]
    return {k: v.detach().numpy().astype(np.float64).reshape(-1).copy() for k, v in out.items()}
