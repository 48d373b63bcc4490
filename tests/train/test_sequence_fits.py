"""Sequences of different lengths: each batch is sorted by them, whatever the order of samples."""

import re
from typing import Any

import numpy as np
import pytest

import traingraph as tg
from traingraph import nn

RNG = np.random.default_rng(1)
STEPS = RNG.normal(size=(45, 6, 3)).astype(np.float32)
LENGTHS = RNG.integers(0, 7, 45).astype(np.int32)
KINDS = (LENGTHS > 3).astype(np.int32)
DATA, LABELS = {"steps": STEPS, "length": LENGTHS}, {"kind": KINDS}


def network(length_shape: tuple[int, ...] = (8,)) -> tg.MLCTrainingGraph:
    tg.MLCPlatform.set_rng_seed_to(2)
    rng = np.random.default_rng(5)

    def gates(*shape: int) -> list[tg.MLCTensor]:
        draw = [rng.uniform(-0.5, 0.5, shape).astype(np.float32) for _ in range(4)]
        return [tg.MLCTensor(data=values) for values in draw]

    steps = tg.MLCTensor(shape=[8, 6, 3])
    length = tg.MLCTensor(shape=list(length_shape), data_type="int32")
    kind = tg.MLCTensor(shape=[8], data_type="int32")
    graph = tg.MLCGraph()
    flat = length if len(length_shape) == 1 else graph.reshape(shape=[8], source=length)
    layer = tg.MLCLSTMLayer(
        descriptor=tg.MLCLSTMDescriptor(input_size=3, hidden_size=4, returns_sequences=False),
        input_weights=gates(4, 3), hidden_weights=gates(4, 4), biases=gates(4))  # fmt: skip
    last = graph.node(layer, sources=[steps, flat])
    tg.sequential(graph, last, [nn.flatten(), nn.dense(2)])
    training = tg.MLCTrainingGraph(
        graph_objects=[graph],
        loss_layer=tg.MLCLossLayer.softmax_cross_entropy(reduction_type="mean"),
        optimizer=tg.MLCAdamOptimizer(learning_rate=0.02))  # fmt: skip
    training.add_inputs({"steps": steps, "length": length}, loss_labels={"kind": kind})
    training.compile(device="cpu")
    return training


def descending(rows: np.ndarray) -> np.ndarray:
    """Those of one length in their order."""
    return rows[np.argsort(-LENGTHS[rows], kind="stable")]


def in_order(order: np.ndarray) -> tuple[dict[str, Any], dict[str, Any]]:
    return {name: array[order] for name, array in DATA.items()}, {"kind": KINDS[order]}


def same(a: tg.MLCTrainingGraph, b: tg.MLCTrainingGraph) -> None:
    for name, values in a.state().items():
        np.testing.assert_array_equal(values, b.state()[name], err_msg=name)


def test_the_samples_of_a_batch_are_sorted() -> None:
    given, sorted_before = network(), network()
    batches = [descending(np.arange(first, min(first + 8, 45))) for first in range(0, 45, 8)]
    data, labels = in_order(np.concatenate(batches))
    expected = sorted_before.fit(data, labels, epochs=3, shuffle=False)
    found = given.fit(DATA, LABELS, epochs=3, shuffle=False)
    assert [epoch.loss for epoch in found] == [epoch.loss for epoch in expected]
    same(sorted_before, given)


def test_shuffled_batches_are_sorted_too() -> None:
    """As a loop of steps over the order that the fit of a seed has."""
    fitted, looped = network(), network()
    fitted.fit(DATA, LABELS, shuffle_seed=3)
    order = order_of(seed=3)
    assert sorted(order) == list(range(45))
    for first in range(0, 45, 8):
        rows = descending(order[first : first + 8])
        data, labels = in_order(rows)
        looped.execute(inputs_data=data, loss_labels_data=labels, batch_size=len(rows),
                       options="synchronous")  # fmt: skip
    same(looped, fitted)


def order_of(seed: int) -> np.ndarray:
    """Of the first epoch of 45 samples: a fit stops at the place of the one that is no number."""
    model = nn.model([nn.dense(1)], input=1, batch_size=1, loss="mse", device="cpu")
    state, places = model.state(), []
    for sample in range(45):
        x, y = np.zeros((2, 45, 1), np.float32)
        y[sample] = np.nan
        with pytest.raises(tg.NumericError) as error:
            model.fit(x, y, shuffle_seed=seed)
        model.load_state(state)
        places.append(int(re.findall(r"in step (\d+) of", str(error.value))[0]))
    return np.argsort(places)


