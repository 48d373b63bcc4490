"""Images, kernels and results of traingraph.mps, for the files beside this one."""

import numpy as np

from traingraph import _core, mps


def object_of(on, array):
    """All of them as one image object."""
    n, c, h, w = array.shape
    descriptor = mps.MPSImageDescriptor.image_descriptor(
        with_channel_format="float32", width=w, height=h, feature_channels=c, number_of_images=n
    )
    whole = mps.MPSImage(device=on, image_descriptor=descriptor)
    for k in range(n):
        whole.write_bytes(np.ascontiguousarray(array[k]), image_index=k)
    return whole


def images(on, array):
    return object_of(on, array).batch_representation()


def extents(batch):
    first = batch[0]
    return len(batch), first.feature_channels, first.height, first.width


def array_of(batch):
    array = np.empty(extents(batch), np.float32)
    for row, one in zip(array, batch, strict=True):
        one.read_bytes(row)
    return array


def arrays(results):
    """Of batches of images, and of buffers."""
    return [np.array(one) if hasattr(one, "__array__") else array_of(one) for one in results]


def kernel(name, on, arguments, properties):
    """One that returns permanent images."""
    made = getattr(_core, name)(device=on, **arguments)
    for key, value in properties.items():
        setattr(made, key, value)
    if hasattr(made, "makes_temporary_images"):
        made.makes_temporary_images = False
    return made


def losses_of(which, reduction, shape):
    """The shape of what a loss of images of this shape leaves."""
    n, c, h, w = shape
    if reduction != "none":
        return n, 1, 1, 1
    return n, 1 if which == "soft_max_cross_entropy" else c, h, w


class ArrayWeights(mps.MPSCNNConvolutionDataSource):
    """Weights of float32 arrays, which a subclass makes: `array`, `biases` and `sizes`."""

    def data_type(self):
        return mps.MPSDataType.FLOAT32

    def descriptor(self):
        return self.sizes

    def weights(self):
        return self.array

    def bias_terms(self):
        return self.biases
