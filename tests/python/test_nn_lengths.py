"""Blocks over sequences of unequal length: attention and LSTM are called with the lengths."""

from typing import Any

import numpy as np
import pytest

import traingraph as tg
from traingraph import nn

STEPS, FEATURES = 6, 4


def sequences(count: int = 40) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sequences, lengths, and whether the sum of the real steps is positive."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(count, STEPS, FEATURES)).astype(np.float32)
    lengths = rng.integers(1, STEPS + 1, (count, 1)).astype(np.int32)
    real = np.arange(STEPS) < lengths
    classes = ((x.mean(-1) * real).sum(1) > 0).astype(np.int32)
    return x, lengths, classes


def network(kind: str, batch_size: int = 16, **options: Any) -> tg.MLCTrainingGraph:
    tg.MLCPlatform.set_rng_seed_to(3)
    x = nn.Input((STEPS, FEATURES), name="steps")
    lengths = nn.Input(1, name="length", data_type="int32")
    if kind == "lstm":
        body = nn.lstm(8)(x, lengths)
    else:
        block = nn.attention(2, causal=kind == "causal")
        body = nn.flatten()(block(x, lengths=lengths))
    return nn.model(
        inputs=[x, lengths], outputs=nn.dense(2)(body), batch_size=batch_size,
        optimizer=nn.adam(0.02), device="cpu", **options,
    )  # fmt: skip


KINDS = ["attention", "causal", "lstm"]


@pytest.mark.parametrize("kind", KINDS)
def test_fit_over_sequences_of_unequal_length(kind: str) -> None:
    """The loss falls, and whatever the padding is, NaN too, trains the same."""
    x, lengths, classes = sequences()
    real = (np.arange(STEPS) < lengths)[..., None]
    found = []
    for number in (0.0, np.nan, 9.0):
        model = network(kind)
        given = {"steps": np.where(real, x, np.float32(number)), "length": lengths}
        losses = [epoch.loss for epoch in model.fit(given, classes, epochs=12, shuffle_seed=2)]
        assert losses[-1] < 0.7 * losses[0]
        found.append((losses, model.predict(given).tobytes(), model.evaluate(given, classes).loss))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("kind", KINDS)
def test_any_batch_size(kind: str) -> None:
    """The last batch has 8 of 16 rows."""
    x, lengths, classes = sequences()
    given = {"steps": x, "length": lengths}
    models = [network(kind), network(kind, any_batch_size=True)]
    losses = [[e.loss for e in m.fit(given, classes, epochs=2, shuffle_seed=2)] for m in models]
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)
    results = [m.predict(given) for m in models]
    np.testing.assert_allclose(results[1], results[0], rtol=1e-4, atol=1e-5)


def test_lengths_in_a_graph() -> None:
    """The same layers as by a graph of ML Compute."""
    for block, cls in (
        (nn.attention(2), tg.MLCMultiheadAttentionLayer),
        (nn.lstm(5), tg.MLCLSTMLayer),
    ):
        graph = tg.MLCGraph()
        x, lengths = tg.MLCTensor(shape=[4, 7, 6]), tg.MLCTensor(shape=[4], data_type="int32")
        block(graph, x, lengths=lengths)
        assert type(graph.layers[0]) is cls
        assert graph.source_tensors(graph.layers[0])[-1] == lengths


def test_what_lengths_are_refused() -> None:
    x, lengths = nn.Input((STEPS, FEATURES)), nn.Input(1, data_type="int32")
    text = r"\[{}.*\] expected one source but got lengths too, which attention and lstm take"
    for block, name in (
        (nn.dense(3), r"dense\(3\)"), (nn.gru(3), r"gru\(3\)"),
        (nn.sequential([nn.attention(2)]), "sequential"), (nn.shared([nn.lstm(2)]), "shared"),
        (nn.residual([nn.attention(2)]), "residual"), (nn.activation("relu"), "relu"),
    ):  # fmt: skip
        with pytest.raises(tg.InvalidArgument, match=text.format(name)):
            block(x, lengths)
        with pytest.raises(tg.InvalidArgument, match=text.format(name)):
            block(tg.MLCGraph(), tg.MLCTensor(shape=[4, 7, 6]), lengths=tg.MLCTensor(shape=[4]))
    with pytest.raises(
        TypeError, match="got a Value and a Value; a block reads one, and attention"
    ):
        nn.attention(2)(x, lengths, lengths=lengths)
    with pytest.raises(TypeError, match=r"but got a Value and '.*MLCTensor'; a block reads one"):
        nn.attention(2)(x, tg.MLCTensor(shape=[4], data_type="int32"))
    text = r"\[{}\(2\)\] expected lengths of int32 behind the source but got Input.* of float32"
    for block, name in ((nn.attention(2), "attention"), (nn.lstm(2), "lstm")):
        with pytest.raises(tg.DataTypeError, match=text.format(name)):
            block(x, x)
    computed = nn.square(x)
    with pytest.raises(
        tg.DataTypeError,
        match=r"\[attention\(2\)\] expected lengths of int32, one .* but got float32 \(32, 6, 4\)",
    ):
        nn.model(inputs=x, outputs=nn.dense(2)(nn.attention(2)(x, computed)))
    with pytest.raises(tg.DataTypeError, match=r"\[lstm\(2\)\] expected lengths of int32"):
        nn.lstm(2)(tg.MLCGraph(), tg.MLCTensor(shape=[4, 7, 6]), lengths=tg.MLCTensor(shape=[4]))
    with pytest.raises(tg.ShapeError, match=r"expected 4 lengths.*in block attention\(2\)"):
        nn.attention(2)(
            tg.MLCGraph(), tg.MLCTensor(shape=[4, 7, 6]),
            lengths=tg.MLCTensor(shape=[5], data_type="int32"),
        )  # fmt: skip


def test_causal_reaches_the_layer() -> None:
    for block, causal in ((nn.attention(2, causal=True), True), (nn.attention(2), False)):
        graph = tg.MLCGraph()
        block(graph, tg.MLCTensor(shape=[4, 7, 6]))
        assert graph.layers[0].descriptor.causal is causal
