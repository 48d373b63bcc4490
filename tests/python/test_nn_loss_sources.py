"""What a named loss of a model reads: logits, and classes on axis 1."""

import re
from typing import Any

import numpy as np
import pytest

import traingraph as tg
from traingraph import nn

TAKES = "expected logits for {0}_cross_entropy, which takes their {0}, but got what {0} has made;"
X = nn.Input(8)


def twice(name: str, loss: Any, **options: Any) -> tg.MLCTrainingGraph:
    return nn.model([nn.dense(3), name], input=8, loss=loss, device="cpu", **options)


@pytest.mark.parametrize("name", ["softmax", "sigmoid"])
@pytest.mark.parametrize(
    "behind",
    [[], [nn.reshape([1, 3]), nn.reshape([3])], [nn.permute((1,))]],
    ids=["none", "reshapes", "permute"],
)
@pytest.mark.parametrize("shares", [False, True])
def test_a_softmax_before_a_loss_that_takes_it(name: str, behind: list[Any], shares: bool) -> None:
    layers = [nn.dense(3), name, *behind]
    made = [nn.shared(layers)] if shares else layers
    with pytest.raises(tg.InvalidArgument, match=re.escape("[model] " + TAKES.format(name))):
        nn.model(made, input=8, loss=f"{name}_cross_entropy")
    made_again = nn.sequential(layers)(X)
    labels = nn.Input(1, data_type="int32") if name == "softmax" else nn.Input(3)
    loss = nn.loss(f"{name}_cross_entropy", made_again, labels)
    with pytest.raises(tg.InvalidArgument, match=re.escape("[loss] " + TAKES.format(name))):
        nn.model(inputs=X, outputs=made_again, loss=loss)


def test_what_the_message_says_to_do_is_accepted() -> None:
    x = np.random.default_rng(0).normal(size=(64, 8)).astype(np.float32)
    classes = (x[:, 0] > 0).astype(np.int32)
    hot = np.eye(3, dtype=np.float32)[classes]
    plain = nn.model([nn.dense(3)], input=8, device="cpu", optimizer=nn.adam(0.05))
    given = [
        (plain, classes),
        (twice("softmax", "categorical_cross_entropy", optimizer=nn.adam(0.05)), hot),
        (twice("sigmoid", "log", optimizer=nn.adam(0.05)), hot),
        # A loss layer takes what it is given, as in ML Compute; log_softmax of logs is the same.
        (twice("softmax", tg.MLCLossLayer.softmax_cross_entropy()), classes),
        (twice("sigmoid", tg.MLCLossLayer.sigmoid_cross_entropy()), hot),
        (twice("log_softmax", "softmax_cross_entropy"), classes),
        (twice("softmax", "sigmoid_cross_entropy"), hot),
        (twice("sigmoid", "softmax_cross_entropy"), classes),
        (twice("softmax", "mse"), hot),
    ]
    for model, labels in given:
        epochs = model.fit(x, labels, epochs=15)
        assert epochs[-1].loss < epochs[0].loss


LAST = [
    nn.dense(4),
    nn.sequential([nn.dense(4), nn.dropout(0.1), "tanh"]),
    nn.lstm(4, returns_sequences=True),
    nn.gru(4, returns_sequences=True),
    nn.attention(2),
    nn.conv1d(4, 3),
    nn.sequential([nn.conv1d(4, 3), nn.layer_norm()]),
    nn.residual([nn.dense(4)]),
    nn.shared([nn.dense(4)]),
]


@pytest.mark.parametrize("block", LAST, ids=[block.text if hasattr(block, "text") else str(k)
                                             for k, block in enumerate(LAST)])  # fmt: skip
def test_as_many_steps_as_classes_are_refused(block: nn.Block) -> None:
    text = "expected classes on axis 1, over which softmax_cross_entropy goes, but got (32, 4, 4)"
    advice = "on axis 2; nn.permute((2, 1)) brings them to axis 1, and nn.reshape((4, 4)) says that"
    for labels in ("classes", "one_hot"):
        with pytest.raises(tg.InvalidArgument) as error:
            nn.model([block], input=(4, 4), labels=labels)
        assert text in str(error.value)
        assert advice in str(error.value)
    x, y = nn.Input((4, 4)), nn.Input(4, data_type="int32")
    loss = nn.loss("softmax_cross_entropy", block(x), y)
    with pytest.raises(tg.InvalidArgument, match=re.escape("[loss] " + text)):
        nn.model(inputs=x, outputs=block(x), loss=loss)
    for last in (nn.permute((2, 1)), nn.reshape((4, 4))):
        model = nn.model([block, last], input=(4, 4), device="cpu")
        assert model.fit(np.ones((32, 4, 4), np.float32), np.zeros((32, 4), np.int32))[0].steps == 1


def test_other_numbers_of_steps() -> None:
    """Labels of classes tell; distributions over steps have the shape of those over classes."""
    x, steps = np.zeros((32, 5, 4), np.float32), np.zeros((32, 5), np.int32)
    model = nn.model([nn.dense(4)], input=(5, 4), device="cpu")
    advice = "; classes are on axis 1 of what the loss reads, where nn.permute((2, 1)) brings them"
    with pytest.raises(tg.ShapeError, match=re.escape(f"(N, 4), but got (32, 5){advice}")):
        model.fit(x, steps)
    with pytest.raises(tg.ShapeError, match=re.escape(f"(32, 4) but got (32, 5){advice}")):
        model.execute(inputs_data={"x": x}, loss_labels_data={"y": steps})
    assert model.fit(x, steps[:, :4])  # a step of the sequence is what is asked for
    for loss in ("softmax_cross_entropy", "categorical_cross_entropy"):
        with pytest.raises(tg.InvalidArgument, match=f"over which {loss} goes, but got"):
            nn.model([nn.dense(4)], input=(5, 4), labels="one_hot", loss=loss)
    pointer = nn.model([nn.dense(1)], input=(5, 4), labels="one_hot", device="cpu")
    assert pointer.fit(x, np.zeros((32, 5, 1), np.float32))
