"""A case as a training graph: values and gradients on a device, in a type.

No loss and no optimizer: gradients start from numbers that the caller brings, and nothing is
updated. In 16 bits the layer stands between two matrix products by the identity: there mixed
precision computes in 16 bits what it computes in float32 for a layer alone. The identity rounds
nothing.
"""

from typing import Any

import numpy as np

import traingraph as tg

from .sample import Data, Sample

HALVES = ("float16", "bfloat16")
MOST = 512  # the largest identity
SCALE = 64.0  # of gradients in float16: none of them is too small or too large then


def plain(dtype: str) -> str:
    """The type of parameters and results."""
    return "float64" if dtype == "float64" else "float32"


def tensor_type(dtype: str) -> str:
    return "float32" if dtype == "tf32" else dtype


PRECISION = {"tf32": "tf32", "float16": "mixed_float16", "bfloat16": "mixed_bfloat16"}


def in_place(arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """What a graph writes into: bits of 16 as memory, which NumPy may have no type for."""
    return {
        name: tg.MLCTensorData(bytes_no_copy=array) if array.dtype == np.uint16 else array
        for name, array in arrays.items()
    }


def identity(graph: Any, source: Any) -> Any:
    """The product of the source and the identity, where that is small."""
    shape = list(source.descriptor.shape)
    if len(shape) < 2 or shape[-1] > MOST:
        return source
    kind = plain(source.descriptor.data_type.name.lower())
    eye = tg.MLCTensor(data=np.eye(shape[-1], dtype=kind))
    layer = tg.MLCMatMulLayer(descriptor=tg.MLCMatMulDescriptor())
    return graph.node(layer, sources=[source, eye])


def unchanged(graph: Any, source: Any) -> Any:
    """What a graph consists of whose only layer is its loss."""
    descriptor = tg.MLCActivationDescriptor(type="none")
    return graph.node(tg.MLCActivationLayer(descriptor=descriptor), source=source)


class Graph:
    """Compiled for a device. Arrays are float64, whatever it computes in."""

    def __init__(
        self, sample: Sample, data: Data, device: str, dtype: str, whole: str = ""
    ) -> None:
        self.sample, self.data, self.dtype = sample, data, dtype
        self.between = data.exact == "bfloat16"  # two products
        self.graph = tg.MLCGraph()
        self.tensors = {
            role: tg.MLCTensor(data=array.astype(plain(dtype)))
            for role, array in data.parameters.items()
        }
        given = zip(sample.sources, data.sources, strict=True)
        self.types = [
            (whole or tensor_type(dtype)) if values.is_float else array.dtype.name
            for values, array in given
        ]
        self.inputs = [
            tg.MLCTensor(shape=list(array.shape), data_type=kind)
            for array, kind in zip(data.sources, self.types, strict=True)
        ]
        self.make(*self.layer_and_sources())
        precision = PRECISION.get(dtype, "float32")
        self.training.compile(device=device, options="compute_all_gradients", precision=precision)
        self.state = self.begun()
        self.training.load_state(self.state)
        self.fed: dict[int, Any] = {}
        for at, array in enumerate(data.sources):
            self.feed(at, array)

    def begun(self) -> dict[str, Any]:
        """The state as it is, but for what masks are drawn by and the scale of gradients."""
        numbers = {"state.forward_count": np.array(0), "state.random_seed": np.array(5)}
        if self.training.loss_scale is not None:
            numbers["state.loss_scale"] = np.full(1, SCALE, np.float32)
        return self.training.state() | numbers

    def layer_and_sources(self) -> tuple[Any, list[Any]]:
        names = {role: f"p{k}" for k, role in enumerate(self.tensors)}
        variables = {names[role]: tensor for role, tensor in self.tensors.items()}
        text = self.sample.layer.expression(self.sample.options, self.sample.shapes, names)
        layer = eval(text, {"tg": tg, **self.sample.namespace, **variables})
        sources = [
            self.product(tensor) if values.has_gradient else tensor
            for tensor, values in zip(self.inputs, self.sample.sources, strict=True)
        ]
        return layer, sources

    def product(self, tensor: Any) -> Any:
        return identity(self.graph, tensor) if self.between else tensor

    def make(self, layer: Any, sources: list[Any]) -> None:
        self.layer = layer
        outputs: dict[str, Any] = {}
        if self.sample.is_loss:
            if sources[0] is self.inputs[0]:
                unchanged(self.graph, sources[0])
            self.training = tg.MLCTrainingGraph(graph_objects=[self.graph], loss_layer=layer)
            weights = {"w": self.inputs[2]} if self.sample.weights == "fed" else None
            self.training.add_inputs(
                {"s0": self.inputs[0]}, loss_labels={"s1": self.inputs[1]},
                loss_label_weights=weights,
            )  # fmt: skip
            self.results, self.slots = [], []
        else:
            first = self.graph.node(layer, sources=sources, disable_update=self.sample.frozen)
            self.results = self.graph.result_tensors(layer) or [first]
            kind = np.dtype(plain(self.dtype))
            self.results = [
                self.product(r) if self.numpy_type(r) == kind else r for r in self.results
            ]
            self.training = tg.MLCTrainingGraph(graph_objects=[self.graph])
            self.training.add_inputs({f"s{k}": t for k, t in enumerate(self.inputs)})
            self.slots = [
                self.training.allocate_user_gradient(r) if self.is_float(r) else None
                for r in self.results
            ]
            outputs = {f"r{k}": r for k, r in enumerate(self.results)}
        self.differentiated = [
            k
            for k, values in enumerate(self.sample.sources)
            if values.has_gradient and self.sample.has_gradient
        ]
        handles = {k: self.training.gradient_tensor(self.inputs[k]) for k in self.differentiated}
        self.training.add_outputs(outputs | {f"g{k}": t for k, t in handles.items()})
        self.found = {
            f"r{k}": np.empty(r.descriptor.shape, self.numpy_type(r))
            for k, r in enumerate(self.results)
        }

    def numpy_type(self, tensor: Any) -> Any:
        name = tensor.descriptor.data_type.name.lower()
        return np.dtype({"boolean": "bool", "bfloat16": "uint16"}.get(name, name))

    def is_float(self, tensor: Any) -> bool:
        return "float" in tensor.descriptor.data_type.name.lower()

    def feed(self, at: int, array: np.ndarray) -> None:
        kind = self.types[at]
        kind = {"bfloat16": "float32", "boolean": "bool"}.get(kind, kind)
        self.fed[at] = np.ascontiguousarray(array.astype(kind))
        name = "w" if at == 2 and self.sample.is_loss else f"s{at}"
        self.training.bind_and_write_data({name: self.fed[at]}, for_inputs={name: self.inputs[at]})

    def move(self, at: int, array: np.ndarray) -> None:
        """Array `at` of the sources and parameters takes other numbers."""
        if at < len(self.inputs):
            self.feed(at, array)
        else:
            role = list(self.tensors)[at - len(self.inputs)]
            self.tensors[role].bind_and_write_data(array.astype(plain(self.dtype)))
            if self.sample.is_random:
                self.state = self.begun()

    def values(self) -> list[np.ndarray]:
        """One forward pass as in training."""
        if self.sample.is_random:
            self.training.load_state(self.state)
        if self.sample.is_loss:
            made = self.training.execute_forward(options="synchronous").result
            return [np.array(made, np.float64)]
        self.training.execute_forward(outputs_data=in_place(self.found), options="synchronous")
        return [self.from_bits(array, array.dtype.name) for array in self.found.values()]

    def gradients(self, starts: list[np.ndarray]) -> dict[int, np.ndarray]:
        """Of the last forward pass, by the array's number."""
        for k, (slot, start) in enumerate(zip(self.slots, starts, strict=False)):
            if slot is not None:
                given = start.astype(plain(self.dtype))
                self.training.bind_and_write_data({f"d{k}": given}, for_inputs={f"d{k}": slot})
        raw = {
            f"g{k}": np.empty(
                self.data.sources[k].shape,
                np.uint16 if self.types[k] in HALVES else self.types[k],
            )
            for k in self.differentiated
        }
        self.training.execute_gradient(outputs_data=in_place(raw), options="synchronous")
        found = {k: self.from_bits(raw[f"g{k}"], self.types[k]) for k in self.differentiated}
        for k, (role, tensor) in enumerate(self.tensors.items()):
            if role not in self.sample.layer.running and not self.sample.frozen:
                made = self.training.gradient_data(for_parameter=tensor, layer=self.layer)
                if made is not None:
                    shape = self.data.parameters[role].shape
                    found[len(self.inputs) + k] = np.array(made, np.float64).reshape(shape)
        return found

    @staticmethod
    def from_bits(raw: np.ndarray, kind: str) -> np.ndarray:
        if kind == "float16":
            return raw.view(np.float16).astype(np.float64)
        if kind in ("bfloat16", "uint16"):
            return (raw.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        return raw.astype(np.float64)
