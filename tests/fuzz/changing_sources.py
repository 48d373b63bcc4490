"""Target: a data source answers otherwise each time that it is asked.

An input is a kernel class, the answers of its source by method, one per call and the last one
again, and what is done with the kernel. Refusals are typed errors, or what the source itself
raises, and leave the kernel's numbers as they were; after a reload that is not refused they are
those that the source handed over last.
"""

import json
import warnings
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from kernels import array, batch, commands, empty
from kernels import run as finish

import traingraph as tg
from traingraph import mps

corpus = Path(__file__).parent / "corpus" / "changing_sources"
ON = {name: mps.MTLDevice(device=name) for name in ("cpu", "reference")}
WEIGHTED = (
    "MPSCNNConvolution", "MPSCNNConvolutionTranspose", "MPSCNNFullyConnected",
    "MPSCNNConvolutionGradient", "MPSCNNConvolutionTransposeGradient",
    "MPSCNNFullyConnectedGradient",
)  # fmt: skip
NORMALIZATIONS = {
    "MPSCNNBatchNormalization": ("gamma", "beta", "mean", "variance"),
    "MPSCNNInstanceNormalization": ("gamma", "beta"),
    "MPSCNNGroupNormalization": ("gamma", "beta"),
}
SIZES = (0, 1, 2, 3, 4, 6, 8, 64, 4000, 400000, -1, 2**31, 2**40, 2**62)
TYPES = ("float32", "float64", "float16")
ELEMENTS = (*TYPES, "int32", "uint8", "bool", "complex64", "object", "S4")
WORDS = ("none", "text", "list", "raise", "true", "false")
STEPS = ("reload", "reload", "reload", "other", "archive", "copy", "encode")


class RaisedError(Exception):
    """A source's own."""


def some_of(random: Random, usual: Any, other: Any, number: int) -> list[Any]:
    """Answers of one method."""
    return [other() if random.randrange(4) == 0 else usual for _ in range(number)]


def make(random: Random) -> bytes:
    kind = random.choice([*WEIGHTED, *NORMALIZATIONS])
    size = {name: random.choice([1, 2, 3, 4]) for name in ("o", "i", "k")}
    number = random.choice([1, 1, 2, 3, 4, 6])

    def another_size() -> dict[str, Any]:
        if random.randrange(5) == 0:
            return {"word": random.choice(WORDS)}
        changed = {random.choice([*size, "groups"]): random.choice(SIZES) for _ in range(2)}
        return {**size, **changed}

    def another_array() -> dict[str, Any]:
        if random.randrange(4) == 0:
            return {"word": random.choice(WORDS)}
        return {"count": random.choice(SIZES[:10]), "type": random.choice(ELEMENTS),
                "step": random.choice([1, 1, 2])}  # fmt: skip

    names = ("weights", "bias_terms") if kind in WEIGHTED else NORMALIZATIONS[kind]
    answers = {name: some_of(random, {}, another_array, number) for name in names}
    answers["sizes"] = some_of(random, size, another_size, number)
    answers["groups"] = some_of(random, 1, lambda: random.choice(SIZES), number)
    answers["load"] = some_of(random, "true", lambda: random.choice(WORDS), number)
    answers["type"] = some_of(random, "float32", lambda: random.choice(TYPES), number)
    answers["purge"] = some_of(random, "true", lambda: random.choice(WORDS[:4]), number)
    # Most answers are the usual ones, or most kernels would not be made.
    for name in list(answers):
        if random.randrange(2) == 0:
            answers[name] = answers[name][:1] if random.randrange(4) == 0 else []
    steps = [random.choice(STEPS) for _ in range(random.randrange(1, 6))]
    return json.dumps({"kind": kind, "on": random.choice(list(ON)), "size": size,
                       "answers": answers, "steps": steps}).encode()  # fmt: skip


WORD = {"none": None, "text": "text", "list": [1.0], "true": True, "false": False}


