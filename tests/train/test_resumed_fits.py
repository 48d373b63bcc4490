"""A fit that was killed or interrupted goes on to the bits of one that was not."""

import ctypes
import json
import random
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fit_to_kill import Moments, X, Y, fit, model, outcome

import traingraph as tg
from traingraph import nn

PLACES, TIMES = 50, 10


def test_killed_fits_end_as_one_that_was_not(tmp_path: Path) -> None:
    program = [sys.executable, str(Path(__file__).with_name("fit_to_kill.py"))]
    subprocess.run([*program, str(tmp_path), str(PLACES), str(TIMES)], check=True, timeout=300)
    whole, *resumed = map(json.loads, (tmp_path / "found.jsonl").read_text().splitlines())
    assert len(resumed) == PLACES + TIMES
    assert 5 < len(whole["rows"]) < 40  # the early stopping has ended it
    for found in resumed:
        assert found == whole


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], int]:
    folder, moment, network = tmp_path_factory.mktemp("whole"), Moments(), model()
    return outcome(network, fit(network, moment, folder), folder), moment.count


@pytest.mark.parametrize("how", ["file", "graph"])
def test_interrupted_fits_end_as_one_that_was_not(
    how: str, whole: tuple[dict[str, Any], int], tmp_path: Path
) -> None:
    expected, moments = whole
    draw = random.Random(how)
    for at in draw.sample(range(1, moments), 20):
        network, path = model(), tmp_path / "run.safetensors"
        with pytest.raises(KeyboardInterrupt):
            fit(network, Moments(at, lambda: signal.raise_signal(signal.SIGINT)), tmp_path)
        if how == "file":
            network.save(path)
            network = model(seed=8)
        resume = path if how == "file" else True
        stop = fit(network, Moments(), tmp_path, resume=resume)
        assert outcome(network, stop, tmp_path) == expected, at


def test_an_interrupted_epoch_trains_its_batches_once(tmp_path: Path) -> None:
    network, path = model(), tmp_path / "half.safetensors"
    steps = Moments(8, lambda: signal.raise_signal(signal.SIGINT))

    def rate(step: int) -> float:
        steps()
        return 0.01

    with pytest.raises(KeyboardInterrupt, match="after step 1 of epoch 2"):
        network.fit(X, Y, epochs=4, schedule=rate)
    network.save(path)
    network = model(seed=8)
    network.load(path)
    assert [e.number for e in network.fit(X, Y, epochs=4, schedule=rate, resume=True)] == [2, 3, 4]
    assert network.state()["state.forward_count"] == 4 * 6


