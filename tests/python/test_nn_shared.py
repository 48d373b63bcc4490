"""Blocks that are shared by several calls and models, and models that train some of them."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import traingraph as tg
from traingraph import nn

torch: Any = pytest.importorskip("torch")
Array = np.ndarray
ROWS = 4


everywhere = pytest.mark.parametrize("device", ["cpu", "reference"])


def numbers(*shape: int, seed: int = 0, kind: type = np.float32) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(kind)


def run(model: tg.MLCTrainingGraph, labels: dict[str, Array] | None = None, **x: Array) -> float:
    done = model.execute(inputs_data=x, loss_labels_data=labels or {}, options="synchronous")
    return float(done.result)


def bits(block_models: tg.MLCTrainingGraph) -> dict[int, bytes]:
    """By the tensor's number, which models that share it agree on."""
    block_models.synchronize_updates()
    return {t.tensor_id: np.asarray(t.data).tobytes()
            for t in block_models.named_parameters().values()}  # fmt: skip


# --- a network against another one ---------------------------------------------------------------


def full(inputs: int, outputs: int, seed: int, kind: type = np.float64) -> tg.MLCLayer:
    return tg.MLCFullyConnectedLayer(
        weights=tg.MLCTensor(data=numbers(outputs, inputs, seed=seed, kind=kind)),
        biases=tg.MLCTensor(data=numbers(outputs, seed=seed + 1, kind=kind)),
        descriptor=tg.MLCConvolutionDescriptor(
            kernel_sizes=(1, 1),
            input_feature_channel_count=inputs,
            output_feature_channel_count=outputs,
        ),
    )


# Adam's corrected rate is a float32 number.
OPTIMIZERS: dict[str, tuple[Callable[[], tg.MLCOptimizer], Callable[[Any], Any], float]] = {
    "sgd": (lambda: nn.sgd(0.125, momentum=0.5),
            lambda p: torch.optim.SGD(p, lr=0.125, momentum=0.5), 1e-9),
    "adam": (lambda: nn.adam(2**-6, beta1=0.5, beta2=0.75, epsilon=2**-40),
             lambda p: torch.optim.Adam(p, lr=2**-6, betas=(0.5, 0.75), eps=2**-40), 1e-6),
}  # fmt: skip


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_two_networks_in_turn_lose_what_pytorch_says(optimizer: str) -> None:
    """Ten steps in float64: each loss, and at the end each weight."""
    mine, theirs, bound = OPTIMIZERS[optimizer]
    generator = nn.shared([full(3, 6, 1), "tanh", full(6, 2, 3)])
    discriminator = nn.shared([full(2, 5, 5), "tanh", full(5, 1, 7)])
    real = nn.Input(2, name="real", data_type="float64")
    z = nn.Input(3, name="z", data_type="float64")
    fake = generator(z)

    def loss(x: nn.Value, label: int) -> nn.Value:
        return nn.loss("sigmoid_cross_entropy", discriminator(x), label)

    common: dict[str, Any] = {"batch_size": ROWS, "device": "reference"}
    d = nn.model(inputs=real, outputs=discriminator(real), loss=loss(real, 1) + loss(fake, 0),
                 train=discriminator, optimizer=mine(), **common)  # fmt: skip
    g = nn.model(inputs=z, outputs=fake, loss=loss(fake, 1), train=generator, optimizer=mine(),
                 **common)  # fmt: skip

    def twin(inputs: int, middle: int, outputs: int, seed: int) -> Any:
        net = torch.nn.Sequential(torch.nn.Linear(inputs, middle), torch.nn.Tanh(),
                                  torch.nn.Linear(middle, outputs)).double()  # fmt: skip
        with torch.no_grad():
            for k, (a, b) in enumerate([(inputs, middle), (middle, outputs)]):
                net[2 * k].weight.copy_(torch.tensor(numbers(b, a, seed=seed + 2 * k, kind=float)))
                net[2 * k].bias.copy_(torch.tensor(numbers(b, seed=seed + 2 * k + 1, kind=float)))
        return net

    tg_, td = twin(3, 6, 2, 1), twin(2, 5, 1, 5)
    of_g, of_d = theirs(tg_.parameters()), theirs(td.parameters())
    bce = torch.nn.functional.binary_cross_entropy_with_logits
    ones, zeros = torch.ones(ROWS, 1).double(), torch.zeros(ROWS, 1).double()
    for step in range(10):
        x, noise = (numbers(ROWS, n, seed=100 * n + step, kind=float) for n in (2, 3))
        loss_d = bce(td(torch.tensor(x)), ones) + bce(td(tg_(torch.tensor(noise)).detach()), zeros)
        of_d.zero_grad()
        loss_d.backward()
        of_d.step()
        assert run(d, {"z": noise}, real=x) == pytest.approx(loss_d.item(), rel=bound)
        loss_g = bce(td(tg_(torch.tensor(noise))), ones)
        of_g.zero_grad()
        loss_g.backward()
        of_g.step()
        assert run(g, z=noise) == pytest.approx(loss_g.item(), rel=bound)
    g.synchronize_updates()
    got = {t.tensor_id: np.asarray(t.data) for t in g.named_parameters().values()}
    wanted = [p.detach().numpy() for p in [*tg_.parameters(), *td.parameters()]]
    assert len(got) == len(wanted)
    for a, b in zip(got.values(), wanted, strict=True):
        np.testing.assert_allclose(a.reshape(b.shape), b, rtol=10 * bound, atol=bound)


