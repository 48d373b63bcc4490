"""Networks of values: branches, own losses as expressions, and what blocks begin with."""

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import traingraph as tg
from traingraph import nn

torch: Any = pytest.importorskip("torch")
Array = np.ndarray
ROWS = 4


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def parameters(model: tg.MLCTrainingGraph) -> list[Array]:
    return [np.array(tensor.data) for tensor in model.named_parameters().values()]


def gradients(
    model: tg.MLCTrainingGraph,
    inputs: dict[str, Array],
    labels: dict[str, Array],
    **outputs: Array,
) -> tuple[float, list[Array]]:
    """The loss, and what plain steps of rate 1 take away."""
    before = parameters(model)
    loss = model.execute(
        inputs_data=inputs, loss_labels_data=labels, outputs_data=outputs, options="synchronous"
    ).result
    model.synchronize_updates()
    return float(loss), [a - b for a, b in zip(before, parameters(model), strict=True)]


def of_torch(
    call: Callable[..., Any], weights: Sequence[Array], *given: Array
) -> tuple[float, list[Array]]:
    tensors = [torch.tensor(weight.astype(np.float64), requires_grad=True) for weight in weights]
    data = [torch.tensor(one.astype(np.float64) if one.dtype == np.float32 else one)
            for one in given]  # fmt: skip
    loss = call(*tensors, *data)
    loss.backward()
    return float(loss.detach()), [tensor.grad.numpy() for tensor in tensors]


def assert_alike(
    mine: tuple[float, list[Array]], theirs: tuple[float, list[Array]], bound: float = 2e-5
) -> None:
    assert mine[0] == pytest.approx(theirs[0], rel=bound, abs=bound)
    for a, b in zip(mine[1], theirs[1], strict=True):
        np.testing.assert_allclose(a.reshape(b.shape), b, rtol=bound, atol=bound)


def linear(inputs: int, outputs: int) -> nn.Block:
    return nn.dense(outputs, bias=False, weights_init=lambda shape: numbers(*shape, seed=7))


def test_an_own_loss_is_trained_on_as_the_layer() -> None:
    x, y = nn.Input(3), nn.Input(2)
    p = linear(3, 2)(x)
    mine = nn.model(inputs=x, outputs=p, loss=nn.square(p - y), optimizer=nn.sgd(1.0),
                    batch_size=ROWS)  # fmt: skip
    layer = nn.model([linear(3, 2)], input=3, loss="mse", optimizer=nn.sgd(1.0), batch_size=ROWS)
    given = {"x": numbers(ROWS, 3)}, {"y": numbers(ROWS, 2, seed=1)}
    assert_alike(gradients(mine, *given), gradients(layer, *given), 1e-6)
    np.testing.assert_array_equal(mine.predict(given[0]), layer.predict(given[0]))


