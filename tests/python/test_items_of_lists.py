"""The item of a list that is refused is named, and what is accepted there is listed."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import traingraph as tg
from traingraph import mps, nn

X = tg.MLCTensor(shape=[2, 2])
CHANNELS = {"input_feature_channel_count": 1, "output_feature_channel_count": 1}
FORMATS = '"unorm8", "unorm16", "float16", "float32", "float64"'
REDUCTIONS = '"sum", "mean", "max", "min", "arg_max", "arg_min", "l1_norm", "any", "all"'


def model() -> tg.MLCTrainingGraph:
    return nn.model([nn.dense(3)], input=6, device="cpu")


def image(form: str) -> object:
    return mps.MPSImageDescriptor.image_descriptor(
        with_channel_format=form, width=1, height=1, feature_channels=1
    )


def buffer() -> mps.MTLCommandBuffer:
    return mps.create_system_default_device().make_command_queue().make_command_buffer()


CALLS: list[tuple[Callable[[], Any], str]] = [
    (lambda: tg.MLCTensor(shape=(2, 1.5)), "expected shape[1]: int but got 'float'"),
    (
        lambda: tg.MLCConvolutionDescriptor(kernel_sizes=(1, None), **CHANNELS),
        "expected kernel_sizes[1]: int but got 'NoneType'",
    ),
    (lambda: nn.reshape([2, 1.5]), "expected shape[1]: int but got 'float'"),
    (lambda: nn.conv2d(3, (3, 1.5)), "expected kernel[1]: int but got 'float'"),
    (lambda: nn.sequential([nn.dense(3), None]), "expected layers[1]: Block | MLCLayer"),
    (
        lambda: tg.MLCGraph().concatenate([X, 1], dimension=0),
        "expected sources[1]: MLCTensor but got 'int'",
    ),
    (
        lambda: mps.image_batch_synchronize([1], buffer()),
        "expected batch[0]: MPSImage but got 'int'",
    ),
    (
        lambda: tg.MLCReductionLayer(reduction_type="avg", dimension=0),
        f'expected reduction_type of {REDUCTIONS} but got "avg"',
    ),
    (
        lambda: tg.MLCReductionLayer(reduction_type=tg.MLCReductionType.NONE, dimension=0),
        f'expected reduction_type of {REDUCTIONS} but got "none"',
    ),
    (
        lambda: tg.MLCLossLayer.hinge_loss(reduction_type="max", weight=1.0),
        'expected reduction_type of "none", "sum", "mean" but got "max"',
    ),
    (
        lambda: tg.MLCGraph().scatter(
            with_dimension=0, source=X, indices=X, copy_from=X, reduction_type="mean"
        ),
        'expected reduction_type of "none", "sum" but got "mean"',
    ),
    (lambda: image("none"), f'expected with_channel_format of {FORMATS} but got "none"'),
    (
        lambda: model().fit(np.zeros((4, 6)), [0] * 4, shuffle_seed=-1),
        "expected shuffle_seed from 0 to 2^63 - 1 but got -1",
    ),
    (
        lambda: model().fit(np.zeros((4, 6)), [0] * 4, shuffle_seed=2**63),
        f"expected shuffle_seed from 0 to 2^63 - 1 but got {2**63}",
    ),
    (lambda: tg.MLCDropoutLayer(rate=2**2000), "expected rate in the range of a float but got"),
    (
        lambda: model().fit(np.zeros((4, 6)), [2**70] * 4),
        "expected numbers for loss label 'y' but got others, or ints beyond 64 bits, in a",
    ),
    (
        lambda: model().add_outputs({"\ud800": X}),
        r"expected a key of outputs that UTF-8 can say but got '\ud800'",
    ),
    (
        lambda: nn.max_pool(2, stride=0),
        "[max_pool(2)] expected 1 or more rows and columns of the stride but got 0",
    ),
    (lambda: nn.max_pool(0), "[max_pool(0)] expected 1 or more rows and columns of the window"),
    (lambda: nn.conv2d(3, 3, stride=0), "expected 1 or more rows and columns of the stride"),
    (lambda: nn.conv2d(3, 3, dilation=(1, 0)), "1 or more rows and columns of the dilation"),
    (
        lambda: nn.average_pool(stride=(1, 0)),
        "expected 1 or more rows and columns of the stride but got 0",
    ),
]


@pytest.mark.parametrize("case", range(len(CALLS)))
def test_the_item_is_named(case: int) -> None:
    call, text = CALLS[case]
    with pytest.raises((TypeError, ValueError)) as raised:
        call()
    assert text in str(raised.value)


@pytest.mark.parametrize("item", ["image", "state"])
def test_what_is_read_only_once_is_no_empty_list(item: str) -> None:
    increment = getattr(mps, f"{item}_batch_increment_read_count")
    with pytest.raises(TypeError, match=rf"expected batch\[0\]: MPS{item.title()} but got 'int'"):
        increment((wrong for wrong in [1]), 1)
    increment(iter([]), 1)
