"""What a call says when Apple has no such form."""

import inspect
import subprocess
import sys

import pytest

from traingraph import (
    MLCActivationDescriptor,
    MLCActivationLayer,
    MLCAdamOptimizer,
    MLCConvolutionDescriptor,
    MLCConvolutionLayer,
    MLCDropoutLayer,
    MLCGraph,
    MLCLossLayer,
    MLCMatMulDescriptor,
    MLCSGDOptimizer,
    MLCTensor,
    MLCTrainingGraph,
    sequential,
)


def test_missing_arguments_are_named() -> None:
    with pytest.raises(TypeError) as caught:
        MLCConvolutionDescriptor(kernel_sizes=(3, 3), group_count=2)
    text = str(caught.value)
    assert text.startswith("[MLCConvolutionDescriptor] no form takes (kernel_sizes, group_count)")
    assert "missing: input_feature_channel_count, output_feature_channel_count" in text
    assert "the nearest is" in text


def test_surplus_arguments_are_named() -> None:
    with pytest.raises(TypeError, match="not in it: wieghts"):
        MLCConvolutionLayer(wieghts=None, descriptor=None)


def test_mixed_forms_are_refused() -> None:
    with pytest.raises(TypeError, match="no form takes"):
        MLCActivationDescriptor(type="clamp", b=1.0)
    with pytest.raises(TypeError, match="no form takes"):
        MLCTensor(shape=[1], fill_with_data=1.0, random_initializer_type="xavier")
    with pytest.raises(TypeError, match="no form takes"):
        MLCLossLayer.hinge_loss(reduction_type="sum", weight=1.0, weights=None)


def test_constructors_take_keywords_only() -> None:
    with pytest.raises(TypeError, match="keywords only but got 1 positional"):
        MLCTensor([1, 2])
    with pytest.raises(TypeError, match="keywords only"):
        MLCDropoutLayer(0.5)


def test_first_argument_of_a_factory_may_be_positional() -> None:
    assert MLCActivationLayer.leaky_relu(0.2).descriptor.a == pytest.approx(0.2)
    assert MLCActivationLayer.leaky_relu(negative_slope=0.2).descriptor.a == pytest.approx(0.2)
    with pytest.raises(TypeError, match="keywords after the first argument"):
        MLCActivationLayer.clamp(0.0, 1.0)
    with pytest.raises(TypeError, match="got min twice"):
        MLCActivationLayer.clamp(0.0, min=1.0, max=1.0)
    with pytest.raises(TypeError):
        MLCActivationLayer.relu(1.0)


@pytest.mark.parametrize(
    ("factory", "arguments", "a", "b"),
    [
        ("relu", {}, 0.0, None),
        ("relu6", {}, 0.0, 6.0),
        ("leaky_relu", {}, 0.01, None),
        ("linear", {"scale": 2.0, "bias": 3.0}, 2.0, 3.0),
        ("hard_sigmoid", {}, 0.2, 0.5),
        ("soft_plus", {}, 1.0, 1.0),
        ("soft_plus", {"beta": 2.0}, 1.0, 2.0),
        ("elu", {}, 1.0, None),
        ("elu", {"a": 0.5}, 0.5, None),
        ("relun", {"a": 0.1, "b": 5.0}, 0.1, 5.0),
        ("celu", {"a": 2.0}, 2.0, None),
        ("hard_shrink", {}, 0.5, None),
        ("soft_shrink", {"a": 0.1}, 0.1, None),
        ("tanh_shrink", {}, 0.0, None),
        ("threshold", {"threshold": 0.1, "replacement": 20.0}, 0.1, 20.0),
        ("gelu", {}, 0.7978845608, 0.044715),
        ("clamp", {"min": -2.0, "max": 2.0}, -2.0, 2.0),
    ],
)
def test_activation_factories(
    factory: str, arguments: dict[str, float], a: float, b: float | None
) -> None:
    descriptor = getattr(MLCActivationLayer, factory)(**arguments).descriptor
    assert descriptor.a == pytest.approx(a)
    if b is not None:
        assert descriptor.b == pytest.approx(b)


def test_wrong_types_name_argument_and_expectation() -> None:
    with pytest.raises(TypeError, match=r"\[MLCDropoutLayer\] expected rate: float but got 'str'"):
        MLCDropoutLayer(rate="0.5")
    with pytest.raises(TypeError, match=r"transposes_x: bool but got 'int'"):
        MLCMatMulDescriptor(transposes_x=1)
    with pytest.raises(TypeError, match=r"shape: .* but got 'int'"):
        MLCTensor(shape=3)
    with pytest.raises(TypeError, match="but got 'float'"):
        MLCTensor(shape=[1.0])
    with pytest.raises(TypeError, match=r"expected descriptor: MLCConvolutionDescriptor"):
        MLCConvolutionLayer(descriptor=MLCMatMulDescriptor())
    with pytest.raises(ValueError, match="expected kernel_sizes: 2 numbers but got 3"):
        MLCConvolutionDescriptor(
            kernel_sizes=(1, 2, 3), input_feature_channel_count=1, output_feature_channel_count=1
        )


def test_uncalled_factories() -> None:
    x = MLCTensor(shape=[2, 3])
    graph = MLCGraph()
    with pytest.raises(TypeError, match=r"did you mean relu\(\)\?"):
        graph.node(MLCActivationLayer.relu, source=x)
    with pytest.raises(TypeError, match=r"did you mean sigmoid\(\)\?"):
        sequential(graph, x, [MLCActivationLayer.relu(), MLCActivationLayer.sigmoid])
    with pytest.raises(TypeError, match=r"did you mean softmax_cross_entropy\(\)\?"):
        MLCTrainingGraph(graph_objects=[graph], loss_layer=MLCLossLayer.softmax_cross_entropy)
    with pytest.raises(TypeError, match=r"did you mean MLCAdamOptimizer\(\)\?"):
        MLCTrainingGraph(graph_objects=[graph], optimizer=MLCAdamOptimizer)


def test_signatures_are_documented() -> None:
    lines = (MLCSGDOptimizer.__init__.__doc__ or "").splitlines()
    forms = [line for line in lines if "__init__(self, *, " in line]
    assert len(forms) == 2
    assert "momentum_scale: float = 0.0" in forms[0]
    assert "learning_rate: float" in forms[1]
    assert inspect.getdoc(MLCActivationLayer.leaky_relu) is not None


_REPEATED_CALLS = """
import sys
from traingraph import nn

calls = [nn.adamw, nn.rmsprop, lambda: nn.conv2d(8, 3), lambda: nn.lstm(8)]
for call in calls:
    call()
counted, counting = [], False
sys.addaudithook(lambda event, _: counted.append(event) if counting and event == "exec" else None)
counting = True
for call in calls:
    call()
counting = False
assert not counted, f"{len(counted)} defaults were evaluated again"
"""


def test_defaults_are_evaluated_once() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _REPEATED_CALLS], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