def test_evaluations_and_predictions_keep_the_samples_apart() -> None:
    model = network()
    model.fit(DATA, LABELS, epochs=20, shuffle_seed=1, validation=(DATA, LABELS))
    order = descending(np.arange(45))
    data, labels = in_order(order)
    found, expected = model.predict(DATA), model.predict(data)
    np.testing.assert_allclose(found[order], expected, rtol=1e-5, atol=1e-6)
    metrics = ["confusion_matrix"]
    one = model.evaluate(DATA, labels=LABELS, metrics=metrics)
    other = model.evaluate(data, labels=labels, metrics=metrics)
    assert one.loss == pytest.approx(other.loss, rel=1e-5)
    np.testing.assert_array_equal(
        one.metrics["confusion_matrix"], other.metrics["confusion_matrix"]
    )
    assert one.accuracy == (model.predict(DATA).argmax(axis=1) == KINDS).mean()


def test_lengths_behind_a_reshape_sort_too() -> None:
    flat, column = network(), network((8, 1))
    flat.fit(DATA, LABELS, epochs=2, shuffle_seed=1)
    column.fit(DATA | {"length": LENGTHS[:, None]}, LABELS, epochs=2, shuffle_seed=1)
    values = zip(flat.state().values(), column.state().values(), strict=True)
    for one, other in values:
        np.testing.assert_array_equal(one, other)


def test_batches_of_an_iterable_are_sorted() -> None:
    expected, found = network(), network()
    expected.fit(DATA, LABELS, shuffle=False)
    parts = [slice(first, first + 8) for first in range(0, 45, 8)]
    found.fit(batches=[({n: a[p] for n, a in DATA.items()}, KINDS[p]) for p in parts])
    same(expected, found)


def test_a_wrong_length_is_named_by_its_sample() -> None:
    lengths = LENGTHS.copy()
    lengths[30] = 7
    with pytest.raises(ValueError, match=r"a length from 0 to 6 but got 7 at \(30,\)"):
        network().fit(DATA | {"length": lengths}, LABELS, shuffle_seed=1)


def test_what_would_stay_in_its_place_is_refused() -> None:
    model, weights = network(), tg.MLCTensor(shape=[8])
    model.add_inputs({}, loss_label_weights={"w": weights})
    ones = np.ones(8, np.float32)
    model.bind_and_write_data({"w": ones}, for_inputs={"w": weights}, batch_size=8)
    for call in (model.fit, model.evaluate):
        given = {"shuffle": False} if call == model.fit else {}
        with pytest.raises(ValueError, match="samples of 'w' too, label weights, whose rows stay "
                                             "in their places while the others are sorted by "
                                             "their lengths; pass them"):  # fmt: skip
            call(DATA, LABELS, **given)
        data, labels = in_order(descending(np.arange(8)))
        call(data, labels, **given)


@pytest.mark.parametrize("how", ["fit", "batches", "evaluate", "predict"])
def test_two_lengths_are_refused_before_the_first_step(how: str) -> None:
    """LSTM layers read both, and an order descends by one of them."""
    model, other = two_lengths(), LENGTHS[::-1].copy()
    data = {"a": STEPS, "b": STEPS, "first": LENGTHS[:, None], "second": other[:, None]}
    before = model.state()
    calls: dict[str, Any] = {
        "fit": lambda: model.fit(data, KINDS),
        "batches": lambda: model.fit(batches=[(data, KINDS)]),
        "evaluate": lambda: model.evaluate(data, KINDS),
        "predict": lambda: model.predict(data),
    }
    text = "inputs 'first' and 'second' of the same lengths, by which the samples of a batch are"
    with pytest.raises(tg.InvalidArgument, match=text):
        calls[how]()
    if how == "fit":
        with pytest.raises(tg.InvalidArgument, match=text):
            model.fit(data | {"second": data["first"]}, KINDS, validation=(data, KINDS))
    for name, values in model.state().items():
        np.testing.assert_array_equal(values, before[name], err_msg=name)
    data["second"] = data["first"].copy()
    calls[how]()


def test_two_lengths_that_descend_as_given_are_trained_by() -> None:
    down = np.sort(LENGTHS)[::-1][:, None].copy()
    data = {"a": STEPS, "b": STEPS, "first": down, "second": np.minimum(down, 3)}
    model = two_lengths()
    assert model.fit(data, KINDS, shuffle=False)[0].steps == 6
    assert model.predict(data).shape == (45, 2)
    with pytest.raises(tg.InvalidArgument, match="of the same lengths"):
        model.fit(data, KINDS)


def two_lengths() -> tg.MLCTrainingGraph:
    a, b = (nn.Input((6, 3), name=name) for name in "ab")
    first, second = (nn.Input(1, name=name, data_type="int32") for name in ("first", "second"))
    both = nn.concatenate([nn.lstm(4)(a, first), nn.lstm(4)(b, second)])
    inputs = [a, b, first, second]
    return nn.model(inputs=inputs, outputs=nn.dense(2)(both), batch_size=8, device="cpu")
