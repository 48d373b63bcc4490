"""Devices, the platform and the exceptions."""

import copy
import subprocess
import sys
from collections.abc import Callable

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


def test_any_is_the_cpu_where_nothing_else_is_there() -> None:
    for multiple in (False, True):
        device = MLCDevice(type="any", selects_multiple_compute_devices=multiple)
        assert device.type is MLCDeviceType.ANY
        assert device.copy().type is MLCDeviceType.ANY
        if not has_gpu():
            assert device.actual_device_type is MLCDeviceType.CPU
    assert MLCDevice(type="cpu", selects_multiple_compute_devices=True) == MLCDevice.cpu()


@pytest.mark.parametrize("duplicate", [lambda d: d.copy(), copy.copy, copy.deepcopy])
@pytest.mark.parametrize("device", [MLCDevice.cpu(), MLCDevice.reference(), MLCDevice(type="any")])
def test_copies(device: MLCDevice, duplicate: Callable[[MLCDevice], MLCDevice]) -> None:
    other = duplicate(device)
    assert other is not device
    assert (other, other.type, hash(other)) == (device, device.type, hash(device))
    assert repr(other) == repr(device)


def test_gpu_devices_are_devices() -> None:
    with pytest.raises(ValueError, match="at least one device but got none"):
        MLCDevice(gpu_devices=[])
    with pytest.raises(
        TypeError, match=r"\[MLCDevice\] expected gpu_devices\[0\]: MLCDevice but got 'int'"
    ):
        MLCDevice(gpu_devices=[0])
    with pytest.raises(ValueError, match=r"expected gpu_devices of GPUs but got cpu: \w"):
        MLCDevice(gpu_devices=[MLCDevice.cpu()])
    with pytest.raises(TypeError, match="no form takes"):
        MLCDevice(type="gpu", gpu_devices=[])


def test_several_gpus() -> None:
    with pytest.raises((NotImplementedError, traingraph.DeviceError), match="GPU"):
        MLCDevice(type="gpu", selects_multiple_compute_devices=True)


def test_ane() -> None:
    for make in (MLCDevice.ane, lambda: MLCDevice(type="ane"), lambda: MLCDevice(type=3)):
        with pytest.raises(traingraph.DeviceError, match="ANE but this library has none"):
            make()


def test_seed_is_none_before_it_is_set() -> None:
    program = (
        "from traingraph import MLCPlatform as p; assert p.get_rng_seed() is None;"
        "p.set_rng_seed_to(0); assert p.get_rng_seed() == 0;"
        "p.set_rng_seed_to(seed=2**63 - 1); assert p.get_rng_seed() == 2**63 - 1"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def has_gpu() -> bool:
    try:
        return bool(traingraph._core.gpus())
    except traingraph.DeviceError:
        return False


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
    for name in ("gpu:", "gpu:x", "cuda:1 ", "gpu:1:2"):
        with pytest.raises(ValueError, match=r"with an index or UUID but got '(gpu|cuda):"):
            inference.compile(device=name)
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
