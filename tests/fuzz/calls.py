"""Target: calls over values that answer otherwise than their class promises, in several locales.

An input is a list of seeds, one for each call: a constructor, function, method or setter of the
public surface by its signature, or one that is given arrays by name. Arguments are right, or
arrays of a class that lies about itself, texts and numbers with methods of their own, released
memory, dictionaries and lists that their items change. Every refusal is a typed error in the
library's words, and a graph that all calls of an input share computes what it did before.
"""

import functools
import gc
import json
import locale
import os
import pickle
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import odd_values
import program_parts
import programs
from programs import FORMS, NAMES, RECEIVERS, Draw
from signatures import Form

import traingraph as tg

corpus = Path(__file__).parent / "corpus" / "calls"
COUNT = 100
"""Calls of an input."""
NOT_CALLED = {"set_num_threads"}
SHAPE = (2, 4, 5, 5)
REFUSALS = (AttributeError, BufferError, LookupError, OSError, TypeError, ValueError, tg.Error)
PLACE: dict[str, Any] = dict(vars(program_parts))


def make(random: Random) -> bytes:
    return json.dumps([random.randrange(2**32) for _ in range(COUNT)]).encode()


def smaller(content: bytes) -> Iterator[bytes]:
    seeds = json.loads(content)
    size = len(seeds) // 2
    while size > 0:
        for begin in range(0, len(seeds), size):
            yield json.dumps(seeds[:begin] + seeds[begin + size :]).encode()
        size //= 2


# --- values --------------------------------------------------------------------------------------


class Number:
    """A number that changes something when it is read."""

    def __init__(self, number: float, change: Callable[[], object]) -> None:
        self.number, self.change = number, change

    def __index__(self) -> int:
        self.change()
        return int(self.number)

    def __float__(self) -> float:
        self.change()
        return float(self.number)


def array(random: Random) -> np.ndarray:
    shape = random.choice([SHAPE, SHAPE, SHAPE[:1], (2, 100), (), (0, 3)])
    kind = random.choice(["f4", "f4", "f8", "f2", "i4", "i8", "u1", "?", ">f4", "c8", "O", "U2"])
    values = np.zeros(shape, kind)
    if values.ndim and random.random() < 0.3:
        values = np.repeat(values, 2, axis=0)[::2]
    return values


def offered(random: Random, change: Callable[[], object]) -> Any:
    """An array, offered in one of many ways."""
    values = array(random)
    ways: list[Callable[[], Any]] = [
        lambda: values,
        lambda: odd_values.lying(values),
        lambda: np.ma.masked_array(values, mask=random.random() < 0.5),
        lambda: odd_values.Changing(values, change),
        lambda: odd_values.ChangingByDlpack(values, change),
        lambda: memoryview(np.ascontiguousarray(values)),
        lambda: bytearray(values.nbytes) if values.dtype != object else b"",
        lambda: values.tolist(),
        lambda: [[Number(1, change)] * 4] * 2,
        lambda: tg.MLCTensor(data=np.zeros(SHAPE, np.float32)),
        lambda: tg.MLCTensor(data=np.zeros(SHAPE, np.float32)).device_data(),
    ]
    return random.choice(ways)()


def named(random: Random, *names: str) -> Any:
    """Arrays by name, some of which change the dictionary."""
    data: dict[Any, Any] = {}
    change = random.choice([odd_values.emptied(data), data.clear, lambda: data.update(x0=1)])
    for name in names:
        key = "".join([name[:1], name[1:]])
        key = random.choice([key, key, key, odd_values.Text(key), key + "?", 3])
        data[key] = offered(random, change)
    return random.choice([data, data, data, list(data), None, dict(data)])


def odd(random: Random) -> Any:
    items: list[Any] = []
    change = random.choice([items.clear, lambda: items.append(1) if len(items) < 9 else None])
    items += [random.choice([1, 2, Number(2, change)]) for _ in range(random.randint(1, 4))]
    ways: list[Callable[[], Any]] = [
        lambda: items,
        lambda: tuple(items),
        lambda: Number(2, gc.collect),
        lambda: odd_values.Text(random.choice(["linear", "x0", "SIGMOID", "\ud800", ""])),
        lambda: random.choice([None, True, -1, 0, 3, 2**70, 10**5000, 0.5, float("nan"), b"\xff"]),
        lambda: random.choice(["linear", "int32", "divide", "mixed_float16", "\ud800", "cpu"]),
        lambda: offered(random, items.clear),
        lambda: named(random, "x0"),
        odd_values.released,
        odd_values.closed,
        odd_values.Nameless,
        lambda: odd_values.Nameless,
        odd_values.Undecided,
        lambda: random.choice([tg.MLCDropoutLayer(rate=0.5), tg.MLCGraph(), tg.MLCTensor]),
        lambda: int.__new__(random.choice([tg.MLCDataType, tg.MLCExecutionOptions]), 77),
    ]
    return random.choice(ways)()


# --- calls ---------------------------------------------------------------------------------------


class Shared:
    """What the calls of one input are made on."""

    def __init__(self) -> None:
        self.graph = program_parts.inference()
        self.training = program_parts.trained()
        self.expected = self.computed()
        self.receivers: dict[str, Any] = {}

    def computed(self) -> Any:
        data = np.linspace(-1, 1, 200, dtype=np.float32).reshape(SHAPE)
        return self.graph.execute(inputs_data={"x0": data}, options="synchronous").result

    def receiver(self, name: str, random: Random) -> Any:
        if name not in self.receivers:
            draw = Draw(random)
            draw.share = 0.0
            self.receivers[name] = evaluated(RECEIVERS.get(name) or draw.made(name))
        return self.receivers[name]


