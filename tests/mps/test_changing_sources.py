"""Data sources whose answers change: a kernel compares sizes whenever it reads.

What is refused leaves the kernel as it was; what agrees is taken exactly.
"""

import itertools
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from kernels import array, batch, commands, empty, run

from traingraph import mps

_testing = pytest.importorskip("traingraph._testing", reason="built with TRAINGRAPH_TESTING")

LONG = 400000


class Channels:
    """Of all normalizations: an answer per question and call, the last one again."""

    def __init__(self, channels: int = 4, groups: int = 2) -> None:
        self.channels, self.groups, self.value = channels, groups, 1.0
        self.asked: Counter[str] = Counter()
        self.later: dict[str, Callable[[], Any]] = {}

    def answer(self, name: str, usual: Any) -> Any:
        self.asked[name] += 1
        return self.later[name]() if name in self.later else usual

    @property
    def number_of_groups(self) -> int:
        return self.answer("groups", self.groups)

    def number_of_feature_channels(self) -> int:
        return self.answer("channels", self.channels)

    def load(self) -> Any:
        return self.answer("load", True)

    def purge(self) -> None:
        self.asked["purge"] += 1

    def numbers(self) -> np.ndarray:
        return np.full(self.channels, self.value, np.float32)

    def gamma(self) -> Any:
        return self.answer("gamma", self.numbers())

    def beta(self) -> Any:
        return self.answer("beta", self.numbers())

    def mean(self) -> Any:
        return self.answer("mean", self.numbers())

    def variance(self) -> Any:
        return self.answer("variance", self.numbers())


class Weights(Channels, mps.MPSCNNConvolutionDataSource):
    type = np.float32

    def data_type(self) -> Any:
        return self.answer("type", mps.MPSDataType[np.dtype(self.type).name.upper()])

    def descriptor(self) -> Any:
        size = self.answer("descriptor", self.channels)
        if isinstance(size, mps.MPSCNNConvolutionDescriptor):
            return size
        return mps.MPSCNNConvolutionDescriptor.cnn_convolution_descriptor(
            with_kernel_width=1, kernel_height=1, input_feature_channels=1,
            output_feature_channels=size,
        )  # fmt: skip

    def weights(self) -> Any:
        return self.answer("weights", np.full((self.channels, 1, 1, 1), self.value, self.type))

    def bias_terms(self) -> Any:
        return self.answer("bias_terms", np.full(self.channels, self.value, self.type))


WEIGHTED = [
    "MPSCNNConvolution", "MPSCNNConvolutionTranspose", "MPSCNNFullyConnected",
    "MPSCNNConvolutionGradient", "MPSCNNConvolutionTransposeGradient",
    "MPSCNNFullyConnectedGradient",
]  # fmt: skip
NORMALIZATIONS = ["MPSCNNBatchNormalization", "MPSCNNInstanceNormalization",
                  "MPSCNNGroupNormalization"]  # fmt: skip
KINDS = WEIGHTED + NORMALIZATIONS


def made(kind: str, channels: int = 4) -> tuple[Any, Any]:
    source = (Weights if kind in WEIGHTED else Channels)(channels)
    return kernel_of(kind, source), source


def kernel_of(kind: str, source: Any) -> Any:
    argument = "weights" if kind in WEIGHTED else "data_source"
    return getattr(mps, kind)(device="cpu", **{argument: source})


def reloads(kernel: Any) -> list[str]:
    return [name for name in dir(kernel)
            if name.startswith("reload_") and name.endswith("from_data_source")]  # fmt: skip


def results(kernel: Any, channels: int = 4) -> np.ndarray | None:
    """What tells the numbers of a kernel; nothing of a gradient kernel."""
    if "Gradient" in type(kernel).__name__:
        return None
    inputs = 1 if isinstance(kernel.data_source, Weights) else channels
    x = batch(kernel.device, np.arange(2.0 * inputs, dtype=np.float32).reshape(2, inputs, 1, 1))
    y = empty(kernel.device, (2, channels, 1, 1), "float32")
    buffer = commands(kernel.device)
    kernel.encode_batch(buffer, source_images=x, destination_images=y)
    run(buffer)
    return array(y)


def unchanged(kernel: Any, before: np.ndarray | None, channels: int = 4) -> None:
    if before is not None:
        np.testing.assert_array_equal(results(kernel, channels), before)


