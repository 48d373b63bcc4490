"""The batch loop in one call: fit, evaluate and predict."""

import dataclasses
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from networks import Network, array, dense

import traingraph as tg

SAMPLES = 10  # in batches of 4: the last one has 2


class Classes:
    """Ten points in five dimensions, three classes."""

    def __init__(self, device: str = "cpu", loss: str = "softmax_cross_entropy") -> None:
        self.x = array((SAMPLES, 5), 1, "float32")
        self.y = (self.x[:, 0] > 0).astype(np.int32) + (self.x[:, 1] > 0)
        x = tg.MLCTensor(shape=[4, 5])
        y = tg.MLCTensor(shape=[4], data_type="int32")
        self.graph = tg.MLCGraph()
        self.layer = dense(3, 5, 2, "float32")
        self.logits = self.graph.node(self.layer, source=x)
        self.training = tg.MLCTrainingGraph(
            graph_objects=[self.graph],
            loss_layer=getattr(tg.MLCLossLayer, loss)(reduction_type="mean"),
            optimizer=tg.MLCAdamOptimizer(learning_rate=0.05),
        )
        self.source = x
        self.training.add_inputs({"x": x}, loss_labels={"y": y})
        self.training.compile(device=device)

    def logits_by_numpy(self) -> np.ndarray:
        self.training.synchronize_updates()
        return self.x @ self.layer.weights.data.T + self.layer.biases.data


def by_hand(classes: Classes, order: Any, epochs: int) -> list[float]:
    losses = []
    for epoch in range(epochs):
        rows = order(epoch)
        total = 0.0
        for first in range(0, SAMPLES, 4):
            some = rows[first : first + 4]
            handle = classes.training.execute(
                inputs_data={"x": classes.x[some]},
                loss_labels_data={"y": classes.y[some]},
                batch_size=len(some),
                options="synchronous",
            )
            total += float(handle.result) * len(some)
        losses.append(total / SAMPLES)
    return losses


def test_fit_is_the_loop_one_would_write() -> None:
    one, other = Classes(), Classes()
    epochs = one.training.fit({"x": one.x}, {"y": one.y}, epochs=3, shuffle=False)
    expected = by_hand(other, lambda epoch: np.arange(SAMPLES), 3)
    assert [epoch.loss for epoch in epochs] == pytest.approx(expected, rel=1e-12)
    assert [epoch.number for epoch in epochs] == [1, 2, 3]
    assert all(epoch.steps == 3 and epoch.seconds > 0 for epoch in epochs)
    np.testing.assert_array_equal(one.logits_by_numpy(), other.logits_by_numpy())


def test_arrays_stand_for_the_only_tensor() -> None:
    one, other = Classes(), Classes()
    one.training.fit(one.x, one.y)
    other.training.fit({"x": other.x}, {"y": other.y})
    np.testing.assert_array_equal(one.logits_by_numpy(), other.logits_by_numpy())


def test_a_seed_shuffles_and_repeats() -> None:
    def losses(seed: int | None) -> list[float]:
        tg.MLCPlatform.set_rng_seed_to(9)  # what None takes
        classes = Classes()
        return [
            e.loss for e in classes.training.fit(classes.x, classes.y, epochs=4, shuffle_seed=seed)
        ]

    assert losses(3) == losses(3)
    assert losses(3) != losses(4)
    assert losses(3) != losses(None)


def test_without_a_seed_the_graph_has_one() -> None:
    def fitted(platform: int, **arguments: Any) -> list[Any]:
        tg.MLCPlatform.set_rng_seed_to(platform)
        classes = Classes()
        return classes.training.fit(classes.x, classes.y, epochs=3, **arguments)

    epochs = fitted(7)
    losses = [epoch.loss for epoch in epochs]
    assert [epoch.shuffle_seed for epoch in epochs] == [7, 7, 7]
    assert [epoch.loss for epoch in fitted(7)] == losses
    assert [epoch.loss for epoch in fitted(8, shuffle_seed=7)] == losses
    assert [epoch.loss for epoch in fitted(8)] != losses
    in_order = fitted(7, shuffle=False)
    assert [epoch.shuffle_seed for epoch in in_order] == [None, None, None]
    assert [epoch.loss for epoch in in_order] != losses


