"""Objects of Python that refer to each other through the library's are collected, and no others."""

import gc
import subprocess
import sys
import textwrap
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import traingraph as tg
from traingraph import mps

DEVICE = mps.create_system_default_device()


class Keeper:
    """Keeps whatever it is given as attributes."""


class Weights(mps.MPSCNNConvolutionDataSource):
    def descriptor(self) -> Any:
        return mps.MPSCNNConvolutionDescriptor.cnn_convolution_descriptor(
            with_kernel_width=1,
            kernel_height=1,
            input_feature_channels=4,
            output_feature_channels=4,
        )

    def weights(self) -> np.ndarray:
        return np.ones((4, 1, 1, 4), np.float32)


class Normalization(mps.MPSCNNBatchNormalizationDataSource):
    number_of_feature_channels = 4

    def gamma(self) -> np.ndarray:
        return np.ones(4, np.float32)

    beta = mean = variance = gamma


class Groups(mps.MPSCNNGroupNormalizationDataSource):
    number_of_feature_channels = 4
    number_of_groups = 2

    def gamma(self) -> np.ndarray:
        return np.ones(4, np.float32)

    beta = gamma


class Weight(Keeper):
    def label(self) -> str:
        return "x"

    def scalar_weight(self, source: Any, destination: Any) -> float:
        return 1.0


class Named(NamedTuple):
    label: str
    holds: list[Any]


def image(handle: Any = "x") -> mps.MPSNNImageNode:
    return mps.MPSNNImageNode(handle=handle)


def graph_of(node: Any) -> mps.MPSNNGraph:
    return mps.MPSNNGraph(
        device=DEVICE, result_image=node.result_image, result_image_is_needed=True
    )


def picture() -> mps.MPSImage:
    form = mps.MPSImageDescriptor.image_descriptor(
        with_channel_format="float32", width=1, height=1, feature_channels=4
    )
    return mps.MPSImage(device=DEVICE, image_descriptor=form)


def data_source_of_a_graph() -> Any:
    source = Weights()
    source.graph = graph_of(mps.MPSCNNFullyConnectedNode(source=image(), weights=source))
    return source


def data_source_of_all() -> Any:
    """Of nodes, a graph, a kernel, its state and an image between nodes."""
    source = Weights()
    source.node = mps.MPSCNNConvolutionNode(source=image(), weights=source)
    source.nodes = [source.node, mps.MPSCNNNeuronReLUNode(source=source.node.result_image)]
    source.graph = graph_of(source.nodes[1])
    source.kernel = mps.MPSCNNConvolution(device=DEVICE, weights=source)
    source.state = source.kernel.result_state(for_source_image=picture())
    source.images = source.nodes[0].result_image
    return source


def trained() -> Any:
    model = Keeper()
    model.source = Weights()
    model.source.model = model
    node = mps.MPSCNNConvolutionNode(source=image(), weights=model.source)
    loss = mps.MPSNNForwardLossNode(
        source=node.result_image,
        labels=image("labels"),
        loss_descriptor=mps.MPSCNNLossDescriptor.cnn_loss_descriptor(
            with_type="mean_squared_error", reduction_type="sum"
        ),
    )
    first = mps.MPSNNInitialGradientNode(source=loss.result_image)
    model.last = first.training_graph()
    model.graph = graph_of(model.last[0])
    return model


def normalization() -> Any:
    source = Normalization()
    source.graph = graph_of(mps.MPSCNNBatchNormalizationNode(source=image(), data_source=source))
    source.kernel = mps.MPSCNNBatchNormalization(device=DEVICE, data_source=source)
    return source


def groups() -> Any:
    source = Groups()
    source.graph = graph_of(mps.MPSCNNGroupNormalizationNode(source=image(), data_source=source))
    source.kernel = mps.MPSCNNGroupNormalization(device=DEVICE, data_source=source)
    return source


def handle_of_a_node() -> Any:
    handle = Weight()
    node = mps.MPSCNNNeuronReLUNode(source=image(handle))
    handle.graph = graph_of(node)
    node.result_image.handle = handle
    return handle


def tuple_as_handle() -> Any:
    holds: list[Any] = [Keeper()]
    node = image()
    node.handle = Named("x", [*holds, node])
    return holds[0]


