"""Prints what names and numbers come to, as JSON; with an argument under that locale.

Run by test_locales.py in processes of its own: a locale is a process's.
"""

import json
import locale
import os
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import traingraph as tg
from traingraph import mps, nn

if len(sys.argv) > 1:
    locale.setlocale(locale.LC_ALL, sys.argv[1])


def members(kind: Any) -> list[str]:
    return [name.lower() for name in kind.__members__]


def compiled(**given: Any) -> tg.MLCTrainingGraph:
    model = nn.model([nn.dense(2)], input=2, device="cpu")
    if given:
        model.compile(device="cpu", **given)
    return model


def executed(option: str) -> Any:
    data = {"inputs_data": {"x": [[1.0, 2.0]]}, "loss_labels_data": {"y": [0]}}
    return compiled().execute(options=f"synchronous|{option}", **data).result.dtype


def image(channel_format: str) -> Any:
    return mps.MPSImageDescriptor.image_descriptor(
        with_channel_format=channel_format, width=2, height=2, feature_channels=1)  # fmt: skip


CHANNELS = {"input_feature_channel_count": 2, "output_feature_channel_count": 2}
NAMES: dict[str, Callable[[str], Any]] = {
    "MLCActivationType": lambda name: tg.MLCActivationDescriptor(type=name),
    "MLCArithmeticOperation": lambda name: tg.MLCArithmeticLayer(operation=name),
    "MLCComparisonOperation": lambda name: tg.MLCComparisonLayer(operation=name),
    "MLCConvolutionType": lambda name: tg.MLCConvolutionDescriptor(
        type=name, kernel_sizes=3, group_count=1, **CHANNELS),
    "MLCDataType": lambda name: tg.MLCTensor(shape=[2], data_type=name),
    "MLCDeviceType": lambda name: tg.MLCDevice(type=name),
    "MLCExecutionOptions": executed,
    "MLCGradientClippingType": lambda name: tg.MLCSGDOptimizer(
        learning_rate=0.1, gradient_clipping_type=name),
    "MLCGraphCompilationOptions": lambda name: compiled(options=name),
    "MLCLossType": lambda name: tg.MLCLossDescriptor(type=name, reduction_type="mean"),
    "MLCPaddingPolicy": lambda name: nn.conv2d(2, 3, padding=name),
    "MLCRandomInitializerType": lambda name: tg.MLCTensor(
        shape=[2, 2], random_initializer_type=name),
    "MLCReductionType": lambda name: tg.MLCReductionLayer(reduction_type=name, dimension=1),
    "MLCSampleMode": lambda name: tg.MLCUpsampleLayer(shape=[4, 4], sample_mode=name),
    "MLCSoftmaxOperation": lambda name: tg.MLCSoftmaxLayer(operation=name),
    "Precision": lambda name: compiled(precision=name),
    "MPSImageFeatureChannelFormat": image,
    "MPSCNNNeuronType": lambda name: mps.MPSNNNeuronDescriptor.cnn_neuron_descriptor(
        with_type=name),
    "MPSCNNLossType": lambda name: mps.MPSCNNLossDescriptor.cnn_loss_descriptor(
        with_type=name, reduction_type="mean"),
    "MPSNNPaddingMethod": lambda name: mps.MPSCNNPoolingMaxNode(
        source=mps.MPSNNImageNode(), filter_size=2).__setattr__("padding_policy", name),
}  # fmt: skip
OTHERS: dict[str, Callable[[], Any]] = {
    "device": lambda: [tg.MLCDevice(type="CPU"), repr(compiled()),
                       compiled(options="DEBUG_LAYERS|DISABLE_LAYER_FUSION")],
    **{f"device {name}": partial(lambda name: nn.model([nn.dense(2)], input=2, device=name), name)
       for name in ("REFERENCE", "Cpu", "GPU:0", "gpu:GPU-IIII", "METAL", "TINY")},
    "activations": lambda: [nn.activation(name) for name in ("sigmoid", "linear", "tanh")],
    "loss": lambda: nn.model([nn.dense(2)], input=2, device="cpu", loss="sigmoid_cross_entropy"),
    "numpy's names": lambda: [tg.MLCTensor(shape=[2], data_type=name).descriptor.data_type.name
                              for name in ("int32", "uint8", "Int64", "FLOAT32", "bool")],
    "numbers": lambda: [repr(tg.MLCAdamOptimizer(learning_rate=0.3, beta1=0.125)),
                        plan(), tg.MLCDropoutLayer.__init__.__doc__],
    "message": lambda: tg.MLCDropoutLayer(rate=1234.5),
    "checkpoint": lambda: saved(),
    "archive": lambda: mps.NSKeyedArchiver.archived_data(
        with_root_object=mps.MPSCNNNeuronLinear(device="cpu", a=0.5, b=1234.5)),
}  # fmt: skip


def plan() -> str:
    """But for what libraries hold, which is measured."""
    lines = str(compiled().memory_plan()).splitlines()
    return "\n".join(line for line in lines if not line.startswith("libraries"))


def saved() -> Any:
    model = compiled()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "I\u0131\u0130i.safetensors")
        model.save(path)
        before = model.state()
        model.load(path)
        assert all(np.array_equal(before[key], one) for key, one in model.state().items())
    return sorted(before)


def outcome(call: Callable[[], Any]) -> str:
    try:
        made = call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return repr(made) if isinstance(made, str | bytes | list) else "made"


if __name__ == "__main__":
    words = {name: outcome(call) for name, call in OTHERS.items()}
    for kind, call in NAMES.items():
        of = getattr(tg, kind, None) or getattr(mps, kind)
        for name in [*members(of), "unknown_i_I"]:
            for one in (name, name.upper()):
                words[f"{kind} {one}"] = outcome(lambda: call(one))  # noqa: B023
    print(json.dumps(words))
