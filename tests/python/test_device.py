"""Devices, the platform and the exceptions."""

import copy

import pytest

import traingraph
from traingraph import MLCDevice, MLCDeviceType, get_num_threads, set_num_threads


def test_cpu() -> None:
    device = MLCDevice.cpu()
    assert device.type is MLCDeviceType.CPU
    assert device.actual_device_type is MLCDeviceType.CPU
    assert device.gpu_devices == []
    assert repr(device).startswith("<MLCDevice ")


def test_equal_when_they_name_the_same_hardware() -> None:
    assert MLCDevice.cpu() == MLCDevice(type="cpu") == copy.copy(MLCDevice.cpu())
    assert hash(MLCDevice.cpu()) == hash(MLCDevice(type=MLCDeviceType.CPU))
    assert MLCDevice.cpu() != MLCDevice.reference()
    assert MLCDevice.cpu() != "cpu"
    assert MLCDevice(type="any", selects_multiple_compute_devices=False) == MLCDevice.cpu()


def has_gpu() -> bool:
    return bool({"cuda", "metal"} & set(traingraph._core.backends()))


@pytest.mark.parametrize("make", [MLCDevice.gpu, MLCDevice.ane, lambda: MLCDevice(type="gpu")])
def test_missing_hardware(make: object) -> None:
    if make is not MLCDevice.ane and has_gpu():
        pytest.skip("this machine has one")
    with pytest.raises(traingraph.DeviceError, match=r"\w{3}") as caught:
        make()  # type: ignore[operator]
    assert isinstance(caught.value, RuntimeError)


def test_names() -> None:
    x = traingraph.MLCTensor(shape=[1])
    graph = traingraph.MLCGraph()
    graph.node(traingraph.MLCActivationLayer.relu(), source=x)
    inference = traingraph.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": x})
    for name in ("cpu", "CPU", "any", "reference"):
        assert inference.compile(device=name)
    assert inference.compile(device=MLCDeviceType.ANY)
    with pytest.raises(ValueError, match="reference"):
        inference.compile(device="tpu")
    with pytest.raises(TypeError, match=r"MLCDevice \| str but got 'int'"):
        inference.compile(device=0)


def test_threads() -> None:
    before = get_num_threads()
    try:
        set_num_threads(1)
        assert get_num_threads() == 1
        with pytest.raises(ValueError, match="0"):
            set_num_threads(0)
    finally:
        set_num_threads(before)


@pytest.mark.parametrize(
    ("name", "builtin"),
    [
        ("InvalidArgument", ValueError),
        ("ShapeError", ValueError),
        ("DataTypeError", TypeError),
        ("Unsupported", NotImplementedError),
        ("OutOfMemory", MemoryError),
        ("DeviceError", RuntimeError),
        ("FileError", OSError),
        ("InternalError", RuntimeError),
    ],
)
def test_exceptions(name: str, builtin: type[Exception]) -> None:
    cls = getattr(traingraph, name)
    assert issubclass(cls, builtin)
    assert issubclass(cls, traingraph.Error)
    assert cls.__module__ == "traingraph"
    assert issubclass(traingraph.ShapeError, traingraph.InvalidArgument)
