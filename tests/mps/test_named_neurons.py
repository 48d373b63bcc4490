"""Kernels that are named after their neuron do what MPSCNNNeuron does with that descriptor."""

import numpy as np
import pytest
from coded import NAMED
from gradients import device, forward, random

from traingraph import InvalidArgument, mps

# What each is made with, and what is not given.
GIVEN = {
    "Absolute": {}, "ELU": {"a": 0.7}, "Exponential": {"a": 0.5, "b": 0.1, "c": 2.0},
    "HardSigmoid": {"a": 0.3, "b": 0.4}, "Linear": {"a": 2.0, "b": -1.0},
    "Logarithm": {"a": 0.5, "b": 4.0, "c": 3.0}, "Power": {"a": 0.5, "b": 3.0, "c": 2.0},
    "ReLU": {"a": 0.2}, "ReLUN": {"a": 0.1, "b": 1.2}, "Sigmoid": {},
    "SoftPlus": {"a": 0.5, "b": 1.5}, "SoftSign": {}, "TanH": {"a": 1.5, "b": 0.7},
}  # fmt: skip
SLOPES = [0.5, -0.25, 2.0]


def descriptor(name, **given):
    return mps.MPSNNNeuronDescriptor.cnn_neuron_descriptor(with_type=NAMED[name], **given)


def test_every_name_is_tested():
    assert set(GIVEN) == set(NAMED)
    kernels = {n for n in mps.__all__ if n.startswith("MPSCNNNeuron") and not n.endswith("Node")}
    others = {"MPSCNNNeuron", "MPSCNNNeuronGradient", "MPSCNNNeuronPReLU", "MPSCNNNeuronType"}
    assert kernels - others == {f"MPSCNNNeuron{name}" for name in NAMED}


@pytest.mark.parametrize("name", GIVEN)
def test_the_function_is_that_of_the_descriptor(name):
    x = random(1, 2, 3, 2, 4)
    cls = getattr(mps, f"MPSCNNNeuron{name}")
    kernel = cls(device=device(), **GIVEN[name])
    assert isinstance(kernel, mps.MPSCNNNeuron)
    assert kernel.neuron_type == mps.MPSCNNNeuronType[NAMED[name].upper()]
    for key, value in GIVEN[name].items():
        assert getattr(kernel, key) == pytest.approx(value)
    plain = mps.MPSCNNNeuron(device=device(), neuron_descriptor=descriptor(name, **GIVEN[name]))
    expected, _ = forward(plain, x)
    np.testing.assert_array_equal(forward(kernel, x)[0], expected)
    again = cls(device=device(), neuron_descriptor=descriptor(name, **GIVEN[name]))
    np.testing.assert_array_equal(forward(again, x)[0], expected)
    kernel.label = "act"
    assert cls.__name__ in repr(kernel)
    assert "'act'" in repr(kernel)


def test_slopes_per_channel():
    x = random(2, 2, 3, 2, 4)
    expected = np.where(x < 0, x * np.reshape(SLOPES, (1, 3, 1, 1)), x)
    for given in ({"a": SLOPES}, {"a": SLOPES, "count": 3}, {"a": [*SLOPES, 7.0], "count": 3}):
        kernel = mps.MPSCNNNeuronPReLU(device=device(), **given)
        np.testing.assert_array_equal(forward(kernel, x)[0], expected)
    assert list(kernel.data) == SLOPES
    for wrong in (0, 4):
        with pytest.raises(
            InvalidArgument, match=rf"PReLU\] .*1 to 3, the slopes, but got {wrong}"
        ):
            mps.MPSCNNNeuronPReLU(device=device(), a=SLOPES, count=wrong)


def test_the_descriptor_of_another_function_is_refused():
    with pytest.raises(InvalidArgument, match=r"MPSCNNNeuronTanH.*neuron type 5 but got one of 1"):
        mps.MPSCNNNeuronTanH(device=device(), neuron_descriptor=descriptor("ReLU"))
    with pytest.raises(InvalidArgument, match=r"MPSCNNNeuronLogarithm\] expected a base c"):
        mps.MPSCNNNeuronLogarithm(device=device(), a=1.0, b=0.0, c=1.0)
    with pytest.raises(TypeError, match="MPSCNNNeuronSigmoid"):
        mps.MPSCNNNeuronSigmoid(device=device(), a=1.0)
    assert not hasattr(mps, "MPSCNNNeuronGeLU")