def number_of_a_node() -> Any:
    weight = Weight()
    node = mps.MPSNNForwardLossNode(
        source=image("x"),
        labels=image("y"),
        loss_descriptor=mps.MPSCNNLossDescriptor.cnn_loss_descriptor(
            with_type="mean_squared_error", reduction_type="sum"
        ),
    )
    node.property_call_back = weight
    weight.node, weight.graph = node, graph_of(node)
    return weight


def handler_of_a_buffer() -> Any:
    keeper = Keeper()
    keeper.buffer = DEVICE.make_command_queue().make_command_buffer()
    keeper.buffer.add_completed_handler(lambda _: keeper)
    return keeper


def handler_of_an_execution() -> Any:
    keeper = Keeper()
    x, graph = tg.MLCTensor(shape=[1, 4]), tg.MLCGraph()
    graph.node(tg.MLCActivationLayer.relu(), source=x)
    keeper.graph = tg.MLCInferenceGraph(graph_objects=[graph])
    keeper.graph.add_inputs({"x": x})
    keeper.graph.compile(device="cpu")
    keeper.handle = keeper.graph.execute(
        inputs_data={"x": np.ones((1, 4), np.float32)}, completion_handler=lambda *_: keeper
    )
    keeper.handle.wait()
    return keeper


def deallocator_of_data() -> Any:
    keeper = Keeper()
    keeper.data = tg.MLCTensorData(
        bytes_no_copy=bytearray(16), deallocator=lambda data, length: keeper
    )
    return keeper


def part_of_a_layer() -> Any:
    class Layer(tg.MLCFullyConnectedLayer):
        pass

    layer = Layer(
        descriptor=tg.MLCConvolutionDescriptor(
            kernel_sizes=(1, 1), input_feature_channel_count=4, output_feature_channel_count=4
        )
    )
    layer.part = layer.weights_parameter
    return layer


def chain(length: int) -> list[Any]:
    """Nodes, one behind the other, whose sources each refer to their own node alone."""
    at, nodes = image(), []
    for _ in range(length):
        source = Weights()
        source.node = mps.MPSCNNConvolutionNode(source=at, weights=source)
        at = source.node.result_image
        nodes.append(source.node)
    return nodes


def ends_of_a_chain() -> Any:
    """The first source refers to the last node, and no wrapper is left of those between."""
    nodes = chain(50)
    first = nodes[0]._made_of["weights"]
    first.last = nodes[-1]
    for node in nodes:
        node._made_of["weights"].node = None
    return first


def one_source_of_many() -> Any:
    """Kernels, nodes and graphs that share it, and sources that refer to it."""
    source = Weights()
    source.others = chain(5)
    at = source.others[-1].result_image
    for _ in range(5):
        at = mps.MPSCNNConvolutionNode(source=at, weights=source).result_image
    source.graphs = [graph_of(at._producer) for _ in range(2)]
    for node in source.others:
        node._made_of["weights"].shared = source
    return source


MAKERS: list[Callable[[], Any]] = [
    ends_of_a_chain,
    one_source_of_many,
    data_source_of_a_graph,
    data_source_of_all,
    trained,
    normalization,
    groups,
    handle_of_a_node,
    tuple_as_handle,
    number_of_a_node,
    handler_of_a_buffer,
    handler_of_an_execution,
    deallocator_of_data,
    part_of_a_layer,
]


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_cycles_are_collected(make: Callable[[], Any]) -> None:
    first = weakref.ref(make())
    gc.collect()
    assert first() is None


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_what_is_held_stays(make: Callable[[], Any]) -> None:
    held = make()
    alive = weakref.ref(held)
    others = [id(value) for value in vars(held).values()]
    gc.collect()
    assert [id(value) for value in vars(held).values()] == others
    del held
    gc.collect()
    assert alive() is None


def test_a_graph_alone_keeps_its_data_source() -> None:
    """Held by the core's objects, with other wrappers of the same ones gone."""
    source = data_source_of_a_graph()
    graph, alive = source.graph, weakref.ref(source)
    source.again = graph
    del source
    gc.collect()
    assert alive() is not None
    graph.reload_from_data_sources()
    node = mps.MPSCNNConvolutionNode(source=image(), weights=alive())
    del graph
    gc.collect()
    assert alive() is not None
    assert node._made_of["weights"] is alive()
    del node
    gc.collect()
    assert alive() is None


