"""Graphs as bytes and copies: their nodes written down, and made again in the same order."""

from collections.abc import Iterable
from typing import Any

from traingraph import _core
from traingraph._core import InvalidArgument, Unsupported
from traingraph.mps import kernel_coding as kernels

core: Any = _core  # what is private there is in no stub

# A graph written down: lists and dictionaries of plain values, and of the program's own objects,
# which stand apart: "sources" are data sources, each once, "handles" handles, "calls" call-backs.
Written = dict[str, Any]

_GRAPH = ("label", "format", "makes_temporary_images", "output_state_is_temporary",
          "destination_image_allocator")  # fmt: skip
_STATE = ("export_from_graph", "synchronize_resource")
_IMAGE = (*_STATE, "format", "stop_gradient", "makes_temporary_images", "image_allocator")
# Properties whose values may be the program's own objects.
_ASKED = ("property_call_back", "padding_policy", "image_allocator", "destination_image_allocator")
# What tells the gradient nodes of one forward node apart, beside what they read.
_WHICH = ("is_secondary_source_filter", "is_labels_gradient_filter")

# What nodes were in archives that do not say it.
_BEFORE = {"MPSNNConcatenationNode": {"packs_channels": True}}


def _settable(node: Any) -> list[str]:
    """Properties of a node's class that can be set."""
    found: dict[str, None] = {}
    for cls in reversed(type(node).__mro__):
        found |= {
            name: None for name, member in vars(cls).items()
            if isinstance(member, property) and member.fset is not None
        }  # fmt: skip
    return list(found)


def _in_order(results: Iterable[Any]) -> list[Any]:
    """The nodes behind these images, each after what it reads."""
    order: list[Any] = []
    known: set[Any] = set()
    left = [(image._producer, False) for image in reversed(list(results))]
    while left:
        node, is_ready = left.pop()
        if is_ready:
            order.append(node)
            continue
        if node in known:
            continue
        known.add(node)
        left.append((node, True))
        before = [image._producer for image in node._sources]
        before += [state._owner for state in node._source_states]
        left += [(one, False) for one in reversed(before) if one is not None]
    return order


class _Writer:
    """What of a graph has been written so far."""

    def __init__(self, graph: Any) -> None:
        results = graph._results
        self.nodes = _in_order(results)
        self.places = {node: k for k, node in enumerate(self.nodes)}
        self.images: list[Any] = []
        self.sources: list[tuple[str, Any]] = []
        self.handles: list[Any] = []
        self.calls: list[Any] = []
        nodes = [self.node(node) for node in self.nodes]
        self.written: Written = {
            "nodes": nodes,
            "results": [self.value(image) for image in results],
            "results_are_needed": list(graph._results_are_needed),
            "images": [self.place(image, _IMAGE) for image in self.images],
            "properties": self.properties(graph, _GRAPH),
            "sources": self.sources,
            "handles": self.handles,
            "calls": self.calls,
        }

    @staticmethod
    def own(value: Any, among: list[Any]) -> int | None:
        """The number of one of the program's own objects."""
        if value is None:
            return None
        among.append(value)
        return len(among) - 1

    def properties(self, one: Any, names: Iterable[str]) -> Written:
        """Values, and the program's own objects as their numbers."""
        values: Written = {}
        for name in names:
            value = getattr(one, name)
            if name in _ASKED and isinstance(value, core._MPSImageAllocator):
                continue  # whether it makes temporary images says which
            if name in _ASKED and not isinstance(value, int):
                values[name] = {"call": self.own(value, self.calls)}
            else:
                values[name] = kernels.plain(value)
        return values

    def place(self, one: Any, names: tuple[str, ...] = _STATE) -> Written:
        handle = self.own(one.handle, self.handles)
        return {"handle": handle, "properties": self.properties(one, names)}

    def source(self, kind: str, value: Any) -> int:
        for k, (_, known) in enumerate(self.sources):
            if known is value:
                return k
        self.sources.append((kind, value))
        return len(self.sources) - 1

    def value(self, value: Any) -> Any:
        """An argument that is no data source."""
        if isinstance(value, core.MPSNNImageNode):
            if value._producer is not None:
                return {"result": self.places[value._producer]}
            if not any(value is image for image in self.images):
                self.images.append(value)
            return {"image": next(k for k, one in enumerate(self.images) if one is value)}
        if isinstance(value, core.MPSNNStateNode):
            states = value._owner.result_states
            return {
                "state": self.places[value._owner],
                "which": next(k for k, one in enumerate(states) if one is value),
            }
        if isinstance(value, core.MPSNNFilterNode):
            return {"node": self.places[value]}
        if isinstance(value, tuple | list):
            return [self.value(one) for one in value]
        if hasattr(value, "_coded"):
            return {"descriptor": type(value).__name__, "fields": kernels.plain(value)}
        if hasattr(value, "padding_method"):
            return kernels.plain(value.padding_method())
        return kernels.plain(value)

    def arguments(self, node: Any, given: dict[str, Any]) -> Written:
        written: Written = {}
        for name, value in given.items():
            if name in ("weights", "data_source") and not isinstance(value, core.MPSNNImageNode):
                kind = "weights" if name == "weights" else type(node).__name__.removesuffix("Node")
                written[name] = None if value is None else {"source": self.source(kind, value)}
            else:
                written[name] = self.value(value)
        return written

    def origin(self, node: Any) -> Written:
        """How a node came to be: by a constructor, or as a gradient of another node."""
        if node._made_of is not None:
            return {"arguments": self.arguments(node, node._made_of)}
        if not isinstance(node, core.MPSNNGradientFilterNode):  # an addition of a training graph
            return {"arguments": self.arguments(node, {"sources": node._sources})}
        forward, gradient = node._source_states[0]._owner, node._sources[0]
        filters = forward.gradient_filters(with_source=gradient)
        which = next((k for k, other in enumerate(filters) if _is_alike(node, other)), None)
        if which is None:
            raise Unsupported(
                f"[MPSNNGraph] a copy or bytes of {node!r}, whose making is not known"
            )
        return {"forward": self.places[forward], "gradient": self.value(gradient), "which": which}

    def node(self, node: Any) -> Written:
        labels = node.input_labels.handle if hasattr(node, "input_labels") else None
        return {
            "class": type(node).__name__,
            **self.origin(node),
            "properties": self.properties(node, _settable(node)),
            "result": self.place(node.result_image, _IMAGE),
            "states": [self.place(state) for state in node.result_states],
            "labels": self.own(labels, self.handles),
        }