class Source:
    """Of every kind of kernel."""

    def __init__(self, size: dict[str, int], answers: dict[str, list[Any]]) -> None:
        self.size, self.answers, self.asked = size, answers, dict.fromkeys(answers, 0)
        self.handed: dict[str, Any] = {}
        self.loads = self.purges = 0

    def answer(self, name: str, usual: Any) -> Any:
        given = self.answers[name]
        self.asked[name] += 1
        return given[min(self.asked[name], len(given)) - 1] if given else usual

    def word(self, word: str) -> Any:
        if word == "raise":
            raise RaisedError
        return WORD[word]

    def sizes(self) -> dict[str, Any]:
        return self.answer("sizes", self.size)

    def array(self, name: str) -> Any:
        """Other numbers at each call."""
        given = self.answer(name, {})
        if "word" in given:
            made = self.word(given["word"])
        else:
            o, i, k = (self.size[key] for key in "oik")
            count = given.get("count", o * k * k * i if name == "weights" else o)
            step = given.get("step", 1)
            type = np.dtype(given.get("type", "float32"))
            made = (np.arange(count * step) % 5 + self.asked[name]).astype(type)[::step]
        self.handed[name] = made
        return made

    def load(self) -> Any:
        word = self.answer("load", "true")
        value = self.word(word)
        self.loads += word == "true"
        return value

    def purge(self) -> None:
        self.purges += 1
        self.word(self.answer("purge", "true"))

    def label(self) -> str:
        return "changing"

    @property
    def number_of_groups(self) -> Any:
        return self.answer("groups", 1)

    def number_of_feature_channels(self) -> Any:
        sizes = self.sizes()
        return self.word(sizes["word"]) if "word" in sizes else sizes["o"]

    def data_type(self) -> Any:
        return mps.MPSDataType[self.answer("type", "float32").upper()]

    def descriptor(self) -> Any:
        sizes = self.sizes()
        if "word" in sizes:
            return self.word(sizes["word"])
        made = mps.MPSCNNConvolutionDescriptor.cnn_convolution_descriptor(
            with_kernel_width=1, kernel_height=1, input_feature_channels=1,
            output_feature_channels=1,
        )  # fmt: skip
        made.kernel_width = made.kernel_height = sizes["k"]
        made.input_feature_channels, made.output_feature_channels = sizes["i"], sizes["o"]
        made.groups = sizes.get("groups", 1)
        return made

    def weights(self) -> Any:
        return self.array("weights")

    def bias_terms(self) -> Any:
        return self.array("bias_terms")

    def gamma(self) -> Any:
        return self.array("gamma")

    def beta(self) -> Any:
        return self.array("beta")

    def mean(self) -> Any:
        return self.array("mean")

    def variance(self) -> Any:
        return self.array("variance")


def refused(error: Exception) -> bool:
    if isinstance(error, tg.InternalError):
        return False
    typed = isinstance(error, TypeError) and str(error).startswith("[")
    return typed or isinstance(error, (tg.Error, RaisedError))


def numbers(kernel: Any, sizes: dict[str, int]) -> dict[str, np.ndarray]:
    """What a kernel has, by the names of its source's methods; nothing of a gradient kernel."""
    kind = type(kernel).__name__
    if "Gradient" in kind:
        return {}
    buffer = commands(kernel.device)
    if kind in WEIGHTED:
        state = kernel.export_weights_and_biases(buffer)
        finish(buffer)
        return {"weights": np.array(state.weights).ravel(), "bias_terms": np.array(state.biases)}
    x = pixels(sizes)
    out = empty(kernel.device, x.shape, "float32")
    kernel.encode_batch(buffer, source_images=batch(kernel.device, x), destination_images=out)
    state = kernel.result_state_batch(for_source_image=batch(kernel.device, x))[0]
    finish(buffer)
    # Properties of some states, methods of others.
    found = {name: getattr(state, name) for name in ("gamma", "beta")}
    read = {name: np.array(one() if callable(one) else one) for name, one in found.items()}
    return {**read, "results": array(out)}


