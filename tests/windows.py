"""Moving windows in NumPy, for the expected results of convolution and pooling."""

import numpy as np

import traingraph as tg


def policy(padding):
    """A padding policy from "same", "valid" or a pair (y, x)."""
    if isinstance(padding, str):
        return padding
    return tg.MLCPaddingPolicy.sized(y=padding[0], x=padding[1])


def padding_of(source, kernel, stride, dilation, padding, axis):
    """(before, after) along one axis; of an odd total the larger half comes after."""
    if padding == "valid":
        return 0, 0
    if padding != "same":
        return padding[axis], padding[axis]
    reach = (kernel - 1) * dilation + 1
    positions = int(np.ceil(source / stride))
    total = max((positions - 1) * stride + reach - source, 0)
    return total // 2, total - total // 2


def windows(x, kernel, strides=(1, 1), dilations=(1, 1), padding="same", fill=0.0):
    """x (N, C, H, W) as its windows (N, C, P, Q, kh, kw), with `fill` in the padding."""
    pads = [
        padding_of(x.shape[2 + axis], kernel[axis], strides[axis], dilations[axis], padding, axis)
        for axis in (0, 1)
    ]
    padded = np.pad(x, [(0, 0), (0, 0), *pads], constant_values=fill)
    reach = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True))
    every = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=(2, 3))
    return every[:, :, :: strides[0], :: strides[1], :: dilations[0], :: dilations[1]]