@pytest.mark.parametrize("micro", [1, 2])
def test_a_resumed_training_goes_on_with_its_order(micro: int) -> None:
    whole, half, rest = Classes(), Classes(), Classes()
    for one in (whole, half, rest):
        one.training.micro_batches = micro
    losses = [epoch.loss for epoch in whole.training.fit(whole.x, whole.y, epochs=5)]
    half.training.fit(half.x, half.y, epochs=2)
    rest.training.load_state(half.training.state())
    resumed = rest.training.fit(rest.x, rest.y, epochs=3)
    assert [epoch.loss for epoch in resumed] == losses[2:]
    np.testing.assert_array_equal(rest.logits_by_numpy(), whole.logits_by_numpy())


def test_no_order_has_no_seed() -> None:
    classes = Classes()
    with pytest.raises(tg.InvalidArgument, match=r"\[fit\] expected no shuffle_seed .* but got 3"):
        classes.training.fit(classes.x, classes.y, shuffle=False, shuffle_seed=3)
    with pytest.raises(TypeError, match="expected shuffle: bool"):
        classes.training.fit(classes.x, classes.y, shuffle=1)


def test_every_sample_is_seen_once() -> None:
    """Labels of the one-element loss are read back: their sum over an epoch is known."""
    x = tg.MLCTensor(shape=[3, 1])
    y = tg.MLCTensor(shape=[3, 1])
    graph = tg.MLCGraph()
    graph.node(dense(1, 1, 1, "float32", biases=False), source=x)
    training = tg.MLCTrainingGraph(
        graph_objects=[graph],
        loss_layer=tg.MLCLossLayer.mean_absolute_error(reduction_type="sum"),
        optimizer=tg.MLCSGDOptimizer(learning_rate=0.0),
    )
    training.add_inputs({"x": x}, loss_labels={"y": y})
    training.compile(device="cpu")
    samples = np.zeros((11, 1), np.float32)
    labels = 2.0 ** np.arange(11, dtype=np.float32).reshape(11, 1)
    epochs = training.fit(samples, labels, epochs=5, shuffle_seed=9)
    epochs += training.fit(samples, labels, epochs=5)
    assert [epoch.loss for epoch in epochs] == [2047.0] * 10


def test_on_epoch_sees_and_stops() -> None:
    classes = Classes()
    seen: list[Any] = []

    def on_epoch(epoch: Any) -> bool:
        seen.append(epoch.loss)
        return len(seen) < 2

    epochs = classes.training.fit(classes.x, classes.y, epochs=50, on_epoch=on_epoch)
    assert [epoch.loss for epoch in epochs] == seen
    assert len(seen) == 2


def test_what_on_epoch_raises_comes_through() -> None:
    classes = Classes()

    def on_epoch(epoch: Any) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        classes.training.fit(classes.x, classes.y, epochs=5, on_epoch=on_epoch)
    classes.training.fit(classes.x, classes.y)


MANY = 2_000_000  # batches, of some microseconds each
LOOPS: dict[str, Callable[[Classes], object]] = {
    "fit": lambda one: one.training.fit(one.x, one.y, epochs=10_000_000),
    "evaluate": lambda one: one.training.evaluate(
        np.zeros((MANY, 5), np.float32), np.zeros(MANY, np.int32), batch_size=1
    ),
    "predict": lambda one: one.training.predict(np.zeros((MANY, 5), np.float32), batch_size=1),
}


@pytest.mark.parametrize("loop", LOOPS)
def test_ctrl_c_stops_between_batches(loop: str) -> None:
    import signal

    classes = Classes()
    previous = signal.signal(signal.SIGALRM, signal.default_int_handler)
    begun = time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(KeyboardInterrupt):
            LOOPS[loop](classes)
        assert time.monotonic() - begun < 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    classes.training.fit(classes.x, classes.y)


def test_an_exception_that_takes_no_attributes_is_raised_as_it_is() -> None:
    @dataclasses.dataclass(frozen=True)
    class StoppedError(Exception):
        why: str

    def on_epoch(epoch: tg.Epoch) -> None:
        raise StoppedError("enough")

    classes = Classes()
    with pytest.raises(StoppedError) as raised:
        classes.training.fit(classes.x, classes.y, on_epoch=on_epoch)
    assert raised.value.why == "enough"