# What values make, what PyTorch makes of the same; of p (N, 3) and labels y (N, 3).
EXPRESSIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "arithmetic": (lambda p, y: (1 - p) * y / (3 + nn.square(y)) - p**2,
                   lambda p, y: (1 - p) * y / (3 + y**2) - p**2),
    "functions": (lambda p, y: nn.exp(p) + nn.log(nn.square(y) + 1) * nn.sin(p) + nn.cos(p),
                  lambda p, y: p.exp() + (y**2 + 1).log() * p.sin() + p.cos()),
    "roots": (lambda p, y: nn.sqrt(nn.square(p) + 1) + nn.tanh(p) + abs(p - y) + -y,
              lambda p, y: (p**2 + 1).sqrt() + p.tanh() + (p - y).abs() - y),
    "choices": (lambda p, y: nn.where(p < y, p, 2 * y) + nn.minimum(p, 0.25) * nn.maximum(p, y),
                lambda p, y: torch.where(p < y, p, 2 * y)
                + p.clamp(max=0.25) * torch.maximum(p, y)),
    "comparisons": (lambda p, y: nn.where(p >= y, p, 0) + nn.where(p <= 0, p, 1)
                    + nn.where(p > 0, p, 3),
                    lambda p, y: torch.where(p >= y, p, 0) + torch.where(p <= 0, p, 1)
                    + torch.where(p > 0, p, 3)),
    "clip": (lambda p, y: nn.clip(p, -0.5, 0.5) * y, lambda p, y: p.clamp(-0.5, 0.5) * y),
    "reductions": (lambda p, y: nn.mean(p, axis=1) * nn.sum(p * y, axis=[0, 1]),
                   lambda p, y: p.mean(1, keepdim=True) * (p * y).sum()),
    "axes from behind": (
        lambda p, y: nn.mean(p, axis=-1) * nn.sum(p * y, axis=[-2, -1]) + nn.concatenate([p], -1),
        lambda p, y: p.mean(1, keepdim=True) * (p * y).sum() + p),
    "numbers of NumPy on the left": (
        lambda p, y: np.float32(2) - p + np.float64(3) / (p * p + 1) + np.float32(2) ** p
        + nn.where(np.float32(0.1) < p, p, y) + nn.where(np.float32(0.2) >= p, p, 1),
        lambda p, y: 2 - p + 3 / (p * p + 1) + 2**p
        + torch.where(p > 0.1, p, y) + torch.where(p <= 0.2, p, 1)),
    "joined": (lambda p, y: nn.concatenate([p, y * p]) * 2,
               lambda p, y: torch.cat([p, y * p], 1) * 2),
    "products": (lambda p, y: nn.matmul(nn.reshape([3, 1])(p), nn.reshape([1, 3])(y)),
                 lambda p, y: p[:, :, None] @ y[:, None, :]),
    "stopped": (lambda p, y: nn.stop_gradient(p) * p + y, lambda p, y: p.detach() * p + y),
    "reflected": (lambda p, y: 2 / (p * p + 1) + (2 - y) + 2**p + np.float32(3) * p,
                  lambda p, y: 2 / (p * p + 1) + (2 - y) + 2**p + 3 * p),
    "a loss layer": (lambda p, y: nn.loss("huber", p, y) + 0.1 * nn.square(p),
                     lambda p, y: torch.nn.functional.huber_loss(p, y, reduction="none")
                     + 0.1 * p**2),
    "a loss over classes": (
        lambda p, y: nn.loss("softmax_cross_entropy", p, y) * nn.mean(p, axis=1),
        lambda p, y: -(y * p.log_softmax(1)).sum(1, keepdim=True) * p.mean(1, keepdim=True)),
}  # fmt: skip


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_expressions(name: str, device: str) -> None:
    mine, theirs = EXPRESSIONS[name]
    x, y = nn.Input(5), nn.Input(3, name="target")
    p = linear(5, 3)(x)
    model = nn.model(inputs=x, outputs=p, loss=mine(p, y), optimizer=nn.sgd(1.0), batch_size=ROWS,
                     device=device)  # fmt: skip
    weights = parameters(model)
    given = numbers(ROWS, 5), numbers(ROWS, 3, seed=1)
    expected = of_torch(lambda w, x, y: theirs(x @ w.T, y).mean(), weights, *given)
    assert_alike(gradients(model, {"x": given[0]}, {"target": given[1]}), expected)


def test_a_loss_of_classes_with_weights() -> None:
    """REINFORCE's: the values have an axis beside the batch, as inputs have."""
    x, gain = nn.Input(5), nn.Input(1, name="gain")
    action = nn.Input(1, name="action", data_type="int32")
    logits = linear(5, 3)(x)
    loss = gain * nn.loss("softmax_cross_entropy", logits, action)
    model = nn.model(inputs=x, outputs=logits, loss=loss, optimizer=nn.sgd(1.0), batch_size=ROWS)
    given, gains = numbers(ROWS, 5), numbers(ROWS, 1, seed=1)
    actions = np.array([[0], [2], [1], [1]], np.int32)

    def of_rewards(w: Any, x: Any, gain: Any) -> Any:
        logs = (x @ w.T).log_softmax(1).gather(1, torch.tensor(actions).long())
        return -(gain * logs).mean()

    expected = of_torch(of_rewards, parameters(model), given, gains)
    assert_alike(gradients(model, {"x": given}, {"gain": gains, "action": actions}), expected)
    # Of positions too, and with a part of the batch.
    picture, kind = nn.Input((3, 2, 2)), nn.Input((1, 2, 2), data_type="int32")
    image = nn.model(
        inputs=picture,
        outputs=picture,
        batch_size=ROWS,
        loss=nn.loss("softmax_cross_entropy", picture, kind) + 0 * nn.mean(picture),
    )
    values = numbers(2, 3, 2, 2)
    kinds = np.random.default_rng(0).integers(0, 3, (2, 1, 2, 2)).astype(np.int32)
    found = image.evaluate(values, kinds).loss
    theirs = torch.tensor(values), torch.tensor(kinds[:, 0]).long()
    wanted = torch.nn.functional.cross_entropy(*theirs)
    assert found == pytest.approx(float(wanted), rel=1e-5)


