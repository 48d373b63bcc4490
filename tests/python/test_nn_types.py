"""Networks of values in float64: weights, numbers in expressions, and what is refused."""

from typing import Any

import numpy as np
import pytest
from test_nn import BLOCKS

import traingraph as tg
from traingraph import nn

ROWS = 4
everywhere = pytest.mark.parametrize("device", ["cpu", "reference"])


def drawn(block: Any, shape: tuple[int, ...], dtype: str) -> list[np.ndarray]:
    """What the parameters of a model of one block begin with."""
    tg.MLCPlatform.set_rng_seed_to(1)
    x = nn.Input(shape[1:], data_type="int32" if isinstance(block, str) else dtype)
    layer = nn.embedding(9, 5, data_type=dtype) if isinstance(block, str) else block
    model = nn.model(inputs=x, outputs=layer(x), loss="mse", optimizer=nn.sgd(0.25),
                     batch_size=ROWS, device="reference")  # fmt: skip
    return [np.array(tensor.data) for tensor in model.named_parameters().values()]


@pytest.mark.parametrize("name", BLOCKS)
def test_weights_have_the_type_of_the_source(name: str) -> None:
    """And the same numbers: a seed draws the same network in both types."""
    block, shape = BLOCKS[name][:2]
    given: Any = "embedding" if name.startswith("embedding") else block
    narrow, wide = (drawn(given, shape, dtype) for dtype in ("float32", "float64"))
    assert len(narrow) == len(wide)
    for a, b in zip(narrow, wide, strict=True):
        assert (a.dtype, b.dtype) == (np.float32, np.float64)
        np.testing.assert_array_equal(a, b)


INITIAL: list[Any] = ["he_normal", 0.5, lambda shape: np.full(shape, 0.25)]


@pytest.mark.parametrize("init", INITIAL, ids=["name", "number", "function"])
def test_initial_values_have_the_type_of_the_source(init: Any) -> None:
    block = nn.dense(3, weights_init=init, bias_init=init)
    narrow, wide = (drawn(block, (ROWS, 6), dtype) for dtype in ("float32", "float64"))
    for a, b in zip(narrow, wide, strict=True):
        assert b.dtype == np.float64
        np.testing.assert_array_equal(a, b)


@everywhere
@pytest.mark.parametrize("first", [True, False])
def test_numbers_have_the_type_of_what_they_are_computed_with(device: str, first: bool) -> None:
    """Also of a table's, before which nothing is a floating-point number."""
    words = nn.Input(3, data_type="int32")
    rows = nn.embedding(7, 2, data_type="float64")(words)
    doubled = 2 * rows if first else rows * 2
    outputs = nn.dense(1)(nn.flatten()(nn.maximum(doubled, -1) ** 2 / 3))
    model = nn.model(inputs=words, outputs=outputs, loss=nn.square(outputs - 1) + 0.5,
                     batch_size=ROWS, device=device)  # fmt: skip
    given = np.random.default_rng(0).integers(0, 7, (ROWS, 3)).astype(np.int32)
    table, weights, biases = (np.array(t.data) for t in model.named_parameters().values())
    features = np.maximum(2 * table[given], -1).reshape(ROWS, 6) ** 2 / 3
    expected = np.mean((features @ weights.T + biases - 1) ** 2 + 0.5)
    loss = model.execute(inputs_data={"x": given}, loss_labels_data={}, options="synchronous")
    assert loss.result.dtype == np.float64
    assert float(loss.result) == pytest.approx(expected, rel=1e-12)


def test_types_that_are_no_weights() -> None:
    with pytest.raises(tg.DataTypeError, match="a table of float32 or float64 but got float16"):
        nn.embedding(3, 2, data_type="float16")
    with pytest.raises(tg.DataTypeError, match="a table of float32 or float64 but got int32"):
        nn.embedding(3, 2, data_type="int32")
    wide, narrow = nn.Input(3, data_type="float64"), nn.Input(3)
    with pytest.raises(tg.DataTypeError, match=r"expected .* float64"):
        nn.model(inputs=[wide, narrow], outputs=nn.concatenate([nn.dense(2)(wide), narrow]))


@pytest.mark.parametrize(
    ("axes", "text"),
    [
        ([2], r"in block permute\(\(2,\)\) over \(4, 3, 5\)"),
        ([1, 3], r"in block permute\(\(1, 3\)\) over \(4, 3, 5\)"),
        ([1, 1], r"in block permute\(\(1, 1\)\) over \(4, 3, 5\)"),
        ([0, 1], r"in block permute\(\(0, 1\)\) over \(4, 3, 5\)"),
        ([-1, 1], r"in block permute\(\(-1, 1\)\) over \(4, 3, 5\)"),
    ],
)
def test_orders_that_are_none(axes: list[int], text: str) -> None:
    with pytest.raises(tg.InvalidArgument, match=text):
        nn.model([nn.permute(axes)], input=(3, 5), loss="mse", batch_size=4)


@everywhere
def test_classes_of_each_step(device: str) -> None:
    """Words to the next ones: the accuracy counts each step."""
    layers = [nn.embedding(5, 8), nn.lstm(16, returns_sequences=True), nn.dense(5)]
    model = nn.model([*layers, nn.permute((2, 1))], input=6, optimizer=nn.adam(0.02), batch_size=8,
                     device=device)  # fmt: skip
    words = (np.arange(8)[:, None] + np.arange(7)) % 5
    model.fit(words[:, :-1], words[:, 1:], epochs=60)
    assert model.predict(words[:, :-1]).shape == (8, 5, 6)
    assert model.evaluate(words[:, :-1], words[:, 1:]).accuracy == 1