@pytest.mark.parametrize(("first", "then"), [(64, 4), (4, 64), (LONG, 4), (4, LONG), (6, 4)])
@pytest.mark.parametrize("kind", KINDS)
def test_another_size_is_refused(kind: str, first: int, then: int) -> None:
    kernel, source = made(kind, first)
    before = results(kernel, first)
    source.channels = then
    names = reloads(kernel)
    assert names
    for name in names:
        with pytest.raises(ValueError, match=rf"\[{kind}.*expected.*{first}.*but got.*{then}"):
            getattr(kernel, name)()
    unchanged(kernel, before, first)
    source.channels, source.value = first, 2.0
    for name in names:
        getattr(kernel, name)()
    if before is not None:
        assert not np.array_equal(results(kernel, first), before)


ARRAYS = {
    "shorter": lambda: np.ones(3, np.float32),
    "longer": lambda: np.ones(LONG, np.float32),
    "half as many bytes": lambda: np.ones(2, np.float32),
    "none there": lambda: np.ones(0, np.float32),
    "text": lambda: "1234",
    "raising": lambda: 1 // 0,
}


@pytest.mark.parametrize("what", ARRAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_arrays_of_another_size_are_refused(kind: str, what: str) -> None:
    """One of them, at a reload and at the construction; all of a source are taken or none."""
    names = ["weights", "bias_terms"] if kind in WEIGHTED else ["gamma", "beta"]
    if kind == "MPSCNNBatchNormalization":
        names += ["mean", "variance"]
    for name in names:
        kernel, source = made(kind)
        before = results(kernel)
        source.value, source.later[name] = 3.0, ARRAYS[what]
        calls = [getattr(kernel, one) for one in reloads(kernel) if name.split("_")[0] in one]
        assert len(calls) == 1
        for call in (*calls, partial(kernel_of, kind, source)):
            with pytest.raises(
                (ValueError, TypeError, ZeroDivisionError), match=rf"{kind}|{name}|division"
            ):
                call()
            assert source.asked["purge"] == source.asked["load"]
        unchanged(kernel, before)


@pytest.mark.parametrize("kind", KINDS)
def test_sizes_are_asked_for_once(kind: str) -> None:
    """At a construction and at each reload, so that all follows from one answer."""
    kernel, source = made(kind)
    once = {"descriptor": 1, "type": 1} if kind in WEIGHTED else {"channels": 1}
    if kind == "MPSCNNGroupNormalization":
        once["groups"] = 1
    assert {name: source.asked[name] for name in once} == once
    assert source.asked["load"] == source.asked["purge"] == 1
    for name in reloads(kernel):
        source.asked.clear()
        getattr(kernel, name)()
        assert {name: source.asked[name] for name in once} == once


@pytest.mark.parametrize(("kind", "number"), itertools.product(KINDS, range(1, 4)))
def test_an_answer_that_is_another_one_once(kind: str, number: int) -> None:
    """A construction is refused where it goes by that answer; otherwise nothing happens."""
    source = (Weights if kind in WEIGHTED else Channels)()
    size = "descriptor" if kind in WEIGHTED else "channels"
    source.later[size] = lambda: LONG if source.asked[size] == number else 4
    if number == 1:
        with pytest.raises(ValueError, match=rf"\[{kind}\] expected {LONG} elements.*but got 4"):
            kernel_of(kind, source)
        return
    kernel = kernel_of(kind, source)
    assert source.asked[size] == 1
    for name in reloads(kernel):
        source.asked[size] = number - 1
        with pytest.raises(ValueError, match=rf"\[{kind}.*expected.*4.*but got.*{LONG}"):
            getattr(kernel, name)()


@pytest.mark.parametrize("kind", WEIGHTED)
def test_another_type_is_refused(kind: str) -> None:
    """Half as many bytes of float16 were read as if they were float32."""
    kernel, source = made(kind)
    before = results(kernel)
    for source.type in (np.float16, np.float64):
        with pytest.raises(ValueError, match=rf"\[{kind}\] expected a data source of float32"):
            kernel.reload_weights_and_biases_from_data_source()
    source.type = np.float16
    with pytest.raises(TypeError, match=r"weights of float32 but got float16"):
        kernel_of(kind, source)
    # Between the question and the arrays, which are then what the answer said.
    source.type = np.float32
    source.later["weights"] = lambda: np.full((4, 1, 1, 1), 1, np.float16)
    kernel.reload_weights_and_biases_from_data_source()
    unchanged(kernel, before)


@pytest.mark.parametrize("kind", WEIGHTED)
@pytest.mark.parametrize("change", [{"groups": 0}, {"groups": 3}, {"kernel_width": 2**62}])
def test_a_descriptor_that_cannot_be_is_refused(kind: str, change: dict[str, int]) -> None:
    """A division by 0 groups ended the process."""
    kernel, source = made(kind)
    before = results(kernel)
    bad = source.descriptor()
    for name, value in change.items():
        setattr(bad, name, value)
    source.later["descriptor"] = lambda: bad
    with pytest.raises(ValueError, match=rf"\[{kind}\] expected"):
        kernel.reload_weights_and_biases_from_data_source()
    unchanged(kernel, before)


def test_a_normalization_that_is_folded_in_is_read_anew() -> None:
    kernel, source = made("MPSCNNConvolution")
    folded = source.descriptor()
    ones = np.ones(4, np.float32)
    folded.set_batch_normalization_parameters_for_inference(
        with_mean=0 * ones, variance=ones, gamma=5 * ones, beta=ones, epsilon=0
    )
    before = results(kernel)
    source.later["descriptor"] = lambda: folded
    kernel.reload_weights_and_biases_from_data_source()
    np.testing.assert_allclose(results(kernel), 5 * before + 1)


def test_another_number_of_groups_is_refused() -> None:
    kernel, source = made("MPSCNNGroupNormalization")
    before = results(kernel)
    source.groups, source.value = 4, 3.0
    with pytest.raises(ValueError, match=r"\[MPSCNNGroupNormalization\] .* 2 groups but got 4"):
        kernel.reload_gamma_and_beta_from_data_source()
    unchanged(kernel, before)


def test_a_source_that_is_refused_is_not_the_kernels() -> None:
    """Gamma and beta of a batch normalization are not taken where the statistics are refused."""
    kernel, source = made("MPSCNNBatchNormalization")
    before, other = results(kernel), Channels()
    other.value, other.later["variance"] = 2.0, ARRAYS["shorter"]
    with pytest.raises(ValueError, match=r"4 elements of variance \(4,\) but got 3"):
        kernel.reload_data_source(other)
    assert kernel.data_source is source
    unchanged(kernel, before)
    kernel, source = made("MPSCNNConvolution")
    other = Weights()
    other.later["bias_terms"] = ARRAYS["longer"]
    with pytest.raises(ValueError, match=rf"4 elements of bias terms \(4,\) but got {LONG}"):
        kernel.reload_weights_and_biases(with_data_source=other)
    assert kernel.data_source is source


@pytest.mark.parametrize("kind", KINDS)
def test_archives_compare_sizes_too(kind: str) -> None:
    for then in (3, LONG):
        kernel, source = made(kind)
        source.later["descriptor" if kind in WEIGHTED else "channels"] = lambda then=then: then
        with pytest.raises(ValueError, match=rf"{then} elements of .*but got 4"):
            mps.NSKeyedArchiver.archived_data(with_root_object=kernel)
        assert source.asked["purge"] == source.asked["load"]


@pytest.mark.parametrize("answer", ["yes", "", [True], [], np.ones(2, bool), np.ones(1), None, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_what_load_returns_is_a_bool(kind: str, answer: Any) -> None:
    kernel, source = made(kind)
    source.later["load"] = lambda: answer
    for name in reloads(kernel):
        with pytest.raises(TypeError, match=r"^\[MPSCNN\w+DataSource.load\] expected .* bool"):
            getattr(kernel, name)()
    source.later["load"] = lambda: np.bool_(True)
    for name in reloads(kernel):
        getattr(kernel, name)()


def test_a_graph_reloads_what_agrees_alone() -> None:
    source = Weights()
    node = mps.MPSCNNConvolutionNode(source=mps.MPSNNImageNode(handle=None), weights=source)
    graph = mps.MPSNNGraph(
        device=mps.MTLDevice(device="cpu"), result_image=node.result_image,
        result_image_is_needed=True,
    )  # fmt: skip
    source.channels = LONG
    with pytest.raises(ValueError, match=rf"\[MPSCNNConvolution.*but got.*{LONG}"):
        graph.reload_from_data_sources()


@pytest.mark.parametrize("kind", ["weights", "batch", "instance"])
def test_sources_in_cpp_say_how_many_they_hand_over(kind: str) -> None:
    _testing.reload_from_source(kind, 4, False)
    for count in (1, 3, 5, LONG):
        with pytest.raises(ValueError, match=rf"expected 4 elements of .*but got {count}"):
            _testing.reload_from_source(kind, count, False)
    with pytest.raises(TypeError, match=r"expected float32 .*but got float64"):
        _testing.reload_from_source(kind, 4, True)