def test_a_clipped_ratio_with_entropy() -> None:
    """PPO's loss, of two networks over one input."""
    x = nn.Input(4)
    action = nn.Input(1, name="action", data_type="int32")
    before, advantage = nn.Input(1, name="before"), nn.Input(1, name="advantage")
    target = nn.Input(1, name="target")
    logits, value = linear(4, 3)(x), linear(4, 1)(x)
    logs = nn.activation("log_softmax")(logits)
    ratio = nn.exp(nn.gather(logs, action) - before)
    gain = nn.minimum(ratio * advantage, nn.clip(ratio, 0.8, 1.2) * advantage)
    entropy = -nn.sum(nn.exp(logs) * logs, axis=1)
    loss = nn.mean(0.5 * nn.square(value - target) - gain - 0.01 * entropy)
    model = nn.model(inputs=x, outputs=[logits, value], loss=loss, optimizer=nn.sgd(1.0),
                     batch_size=ROWS)  # fmt: skip
    given = numbers(ROWS, 4)
    labels = {
        "action": np.array([[0], [2], [1], [2]], np.int32),
        "before": -1 + 0.1 * numbers(ROWS, 1, seed=1),
        "advantage": numbers(ROWS, 1, seed=2),
        "target": numbers(ROWS, 1, seed=3),
    }

    def theirs(w: Any, v: Any, x: Any, action: Any, before: Any, gain: Any, target: Any) -> Any:
        logs = torch.log_softmax(x @ w.T, 1)
        ratio = (logs.gather(1, action.long()) - before).exp()
        clipped = torch.minimum(ratio * gain, ratio.clamp(0.8, 1.2) * gain)
        entropy = -(logs.exp() * logs).sum(1, keepdim=True)
        return (0.5 * (x @ v.T - target) ** 2 - clipped - 0.01 * entropy).mean()

    expected = of_torch(theirs, parameters(model), given, *labels.values())
    predicted = model.predict({"x": given})
    assert predicted.shape == (ROWS, 3)
    values = np.empty((ROWS, 1), np.float32)
    wanted = given @ parameters(model)[1].T
    assert_alike(gradients(model, {"x": given}, labels, output1=values), expected)
    np.testing.assert_allclose(values, wanted, rtol=1e-5, atol=1e-6)


def test_fit_evaluate_and_other_batches() -> None:
    x, side, y = nn.Input(6), nn.Input(2), nn.Input(1)
    p = nn.dense(1)(nn.concatenate([nn.dense(8, activation="tanh")(x), side]))
    model = nn.model(inputs=[x, side], outputs=p, loss=nn.abs(p - y), optimizer=nn.adam(0.05),
                     batch_size=16)  # fmt: skip
    given = {"x0": numbers(50, 6), "x1": numbers(50, 2, seed=1)}
    target = {"y": given["x0"][:, :1] - given["x1"][:, 1:]}
    first, *_, last = model.fit(given, target, epochs=40)
    assert last.loss < first.loss / 4
    wanted = np.abs(model.predict(given) - target["y"]).mean()
    assert model.evaluate(given, target).loss == pytest.approx(wanted, rel=1e-5)
    with pytest.raises(tg.InvalidArgument, match="expected for metrics a loss layer, which"):
        model.evaluate(given, target, metrics=["mean_squared_error"])
    with pytest.raises(tg.InvalidArgument, match="but got an expression; compute 'accuracy' of"):
        model.fit(given, target, validation=(given, target), metrics=["accuracy"])


def test_micro_batches_of_an_own_loss() -> None:
    """The mean over both halves, of inner losses that are no means, too."""
    x, y = nn.Input(3), nn.Input(2)
    p = linear(3, 2)(x)
    loss = nn.loss("mse", p, y) + nn.square(p)
    given = {"x": numbers(2 * ROWS, 3)}, {"y": numbers(2 * ROWS, 2, seed=1)}
    whole = nn.model(inputs=x, outputs=p, loss=loss, optimizer=nn.sgd(1.0), batch_size=2 * ROWS)
    expected = gradients(whole, *given)[1]
    parts = nn.model(inputs=x, outputs=p, loss=loss, optimizer=nn.sgd(1.0), batch_size=ROWS)
    parts.micro_batches = 2
    halves = [[{k: v[part] for k, v in one.items()} for one in given]
              for part in (slice(ROWS), slice(ROWS, None))]  # fmt: skip
    got = [gradients(parts, *half)[1] for half in halves]
    np.testing.assert_array_equal(got[0][0], 0)
    np.testing.assert_allclose(got[1][0], expected[0], rtol=1e-5, atol=1e-6)