def pixels(sizes: dict[str, int]) -> np.ndarray:
    return np.arange(2 * sizes["o"], dtype=np.float32).reshape(1, sizes["o"], 1, 2)


def check_taken(given: dict[str, Any], got: dict[str, np.ndarray], sizes: dict[str, int]) -> None:
    """What a kernel has is what its source has handed over, by name."""
    expected = {}
    for name, numbers in given.items():
        otherwise = float(name in ("gamma", "variance"))
        expected[name] = np.asarray(otherwise if numbers is None else numbers, np.float32)
        if name in got:
            shape = got[name].shape
            np.testing.assert_array_equal(got[name], np.broadcast_to(expected[name], shape), name)
    if "variance" not in expected:
        return
    gamma, beta, mean, variance = (
        np.broadcast_to(expected[name], sizes["o"])[:, None, None]
        for name in NORMALIZATIONS["MPSCNNBatchNormalization"]
    )
    with np.errstate(all="ignore"):
        results = gamma * (pixels(sizes) - mean) / np.sqrt(variance) + beta
    where = np.broadcast_to(variance > 0, results.shape)
    np.testing.assert_allclose(got["results"][where], results[where], rtol=1e-4, atol=1e-4)


def reload_methods(kernel: Any) -> list[str]:
    return [name for name in dir(kernel)
            if name.startswith("reload_") and name.endswith("from_data_source")]  # fmt: skip


def run(content: bytes) -> str:
    program = json.loads(content)
    with warnings.catch_warnings(action="ignore"):
        return of_program(program)


def of_program(program: dict[str, Any]) -> str:
    kind, sizes, device = program["kind"], program["size"], ON[program["on"]]
    argument = "weights" if kind in WEIGHTED else "data_source"
    source = Source(sizes, program["answers"])
    try:
        kernel = getattr(mps, kind)(device=device, **{argument: source})
    except Exception as error:
        if not refused(error):
            raise
        assert source.purges == source.loads
        return "not made"
    # Where the first answer of a source is another size, so is the kernel.
    made_of = program["answers"]["sizes"][:1] or [sizes]
    sizes = {**sizes, **made_of[0]}
    before, given = numbers(kernel, sizes), dict(source.handed)
    check_taken(given, before, sizes)
    word = "kept"
    for step in program["steps"]:
        source.handed.clear()
        changed = False
        try:
            if step == "reload":
                name = reload_methods(kernel)[-1 if source.loads % 2 else 0]
                getattr(kernel, name)()
                changed = True
            elif step == "other" and kind in NORMALIZATIONS and kind != "MPSCNNGroupNormalization":
                kernel.reload_data_source(source)
                changed = True
            elif step == "other" and kind in WEIGHTED[:3]:
                kernel.reload_weights_and_biases(with_data_source=source)
                changed = True
            elif step == "archive":
                data = mps.NSKeyedArchiver.archived_data(with_root_object=kernel)
                assert data
            elif step == "copy":
                numbers(kernel.copy(device=device), sizes)
            elif step == "encode" and kind == "MPSCNNConvolution":
                x = batch(device, np.ones((1, sizes["i"], 4, 4), np.float32))
                kernel.encode_batch(buffer := commands(device), source_images=x)
                finish(buffer)
        except Exception as error:
            # A purge() that raises comes after the numbers were taken.
            if isinstance(error, RaisedError) and "raise" in program["answers"]["purge"]:
                return "raised by purge()"
            if not refused(error):
                raise
            word = "refused"
            changed = False
        assert source.purges == source.loads
        now = numbers(kernel, sizes)
        if changed:
            word = "taken"
            given |= source.handed
            check_taken(given, now, sizes)
        else:
            for name, value in before.items():
                np.testing.assert_array_equal(now[name], value, err_msg=f"{step} of {name}")
        before = now
    return word
