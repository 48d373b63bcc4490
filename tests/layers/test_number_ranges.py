"""Numbers of layers and kernels that are no numbers, or of no use, are refused by name."""

import pytest

import traingraph as tg
from traingraph import mps

NAN, INF = float("nan"), float("inf")


def activation(name, **others):
    return lambda key, value: getattr(tg.MLCActivationLayer, name)(**others | {key: value})


def kernel(name, **arguments):
    made = getattr(mps, name)(device="cpu", **arguments)
    return lambda key, value: setattr(made, key, value)


MAKE = {
    "descriptor": lambda key, value: tg.MLCActivationLayer(
        descriptor=tg.MLCActivationDescriptor(type="linear", **{"a": 1.0, "b": 1.0} | {key: value})
    ),
    "elu": activation("elu"),
    "soft_shrink": activation("soft_shrink"),
    "matmul": lambda key, value: tg.MLCMatMulLayer(
        descriptor=tg.MLCMatMulDescriptor(**{key: value})
    ),
    "across": kernel("MPSCNNCrossChannelNormalization", kernel_size=3),
    "contrast": kernel("MPSCNNLocalContrastNormalization", kernel_width=3, kernel_height=3),
    "add": kernel("MPSCNNAdd"),
}


@pytest.mark.parametrize("value", [NAN, INF, -INF])
@pytest.mark.parametrize(
    ("make", "name"),
    [
        ("descriptor", "a"),
        ("descriptor", "b"),
        ("elu", "a"),
        ("soft_shrink", "a"),
        ("matmul", "alpha"),
        *[("across", name) for name in ("alpha", "beta", "delta")],
        *[("contrast", name) for name in ("alpha", "beta", "delta", "p0", "pm", "ps")],
        *[("add", name) for name in ("primary_scale", "secondary_scale", "bias")],
    ],
)
def test_finite_numbers(make, name, value):
    with pytest.raises(tg.InvalidArgument, match=rf"expected {name} to be a finite number"):
        MAKE[make](name, value)


@pytest.mark.parametrize("name", ["minimum_value", "maximum_value"])
def test_limits_may_be_infinite(name):
    with pytest.raises(tg.InvalidArgument, match=rf"expected {name} to be a number but got nan"):
        MAKE["add"](name, NAN)
    MAKE["add"](name, INF if name == "maximum_value" else -INF)
    tg.MLCActivationLayer.clamp(min=-INF, max=INF)
    with pytest.raises(tg.InvalidArgument, match="to be a number but got nan"):
        tg.MLCActivationLayer.clamp(min=NAN, max=1.0)


def test_neurons():
    def neuron(kind, **parameters):
        make = mps.MPSNNNeuronDescriptor.cnn_neuron_descriptor
        descriptor = make(with_type=kind, **parameters)
        return mps.MPSCNNNeuron(device="cpu", neuron_descriptor=descriptor)

    for kind in ("relun", "elu", "power", "linear", "hard_sigmoid"):
        for name in ("a", "b", "c"):
            for wrong in (NAN, INF, -INF):
                if (kind, name) == ("relun", "b") and wrong == wrong:
                    continue
                with pytest.raises(
                    tg.InvalidArgument, match=rf"expected {name} to be a (finite )?number but got"
                ):
                    neuron(kind, **{name: wrong})
    neuron("relun", b=INF)  # no limit


def test_an_infinite_epsilon():
    with pytest.raises(tg.InvalidArgument, match="expected a finite epsilon of 0 or more"):
        tg.MLCBatchNormalizationLayer(feature_channel_count=1, variance_epsilon=INF)