def test_rates_of_a_file_are_taken_by_a_fit_that_goes_on_alone(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"

    def after(epoch: tg.Epoch) -> bool:
        network.optimizer.learning_rate *= 0.5
        return True

    def interrupt(epoch: tg.Epoch) -> None:
        if epoch.number == 2:
            raise KeyboardInterrupt

    network = model()
    with pytest.raises(KeyboardInterrupt):
        network.fit(X, Y, epochs=4, callbacks=[after, interrupt])
    network.save(path)
    network = model()
    network.load(path)
    assert network.optimizer.learning_rate == pytest.approx(0.02)
    (third, fourth) = network.fit(X, Y, epochs=4, callbacks=[after], resume=True)[-2:]
    assert third.learning_rate == pytest.approx(0.02 / 4)
    assert fourth.learning_rate == pytest.approx(0.02 / 8)


def test_a_fit_without_a_file_begins_and_one_that_has_ended_stays(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    file = tg.Checkpoint(path=path, every_steps=2, metadata={"run": "7"})
    alone, network = model(), model()
    alone.fit(X, Y, epochs=3)
    assert len(network.fit(X, Y, epochs=3, callbacks=[file], resume=path)) == 3
    again = model(seed=8)
    assert again.fit(X, Y, epochs=3, resume=path) == []
    for name, values in alone.state().items():
        np.testing.assert_array_equal(values, again.state()[name], err_msg=name)
    assert [epoch.number for epoch in model().fit(X, Y, epochs=5, resume=path)] == [4, 5]
    # Nor is the place in a file of a fit that has ended, or in the state.
    network.save(path)
    assert not [name for name in network.state() if name.startswith("fit.")]
    text = r"checkpoint that was saved within a fit but '.*' was not, or a later save has replaced"
    with pytest.raises(ValueError, match=text):
        network.fit(X, Y, resume=path)


@pytest.mark.parametrize(("saved", "loading"), [("Adam", "SGD"), ("SGD", "Adam")])
def test_a_file_of_another_optimizer_names_both(saved: str, loading: str, tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"

    def network(optimizer: str) -> tg.MLCTrainingGraph:
        made = {"Adam": nn.adam, "SGD": nn.sgd}[optimizer](0.1)
        return nn.model([nn.dense(3)], input=5, batch_size=16, optimizer=made)

    network(saved).fit(X, Y, callbacks=[tg.Checkpoint(path=path)])
    text = f"they are of another optimizer: the file is of {saved}, this graph has {loading}; load_"
    for call in (lambda one: one.load(path), lambda one: one.fit(X, Y, epochs=2, resume=path)):
        with pytest.raises(ValueError, match=re.escape(text)):
            call(network(loading))


def test_a_graph_that_has_gone_on_stands_in_no_fit(tmp_path: Path) -> None:
    network = interrupted()
    network.execute(inputs_data={"x": X[:16]}, loss_labels_data={"y": Y[:16]})
    with pytest.raises(ValueError, match="the graph as its fit has left it, after 9 executions, "):
        network.fit(X, Y, epochs=4, resume=True)
    network.save(tmp_path / "later.safetensors")
    network.load(tmp_path / "later.safetensors")
    with pytest.raises(ValueError, match="stands in a fit to go on with but it stands in none"):
        network.fit(X, Y, epochs=4, resume=True)


@pytest.mark.parametrize("where", ["callback", "validation"])
@pytest.mark.parametrize("how", ["file", "graph"])
def test_an_epoch_is_listed_once(where: str, how: str, tmp_path: Path) -> None:
    """In the list of the run in which all callbacks have heard of it."""
    network, path = model(), tmp_path / "run.safetensors"
    others = 0

    def press(epoch: tg.Epoch) -> None:
        nonlocal others
        others += 1
        if others == 2 and where == "callback":
            raise KeyboardInterrupt

    given: dict[str, Any] = {"epochs": 4, "callbacks": [press], "validation": (X[70:], Y[70:])}
    if where == "validation":
        bad = Y[70:].copy()

        def spoil(epoch: tg.Epoch) -> None:
            bad[:] = 99

        given |= {"callbacks": [press, spoil], "validation": (X[70:], bad)}
    kind = KeyboardInterrupt if where == "callback" else ValueError
    with pytest.raises(kind) as error:
        network.fit(X, Y, **given)
    if how == "file":
        network.save(path)
        network = model(seed=8)
    given |= {"callbacks": [press], "validation": (X[70:], Y[70:])}
    rest = network.fit(X, Y, resume=path if how == "file" else True, **given)
    epochs = [*error.value.epochs, *rest]
    assert [epoch.number for epoch in epochs] == [1, 2, 3, 4]
    whole = model().fit(X, Y, epochs=4, validation=(X[70:], Y[70:]))
    assert [(e.loss, e.steps, e.validation) for e in epochs] == [
        (e.loss, e.steps, e.validation) for e in whole
    ]


# --- the last moment -----------------------------------------------------------------------------


def interrupt_behind_python() -> Any:
    """A callback that presses Ctrl-C while no Python code runs, where the core has to notice."""
    press = ctypes.pythonapi["PyErr_SetInterrupt"]
    press.argtypes, press.restype = [ctypes.py_object], None
    return press


def test_ctrl_c_behind_an_epoch_has_the_epochs_and_goes_on() -> None:
    whole, network = model(), model()
    stop, again = (tg.EarlyStopping(patience=9) for _ in range(2))
    settings: dict[str, Any] = {"epochs": 3, "validation": (X[70:], Y[70:])}
    whole.fit(X, Y, callbacks=[stop], **settings)
    with pytest.raises(KeyboardInterrupt) as error:
        network.fit(X, Y, callbacks=[again, interrupt_behind_python()], **settings)
    assert error.value.epochs  # as many as there were before the core looked
    network.fit(X, Y, callbacks=[again], resume=True, **settings)
    assert again.best == stop.best
    for name, values in whole.state().items():
        np.testing.assert_array_equal(values, network.state()[name], err_msg=name)


def test_ctrl_c_behind_the_last_epoch() -> None:
    """All is done but the return."""
    whole, network = model(), model()
    whole.fit(X, Y)
    with pytest.raises(KeyboardInterrupt, match="after step 6 of epoch 1") as error:
        network.fit(X, Y, callbacks=[interrupt_behind_python()])
    assert [epoch.number for epoch in error.value.epochs] == [1]
    assert network.fit(X, Y, resume=True) == []
    for name, values in whole.state().items():
        np.testing.assert_array_equal(values, network.state()[name], err_msg=name)


def test_a_fit_that_has_ended_has_nothing_left(tmp_path: Path) -> None:
    """Who was interrupted as it returned finds that."""
    network = model()
    network.fit(X, Y, epochs=2)
    state = network.state()
    assert network.fit(X, Y, epochs=2, resume=True) == []
    assert network.fit(X, Y, epochs=1, resume=True) == []
    assert not [name for name in network.state() if name.startswith("fit.")]
    for name, values in network.state().items():
        np.testing.assert_array_equal(values, state[name], err_msg=name)
    none = "stands in a fit to go on with but it stands in none"
    assert [epoch.number for epoch in network.fit(X, Y, epochs=3, resume=True)] == [3]
    network.fit(X, Y, epochs=9, on_epoch=lambda epoch: False)
    with pytest.warns(
        RuntimeWarning, match="lambda> has ended the fit to go on with after epoch 1"
    ):
        assert network.fit(X, Y, epochs=9, resume=True) == []
    network.load_state(network.state())
    with pytest.raises(ValueError, match=none):
        network.fit(X, Y, epochs=9, resume=True)
    network.fit(X, Y)
    network.execute(inputs_data={"x": X[:16]}, loss_labels_data={"y": Y[:16]})
    with pytest.raises(ValueError, match=none):
        network.fit(X, Y, resume=True)


def test_a_fit_that_found_a_nan_goes_on_with_what_is_mended() -> None:
    """As if the NaN had never been there: the step has left nothing, neither of its masks."""
    whole, network = model(), model()
    whole.fit(X, Y, epochs=3)
    bad = X.copy()
    bad[40, 2] = np.nan
    with pytest.raises(tg.NumericError, match=r"has NaN at .* of step \d of epoch 1$|of epoch 1"):
        network.fit(bad, Y, epochs=3, options="check_numerics")
    with pytest.raises(tg.NumericError):
        network.fit(bad, Y, epochs=3, options="check_numerics", resume=True)
    done = network.fit(X, Y, epochs=3, options="check_numerics", resume=True)
    assert [epoch.number for epoch in done] == [1, 2, 3]
    for name, values in whole.state().items():
        np.testing.assert_array_equal(values, network.state()[name], err_msg=name)


def test_an_inference_graph_takes_a_file_of_a_fit(tmp_path: Path) -> None:
    x = tg.MLCTensor(shape=[4, 5])
    graph = tg.MLCGraph()
    tg.sequential(graph, x, [nn.dense(3)])
    training = tg.MLCTrainingGraph(
        graph_objects=[graph], loss_layer=tg.MLCLossLayer.softmax_cross_entropy(),
        optimizer=nn.adam(0.1))  # fmt: skip
    training.add_inputs({"x": x}, loss_labels={"y": tg.MLCTensor(shape=[4], data_type="int32")})
    training.compile(device="cpu")
    file = tg.Checkpoint(path=tmp_path / "run.safetensors")
    training.fit(X, Y, callbacks=[tg.EarlyStopping(patience=1), file])
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": x})
    assert inference.load(file.path) == {}


def test_micro_batches_go_on_amid_a_step(tmp_path: Path) -> None:
    def network() -> tg.MLCTrainingGraph:
        made = model()
        made.micro_batches = 4  # of 6 batches in an epoch
        return made

    expected = network()
    expected.fit(X, Y, epochs=3)
    for at in (2, 7, 11):
        moment = Moments(at, lambda: signal.raise_signal(signal.SIGINT))

        def rate(step: int, moment: Moments = moment) -> float:
            moment()
            return 0.02

        found, path = network(), tmp_path / "run.safetensors"
        with pytest.raises(KeyboardInterrupt):
            found.fit(X, Y, epochs=3, schedule=rate)
        found.save(path)
        found = network()
        found.fit(X, Y, epochs=3, resume=path)
        for name, values in expected.state().items():
            np.testing.assert_array_equal(values, found.state()[name], err_msg=name)


# --- what does not fit ---------------------------------------------------------------------------


def interrupted(**given: Any) -> tg.MLCTrainingGraph:
    """In the second of 4 epochs, with an EarlyStopping."""
    network = model()
    moment = Moments(10, lambda: signal.raise_signal(signal.SIGINT))

    def rate(step: int) -> float:
        moment()
        return 0.02

    settings = {"callbacks": [tg.EarlyStopping(patience=9)], **given}
    with pytest.raises(KeyboardInterrupt):
        network.fit(X, Y, epochs=4, schedule=rate, **settings)
    return network


MISTAKES = [
    ({"count": 60}, "[fit] expected samples: 90, as the fit to go on with has, but got 60"),
    ({"batch_size": 8}, "[fit] expected batch_size=16, as the fit to go on with has, but got 8"),
    ({"shuffle": False}, "but got shuffle=False"),
    ({"shuffle_seed": 5}, "[fit] expected shuffle_seed=3, as the fit to go on with has, but got "
                          "shuffle_seed=5"),
    ({"epochs": 1}, "expected epochs of at least 2, as the fit to go on with has, but got 1"),
    ({"epochs": 9, "first_epoch": 3}, "expected first_epoch of at most 2, as the fit to go on"),
    ({"callbacks": []}, "[fit] expected callbacks that keep state: EarlyStopping(monitor='loss'), "
                        "as the fit to go on with has, but got none; "),
]  # fmt: skip


@pytest.mark.parametrize(("given", "text"), MISTAKES, ids=range(len(MISTAKES)))
def test_a_call_that_does_not_fit_is_refused(given: dict[str, Any], text: str) -> None:
    network = interrupted()
    before = network.state()
    settings = {"epochs": 4, "callbacks": [tg.EarlyStopping(patience=9)], **given}
    count = settings.pop("count", 90)
    with pytest.raises(ValueError, match=re.escape(text)):
        network.fit(X[:count], Y[:count], resume=True, **settings)
    for name, values in network.state().items():
        np.testing.assert_array_equal(values, before[name], err_msg=name)
    # The place stays.
    fitting = {"epochs": 4, "callbacks": [tg.EarlyStopping(patience=9)], "resume": True}
    assert network.fit(X, Y, **fitting)[0].number == 2


def test_state_that_an_early_stopping_lacks_is_missed() -> None:
    network = interrupted(callbacks=[])
    text = "expected callbacks that keep state: none, as the fit to go on with has, but got EarlySt"
    with pytest.raises(ValueError, match=text):
        network.fit(X, Y, epochs=4, resume=True, callbacks=[tg.EarlyStopping(patience=9)])


def test_files_with_a_wrong_place_are_refused(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.numpy")
    path = tmp_path / "run.safetensors"
    interrupted().save(path)
    good = safetensors.load_file(path)
    assert good["fit.epoch"] == 2
    one = np.int64(1)
    for changed, text in [
        ({"fit.epoch": np.int64(0)}, "'fit.epoch' of at least 1 but got 0"),
        ({"fit.steps": np.int64(-1)}, "'fit.steps' of at least 0 but got -1"),
        ({"fit.ended": np.int64(2)}, "'fit.ended' of at most 1 but got 2"),
        (
            {"fit.heard.1.EarlyStopping(monitor='loss')": np.int64(2)},
            "(monitor='loss')' of at most 1 but got 2",
        ),
        ({"fit.samples": np.float32(1)}, "'fit.samples' of one int64 but got float32 ()"),
        ({"fit.order": None}, "expected of the fit in '{}' 'fit.order' but got none"),
        ({"fit.other": one}, "no 'fit.other' but got one"),
        ({"fit.callbacks.1.waited": np.uint16(1)}, "of a type that tensors have but got U16"),
        ({"fit.steps": np.int64(7)}, "'fit.steps' of at most 6 but got 7"),
        ({"fit.steps": np.int64(0)}, "'fit.loss_count' of at most 0 but got 48"),
        (
            {"fit.steps": np.int64(0), "fit.loss_count": np.int64(0)},
            "'fit.loss_sum' of 0, of no steps, but got ",
        ),
        ({"fit.loss_count": one}, "'fit.loss_count' of at least 3 but got 1"),
        ({"fit.loss_count": np.int64(-5)}, "'fit.loss_count' of at least 0 but got -5"),
        ({"fit.batch_size": np.int64(91)}, "'fit.batch_size' of at most 90 but got 91"),
        ({"fit.batch_size": np.int64(0)}, "'fit.batch_size' of at least 1 but got 0"),
        ({"fit.samples": np.int64(0)}, "'fit.batch_size' of at most 0 but got 16"),
        ({"fit.learning_rate": np.float32(np.nan)}, "a finite 'fit.learning_rate' but got nan"),
        ({"fit.epoch_rate": np.float32(np.inf)}, "a finite 'fit.epoch_rate' but got inf"),
    ]:
        file = {name: value for name, value in (good | changed).items() if value is not None}
        safetensors.save_file({name: np.asarray(value) for name, value in file.items()}, path)
        network = model()
        before = network.predict(X)
        with pytest.raises(ValueError, match=re.escape(text.format(path))):
            network.load(path)
        np.testing.assert_array_equal(network.predict(X), before)


STRAY = [
    ({"waited": np.int64(-1)}, "'fit.callbacks.1.waited' from 0 to 2 but got -1"),
    ({"waited": np.int64(3)}, "'fit.callbacks.1.waited' from 0 to 2 but got 3"),
    ({"waited": np.float32(1)}, "'fit.callbacks.1.waited' from 0 to 2 but got another type"),
    ({"waited": None}, "'fit.callbacks.1.waited' from 0 to 2 but got none"),
    ({"best_epoch": np.int64(9)}, "'fit.callbacks.1.best_epoch' from 0 to 2 but got 9"),
    ({"best_epoch": np.int64(0)}, "'fit.callbacks.1.best' to be absent, without a best epoch, but"),
    ({"of_validation": np.int64(2)}, "'fit.callbacks.1.of_validation' from 0 to 1 but got 2"),
    ({"best": np.float64(np.nan)}, "'fit.callbacks.1.best' that is a number but got nan"),
    ({"best": None}, "'fit.callbacks.1.best' of one float64 but got none"),
]


def edited_file(folder: Path, changed: dict[str, Any]) -> Path:
    """Of a fit that was interrupted, with other entries; None: without it."""
    safetensors = pytest.importorskip("safetensors.numpy")
    path = folder / "run.safetensors"
    interrupted().save(path)
    file = safetensors.load_file(path)
    for name, value in changed.items():
        file.pop(name, None)
        if value is not None:
            file[name] = np.asarray(value)
    safetensors.save_file(file, path)
    return path


@pytest.mark.parametrize(("changed", "text"), STRAY, ids=range(len(STRAY)))
def test_what_no_early_stopping_remembers_is_refused(
    changed: dict[str, Any], text: str, tmp_path: Path
) -> None:
    path = edited_file(tmp_path, {f"fit.callbacks.1.{k}": v for k, v in changed.items()})
    network = model()
    before = network.state()
    stop = tg.EarlyStopping(patience=9)
    text = re.escape(f"[fit] expected of the fit to go on with in '{path}' {text}")
    with pytest.raises(ValueError, match=text):
        network.fit(X, Y, epochs=4, callbacks=[stop], resume=path)
    for name, values in network.state().items():
        np.testing.assert_array_equal(values, before[name], err_msg=name)


KEPT = "fit.callbacks.1.kept."
STRAY_WEIGHTS = [
    (
        {"1.FullyConnected.biases": None},
        "'1.FullyConnected.biases' of float32 (16,) but got none",
    ),
    ({"1.FullyConnected.biases": np.zeros((1, 4), np.float32)}, "(16,) but got float32 (1, 4)"),
    ({"other": np.zeros(3, np.float32)}, "'other' to be absent but got it"),
]


@pytest.mark.parametrize(("changed", "text"), STRAY_WEIGHTS, ids=range(len(STRAY_WEIGHTS)))
def test_best_weights_of_another_graph_are_refused(
    changed: dict[str, Any], text: str, tmp_path: Path
) -> None:
    path = edited_file(tmp_path, {KEPT + name: value for name, value in changed.items()})
    with pytest.raises(ValueError, match=re.escape(text)) as error:
        model().fit(X, Y, epochs=4, callbacks=[tg.EarlyStopping(patience=9)], resume=path)
    assert error.value.epochs == []
    assert "step" not in str(error.value)


def test_a_loss_that_was_nan_goes_on_as_that(tmp_path: Path) -> None:
    """The files of such fits are no damaged ones."""
    path = tmp_path / "run.safetensors"
    bad = X.copy()
    bad[:] = np.nan
    with pytest.raises(tg.NumericError, match="in step 1 of epoch 1"):
        (network := model()).fit(bad, Y, epochs=2)
    network.save(path)
    with pytest.warns(RuntimeWarning, match="the loss is nan"):
        (first, _) = model().fit(bad, Y, epochs=2, resume=path, on_nonfinite="warn")
    assert np.isnan(first.loss)


def test_a_place_behind_the_epoch_is_refused(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.numpy")
    path = tmp_path / "run.safetensors"
    interrupted().save(path)
    file = safetensors.load_file(path) | {"fit.steps": np.array(2**62)}
    safetensors.save_file(file, path)
    text = re.escape(f"[load] expected of the fit in '{path}' 'fit.steps' of at most 6 but got 46")
    stop = tg.EarlyStopping(patience=9)
    with pytest.raises(ValueError, match=text):
        model().fit(X, Y, epochs=4, callbacks=[stop], resume=path)
    with pytest.raises(ValueError, match=text):
        model().load(path)


def test_metadata_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "one.safetensors"
    network = model()
    network.save(path, metadata={"run": "7", "note": "größer"})
    assert network.load(path) == {"run": "7", "note": "größer"}
    for name in ("format", "version", "optimizer"):
        with pytest.raises(ValueError, match=f"which the library writes, but got '{name}'"):
            network.save(path, metadata={name: "mine"})
    with pytest.raises(TypeError, match=re.escape("metadata['run']: a text but got 'int'")):
        network.save(path, metadata={"run": 7})
    with pytest.raises(ValueError, match=re.escape("[Checkpoint] expected a path but got an em")):
        tg.Checkpoint(path="")
    with pytest.raises(ValueError, match="every_steps to be 0 or more but got -1"):
        tg.Checkpoint(path="x", every_steps=-1)


def test_shared_weights_go_on_as_others_have_left_them(tmp_path: Path) -> None:
    """By resume=True; a file brings back its own."""
    path = tmp_path / "run.safetensors"
    body = nn.shared([nn.dense(8, activation="relu")])
    first, second = (
        nn.model([body, nn.dense(3)], input=5, batch_size=16, device="cpu") for _ in range(2)
    )

    def end(epoch: tg.Epoch) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        first.fit(X, Y, epochs=2, on_epoch=end)
    first.save(path)
    left = first.state()["1.FullyConnected.weights"]
    second.fit(X, Y)
    trained = first.state()["1.FullyConnected.weights"]
    assert not np.array_equal(trained, left)
    seen: list[Any] = []

    def note(epoch: tg.Epoch) -> None:
        seen.append(first.state()["1.FullyConnected.weights"])

    assert [epoch.number for epoch in first.fit(X, Y, epochs=1, on_epoch=note, resume=True)] == [1]
    np.testing.assert_array_equal(seen[0], trained)
    first.fit(X, Y, epochs=1, on_epoch=note, resume=path)
    np.testing.assert_array_equal(seen[1], left)