def test_what_a_run_holds_stays() -> None:
    """A buffer that is committed calls its handler, though nobody else knows of it."""
    called = []

    def encode() -> None:
        keeper = Keeper()
        keeper.buffer = DEVICE.make_command_queue().make_command_buffer()
        keeper.buffer.add_completed_handler(lambda _: called.append(keeper))
        keeper.buffer.commit()

    for _ in range(20):
        encode()
        gc.collect()
    last = DEVICE.make_command_queue().make_command_buffer()
    last.commit()
    last.wait_until_completed()
    assert len(called) == 20


def test_finalizers_may_bring_back_what_is_collected() -> None:
    saved: list[Any] = []

    class Back(Weights):
        def __del__(self) -> None:
            saved.append(self.graph.result_handle)
            saved.append(self.graph._results[0])

    source = Back()
    source.graph = graph_of(mps.MPSCNNFullyConnectedNode(source=image(), weights=source))
    del source
    gc.collect()
    node = saved[1]._producer
    assert isinstance(node._made_of["weights"], Back)
    graph_of(node).reload_from_data_sources()
    del node
    saved.clear()
    gc.collect()


def test_models_do_not_pile_up() -> None:
    for _ in range(200):
        data_source_of_all()
    gc.collect()
    assert not [one for one in gc.get_objects() if isinstance(one, Weights)]


def test_a_deallocator_is_called_once_by_a_collection() -> None:
    calls = []

    def make() -> None:
        keeper = Keeper()
        memory = bytearray(16)
        keeper.free = lambda data, length: calls.append((data is memory, length, keeper))
        keeper.data = tg.MLCTensorData(bytes_no_copy=memory, deallocator=keeper.free)

    make()
    gc.collect()
    assert [call[:2] for call in calls] == [(True, 16)]


def test_a_node_keeps_what_lies_before_it_alone() -> None:
    nodes = chain(40)
    sources = [weakref.ref(node._made_of["weights"]) for node in nodes]
    middle = nodes[24]
    del nodes
    gc.collect()
    assert [source() is not None for source in sources] == [k < 25 for k in range(40)]
    del middle
    gc.collect()
    assert not any(source() for source in sources)


def seconds_of_a_collection(nodes: int, of: Callable[[Any], Any]) -> float:
    at = image(Weight())
    kept = []
    for _ in range(nodes):
        kept.append(of(at))
        at = kept[-1].result_image
    del kept[::2]
    begin = time.process_time()
    gc.collect()
    return time.process_time() - begin


NODES: dict[str, Callable[[Any], Any]] = {
    "neurons": lambda at: mps.MPSCNNNeuronReLUNode(source=at),
    "convolutions": lambda at: mps.MPSCNNConvolutionNode(source=at, weights=Weights()),
}


@pytest.mark.parametrize("kind", NODES)
def test_a_collection_walks_each_link_once(kind: str) -> None:
    """From each wrapper anew, 8000 nodes took 12 s."""
    few, many = (seconds_of_a_collection(nodes, NODES[kind]) for nodes in (1000, 8000))
    assert many < 1 + 20 * few


def test_collections_without_memory_take_nothing_and_the_next_one_does() -> None:
    pytest.importorskip("_testcapi")
    program = """
        import _testcapi, gc, sys, weakref
        import test_cycles

        sys.unraisablehook = lambda report: None
        gc.collect()
        gc.disable()
        gc.freeze()  # so that a collection is short
        for make in test_cycles.MAKERS:
            held, lost = make(), weakref.ref(make())
            alive = weakref.ref(held)
            others = [id(one) for one in vars(held).values()]
            for allocation in range(80):
                _testcapi.set_nomemory(allocation, allocation + 1)
                try:
                    gc.collect()
                except MemoryError:
                    pass
                finally:
                    _testcapi.remove_mem_hooks()
                assert alive() is held
                assert [id(one) for one in vars(held).values()] == others
            gc.collect()
            assert lost() is None, make
            del held
            gc.collect()
            assert alive() is None, make
    """
    subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        cwd=Path(__file__).parent, check=True, timeout=100,
    )  # fmt: skip