def _is_alike(node: Any, other: Any) -> bool:
    """Whether two gradient nodes read the same for the same purpose."""
    if type(node) is not type(other):
        return False
    for mine, theirs in ((node._sources, other._sources),
                         (node._source_states, other._source_states)):  # fmt: skip
        if len(mine) != len(theirs) or any(a is not b for a, b in zip(mine, theirs, strict=True)):
            return False
    return all(getattr(node, name, None) == getattr(other, name, None) for name in _WHICH)


# --- making --------------------------------------------------------------------------------------


def _set(one: Any, properties: Written, calls: list[Any]) -> None:
    """What differs: a gradient node goes on with its forward node's numbers where it can."""
    for name, value in properties.items():
        if isinstance(value, dict):
            if value["call"] is not None:
                setattr(one, name, calls[value["call"]])
        elif kernels.plain(getattr(one, name)) != value:
            setattr(one, name, value)


class _Reader:
    """The nodes that were made so far of what was written."""

    def __init__(self, written: Written, sources: list[Any]) -> None:
        self.handles, self.calls, self.sources = written["handles"], written["calls"], sources
        self.images = [self.place(core.MPSNNImageNode(), one) for one in written["images"]]
        self.nodes: list[Any] = []
        for one in written["nodes"]:
            self.nodes.append(self.node(one))

    def own(self, number: Any) -> Any:
        return None if number is None else self.handles[number]

    def place(self, one: Any, written: Written) -> Any:
        one.handle = self.own(written["handle"])
        _set(one, written["properties"], self.calls)
        return one

    def value(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.value(one) for one in value]
        if not isinstance(value, dict):
            return value
        if "source" in value:
            return self.sources[value["source"]]
        if "image" in value:
            return self.images[value["image"]]
        if "result" in value:
            return self.nodes[value["result"]].result_image
        if "node" in value:
            return self.nodes[value["node"]]
        if "state" in value:
            return self.nodes[value["state"]].result_states[value["which"]]
        return getattr(_core, value["descriptor"])._decoded(value["fields"])

    def node(self, written: Written) -> Any:
        if "arguments" in written:
            arguments = {name: self.value(one) for name, one in written["arguments"].items()}
            cls = getattr(_core, written["class"])
            if not issubclass(cls, core.MPSNNFilterNode):
                raise InvalidArgument(f"[MPSNNGraph] expected a node but got {written['class']}")
            made = cls(**arguments)
        else:
            forward, gradient = self.nodes[written["forward"]], self.value(written["gradient"])
            made = forward.gradient_filters(with_source=gradient)[written["which"]]
        before = _BEFORE.get(written["class"], {})
        _set(made, {**before, **written["properties"]}, self.calls)
        self.place(made.result_image, written["result"])
        for state, one in zip(made.result_states, written["states"], strict=True):
            self.place(state, one)
        if written["labels"] is not None:
            made.input_labels.handle = self.own(written["labels"])
        return made


def _made(written: Written, sources: list[Any], device: Any) -> Any:
    reader = _Reader(written, sources)
    graph = core.MPSNNGraph(
        device=device, result_images=reader.value(written["results"]),
        results_are_needed=written["results_are_needed"],
    )  # fmt: skip
    _set(graph, written["properties"], reader.calls)
    return graph


# --- what graphs are asked for -------------------------------------------------------------------


def copied(graph: Any, device: Any) -> Any:
    """A graph of new nodes on this device. Handles and call-backs are shared."""
    written = _Writer(graph).written
    sources = [kernels.copied_source(source, device) for _, source in written["sources"]]
    return _made(written, sources, device)


def _text_of(handle: Any) -> str:
    if isinstance(handle, str):
        return handle
    return str(handle.label() if callable(handle.label) else handle.label)


def encode(graph: Any, coder: Any) -> None:
    """Writes the nodes; of handles their labels, of data sources what they give."""
    written = _Writer(graph).written
    if written["calls"]:
        raise Unsupported(
            f"[MPSNNGraph] bytes of a graph with the program's own {written['calls'][0]!r} as a "
            "property_call_back, a padding policy or an image allocator"
        )
    written["handles"] = [_text_of(handle) for handle in written["handles"]]
    written["sources"] = [
        {"kind": kind, "values": core._coded_source(kind, source)}
        for kind, source in written["sources"]
    ]
    for name, value in written.items():
        coder.encode(value, for_key=name)


_KEYS = ("nodes", "results", "results_are_needed", "images", "properties", "sources", "handles",
         "calls")  # fmt: skip


def decoded(coder: Any, device: Any) -> Any:
    """The graph that was encoded; any error where it is none."""
    written = {name: coder.decode(for_key=name) for name in _KEYS}
    sources = [core._decoded_source(one["kind"], one["values"]) for one in written["sources"]]
    return _made(written, sources, device)
