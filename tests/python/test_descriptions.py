"""Classes that are described in the core: what their documents and representations say."""

import copy
import re

import pytest

import traingraph as tg
from traingraph import _core, mps

# Made for Python's own protocols: awaited, and sequences.
BY_HAND = {"MLCExecution", "MPSImageBatch", "MPSStateBatch"}
# Members that no description has: they write to memory of Python's, call its functions, wait for
# its signals, or have forms with lists that are appended to.
SPECIAL = {
    "__array__", "__dlpack__", "add_completed_handler", "copy", "destination_image_descriptor",
    "encode", "encode_batch", "encode_with_coder", "evaluate", "execute", "execute_async",
    "execute_forward", "execute_gradient", "execute_optimizer_update", "fit", "gradient_filter",
    "gradient_filters", "predict", "read_bytes", "result_state", "result_state_batch",
    "set_mask_data", "temporary_result_state", "temporary_result_state_batch", "training_graph",
    "write_bytes",
}  # fmt: skip
FORM = re.compile(r"^(?:\d+\. )?\w+\((.*)\) -> ", re.MULTILINE)


def is_described(name: str) -> bool:
    """A public class that is made of a description."""
    cls = getattr(_core, name, None)
    return type(cls).__name__ == "pybind11_type" and name not in BY_HAND and name[0] != "_"


def is_made(name: str) -> bool:
    """One with a constructor of its own."""
    cls = getattr(_core, name, None)
    return (
        is_described(name) and "__init__" in vars(cls) and bool(FORM.search(cls.__init__.__doc__))
    )


CLASSES = sorted(filter(is_described, {*vars(_core), *mps.__all__}))
DESCRIBED = sorted(filter(is_made, CLASSES))
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


def functions(name: str) -> dict[str, str]:
    """Documents of its functions, but for those of Python's protocols and private ones."""
    found = {}
    for key, value in vars(getattr(_core, name)).items():
        function = value.__func__ if isinstance(value, staticmethod) else value
        is_public = key[0] != "_" or key in ("__call__", "__array__", "__dlpack__")
        if is_public and callable(function):
            found[key] = function.__doc__
    return found


@pytest.mark.parametrize("name", CLASSES)
def test_every_argument_of_a_function_is_explained_once(name: str) -> None:
    for key, document in functions(name).items():
        taken = {name for form in FORM.findall(document) for name in ARGUMENT.findall(form)}
        explained = re.findall(r"^\* (\w+): \S.*\.$", document, re.MULTILINE)
        assert sorted(explained) == sorted(taken - {"self"}) or (
            key in SPECIAL and not explained
        ), key


def test_special_members_are_there() -> None:
    assert {key for name in CLASSES for key in functions(name)} >= SPECIAL


@pytest.mark.parametrize("name", CLASSES)
def test_every_property_has_a_type_and_a_text(name: str) -> None:
    for key, value in vars(getattr(_core, name)).items():
        by_hand = ("bytes", "property_call_back", "supports_secure_coding")
        if not isinstance(value, property) or key in by_hand:
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
    assert "* beta1: The decay rate of the first moment. Range: from 0 to less than 1." in document
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


FLOATS = (
    "0.0", "-0.0", "1.0", "-2.5", "0.1", "1e-04", "0.001", "1e-07", "1e-45", "1e+08", "12345679.0",
    "16777216.0", "3.4028235e+38", "1.1754944e-38", "1.2621775e-29", "-1.5474251e+26",
    "1.2379401e+27", "9.536743e-07",
)  # fmt: skip


@pytest.mark.parametrize("text", FLOATS)
def test_a_float_has_the_fewest_digits_that_read_back(text: str) -> None:
    """Of three powers of two the fewest are not the nearest ones."""
    shown = repr(tg.MLCActivationDescriptor(type="relu", a=float(text)))
    assert f" a={text} " in shown


def test_layers_and_optimizers_are_shown_alike() -> None:
    of_objects = is_a("MLCLayer", "MLCOptimizer")
    assert not [name for name in of_objects if "__repr__" in vars(getattr(_core, name))]
    assert repr(tg.MLCPaddingLayer(reflection_padding=(1, 1))).startswith("<MLCPaddingLayer ")