def test_the_seed_of_an_epoch_can_be_given_whatever_a_checkpoint_has() -> None:
    one, other = Classes(), Classes()
    one.training.load_state({**one.training.state(), "state.random_seed": np.array(-5, np.int64)})
    seed = one.training.fit(one.x, one.y)[0].shuffle_seed
    other.training.fit(other.x, other.y, shuffle_seed=seed)
    np.testing.assert_array_equal(one.logits_by_numpy(), other.logits_by_numpy())


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_evaluate(device: str) -> None:
    classes = Classes(device)
    classes.training.fit(classes.x, classes.y, epochs=20)
    logits = classes.logits_by_numpy()
    result = classes.training.evaluate(classes.x, classes.y)
    picked = np.exp(logits - logits.max(1, keepdims=True))
    picked /= picked.sum(1, keepdims=True)
    expected = -np.log(picked[np.arange(SAMPLES), classes.y]).mean()
    assert result.loss == pytest.approx(expected, rel=1e-5)
    assert result.accuracy == (logits.argmax(1) == classes.y).mean()
    ignored = classes.y.copy()
    ignored[3:] = -1
    some = classes.training.evaluate(classes.x, ignored)
    assert some.accuracy == (logits.argmax(1) == classes.y)[:3].mean()


def test_evaluate_with_distributions_and_without_classes() -> None:
    network = Network("float32")
    training = network.training()
    training.compile(device="cpu")
    result = training.evaluate(network.data, network.labels)
    assert result.accuracy is None
    got = training.predict(network.data)
    assert result.loss == pytest.approx(((got - network.labels["y"]) ** 2).mean(), rel=1e-5)


@pytest.mark.parametrize("kind", ["training", "inference"])
def test_predict_needs_no_labels(kind: str) -> None:
    classes = Classes()
    graph: Any = classes.training
    if kind == "inference":
        graph = tg.MLCInferenceGraph(graph_objects=[classes.graph])
        graph.add_inputs({"x": classes.graph.source_tensors(classes.layer)[0]})
        graph.compile(device="cpu")
    got = graph.predict(classes.x)
    assert got.shape == (SAMPLES, 3)
    np.testing.assert_allclose(got, classes.logits_by_numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(graph.predict(classes.x, batch_size=10), got, atol=1e-6)


def test_predict_leaves_dropout_off() -> None:
    network = Network("float32", dropout=0.5)
    training = network.training()
    training.compile(device="cpu")
    np.testing.assert_array_equal(training.predict(network.data), training.predict(network.data))


def test_samples_that_do_not_fit() -> None:
    classes = Classes()
    fit = classes.training.fit
    with pytest.raises(ValueError, match=r"expected 10 samples .* but got 9"):
        fit(classes.x, classes.y[:9])
    with pytest.raises(ValueError, match=r"'x': expected samples, \(N, 5\), but got \(10, 4\)"):
        fit(classes.x[:, :4], classes.y)
    with pytest.raises(TypeError, match="'y'"):
        fit(classes.x, classes.y.astype(np.float32))
    with pytest.raises(ValueError, match="'z'"):
        fit({"z": classes.x}, classes.y)
    with pytest.raises(ValueError, match="at least 1 epoch but got 0"):
        fit(classes.x, classes.y, epochs=0)
    with pytest.raises(ValueError, match="batch size of at least 0"):
        fit(classes.x, classes.y, batch_size=-1)
    with pytest.raises(ValueError, match=r"expected samples but got none|expected data"):
        fit({}, {})
    fit(classes.x, classes.y)


def test_errors_name_the_call() -> None:
    training = Classes().training
    x = np.ones((4, 5), np.float32)
    for call in (training.fit, training.evaluate):
        with pytest.raises(ValueError, match=rf"\[{call.__name__}\] expected labels for 'y'"):
            call(x)
    with pytest.raises(ValueError, match=r"\[predict\] expected a batch size of at least 0"):
        training.predict(x, batch_size=-3)
    without_loss = tg.MLCTrainingGraph(graph_objects=[Classes().graph])
    for call in (without_loss.fit, without_loss.evaluate):
        with pytest.raises(ValueError, match=rf"\[{call.__name__}\] expected a graph with a loss"):
            call({})


def test_a_fixed_batch_is_refused_before_training() -> None:
    x = tg.MLCTensor(shape=[4, 2])
    y = tg.MLCTensor(shape=[8])
    graph = tg.MLCGraph()
    weights = tg.MLCTensor(data=np.ones((1, 2), np.float32))
    scaled = graph.node(tg.MLCArithmeticLayer(operation="multiply"), sources=[x, weights])
    graph.reshape(shape=[8], source=scaled)
    training = tg.MLCTrainingGraph(
        graph_objects=[graph],
        loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="mean"),
    )
    training.add_inputs({"x": x}, loss_labels={"y": y})
    training.compile(device="cpu")
    declared = r"common extent on axis 0 .*'x' \(4, 2\), 'y' \(8,?\)"
    with pytest.raises(ValueError, match=declared + r"\), but got 6"):
        training.execute(inputs_data={}, batch_size=6)
    with pytest.raises(ValueError, match=declared):
        training.fit(np.ones((6, 2), np.float32), np.ones((6,), np.float32))