def test_weights_of_samples() -> None:
    def made(**more: Any) -> tg.MLCTrainingGraph:
        return nn.model([linear(3, 4)], input=3, optimizer=nn.sgd(1.0), batch_size=ROWS, **more)

    x, y = numbers(ROWS, 3), np.array([0, 1, 2, 3], np.int32)
    w = np.array([0.5, 2, 0, 1], np.float32)
    weighted = made(weights=True)
    expected = of_torch(
        lambda m, x: (torch.nn.functional.cross_entropy(
            x @ m.T, torch.tensor(y).long(), reduction="none") * torch.tensor(w)).mean(),
        parameters(weighted), x,
    )  # fmt: skip
    loss = weighted.fit(x, y, label_weights={"w": w}, batch_size=ROWS)[0].loss
    assert loss == pytest.approx(expected[0], rel=1e-5)
    many = nn.model([linear(3, 4)], input=3, loss="mse", weights=True, batch_size=ROWS)
    of_each = {"w": numbers(ROWS, 4, seed=2) ** 2}
    model = parameters(many)[0]
    loss = many.fit(x, numbers(ROWS, 4), label_weights=of_each, batch_size=ROWS)[0].loss
    wanted = ((x @ model.T - numbers(ROWS, 4)) ** 2 * of_each["w"]).mean()
    assert loss == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("returns_sequences", [False, True])
def test_gru_is_pytorchs(returns_sequences: bool) -> None:
    block = nn.sequential([nn.gru(5, returns_sequences=returns_sequences), nn.flatten()])
    x, y = nn.Input([7, 3]), nn.Input(35 if returns_sequences else 5)
    p = block(x)
    model = nn.model(inputs=x, outputs=p, loss=nn.square(p - y), optimizer=nn.sgd(1.0),
                     batch_size=ROWS)  # fmt: skip
    given = numbers(ROWS, 7, 3), numbers(ROWS, *y_shape(returns_sequences), seed=1)

    def theirs(w: Any, b: Any, u: Any, c: Any, x: Any, y: Any) -> Any:
        cell = torch.nn.GRU(3, 5, batch_first=True).double()
        states = torch.func.functional_call(cell, {
            "weight_ih_l0": w.reshape(15, 3), "bias_ih_l0": b.reshape(15),
            "weight_hh_l0": u.reshape(15, 5), "bias_hh_l0": c.reshape(15),
        }, (x,))[0]  # fmt: skip
        result = states.flatten(1) if returns_sequences else states[:, -1]
        return ((result - y) ** 2).mean()

    expected = of_torch(theirs, parameters(model), *given)
    assert_alike(gradients(model, {"x": given[0]}, {"y": given[1]}), expected, 1e-4)


def y_shape(returns_sequences: bool) -> tuple[int]:
    return (35,) if returns_sequences else (5,)


