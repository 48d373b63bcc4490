"""fit, evaluate and predict: the batch loop in one call."""

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
    epochs = one.training.fit({"x": one.x}, {"y": one.y}, epochs=3)
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
        classes = Classes()
        return [
            e.loss for e in classes.training.fit(classes.x, classes.y, epochs=4, shuffle_seed=seed)
        ]

    assert losses(3) == losses(3)
    assert losses(3) != losses(4)
    assert losses(3) != losses(None)


def test_every_sample_is_seen_once() -> None:
    """Labels of the one-element loss are read back: their sum over an epoch is known."""
    x = tg.MLCTensor(shape=[3, 1])
    y = tg.MLCTensor(shape=[3, 1])
    graph = tg.MLCGraph()
    graph.node(dense(1, 1, 1, "float32", biases=False), source=x)
    training = tg.MLCTrainingGraph(
        graph_objects=[graph], loss_layer=tg.MLCLossLayer.mean_absolute_error(reduction_type="sum")
    )
    training.add_inputs({"x": x}, loss_labels={"y": y})
    training.compile(device="cpu")
    samples = np.zeros((11, 1), np.float32)
    labels = 2.0 ** np.arange(11, dtype=np.float32).reshape(11, 1)
    epochs = training.fit(samples, labels, epochs=5, shuffle_seed=9)
    assert [epoch.loss for epoch in epochs] == [2047.0] * 5


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


def test_ctrl_c_stops_between_batches() -> None:
    import signal

    classes = Classes()
    previous = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(KeyboardInterrupt):
            classes.training.fit(classes.x, classes.y, epochs=10_000_000)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    classes.training.fit(classes.x, classes.y)


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
    with pytest.raises(ValueError, match=r"'x': .* shape of \(4, 5\) but got \(10, 4\)"):
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