def test_integers_out_of_range_name_the_row() -> None:
    classes = Classes()
    labels = classes.y.copy()
    labels[6] = 3
    with pytest.raises(ValueError, match="expected a class from 0 to 2 or -1 but got 3"):
        classes.training.fit(classes.x, labels)


def test_options_that_say_something_of_one_execution_are_refused() -> None:
    classes = Classes()
    for option in ("profiling", "per_layer_profiling", "forward_for_inference"):
        with pytest.raises(tg.InvalidArgument, match=rf"\[fit\] .* but got {option.upper()}"):
            classes.training.fit(classes.x, classes.y, options=option)
    classes.training.fit(classes.x, classes.y, options="synchronous")


def weights_after(steps: int, device: str) -> np.ndarray:
    """Logits of a network that was trained by so many steps in order, three an epoch."""
    other = Classes(device)
    for step in range(steps):
        some = slice(4 * (step % 3), 4 * (step % 3) + 4)
        other.training.execute(
            inputs_data={"x": other.x[some]}, loss_labels_data={"y": other.y[some]}
        )
    return other.logits_by_numpy()


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_a_step_that_fails_is_named_and_the_weights_are_those_before(device: str) -> None:
    classes = Classes(device)
    bad = classes.x.copy()

    def spoil(epoch: tg.Epoch) -> None:
        bad[5, 1] = np.nan  # in the second step

    with pytest.raises(tg.NumericError, match=r"in step 2 of epoch 2$") as raised:
        classes.training.fit(
            bad, classes.y, epochs=4, shuffle=False, options="check_numerics", on_epoch=spoil
        )
    assert [epoch.number for epoch in raised.value.epochs] == [1]
    np.testing.assert_array_equal(classes.logits_by_numpy(), weights_after(4, device))


@pytest.mark.parametrize("device", ["cpu"])
def test_what_is_refused_amid_an_epoch(device: str) -> None:
    classes = Classes(device)
    wrong = classes.y.copy()

    def spoil(epoch: tg.Epoch) -> None:
        wrong[9] = 7  # in the third step

    with pytest.raises(tg.InvalidArgument, match=r"got 7 .*in step 3 of epoch 2$") as raised:
        classes.training.fit(classes.x, wrong, epochs=2, shuffle=False, on_epoch=spoil)
    assert [epoch.number for epoch in raised.value.epochs] == [1]
    np.testing.assert_array_equal(classes.logits_by_numpy(), weights_after(5, device))


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("shuffle", [True, False])
def test_a_label_out_of_range_is_refused_before_the_first_step(device: str, shuffle: bool) -> None:
    """Wherever it lies, also in the last batch, which is a smaller one."""
    classes = Classes(device)
    before = classes.logits_by_numpy().copy()
    for row in (0, 9):
        wrong = classes.y.copy()
        wrong[row] = 7
        with pytest.raises(tg.InvalidArgument, match=rf"got 7 in row {row} at layer") as raised:
            classes.training.fit(classes.x, wrong, shuffle=shuffle)
        assert not hasattr(raised.value, "epochs")  # none has begun
    np.testing.assert_array_equal(classes.logits_by_numpy(), before)


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("row", [0, 5, 9])
def test_a_sample_is_named_by_its_row_in_the_given_array(device: str, row: int) -> None:
    for seed in range(6):
        classes = Classes(device)
        wrong = classes.y.copy()
        wrong[row] = 7
        with pytest.raises(tg.InvalidArgument, match=rf"got 7 in row {row} at layer"):
            classes.training.fit(classes.x, wrong, shuffle_seed=seed)
    for call in (classes.training.evaluate, partial(classes.training.fit, shuffle=False)):
        with pytest.raises(tg.InvalidArgument, match=rf"got 7 in row {row} at layer"):
            call(classes.x, wrong)