BLOCKS: dict[str, tuple[nn.Block, tuple[int, ...], Callable[..., Any]]] = {
    "conv1d": (
        nn.conv1d(4, 3, dilation=2), (9, 2),
        lambda w, b, x: torch.nn.functional.conv1d(
            x.mT, w.reshape(4, 2, 3), b.reshape(4), padding=2, dilation=2).mT,
    ),
    "conv1d valid": (
        nn.conv1d(2, 4, 3, stride=2, padding="valid", groups=2, bias=False), (9, 2),
        lambda w, x: torch.nn.functional.conv1d(x.mT, w.reshape(4, 1, 3), stride=2, groups=2).mT,
    ),
    "conv2d_transpose": (
        nn.conv2d_transpose(3, 2, stride=2, padding="valid"), (4, 5, 6),
        lambda w, b, x: torch.nn.functional.conv_transpose2d(
            x, w.reshape(4, 3, 2, 2), b.reshape(3), stride=2),
    ),
    "conv2d_transpose groups": (
        nn.conv2d_transpose(4, 6, (3, 2), groups=2, padding=(1, 0)), (4, 5, 6),
        lambda w, b, x: torch.nn.functional.conv_transpose2d(
            x, w.reshape(4, 3, 3, 2), b.reshape(6), groups=2, padding=(1, 0)),
    ),
    "group_norm": (
        nn.group_norm(2), (6, 3, 3),
        lambda b, g, x: torch.nn.functional.group_norm(x, 2, g, b),
    ),
    "residual": (
        nn.residual([nn.dense(3, bias=False), "tanh"]), (3,), lambda w, x: x + (x @ w.T).tanh(),
    ),
    "residual with a shortcut": (
        nn.residual([nn.dense(4, bias=False), "relu"], shortcut=[nn.dense(4, bias=False)]), (3,),
        lambda w, v, x: (x @ w.T).relu() + x @ v.T,
    ),
    "positional_embedding": (
        nn.positional_embedding(), (5, 4), lambda table, x: x + table,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_are_pytorchs(name: str) -> None:
    block, shape, theirs = BLOCKS[name]
    x = nn.Input(shape)
    p = block(x)
    factor = nn.sin(p)  # no element like the other
    model = nn.model(inputs=x, outputs=p, loss=p * factor, optimizer=nn.sgd(1.0), batch_size=ROWS)
    given = numbers(ROWS, *shape)

    def loss(*values: Any) -> Any:
        result = theirs(*values)
        return (result * result.sin()).mean()

    expected = of_torch(loss, parameters(model), given)
    assert_alike(gradients(model, {"x": given}, {}), expected, 5e-5)


# Deviation and largest value of 96 inputs and 64 outputs; None: no bound.
STATISTICS = {
    "glorot_uniform": (math.sqrt(2 / 160), math.sqrt(6 / 160)),
    "glorot_normal": (math.sqrt(2 / 160), 2 * math.sqrt(2 / 160) / 0.8796),
    "he_uniform": (math.sqrt(2 / 96), math.sqrt(6 / 96)),
    "he_normal": (math.sqrt(2 / 96), 2 * math.sqrt(2 / 96) / 0.8796),
    "lecun_uniform": (math.sqrt(1 / 96), math.sqrt(3 / 96)),
    "lecun_normal": (math.sqrt(1 / 96), 2 * math.sqrt(1 / 96) / 0.8796),
    "random_uniform": (0.05 / math.sqrt(3), 0.05),
    "random_normal": (0.05, None),
    "truncated_normal": (0.05 * 0.8796, 0.1),
}


def initial(init: Any, outputs: int = 64, inputs: int = 96) -> Array:
    graph = tg.MLCGraph()
    nn.dense(outputs, weights_init=init, bias_init=init)(graph, tg.MLCTensor(shape=[2, inputs]))
    return np.array(graph.layers[0].weights.data).reshape(outputs, inputs)


@pytest.mark.parametrize("name", STATISTICS)
def test_initial_weights(name: str) -> None:
    deviation, most = STATISTICS[name]
    weights = initial(name)
    assert weights.std() == pytest.approx(deviation, rel=0.04)
    assert abs(weights.mean()) < 5 * deviation / math.sqrt(weights.size)
    if most is None:
        assert np.abs(weights).max() > 3 * deviation
    else:
        assert 0.97 * most < np.abs(weights).max() <= most * (1 + 1e-4)


@pytest.mark.parametrize("outputs", [64, 96, 128])
def test_orthogonal_weights(outputs: int) -> None:
    weights = initial("orthogonal", outputs).astype(np.float64)
    smaller = weights @ weights.T if outputs <= 96 else weights.T @ weights
    np.testing.assert_allclose(smaller, np.eye(len(smaller)), atol=1e-5)


def test_initial_values_by_number_and_function() -> None:
    assert (initial("zeros") == 0).all()
    assert (initial("ones") == 1).all()
    assert (initial(0.25) == 0.25).all()
    asked: list[tuple[int, ...]] = []

    def made(shape: tuple[int, ...]) -> Array:
        asked.append(shape)
        return np.full(shape, 3.0)

    assert (initial(made) == 3).all()
    assert asked == [(64, 96), (64,)]


X = nn.Input(3)
REFUSED: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "an unknown initializer": (
        lambda: nn.dense(2, weights_init="he"), tg.InvalidArgument,
        r"\[initializer\] expected one of zeros, .*, orthogonal but got 'he'",
    ),
    "values of another shape": (
        lambda: initial(lambda shape: np.ones(3)), tg.ShapeError,
        r"expected float32 values \(64, 96\) but got float32 \(3,\) in block dense\(64\)",
    ),
    "an initial value that is not finite": (
        lambda: initial(lambda shape: np.full(shape, np.nan)), tg.InvalidArgument,
        r"\[initializer\] expected finite values of float32 but got nan as element 0 in block",
    ),
    "an infinite initial value": (
        lambda: initial(lambda shape: np.full(shape, np.inf)), tg.InvalidArgument,
        "expected finite values of float32 but got inf as element 0 in block dense",
    ),
    "complex initial values": (
        lambda: initial(lambda shape: np.full(shape, 1j)), tg.DataTypeError,
        r"\[dense\] expected float32 for what the function gives as 'weights_init' but got comp",
    ),
    "texts as initial values": (
        lambda: initial(lambda shape: [["a"]]), tg.DataTypeError,
        r"\[dense\] expected numbers for what the function gives as 'weights_init'",
    ),
    "an initial number beyond float32": (
        lambda: nn.conv2d(2, 3, bias_init=1e39), tg.InvalidArgument,
        r"\[initializer\] expected a finite number of float32 but got 1e\+39",
    ),
    "a number that is none": (
        lambda: nn.loss("mse", X, float("nan")), tg.InvalidArgument,
        r"\[Value\] expected a number but got nan, which all results would be",
    ),
    "a bound that is none": (
        lambda: nn.clip(X, np.nan, 1), tg.InvalidArgument, r"\[Value\] expected a number but got n",
    ),
    "a number beyond float32": (
        lambda: nn.model(inputs=X, outputs=X * 1e300, loss="mse"), tg.InvalidArgument,
        r"\[model\] expected numbers within float32 but got 1e\+300; float64 inputs make",
    ),
    "bounds the wrong way round": (
        lambda: nn.clip(X, 1, -0.5), tg.InvalidArgument,
        r"\[clip\] expected least of at most the most but got 1 and -0\.5",
    ),
    "an initial bias of none": (
        lambda: nn.conv1d(2, 3, bias=False, bias_init=1), tg.InvalidArgument,
        r"\[conv1d\(2, 3\)\] expected no bias_init without a bias",
    ),
    "an input that is not listed": (
        lambda: nn.model(inputs=X, outputs=nn.dense(2)(nn.Input(3, name="other"))),
        tg.InvalidArgument, "expected 'other' among inputs, which an output reads",
    ),
    "a value as an input": (
        lambda: nn.model(inputs=nn.dense(2)(X), outputs=nn.dense(2)(X)), tg.InvalidArgument,
        r"expected inputs made by input\(\) but got dense\(2\)",
    ),
    "two of one name": (
        lambda: nn.model(inputs=[nn.Input(3, name="a"), nn.Input(2, name="a")], outputs=X),
        tg.InvalidArgument, "of different names but got 'a' twice",
    ),
    "no output": (
        lambda: nn.model(inputs=X, outputs=[]), tg.InvalidArgument, "1 or more outputs",
    ),
    "weights of an expression": (
        lambda: nn.model(inputs=X, outputs=X, loss=nn.mean(X), weights=True), tg.InvalidArgument,
        "expected no weights of a loss that is an expression; multiply by an input",
    ),
    "a result of another shape": (
        lambda: nn.model([nn.residual([nn.dense(2)])], input=3), tg.ShapeError,
        r"expected a result of the shape \(32, 3\) beside it but got \(32, 2\); give a shortcut",
    ),
    "a truth value": (lambda: bool(X < 1), TypeError, r"nn\.where\(\) chooses"),
    "an array to be changed": (
        lambda: operator.iadd(np.ones(3), X), TypeError, r"got numpy\.add, which is of arrays",
    ),
    "a remainder": (lambda: X % 2, TypeError, "expected no operator % of"),
    "either": (lambda: (X < 1) | (X > 2), TypeError, r"expected no operator \| of less"),
    "neither": (lambda: X ^ X, TypeError, r"expected no operator \^ of"),
    "another operand": (lambda: X + "a", TypeError, "unsupported operand"),  # type: ignore[operator]
    "a number to a block": (
        lambda: nn.dense(2)(3), TypeError, r"\[dense\(2\)\] expected a Value, .* 'int'",
    ),
    "another function's argument": (
        lambda: nn.exp("a"), TypeError, r"\[exp\] expected x: Value \| float but got 'str'",
    ),
    "an unknown loss": (
        lambda: nn.loss("mae2", X, X), tg.InvalidArgument, r"\[loss\] expected a loss of .*mae2",
    ),
    "groups of channels": (
        lambda: nn.model([nn.group_norm(2)], input=[3, 2, 2]), tg.ShapeError,
        r"a multiple of 2 channels on axis 1 but got \(32, 3, 2, 2\)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_mistakes(what: str) -> None:
    call, error, text = REFUSED[what]
    with pytest.raises(error, match=text):
        call()


def test_a_chain_longer_than_the_stack() -> None:
    value = nn.Input(2)
    for _ in range(200_000):
        value = value + 1
    del value


def test_texts() -> None:
    assert repr(nn.dense(3)(X)) == "<Value dense(3)>"
    assert repr(nn.Input(3, name="in")) == "<Value in>"
    assert repr(X + 1) == "<Value add>"


def test_infinity_is_a_number_as_of_a_mask() -> None:
    masked = nn.activation("softmax")(nn.where(X > 0, X, -math.inf))
    model = nn.model(inputs=X, outputs=masked, loss=nn.clip(masked, 0.5, 0.5), batch_size=1)
    np.testing.assert_allclose(model.predict(np.array([[1, -1, 1]], np.float32)), [[0.5, 0, 0.5]])


def test_float64_has_larger_numbers() -> None:
    x = nn.Input(3, data_type="float64")
    model = nn.model(inputs=x, outputs=x * 1e300, loss=nn.mean(x), batch_size=1)
    assert model.predict(np.ones((1, 3))).tolist() == [[1e300] * 3]


def test_labels_of_an_own_loss() -> None:
    x, y = nn.Input(6), nn.Input(1)
    p = nn.dense(1)(x)
    with pytest.raises(tg.InvalidArgument, match="no labels='one_hot' of a loss that is an expr"):
        nn.model(inputs=x, outputs=p, loss=nn.square(p - y), labels="one_hot")
    loss = nn.loss("softmax_cross_entropy", p, nn.Input(1, data_type="int32"))
    with pytest.raises(tg.InvalidArgument, match="expected 2 or more classes on axis 1"):
        nn.model(inputs=x, outputs=p, loss=loss)
    model = nn.model(inputs=x, outputs=p, loss=nn.square(p), batch_size=16)
    given = numbers(16, 6)
    text = "expected no labels, as the loss declares none, but got some; pass no labels, or None"
    for call in (model.fit, model.evaluate):
        with pytest.raises(tg.InvalidArgument, match=text):
            call(given, given[:, :1])
    with pytest.raises(tg.InvalidArgument, match="expected no labels in batches, as the loss"):
        model.fit(batches=[(given, given[:, :1])])
    assert len(model.fit(batches=[(given, None)])) == 1
    with pytest.raises(tg.InvalidArgument, match="expected for metrics a loss layer"):
        model.evaluate(given, metrics=["accuracy"])


def test_a_validation_of_an_expression():
    """No metric is asked for, so no loss layer is, either."""
    x, y = nn.Input(4), nn.Input(1)
    prediction = nn.dense(1)(x)
    model = nn.model(
        inputs=x, outputs=prediction, loss=nn.square(prediction - y), batch_size=4, device="cpu"
    )
    rows = np.random.default_rng(0).standard_normal((21, 5)).astype(np.float32)
    data = rows[:, :4], rows[:, 4:]
    epochs = model.fit(*data, epochs=2, validation=data)
    assert epochs[-1].validation.loss == model.evaluate(*data).loss


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_batch_norm_whose_gradient_is_a_constant(device):
    """Of a mean over the batch: nothing of it is a prologue."""
    x = nn.Input(2)
    prediction = nn.dense(2)(x)
    normalized = nn.batch_norm()(nn.mean(prediction, axis=0))
    model = nn.model(
        inputs=x, outputs=prediction, loss=nn.mean(normalized), batch_size=8, device=device
    )
    (epoch,) = model.fit(np.ones((16, 2), np.float32), {}, epochs=1)
    # Normalized values are 0; after the first step beta has moved by Adam's rate.
    assert epoch.loss == pytest.approx(-0.5e-3, rel=1e-4)
