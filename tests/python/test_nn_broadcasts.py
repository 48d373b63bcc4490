"""Values of unlike rank: a batch meets a batch, and never another axis."""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import traingraph as tg
from traingraph import nn

Array = np.ndarray
Join = Callable[[nn.Value, nn.Value], nn.Value]


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def joined(join: Join, a: tuple[int, ...], b: tuple[int, ...], rows: int) -> Array:
    """What the model predicts from two arrays of samples of these shapes."""
    x, y = nn.Input(a, name="a"), nn.Input(b, name="b")
    result = join(x, y)
    loss = result + nn.mean(nn.dense(1)(nn.flatten()(x))) + nn.mean(y)
    model = nn.model(inputs=[x, y], outputs=result, loss=loss, batch_size=rows)
    return model.predict({"a": numbers(rows, *a), "b": numbers(rows, *b, seed=1)})


JOINS: dict[str, Join] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "pow": operator.pow,
    "less": lambda x, y: nn.where(x < y, 1, 0),
    "less_or_equal": lambda x, y: nn.where(x <= y, 1, 0),
    "greater": lambda x, y: nn.where(x > y, 1, 0),
    "greater_or_equal": lambda x, y: nn.where(x >= y, 1, 0),
    "minimum": nn.minimum,
    "maximum": nn.maximum,
    "where": lambda x, y: nn.where(x > 0, y, 1),
    "where of both": lambda x, y: nn.where(nn.mean(x) > 0, x, y),
    "clip": lambda x, y: nn.clip(x, 0, nn.exp(y)),
    "a loss that is weighted": lambda x, y: nn.loss("mse", x, nn.sin(x)) * y,
    "after reshape": lambda x, y: nn.reshape([-1, 1])(nn.flatten()(x)) + nn.flatten()(y),
}


@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("name", JOINS)
def test_a_batch_that_meets_another_axis_is_refused(name: str, rows: int) -> None:
    for a, b in (((1, 1), (1,)), ((3, 1, 1), (3,)), ((2, 1), (2, 1))):
        if (a == b) != (name == "after reshape"):
            continue
        with pytest.raises(tg.ShapeError, match="so that no other axis meets the batch") as raised:
            joined(JOINS[name], a, b, rows)
        if a != b:
            assert f"{(rows, *a)} and {(rows, *b)}" in str(raised.value)
            with pytest.raises(tg.ShapeError, match=f"axis {len(a) - len(b)}; reshape"):
                joined(lambda x, y: JOINS[name](y, x), a, b, rows)


@pytest.mark.parametrize(("a", "b"), [((4,), (4,)), ((3, 4), (4,)), ((2, 3, 4), (4, 3)),
                                      ((3, 4), (2, 4, 3))])  # fmt: skip
def test_a_product_that_would_mix_samples_is_refused(a: Any, b: Any) -> None:
    text = r"^\[matmul\] expected matrices of each sample, .* would mix samples; reshape"
    with pytest.raises(tg.ShapeError, match=text):
        joined(nn.matmul, a, b, 4)


def test_the_shape_that_the_message_names_is_taken() -> None:
    image, gain = (3, 2, 2), (3,)
    with pytest.raises(tg.ShapeError, match=r"reshape\(\(3, 1, 1\)\) gives \(4, 3\) the missing"):
        joined(operator.mul, image, gain, 4)
    got = joined(lambda x, y: x * nn.reshape((3, 1, 1))(y), image, gain, 4)
    wanted = numbers(4, *image) * numbers(4, *gain, seed=1)[:, :, None, None]
    np.testing.assert_allclose(got, wanted, rtol=1e-6)
    steps, level = (5, 3), (3,)
    with pytest.raises(tg.ShapeError, match=r"reshape\(\(1, 3\)\) gives \(4, 3\) the missing"):
        joined(operator.mul, steps, level, 4)
    with pytest.raises(tg.ShapeError, match=r"reshape\(\) gives one of them the other's axes"):
        joined(operator.mul, steps, (2,), 4)


# A function of values, and NumPy's of a (4, 2, 3) and b (4, 3).
TAKEN: dict[str, tuple[Join, Callable[[Array, Array], Any]]] = {
    "a number": (lambda a, b: 2 * a - 1, lambda a, b: 2 * a - 1),
    "one rank": (lambda a, b: a * nn.mean(a, axis=2), lambda a, b: a * a.mean(2, keepdims=True)),
    "a mean over everything": (lambda a, b: b * nn.mean(a), lambda a, b: b * a.mean()),
    "it first": (lambda a, b: nn.sum(a) - b, lambda a, b: a.sum() - b),
    "a bound": (lambda a, b: nn.clip(b, -1, nn.mean(nn.abs(a))),
                lambda a, b: b.clip(-1, abs(a).mean())),
    "a condition": (lambda a, b: nn.where(nn.mean(a) < 9, b, 0), lambda a, b: b),
    "a mean over the batch": (lambda a, b: b - nn.mean(b, axis=0), lambda a, b: b - b.mean(0)),
    "of lower rank": (lambda a, b: a - nn.mean(b, axis=0), lambda a, b: a - b.mean(0)),
    "of higher rank": (lambda a, b: b - nn.mean(a, axis=[0, 1]), lambda a, b: b - a.mean((0, 1))),
    "both without the batch": (lambda a, b: b + nn.sum(nn.mean(a, axis=0) * nn.mean(b, axis=0)),
                               lambda a, b: b + (a.mean(0) * b.mean(0)).sum()),
    "matrices": (lambda a, b: nn.matmul(a, nn.reshape([3, 1])(b)), lambda a, b: a @ b[:, :, None]),
}  # fmt: skip


@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("name", TAKEN)
def test_values_without_the_batch_broadcast(name: str, rows: int) -> None:
    mine, theirs = TAKEN[name]
    got = joined(mine, (2, 3), (3,), rows)
    wanted = theirs(numbers(rows, 2, 3), numbers(rows, 3, seed=1))
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


def test_an_axis_of_means_does_not_meet_the_batch() -> None:
    with pytest.raises(tg.ShapeError, match=r"\(1, 2, 3\) and \(4, 3\), whose batch meets axis 1"):
        joined(lambda a, b: b * nn.mean(a, axis=0), (2, 3), (3,), 4)


def test_the_gradient_of_a_mean_beside_a_batch() -> None:
    """Of the loss b · mean(a) it is the mean of b, over the elements of a."""
    a, b = nn.Input((2, 3)), nn.Input(1, name="b")
    scaled = nn.dense(1, bias=False, weights_init=1)(nn.reshape([6, 1])(a))
    model = nn.model(inputs=a, outputs=scaled, loss=b * nn.mean(scaled), optimizer=nn.sgd(1.0),
                     batch_size=4)  # fmt: skip
    given, labels = numbers(4, 2, 3), numbers(4, 1, seed=1)
    model.execute(inputs_data={"x": given}, loss_labels_data={"b": labels}, options="synchronous")
    model.synchronize_updates()
    (weight,) = model.named_parameters().values()
    wanted = 1 - given.mean() * labels.mean()
    assert float(np.ravel(weight.data)[0]) == pytest.approx(wanted, rel=1e-5)
