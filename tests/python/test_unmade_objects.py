"""Objects that __new__ gives, without __init__, are refused wherever they come."""

import copy
import pickle

import pytest

import traingraph as tg
from traingraph import _core, mps

CLASSES = sorted(
    name
    for name, cls in vars(_core).items()
    if isinstance(cls, type) and type(cls).__name__ == "pybind11_type"
)


def pickler(protocol: int):
    return lambda thing: pickle.dumps(thing, protocol)


@pytest.mark.parametrize("name", CLASSES)
def test_every_property(name: str) -> None:
    cls = getattr(_core, name)
    unmade = cls.__new__(cls)
    properties = [key for key in dir(cls) if isinstance(getattr(cls, key), property)]
    for key in properties:
        with pytest.raises(TypeError):
            getattr(unmade, key)
    for function in (copy.copy, copy.deepcopy, *map(pickler, range(pickle.HIGHEST_PROTOCOL + 1))):
        with pytest.raises((TypeError, pickle.PicklingError)):
            function(unmade)
    if cls.__repr__ is not object.__repr__:
        with pytest.raises(TypeError):
            repr(unmade)


def test_as_an_argument() -> None:
    def unmade(cls):
        return cls.__new__(cls)

    source = tg.MLCTensor(shape=[2, 3])
    with pytest.raises(TypeError):
        tg.MLCGraph().node(layer=unmade(tg.MLCReshapeLayer), source=source)
    with pytest.raises(TypeError):
        tg.MLCGraph().node(layer=tg.MLCReshapeLayer(shape=[6]), source=unmade(tg.MLCTensor))
    with pytest.raises(TypeError):
        tg.MLCMatMulLayer(descriptor=unmade(tg.MLCMatMulDescriptor))
    with pytest.raises(TypeError):
        tg.MLCTrainingGraph(graph_objects=[unmade(tg.MLCGraph)], loss_layer=None, optimizer=None)
    with pytest.raises(TypeError):
        mps.MPSCNNNeuron(device="cpu", neuron_descriptor=unmade(mps.MPSNNNeuronDescriptor))
    with pytest.raises(TypeError):
        mps.MPSCNNNeuronReLUNode(source=unmade(mps.MPSNNImageNode))


def test_before_init_of_a_subclass() -> None:
    class Early(tg.MLCReshapeLayer):
        def __init__(self) -> None:
            self.seen = self.shape
            super().__init__(shape=[1])

    with pytest.raises(TypeError, match="__init__ was called"):
        Early()


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_what_cannot_be_pickled_says_so(protocol: int) -> None:
    """The first two protocols call the base that all classes have."""
    for thing in (tg.MLCReshapeLayer(shape=[1]), tg.MLCGraph(), mps.MTLDevice(device="cpu")):
        with pytest.raises(TypeError):
            pickle.dumps(thing, protocol)


def test_the_base_of_all_classes() -> None:
    base = tg.MLCLayer.__mro__[-2]
    with pytest.raises(TypeError):
        base()
    with pytest.raises(TypeError):
        base.__new__(base)