def pair(device: str = "cpu", rows: int = ROWS) -> tuple[tg.MLCTrainingGraph, tg.MLCTrainingGraph]:
    """Of images (1, 4, 4), with batch norms in both."""
    generator = nn.shared([nn.dense(32), nn.reshape([2, 4, 4]), nn.batch_norm(), "relu",
                           nn.conv2d_transpose(1, 3), "tanh"])  # fmt: skip
    discriminator = nn.shared([nn.conv2d(3, 3), nn.batch_norm(), "leaky_relu", nn.flatten(),
                               nn.dense(1)])  # fmt: skip
    real, z = nn.Input((1, 4, 4), name="real"), nn.Input(5, name="z")
    fake = generator(z)
    bce = "sigmoid_cross_entropy"
    loss = nn.loss(bce, discriminator(real), 1) + nn.loss(bce, discriminator(fake), 0)
    d = nn.model(inputs=real, outputs=discriminator(real), loss=loss, train=discriminator,
                 batch_size=rows, device=device)  # fmt: skip
    g = nn.model(inputs=z, outputs=fake, loss=nn.loss(bce, discriminator(fake), 1),
                 train=[generator], batch_size=rows, device=device)  # fmt: skip
    return d, g


@everywhere
def test_each_model_changes_its_own_weights(device: str) -> None:
    d, g = pair(device)
    x, z = numbers(ROWS, 1, 4, 4), numbers(ROWS, 5)
    assert bits(d).keys() == bits(g).keys()
    before = bits(g)
    run(d, {"z": z}, real=x)
    middle = bits(g)
    run(g, z=z)
    after = bits(d)
    kinds = {t.tensor_id: name.rpartition(".")[2] for name, t in g.named_parameters().items()}
    first = [n for n in before if before[n] != middle[n]]
    second = [n for n in before if middle[n] != after[n]]
    statistics = {n for n, kind in kinds.items() if kind in ("mean", "variance")}
    # As in PyTorch's training mode, statistics move in both steps.
    assert set(first) & set(second) == statistics
    assert set(first) | set(second) == set(before)
    names_of_g = list(kinds)[: len(kinds) // 2]
    assert set(second) - statistics == set(names_of_g) - statistics


def test_frozen_weights_have_no_gradients() -> None:
    _, g = pair()
    (z,) = g.source_tensors(g.layers[0])
    g.bind_and_write_data({"z": numbers(ROWS, 5)}, for_inputs={"z": z})
    g.execute_forward()
    g.execute_gradient(options="synchronous")
    with_gradient = []
    for layer in g.layers:
        for name in ("weights", "gamma"):
            if (tensor := getattr(layer, name, None)) is None:
                continue
            try:
                g.gradient_data(tensor, layer=layer)
                with_gradient.append(True)
            except tg.InvalidArgument:
                with_gradient.append(False)
    assert with_gradient == [True, True, True, False, False, False]


@everywhere
def test_other_batch_sizes_and_predict(device: str) -> None:
    d, g = pair(device)
    for rows in (ROWS, 7, 1):
        z = numbers(rows, 5)
        assert np.isfinite(run(d, {"z": z}, real=numbers(rows, 1, 4, 4)))
        assert np.isfinite(run(g, z=z))
    assert g.predict(numbers(9, 5)).shape == (9, 1, 4, 4)
    assert d.predict(numbers(9, 1, 4, 4)).shape == (9, 1)


def test_states_of_both_are_loaded() -> None:
    d, g = pair()
    again = pair()
    run(d, {"z": numbers(ROWS, 5)}, real=numbers(ROWS, 1, 4, 4))
    run(g, z=numbers(ROWS, 5))
    again[0].load_state(d.state())
    again[1].load_state(g.state())
    given = numbers(ROWS, 5)
    np.testing.assert_array_equal(again[1].predict(given), g.predict(given))
    np.testing.assert_array_equal(again[0].predict(numbers(2, 1, 4, 4)),
                                  d.predict(numbers(2, 1, 4, 4)))  # fmt: skip


# --- shared blocks -------------------------------------------------------------------------------


def tensors(*models: tg.MLCTrainingGraph) -> list[set[int]]:
    return [{t.tensor_id for t in model.named_parameters().values()} for model in models]


BLOCKS: dict[str, tuple[Callable[[], nn.Block], tuple[int, ...]]] = {
    "dense": (lambda: nn.shared([nn.dense(3), "relu", nn.dense(2)]), (6,)),
    "residual": (lambda: nn.shared([nn.residual([nn.layer_norm(), nn.dense(6)])]), (6,)),
    "sequences": (lambda: nn.shared([nn.positional_embedding(), nn.attention(2), nn.lstm(3)]),
                  (5, 4)),
    "gru": (lambda: nn.shared([nn.gru(3)]), (5, 4)),
    "images": (lambda: nn.shared([nn.conv2d(2, 3), nn.batch_norm(), nn.group_norm(2),
                                  nn.flatten()]), (1, 4, 4)),
    "a layer": (lambda: nn.shared([full(6, 2, 1, np.float32), tg.MLCActivationLayer.relu()]),
                (6,)),
    "a function": (lambda: nn.shared([lambda graph, x: graph.node(full(6, 2, 1, np.float32),
                                                                  source=x)]), (6,)),
    "shared inside": (lambda: nn.shared([nn.shared([nn.dense(6)]), nn.dense(2)]), (6,)),
    "one twice": (lambda: nn.shared([nn.sequential([(b := nn.shared([nn.dense(6)])), b])]), (6,)),
}  # fmt: skip


@everywhere
@pytest.mark.parametrize("name", BLOCKS)
def test_models_have_the_same_weights(name: str, device: str) -> None:
    make, shape = BLOCKS[name]
    block = make()
    x = nn.Input(shape)
    common: dict[str, Any] = {"loss": "mse", "optimizer": nn.sgd(0.5), "device": device}
    first = nn.model([block], input=shape, batch_size=ROWS, **common)
    second = nn.model(inputs=x, outputs=block(x), loss="mse", batch_size=3, device=device)
    given = numbers(ROWS, *shape)
    assert tensors(first)[0] == tensors(second)[0]
    labels = {"y": np.ones_like(first.predict(given))}
    before = second.predict(given)
    run(first, labels, x=given)
    np.testing.assert_allclose(second.predict(given), first.predict(given), rtol=1e-6, atol=1e-6)
    assert not np.allclose(before, second.predict(given))


def test_calls_of_one_model_have_the_same_weights() -> None:
    twins = nn.shared([nn.dense(3, bias=False)])
    a, b = nn.Input(4, name="a"), nn.Input(4, name="b")
    model = nn.model(inputs=[a, b], outputs=twins(a) - twins(b), loss="mse", batch_size=ROWS)
    assert len(model.named_parameters()) == 1
    given = numbers(ROWS, 4)
    np.testing.assert_array_equal(model.predict({"a": given, "b": given}), 0)


def test_layers_of_another_length_and_size() -> None:
    """Weights that do not depend on it."""
    steps, images = nn.shared([nn.gru(3)]), nn.shared([nn.conv2d(2, 3), "relu"])
    for shapes, block in (((5, 4), (2, 4)), steps), (((1, 4, 4), (1, 6, 2)), images):
        models = [nn.model([block, nn.flatten(), nn.dense(2)] if len(s) == 3 else [block], input=s,
                           loss="mse", batch_size=2) for s in shapes]  # fmt: skip
        first, second = tensors(*models)
        assert first & second


def test_a_graph_of_ml_computes() -> None:
    block = nn.shared([nn.dense(2)])
    graphs = [tg.MLCGraph() for _ in range(2)]
    x = tg.MLCTensor(shape=[3, 4])
    for graph in graphs:
        block(graph, x)
        nn.sequential(graph, x, [block])
    (layer,) = graphs[0].layers
    assert graphs[1].layers == [layer]
    with pytest.raises(tg.InvalidArgument, match="it belongs to another graph"):
        graphs[1].node(layer, source=x)


def test_a_first_use_that_fails_is_forgotten() -> None:
    block = nn.shared([nn.dense(4), nn.dense(5, 2)])
    x = nn.Input(3)
    with pytest.raises(tg.ShapeError, match=r"dense\(5, 2\)"):
        nn.model(inputs=x, outputs=block(x))
    wide = nn.shared([nn.dense(4), lambda graph, t: nn.dense(2)(graph, t)])
    with pytest.raises(tg.ShapeError):
        nn.model([nn.flatten(), nn.reshape([2, 2, 2]), wide], input=8)
    assert nn.model([wide], input=3).predict(numbers(2, 3)).shape == (2, 2)


def outer_fails(block: nn.Block) -> None:
    nn.model([nn.shared([block, nn.conv2d(3, 3)])], input=5)


def outer_fails_in_a_graph(block: nn.Block) -> None:
    nn.shared([block, nn.conv2d(3, 3)])(tg.MLCGraph(), tg.MLCTensor(shape=[4, 5]))


def next_block_fails(block: nn.Block) -> None:
    nn.model([block, nn.conv2d(3, 3)], input=5)


def loss_fails(block: nn.Block) -> None:
    x = nn.Input(5)
    nn.model(inputs=x, outputs=block(x), loss=block(x) - nn.Input([2, 3], name="y"))


def compilation_fails(block: nn.Block) -> None:
    x, wide = nn.Input(5), nn.Input(4, data_type="float64")
    nn.model(inputs=[x, wide], outputs=block(x) + wide, loss="mse", device="cpu")


def nothing_is_trained(block: nn.Block) -> None:
    x = nn.Input(5)
    head = nn.shared([nn.dense(1)])
    nn.model(inputs=x, outputs=[block(x), head(x)], loss="mse", train=head)


FAILURES = [
    outer_fails, outer_fails_in_a_graph, next_block_fails, loss_fails, compilation_fails,
    nothing_is_trained,
]  # fmt: skip


@pytest.mark.parametrize("fail", FAILURES)
def test_a_model_that_fails_leaves_blocks_as_they_were(fail: Callable[[nn.Block], None]) -> None:
    block = nn.shared([nn.dense(4), nn.shared([nn.dense(4)])])
    with pytest.raises((ValueError, TypeError)):
        fail(block)
    models = [nn.model([block], input=7, loss="mse") for _ in range(2)]  # not 5
    first, second = tensors(*models)
    assert first == second
    # Also where it has weights already.
    with pytest.raises((ValueError, TypeError)):
        fail(block)
    assert tensors(nn.model([block], input=7, loss="mse")) == [first]


def test_a_failure_leaves_what_another_thread_has_used() -> None:
    block = nn.shared([nn.dense(4)])
    others: list[tg.MLCTrainingGraph] = []

    def use(graph: tg.MLCGraph, x: tg.MLCTensor) -> tg.MLCTensor:
        thread = threading.Thread(
            target=lambda: others.append(nn.model([block], input=5, loss="mse"))
        )
        thread.start()
        thread.join(60)
        raise RuntimeError("after another thread has used the block")

    with pytest.raises(RuntimeError, match="after another thread"):
        nn.model([block, use], input=5)
    assert tensors(nn.model([block], input=5, loss="mse")) == tensors(*others)


@pytest.mark.parametrize("order", [("cpu", "reference"), ("reference", "cpu")])
def test_models_on_different_devices(order: tuple[str, str]) -> None:
    block = nn.shared([nn.dense(3)])
    first, second = (nn.model([block], input=4, loss="mse", device=one, batch_size=ROWS)
                     for one in order)  # fmt: skip
    given = numbers(ROWS, 4)
    run(first, {"y": numbers(ROWS, 3)}, x=given)
    np.testing.assert_allclose(first.predict(given), second.predict(given), rtol=1e-5, atol=1e-6)


def test_threads_share_the_first_use() -> None:
    block = nn.shared([lambda graph, x: nn.dense(3)(graph, x), nn.dense(2)])
    made: list[tg.MLCTrainingGraph] = []

    def make(k: int) -> None:
        if k % 2:
            made.append(nn.model([block], input=4))
            return
        graph = tg.MLCGraph()
        block(graph, tg.MLCTensor(shape=[32, 4]))
        made.append(tg.MLCTrainingGraph(graph_objects=[graph]))

    threads = [threading.Thread(target=make, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert len(made) == 8
    assert len({frozenset(t.weights.tensor_id for t in model.layers if hasattr(t, "weights"))
                for model in made}) == 1  # fmt: skip


# --- a part of a model that is trained -----------------------------------------------------------


def test_a_new_head_on_a_trained_body() -> None:
    body, head = nn.shared([nn.dense(8), nn.batch_norm(), "relu"]), nn.shared([nn.dense(3)])
    first = nn.model([body, nn.dense(2)], input=4)
    first.fit(numbers(64, 4), np.zeros(64, np.int32))
    second = nn.model([body, head], input=4, train=head)
    before = second.state()
    second.fit(numbers(64, 4), np.full(64, 2, np.int32), epochs=2)
    changed = {n for n, v in second.state().items() if n in before and (v != before[n]).any()}
    weights = {n for n in changed if n.endswith(("weights", "biases", "gamma", "beta"))}
    assert weights == {"4.FullyConnected.weights", "4.FullyConnected.biases"}


def trained_by_squares(graph: tg.MLCGraph, x: tg.MLCTensor) -> tg.MLCTrainingGraph:
    y = tg.MLCTensor(shape=[ROWS, 1])
    training = tg.MLCTrainingGraph(
        graph_objects=[graph], loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="mean"),
        optimizer=tg.MLCSGDOptimizer(learning_rate=0.1),
    )  # fmt: skip
    training.add_inputs({"x": x}, loss_labels={"y": y})
    return training


def test_an_early_stopping_puts_back_what_another_model_has_trained_since() -> None:
    body, x = nn.shared([nn.dense(4)]), numbers(16, 3)
    y = np.zeros(16, np.int32)
    ends = [nn.model([body, nn.dense(2)], input=3, batch_size=8, train=body) for _ in range(2)]
    states = []

    def train_other(epoch: tg.Epoch) -> None:
        states.append(ends[0].state())
        ends[1].fit(x, 1 - y)

    stop = tg.EarlyStopping(patience=1, min_delta=1e9)  # the first epoch is the best
    assert len(ends[0].fit(x, y, epochs=9, callbacks=[stop, train_other])) == 2
    name = next(iter(ends[0].named_parameters()))
    moved, put_back = states[1][name], ends[1].state()[name]
    np.testing.assert_array_equal(put_back, states[0][name])
    assert not np.array_equal(moved, put_back)


def test_train_only_of_a_graph() -> None:
    graph, x = tg.MLCGraph(), tg.MLCTensor(shape=[ROWS, 2])
    layers = [full(2, 3, 1, np.float32), full(3, 1, 3, np.float32)]
    tg.sequential(graph, x, layers)
    training = trained_by_squares(graph, x)
    training.compile(device="cpu")
    for trained in ([layers[1]], [layers[0]], layers):
        training.train_only(trained)
        before = [np.array(layer.weights.data) for layer in layers]
        run(training, {"y": numbers(ROWS, 1)}, x=numbers(ROWS, 2))
        training.synchronize_updates()
        changed = [layer for layer, old in zip(layers, before, strict=True)
                   if (layer.weights.data != old).any()]  # fmt: skip
        assert changed == trained
    relu = tg.MLCActivationLayer.relu()
    with pytest.raises(tg.InvalidArgument, match=r"\[train_only\] expected layers of this graph"):
        training.train_only([relu])
    graph.node(relu, source=x)
    with pytest.raises(tg.InvalidArgument, match=r"\[train_only\] expected layers with param"):
        training.train_only([relu])
    with pytest.raises(tg.InvalidArgument, match=r"\[train_only\] expected layers with param"):
        training.train_only([])


def test_an_embedding_that_is_not_trained_keeps_its_bits() -> None:
    """Also where its rows are limited as they are looked up."""
    graph, x = tg.MLCGraph(), tg.MLCTensor(shape=[ROWS], data_type="int32")
    table = tg.MLCTensor(data=numbers(6, 2))
    embedding = tg.MLCEmbeddingLayer(
        descriptor=tg.MLCEmbeddingDescriptor(
            embedding_count=6, embedding_dimension=2, maximum_norm=0.25
        ),
        weights=table,
    )
    last = full(2, 1, 3, np.float32)
    tg.sequential(graph, x, [embedding, last])
    training = trained_by_squares(graph, x)
    training.train_only([last])
    training.compile(device="cpu")
    run(training, {"y": numbers(ROWS, 1)}, x=np.array([0, 3, 3, 5], np.int32))
    training.synchronize_updates()
    np.testing.assert_array_equal(table.data, numbers(6, 2))


X = nn.Input(3)
BODY = nn.shared([nn.dense(2)])
STOPPED, WIDE = nn.shared([nn.dense(5)]), nn.shared(["relu", nn.dense(2)])
REFUSED: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "another block": (
        lambda: nn.model(inputs=X, outputs=BODY(X), train=nn.sequential([nn.dense(2)])),
        tg.InvalidArgument,
        r"\[model\] expected blocks of shared\(\) in train but got sequential\(\[dense\(2\)\]\)",
    ),
    "one that is not called": (
        lambda: nn.model(inputs=X, outputs=BODY(X), train=nn.shared([nn.dense(4)])),
        tg.InvalidArgument, r"the outputs or the loss call but got shared\(\[dense\(4\)\]\)",
    ),
    "one without weights": (
        lambda: nn.model([relu := nn.shared(["relu"])], input=3, train=relu),
        tg.InvalidArgument, r"that have weights .* but got shared\(\[relu\]\)",
    ),
    "one beside the loss": (
        lambda: nn.model(inputs=X, outputs=[nn.dense(2)(X), STOPPED(X)], loss="mse",
                         train=STOPPED),
        tg.InvalidArgument,
        r"in train that a gradient of the loss reaches but got shared\(\[dense\(5\)\]\)",
    ),
    "one behind a stop": (
        lambda: nn.model(inputs=X, outputs=nn.dense(2)(nn.stop_gradient(STOPPED(X))), loss="mse",
                         train=[STOPPED]),
        tg.InvalidArgument, r"a gradient of the loss reaches but got shared\(\[dense\(5\)\]\)",
    ),
    "one of two": (
        lambda: nn.model(inputs=X, outputs=BODY(X) * nn.stop_gradient(WIDE(X)), loss="mse",
                         train=[BODY, WIDE]),
        tg.InvalidArgument, r"a gradient of the loss reaches but got shared\(\[relu, dense\(2\)\]",
    ),
    "none": (
        lambda: nn.model([BODY], input=3, train=[]), tg.InvalidArgument,
        "expected 1 or more blocks in train but got none",
    ),
    "a name": (
        lambda: nn.model([BODY], input=3, train=["relu"]), tg.InvalidArgument,
        r"expected blocks of shared\(\) in train but got relu",
    ),
    "a number": (
        lambda: nn.model([BODY], input=3, train=3), TypeError, r"expected train: .*Block",
    ),
    "a source of another width": (
        lambda: [nn.model([BODY], input=n) for n in (3, 4)], tg.ShapeError,
        r"\[shared\] expected FullyConnected 3 → 2, as at the first use, but got FullyConnected "
        r"4 → 2 in block .*shared\(\[dense\(2\)\]\) over \(32, 4\)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_refusals(what: str) -> None:
    call, error, message = REFUSED[what]
    with pytest.raises(error, match=message):
        call()


# --- labels that are numbers ---------------------------------------------------------------------


@everywhere
def test_a_number_as_labels(device: str) -> None:
    x = nn.Input(2)
    given = np.array([[1, -2], [np.inf, 0.5], [3, 0]], np.float32)
    for name, label, theirs in (
        ("mse", 3, lambda p: (p - 3) ** 2),
        ("sigmoid_cross_entropy", 1,
         lambda p: torch.nn.functional.softplus(-p)),
        ("hinge", 1, lambda p: (1 - p).clamp(min=0)),
    ):  # fmt: skip
        model = nn.model(inputs=x, outputs=x, loss=nn.where(x < 100, nn.loss(name, x, label), 0),
                         batch_size=3, device=device)  # fmt: skip
        p = torch.tensor(given)
        wanted = torch.where(p < 100, theirs(p), 0).mean()
        assert run(model, x=given) == pytest.approx(float(wanted), rel=1e-5)
        assert run(model, x=given[:1]) == pytest.approx(float(theirs(p[:1]).mean()), rel=1e-5)