def evaluated(text: str) -> Any:
    try:
        return eval(text, PLACE)
    except NameError as error:
        raise LookupError(text) from error  # it takes what a whole program has


def drawn(form: Form, shared: Shared, random: Random) -> None:
    draw = Draw(random)
    draw.share = 0.0
    given, by_name = list[Any](), dict[str, Any]()
    for place, (name, type, may) in enumerate(form.arguments):
        if may and random.random() < 0.6:
            continue
        text = draw.value(type, name) if random.random() < 0.6 else None
        value = odd(random) if text is None else evaluated(text)
        if place >= len(form.arguments) - form.keywords or len(given) < place:
            by_name[odd_values.Text(name) if random.random() < 0.1 else name] = value
        else:
            given.append(value)
    if form.kind == "setter":
        setattr(shared.receiver(form.owner, random), form.name, *given, *by_name.values())
    elif form.kind == "method":
        getattr(shared.receiver(form.owner, random), form.name)(*given, **by_name)
    else:
        owner = evaluated(f"{form.module}.{form.owner}")
        call = owner if form.kind in ("constructor", "function") else getattr(owner, form.name)
        call(*given, **by_name)


def feeding(shared: Shared, random: Random) -> None:
    """A call that takes arrays by name."""
    graph = random.choice([shared.graph, shared.training])
    labels = {"labels": np.zeros(SHAPE, np.float32)}
    state = shared.training.state()
    ways: list[Callable[[], Any]] = [
        lambda: graph.execute(inputs_data=named(random, "x0"), options="synchronous"),
        lambda: shared.training.execute(
            inputs_data=named(random, "x0"), loss_labels_data=named(random, "labels"),
            loss_label_weights_data=named(random, "w"), options=odd(random)),
        lambda: graph.execute(inputs_data=named(random, "x0"), outputs_data=named(random, "y")),
        lambda: graph.execute(inputs_data=named(random, "x0"), batch_size=odd(random)),
        lambda: graph.predict(named(random, "x0")),
        lambda: graph.predict(offered(random, gc.collect)),
        lambda: shared.training.fit(named(random, "x0"), labels=labels, batch_size=2),
        lambda: shared.training.evaluate(named(random, "x0"), labels=named(random, "labels")),
        lambda: graph.bind_and_write_data(
            named(random, "x0"), for_inputs={"x0": program_parts.tensor()}),
        lambda: shared.training.load_state(named(random, *state)),
        lambda: tg.MLCTensor(data=offered(random, gc.collect)),
        lambda: tg.MLCTensorData(bytes_no_copy=offered(random, gc.collect)),
        lambda: tg.MLCTensor(shape=[2], data=[1.0, 2.0]).__dlpack__(
            copy=odd(random), max_version=odd(random), dl_device=odd(random)),
    ]  # fmt: skip
    random.choice(ways)()


def changing_class(shared: Shared, random: Random) -> None:
    one = shared.receiver(random.choice(["MLCGraph", "MLCTrainingGraph", "MPSNNImageNode"]), random)
    other = evaluated(random.choice(["tg.MLCTensor", "tg.MLCDropoutLayer", "mps.MPSImage"]))
    random.choice([
        lambda: setattr(one, "__class__", other),
        lambda: type("Both", (type(one), other), {}),
        lambda: other.__init__(one),
        lambda: other.__new__(other).__init__(one),
        lambda: repr(other.__new__(other)),
        lambda: pickle.loads(pickle.dumps(other.__new__(other))),
    ])()  # fmt: skip


CALLED = [name for name in NAMES if FORMS[name] and name not in NOT_CALLED]


def call(seed: int, shared: Shared) -> None:
    random = Random(seed)
    kind = random.random()
    if kind < 0.3:
        feeding(shared, random)
    elif kind < 0.33:
        changing_class(shared, random)
    else:
        form = random.choice(FORMS[random.choice(CALLED)])
        if form.name not in programs.ENCODINGS:
            drawn(form, shared, random)


def check(error: Exception, seed: int) -> None:
    """What a call raises is a refusal in the library's words, or a value's own error."""
    foreign = [words for words in odd_values.FOREIGN if words in str(error)]
    known = isinstance(error, (*REFUSALS, odd_values.OddError))
    assert known, f"call {seed}: {type(error).__name__}: {error}"
    assert not foreign, f"call {seed}: {error}"


@functools.cache
def locales() -> list[str]:
    """Those that this machine has, of which some tell letters and numbers apart in other ways."""
    found = []
    for name in ("C", "C.UTF-8", "tr_TR.UTF-8", "de_DE.UTF-8"):
        try:
            locale.setlocale(locale.LC_ALL, name)
            found.append(name)
        except locale.Error:
            continue
    os.chdir(tempfile.mkdtemp(prefix="traingraph-calls-"))  # texts may be names of files
    return found


def run(content: bytes) -> str:
    seeds = json.loads(content)
    every = locales()
    locale.setlocale(locale.LC_ALL, every[sum(seeds) % len(every)])
    shared, ran = Shared(), 0
    for seed in seeds:
        try:
            with warnings.catch_warnings(action="ignore"):
                call(seed, shared)
            ran += 1
        except Exception as error:
            check(error, seed)
    np.testing.assert_array_equal(shared.computed(), shared.expected)
    return f"{ran // 10}0 of {len(seeds)} ran"