def words_network() -> tuple[tg.MLCTrainingGraph, np.ndarray, np.ndarray]:
    """Embedded words (10, 2) of 5, and labels."""
    words = np.random.default_rng(4).integers(0, 5, (SAMPLES, 2)).astype(np.int32)
    x, y = tg.MLCTensor(shape=[4, 2], data_type="int32"), tg.MLCTensor(shape=[4, 2, 3])
    graph = tg.MLCGraph()
    graph.node(
        tg.MLCEmbeddingLayer(
            descriptor=tg.MLCEmbeddingDescriptor(embedding_count=5, embedding_dimension=3),
            weights=tg.MLCTensor(data=array((5, 3), 3, "float32")),
        ),
        source=x,
    )
    training = tg.MLCTrainingGraph(
        graph_objects=[graph], loss_layer=tg.MLCLossLayer.mean_squared_error("mean"),
        optimizer=tg.MLCSGDOptimizer(learning_rate=0.1),
    )  # fmt: skip
    training.add_inputs({"x": x}, loss_labels={"y": y})
    training.compile(device="cpu")
    return training, words, array((SAMPLES, 2, 3), 5, "float32")


@pytest.mark.parametrize("row", [1, 8])
def test_an_index_is_named_by_its_place_in_the_given_array(row: int) -> None:
    training, words, labels = words_network()
    before = training.state()
    words[row, 1] = 9
    place = rf"got 9 at \({row}, 1\) at layer"
    for seed in range(4):
        with pytest.raises(tg.InvalidArgument, match=place):
            training.fit(words, labels, shuffle_seed=seed)
    for name, values in training.state().items():
        np.testing.assert_array_equal(values, before[name], err_msg=name)
    for call in (partial(training.evaluate, words, labels), partial(training.predict, words)):
        with pytest.raises(tg.InvalidArgument, match=place):
            call()
    # A step of its own has no other samples.
    with pytest.raises(tg.InvalidArgument, match=r"got 9 at \(0, 1\) at layer"):
        training.execute(
            inputs_data={"x": words[row : row + 1]}, loss_labels_data={"y": labels[:1]}
        )


def test_a_step_is_named_once() -> None:
    classes = Classes()
    classes.training.fit(classes.x, classes.y)
    bad = classes.x.copy()
    bad[5, 1] = np.nan
    with pytest.raises(tg.NumericError) as raised:
        classes.training.fit(bad, classes.y, shuffle=False, options="check_numerics")
    assert str(raised.value).endswith(" in the forward phase in step 2 of epoch 1")
    with pytest.raises(tg.NumericError, match=r" in the forward phase of step 5$"):
        classes.training.execute(
            inputs_data={"x": bad[4:8]}, loss_labels_data={"y": classes.y[4:8]},
            options="check_numerics|synchronous",
        )  # fmt: skip


@pytest.mark.parametrize("device", ["cpu"])
def test_ctrl_c_tells_where_it_was(device: str) -> None:
    import re
    import signal

    classes = Classes(device)
    previous = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(KeyboardInterrupt) as raised:
            classes.training.fit(classes.x, classes.y, epochs=10_000_000, shuffle=False)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    place = re.fullmatch(r"after step (\d) of epoch (\d+)", str(raised.value))
    assert place
    assert len(raised.value.epochs) == int(place[2]) - 1
    done = 3 * (int(place[2]) - 1) + int(place[1])
    np.testing.assert_array_equal(classes.logits_by_numpy(), weights_after(done, device))


def test_what_on_epoch_raises_has_the_epochs() -> None:
    classes = Classes()

    def on_epoch(epoch: Any) -> None:
        if epoch.number == 2:
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine") as raised:
        classes.training.fit(classes.x, classes.y, epochs=5, on_epoch=on_epoch)
    assert [epoch.number for epoch in raised.value.epochs] == [1]
    assert raised.value.__notes__ == ["fit ended after step 3 of epoch 2"]


@pytest.mark.parametrize("device", ["cpu"])
def test_a_shuffled_batch_stays_readable_after_fit(device: str) -> None:
    """Its rows lie in a buffer of the fit's."""
    classes = Classes(device)
    classes.training.fit(classes.x, classes.y, epochs=2, batch_size=4, shuffle_seed=3)
    rows = np.zeros((4, 5), np.float32)  # the last batch fills two
    classes.source.copy_data_from_device_memory(rows)
    assert all((row == classes.x).all(1).any() for row in rows[:2])
