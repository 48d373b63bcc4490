"""Short forms for tests of encoded kernels: arrays in, arrays out."""

from typing import Any

import numpy as np

from differences import Slopes
from traingraph import mps

STEP = 1e-5  # of central differences: sums of a kernel's results lose digits
FORMATS = {"float16": "float16", "float32": "float32", "float64": "float64"}


def image(device: Any, array: np.ndarray) -> Any:
    """An image of (N, C, H, W), in the array's own type."""
    n, c, h, w = array.shape
    descriptor = mps.MPSImageDescriptor.image_descriptor(
        with_channel_format=array.dtype.name, width=w, height=h, feature_channels=c,
        number_of_images=n,
    )  # fmt: skip
    made = mps.MPSImage(device=device, image_descriptor=descriptor)
    for k in range(n):
        made.write_bytes(np.ascontiguousarray(array[k]), image_index=k)
    return made


def batch(device: Any, array: np.ndarray) -> list[Any]:
    return image(device, array).batch_representation()


def empty(device: Any, shape: tuple[int, ...], dtype: str = "float64") -> list[Any]:
    return batch(device, np.zeros(shape, dtype))


def array(images: list[Any]) -> np.ndarray:
    first = images[0]
    shape = (first.feature_channels, first.height, first.width)
    dtype = {3: np.float16, 4: np.float32, 101: np.float64}[int(first.feature_channel_format)]
    rows = []
    for one in images:
        out = np.empty(shape, dtype)
        one.read_bytes(out)
        rows.append(out)
    return np.stack(rows)


def vector(device: Any, numbers: Any) -> Any:
    """An MPSVector of float32."""
    numbers = np.asarray(numbers, np.float32)
    d = mps.MPSVectorDescriptor.vector_descriptor(with_length=numbers.size)
    data = mps.MTLBuffer(device=device, bytes=numbers.tobytes())
    return mps.MPSVector(buffer=data, descriptor=d)


def commands(device: Any) -> Any:
    return device.make_command_queue().make_command_buffer()


def run(buffer: Any) -> None:
    buffer.commit()
    buffer.wait_until_completed()


class Weights(mps.MPSCNNConvolutionDataSource):
    """OHWI weights with a descriptor around them."""

    def __init__(self, weights: np.ndarray, biases: np.ndarray | None = None, groups: int = 1,
                 name: str = "", **descriptor: Any) -> None:  # fmt: skip
        self.array, self.biases, self.name = weights, biases, name
        o, kh, kw, i = weights.shape
        self.sizes = mps.MPSCNNConvolutionDescriptor.cnn_convolution_descriptor(
            with_kernel_width=kw, kernel_height=kh, input_feature_channels=i * groups,
            output_feature_channels=o,
        )  # fmt: skip
        self.sizes.groups = groups
        for key, value in descriptor.items():
            setattr(self.sizes, key, value)

    def data_type(self) -> Any:
        return mps.MPSDataType[self.array.dtype.name.upper()]

    def descriptor(self) -> Any:
        return self.sizes

    def weights(self) -> Any:
        return self.array

    def bias_terms(self) -> Any:
        return self.biases

    def label(self) -> str:
        return self.name


class Normalization(mps.MPSCNNBatchNormalizationDataSource):
    def __init__(self, gamma: np.ndarray, beta: np.ndarray, epsilon: float = 1e-3) -> None:
        self.arrays, self.small = (gamma, beta), epsilon

    def number_of_feature_channels(self) -> int:
        return len(self.arrays[0])

    def gamma(self) -> Any:
        return self.arrays[0].astype(np.float32)

    def beta(self) -> Any:
        return self.arrays[1].astype(np.float32)

    def epsilon(self) -> float:
        return self.small


def differences(f: Any, x: np.ndarray) -> Slopes:
    """Central differences of a scalar function of one array."""
    return Slopes(f, x, step=STEP)
