"""Images and matrices that cannot be are refused before anything is allocated."""

import numpy as np
import pytest
from kernels import batch, commands

import traingraph as tg
from traingraph import mps


@pytest.mark.parametrize("extent", [2**47, 2**53, 2**62, 2**63 - 1])
def test_image(extent: int) -> None:
    descriptor = mps.MPSImageDescriptor.image_descriptor(
        with_channel_format="float32", width=extent, height=4, feature_channels=4
    )
    with pytest.raises(tg.ShapeError, match=str(extent)):
        mps.MPSImage(device="cpu", image_descriptor=descriptor)


@pytest.mark.parametrize("scale", [2**53, 2**62, 2**63 - 1])
def test_upsampling(scale: int) -> None:
    kernel = mps.MPSCNNUpsamplingBilinear(
        device="cpu", integer_scale_factor_x=scale, integer_scale_factor_y=1
    )
    sources = batch(kernel.device, np.zeros((1, 4, 3, 3), np.float32))
    with pytest.raises(tg.ShapeError, match="281474976710656"):
        kernel.encode_batch(commands(kernel.device), source_images=sources)
