"""Classes that are described in the core: what their documents and representations say."""

import copy
import re

import pytest

import traingraph as tg
from traingraph import _core, mps

# What is bound by hand, and has a constructor of MPS's.
BY_HAND = {
    "MPSCommandBuffer", "MPSImage", "MPSImageBatch", "MPSImageDescriptor", "MPSNNGraph",
    "MPSPredicate", "MPSStateBatch", "MPSTemporaryImage",
    "MLCDevice", "MLCExecution", "MLCGraph", "MLCInferenceGraph", "MLCLayer", "MLCOptimizer",
    "MLCPlatform", "MLCTensor", "MLCTensorData", "MLCTensorDescriptor",
    "MLCTensorOptimizerDeviceData", "MLCTensorParameter", "MLCTrainingGraph",
}  # fmt: skip
FORM = re.compile(r"^(?:\d+\. )?\w+\((.*)\) -> ", re.MULTILINE)


def is_made(name: str) -> bool:
    """A class with a constructor of its own."""
    cls = getattr(_core, name, None)
    if type(cls).__name__ != "pybind11_type" or name in BY_HAND:
        return False
    return name.startswith("MLC") or bool(
        name.startswith("MPS") and FORM.search(cls.__init__.__doc__) and "__init__" in vars(cls)
    )


DESCRIBED = sorted(filter(is_made, {*vars(_core), *mps.__all__}))
ARGUMENT = re.compile(r"(?:^|, )(\w+): ")


def makers(name: str) -> dict[str, str]:
    """Documents of the constructor and of the functions that make an object."""
    cls = getattr(_core, name)
    made = {"__init__": cls.__init__.__doc__}
    for key, value in vars(cls).items():
        if isinstance(value, staticmethod) and f"-> {name}" in value.__doc__:
            made[key] = value.__doc__
    return made


def test_there_are_some() -> None:
    assert {"MLCConvolutionLayer", "MLCLossDescriptor", "MLCAdamWOptimizer"} <= set(DESCRIBED)
    assert {"MPSCNNPoolingMax", "MPSNNOptimizerAdam", "MPSCNNConvolutionNode"} <= set(DESCRIBED)
    assert len(DESCRIBED) > 215


@pytest.mark.parametrize("name", DESCRIBED)
def test_every_argument_is_explained_once(name: str) -> None:
    assert getattr(_core, name).__doc__.strip()
    for key, document in makers(name).items():
        forms = FORM.findall(document)
        explained = re.findall(r"^\* (\w+): \S.*\.$", document, re.MULTILINE)
        taken = {argument for form in forms for argument in ARGUMENT.findall(form)}
        assert sorted(explained) == sorted(taken), (key, document)
        assert "*args" not in "".join(forms)


@pytest.mark.parametrize("name", DESCRIBED)
def test_every_property_has_a_type_and_a_text(name: str) -> None:
    for key, value in vars(getattr(_core, name)).items():
        by_hand = key in ("property_call_back", "supports_secure_coding")
        if not isinstance(value, property) or by_hand:
            continue
        assert value.__doc__, key
        assert re.match(rf"{key}\(self\) -> [\w.\[\], |]+\n", value.fget.__doc__), key


def is_a(*bases: str) -> list[str]:
    every = tuple(getattr(_core, base) for base in bases)
    return [name for name in DESCRIBED if issubclass(getattr(_core, name), every)]


@pytest.mark.parametrize("name", is_a("MLCLayer", "MPSKernel", "MPSNNFilterNode"))
def test_shapes_and_errors_are_stated(name: str) -> None:
    document = getattr(_core, name).__init__.__doc__
    assert re.search(r"\bShapes: \S", document), document
    assert re.search(r"\bErrors: \S", document), document


@pytest.mark.parametrize("name", is_a("MLCOptimizer"))
def test_errors_of_optimizers_are_stated(name: str) -> None:
    assert re.search(r"\bErrors: \S", getattr(_core, name).__init__.__doc__)


def test_ranges_are_stated() -> None:
    document = tg.MLCAdamOptimizer.__init__.__doc__
    assert "* beta1: What the first moment keeps. Range: from 0 to less than 1." in document
    assert (
        "* gradient_clip_max: The largest element, BY_VALUE; may be infinite. Range: a number."
        in document
    )
    assert tg.MLCAdamOptimizer.beta1.__doc__.endswith("Range: from 0 to less than 1.")


def test_a_property_of_another_class_is_refused() -> None:
    for get in (tg.MLCReshapeLayer.shape.fget, tg.MLCOptimizerDescriptor.learning_rate.fget):
        for other in (tg.MLCConcatenationLayer(), tg.MLCMatMulDescriptor(), None, 3):
            with pytest.raises(TypeError):
                get(other)
    with pytest.raises(TypeError):
        tg.MLCReshapeLayer.__init__(
            tg.MLCConcatenationLayer.__new__(tg.MLCConcatenationLayer), shape=[1]
        )


def test_layers_of_a_graph_have_their_classes() -> None:
    graph = tg.MLCGraph()
    x = tg.MLCTensor(shape=[2, 4])
    reshaped = graph.node(tg.MLCReshapeLayer(shape=[4, 2]), source=x)
    graph.node(tg.MLCActivationLayer.relu(), source=reshaped)
    assert [type(layer) for layer in graph.layers] == [tg.MLCReshapeLayer, tg.MLCActivationLayer]
    assert graph.layers[0].shape == [4, 2]


def test_classes_that_python_derives() -> None:
    class Flat(tg.MLCReshapeLayer):
        def __init__(self, count: int) -> None:
            super().__init__(shape=[count])
            self.count = count

    layer = Flat(8)
    assert (layer.shape, layer.count, isinstance(layer, tg.MLCLayer)) == ([8], 8, True)
    graph = tg.MLCGraph()
    graph.node(layer, source=tg.MLCTensor(shape=[2, 4]))
    assert graph.layers[0] is layer


def test_a_value_shows_what_it_is_made_of() -> None:
    made = tg.MLCPoolingDescriptor(
        type="average",
        kernel_sizes=(3, 2),
        strides=1,
        padding_policy=tg.MLCPaddingPolicy.sized(y=1, x=2),
    )
    for one in (made, made.copy(), copy.copy(made), copy.deepcopy(made)):
        assert repr(one) == (
            "<MLCPoolingDescriptor type=MLCPoolingType.AVERAGE kernel_sizes=(3, 2) strides=(1, 1) "
            "dilation_rates=(1, 1) padding_policy=MLCPaddingPolicy.USE_PADDING_SIZE "
            "count_includes_padding=False>"
        )
        assert (one.padding_size_in_y, one.padding_size_in_x) == (1, 2)
    assert repr(tg.MLCLossDescriptor(type="hinge", reduction_type="sum")).endswith(
        "weight=1.0 label_smoothing=0.0 class_count=None epsilon=1e-07 delta=1.0>"
    )
