"""What a fit cannot use is refused before its first step; what fails later names step and epoch."""

import functools
import itertools
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fit_to_kill import X, Y, model

import traingraph as tg
from traingraph import nn

TRAINED = (X[:70], Y[:70])


def refused(given: dict[str, Any], text: str, kind: Any = ValueError, **made: Any) -> None:
    """Before anything is trained or written, and nobody is asked."""
    network, heard = model(**made), list[int]()
    callbacks = [lambda epoch: heard.append(epoch.number), *given.pop("callbacks", [])]
    before = network.state()
    with pytest.raises(kind, match=re.escape(text)) as error:
        network.fit(*TRAINED, epochs=2, callbacks=callbacks, **given)
    assert heard == []
    assert not hasattr(error.value, "epochs")
    for name, values in network.state().items():
        np.testing.assert_array_equal(values, before[name], err_msg=name)


# --- files ---------------------------------------------------------------------------------------

FILES = [lambda path: tg.Checkpoint(path=path), lambda path: tg.CSVLog(path=path),
         lambda path: tg.CSVLog(path=path, appends=True)]  # fmt: skip


@pytest.mark.parametrize("make", FILES, ids=["Checkpoint", "CSVLog", "CSVLog that appends"])
def test_paths_that_cannot_be_written(make: Any, tmp_path: Path) -> None:
    folder, file = tmp_path / "folder", tmp_path / "file"
    folder.mkdir()
    file.write_text("")
    broken = tmp_path / "broken"
    broken.symlink_to(tmp_path / "nowhere" / "file")
    kept = sorted(tmp_path.iterdir())
    for path, text in [
        (tmp_path / "no_such" / "file", "No such file or directory"),
        (folder, "is a directory, no regular file"),
        (file / "below", "Not a directory"),
        (broken, "No such file or directory"),
        ("/sys/kernel/nothing", "open failed"),
        (f"{tmp_path}/{'n' * 300}", "File name too long"),
    ]:
        refused({"callbacks": [make(path)]}, text, tg.FileError)
    refused({"callbacks": [make(f"{tmp_path}/a\0b")]}, "expected a path without NUL but got one")
    assert sorted(tmp_path.iterdir()) == kept
    # A path that can be written is left as it was until there is something to write.
    (tmp_path / "link").symlink_to(tmp_path / "target")
    for path in (tmp_path / "new", file, tmp_path / "link"):
        before = path.read_bytes() if path.exists() else None
        refused({"callbacks": [make(path)], "validation": (X, Y + 5)}, "expected a class")
        assert (path.read_bytes() if path.exists() else None) == before
    assert sorted(set(tmp_path.iterdir()) - set(kept)) == [tmp_path / "link"]


@pytest.mark.parametrize("make", FILES[:2], ids=["Checkpoint", "CSVLog"])
def test_files_of_a_folder_that_is_gone_name_step_and_epoch(make: Any, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    network = model()
    with pytest.raises(tg.FileError) as error:
        network.fit(*TRAINED, epochs=3, callbacks=[lambda _: folder.rmdir(), make(folder / "f")])
    assert str(error.value).endswith("No such file or directory after step 5 of epoch 1")
    assert error.value.filename == str(folder / "f")
    # A checkpoint is written when all have heard of the epoch.
    has_heard = make is FILES[0]
    assert [epoch.number for epoch in error.value.epochs] == ([1] if has_heard else [])


def test_a_save_amid_an_epoch_names_its_step(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    file = tg.Checkpoint(path=folder / "f", every_steps=2)

    def rate(step: int) -> float:
        if step == 3:
            (folder / "f").unlink()
            folder.rmdir()
        return 0.01

    with pytest.raises(tg.FileError) as error:
        model().fit(*TRAINED, schedule=rate, callbacks=[file])
    assert str(error.value).endswith("No such file or directory after step 4 of epoch 1")


@pytest.mark.skipif(sys.platform != "linux", reason="where /dev/full is")
def test_a_full_disk_names_step_and_epoch() -> None:
    with pytest.raises(tg.FileError) as error:
        model().fit(*TRAINED, epochs=2, callbacks=[tg.CSVLog(path="/dev/full")])
    text = "[file '/dev/full'] write failed: No space left on device after step 5 of epoch 1"
    assert str(error.value) == text


def test_two_callbacks_do_not_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / "one"
    for first, second in [("CSVLog", "CSVLog"), ("Checkpoint", "CSVLog"), ("CSVLog", "Checkpoint")]:
        again = tmp_path / "folder" / ".." / "one"
        callbacks = [getattr(tg, first)(path=path), getattr(tg, second)(path=again)]
        text = f"[{second}] expected a file of its own but got '{again}', which another callback"
        refused({"callbacks": callbacks}, text)


def test_one_file_may_be_spelled_in_many_ways(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").symlink_to(tmp_path)
    (tmp_path / "link").symlink_to("chain")
    (tmp_path / "chain").symlink_to("one")
    spellings = ["one", "./one", tmp_path / "one", tmp_path / "folder" / "one", "link"]
    makers = [tg.CSVLog, tg.Checkpoint]

    def check(spellings: list[Any]) -> None:
        for one, other in itertools.permutations(spellings, 2):
            for first, second in itertools.product(makers, makers):
                text = f"[{second.__name__}] expected a file of its own but got '{other}'"
                refused({"callbacks": [first(path=one), second(path=other)]}, text)

    check(spellings)
    assert not (tmp_path / "one").exists()
    # Nor when it is there, where it may have two names.
    (tmp_path / "one").touch()
    (tmp_path / "name").hardlink_to(tmp_path / "one")
    check([*spellings, "name"])
    model().fit(*TRAINED, callbacks=[tg.CSVLog(path="one"), tg.Checkpoint(path="other")])


def test_a_checkpoint_replaces_only_checkpoints(tmp_path: Path) -> None:
    path = tmp_path / "run"
    foreign = tmp_path / "foreign"
    pytest.importorskip("safetensors.numpy").save_file({"w": np.zeros(3)}, foreign)
    for content in (b"a,b\n1,2\n", b"import os\n", bytes(100), foreign.read_bytes()):
        path.write_bytes(content)
        text = f"[Checkpoint] expected a checkpoint to replace, or no file, but got '{path}', a "
        refused({"callbacks": [tg.Checkpoint(path=path)]}, text)
        assert path.read_bytes() == content
    path.write_bytes(b"")
    for _ in range(2):  # an empty file, and its own
        model().fit(*TRAINED, callbacks=[tg.Checkpoint(path=path)])
    inference = nn.model([nn.dense(3)], input=5)
    inference.save(path)
    model().fit(*TRAINED, callbacks=[tg.Checkpoint(path=path)])


def test_a_checkpoint_that_was_written_anew_is_one(tmp_path: Path) -> None:
    """By a program that leaves out what the file says of itself."""
    safetensors = pytest.importorskip("safetensors.numpy")
    path = tmp_path / "run"
    file = tg.Checkpoint(path=path)
    model().fit(*TRAINED, callbacks=[file])
    safetensors.save_file(safetensors.load_file(path), path)
    assert len(model().fit(*TRAINED, epochs=2, callbacks=[file], resume=path)) == 1


def test_two_early_stoppings_do_not_restore() -> None:
    stops = [tg.EarlyStopping(patience=2), tg.EarlyStopping(patience=2, min_delta=0.5)]
    text = (
        "[fit] expected one EarlyStopping that restores the best weights but got 2: "
        "EarlyStopping(monitor='loss'), EarlyStopping(monitor='loss', min_delta=0.5); pass "
        "restores_best=False to all others"
    )
    refused({"callbacks": stops}, text)
    stops[0] = tg.EarlyStopping(patience=2, restores_best=False)
    assert model().fit(*TRAINED, epochs=2, callbacks=stops)


def test_metadata_that_is_the_librarys_is_refused_when_it_is_given() -> None:
    with pytest.raises(
        ValueError, match=re.escape("[Checkpoint] expected metadata of other names")
    ):
        tg.Checkpoint(path="x", metadata={"version": "2"})


def test_a_folder_for_tensorboard_is_made_at_once(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX", reason="the extra that writes the files")
    from traingraph.tensorboard import TensorBoardLog

    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below", "/sys/kernel/nothing"):
        with pytest.raises(OSError, match=re.escape(str(folder))):
            TensorBoardLog(folder)
    TensorBoardLog(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()


# --- validations ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"validation": (X, Y + 5)}, "expected a class from 0 to 2 or -1 but got 5 in row 6 at"),
        ({"validation": ({}, Y)}, "[fit] expected data for 'x' but none was given in the v"),
        ({"validation": (X, Y), "metrics": ["auc"]}, "'auc' expected two classes but got 3 in"),
        ({"validation": (X, Y), "metrics": ["mean_squared_error"]}, "labels of the predictions'"),
        ({"validation": (X, Y), "metrics": ["top_1", "top_1"]}, "[fit] expected each metric once "
                                                                "but got 'top_1' twice"),
    ],
    ids=range(5),
)  # fmt: skip
def test_validations_that_cannot_be_evaluated(given: dict[str, Any], text: str) -> None:
    if "row 6" in text:
        labels = Y.copy()
        labels[6] = 5
        given = {"validation": (X, labels)}
    refused(given, text)


def test_weights_that_are_missing() -> None:
    def weighed() -> tg.MLCTrainingGraph:
        network = model()
        network.add_inputs({}, loss_label_weights={"w": tg.MLCTensor(shape=[16])})
        return network

    ones = np.ones(90, np.float32)
    text = "[{}] expected data for 'w' (label weights) but none was given"
    network = weighed()
    with pytest.raises(ValueError, match=re.escape(text.format("fit") + " in the validation")):
        network.fit(X, Y, label_weights=ones, validation=(X, Y))
    assert network.optimizer.time_step == 1
    for shuffle in (True, False):
        with pytest.raises(ValueError, match=re.escape(text.format("fit"))):
            network.fit(X, Y, shuffle=shuffle)
    with pytest.raises(ValueError, match=re.escape(text.format("evaluate"))):
        network.evaluate(X, Y)
    with pytest.raises(ValueError, match=re.escape(text.format("fit") + " in step 1 of epoch 1")):
        network.fit(batches=[(X[:16], Y[:16])])


def test_inputs_that_are_missing() -> None:
    tg.MLCPlatform.set_rng_seed_to(0)
    a, b = nn.Input(5), nn.Input(2)
    network = nn.model(inputs=[a, b], outputs=nn.dense(3)(nn.concatenate([a, b])), batch_size=16)
    both = {"x0": X, "x1": X[:, :2]}
    text = "expected data for 'x1' but none was given"
    network.fit(both, Y, validation=(both, Y))  # whose arrays are not there any more
    for call in (
        lambda: network.fit({"x0": X}, Y),
        lambda: network.fit(both, Y, validation=({"x0": X}, Y)),
        lambda: network.evaluate({"x0": X}, Y),
        lambda: network.predict({"x0": X}),
        lambda: network.fit(batches=[({"x0": X}, Y)]),
    ):
        with pytest.raises(ValueError, match=text):
            call()
    with pytest.raises(ValueError, match="expected data for 'x0', 'x1' but none was given"):
        network.evaluate({}, Y)  # nor are those of the step before


def test_two_names_of_one_tensor_get_data_once() -> None:
    x, label = tg.MLCTensor(shape=[16, 5]), tg.MLCTensor(shape=[16], data_type="int32")
    graph = tg.MLCGraph()
    tg.sequential(graph, x, [nn.dense(3)])
    network = tg.MLCTrainingGraph(
        graph_objects=[graph], optimizer=nn.adam(0.1),
        loss_layer=tg.MLCLossLayer.softmax_cross_entropy(reduction_type="mean"))  # fmt: skip
    network.add_inputs({"x": x, "again": x}, loss_labels={"y": label})
    network.compile(device="cpu")
    text = r"\[{}\] expected data once for each tensor but inputs 'again' is the second name of one"
    both = {"x": X, "again": X}
    with pytest.raises(ValueError, match=text.format("fit") + " in the validation"):
        network.fit({"x": X}, {"y": Y}, shuffle=False, validation=(both, Y))
    assert network.optimizer.time_step == 1
    with pytest.raises(ValueError, match=text.format("fit") + " in step 1 of epoch 1"):
        network.fit(both, {"y": Y}, shuffle=False)
    with pytest.raises(ValueError, match=text.format("evaluate")):
        network.evaluate(both, {"y": Y})


def test_a_layer_that_fixes_the_batch_fixes_that_of_a_validation() -> None:
    x, label = tg.MLCTensor(shape=[16, 5]), tg.MLCTensor(shape=[16], data_type="int32")
    rows = tg.MLCTensor(data=np.ones((16, 5), np.float32))
    graph = tg.MLCGraph()
    added = graph.node(tg.MLCArithmeticLayer(operation="add"), sources=[x, rows])
    tg.sequential(graph, added, [nn.dense(3)])
    network = tg.MLCTrainingGraph(
        graph_objects=[graph], optimizer=nn.adam(0.1),
        loss_layer=tg.MLCLossLayer.softmax_cross_entropy(reduction_type="mean"))  # fmt: skip
    network.add_inputs({"x": x}, loss_labels={"y": label})
    network.compile(device="cpu")
    whole = network.fit(X[:80], Y[:80], shuffle=False, validation=(X[:32], Y[:32]))
    assert whole[0].validation is not None
    time_step = network.optimizer.time_step
    text = r"expected batch size 16, which layer \d+ 'Arithmetic' fixes, but got 4 in the valid"
    with pytest.raises(ValueError, match=text):
        network.fit(X[:80], Y[:80], shuffle=False, validation=(X[:20], Y[:20]))
    assert network.optimizer.time_step == time_step


# --- callbacks -----------------------------------------------------------------------------------


class Plain:
    def __call__(self, epoch: tg.Epoch) -> None:
        pass


class Awaited:
    async def __call__(self, epoch: tg.Epoch) -> None:
        pass


async def awaited(epoch: Any) -> float:
    return 0.1


def yielding(epoch: Any) -> Iterator[int]:
    yield 1


NOT_RUN = "a function that has run when it returns but got one that makes a "


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"callbacks": [tg.EarlyStopping]}, "callbacks[1]: FitCallback | collections.abc.Callable["
         "[Epoch], bool | None] but got the class EarlyStopping; did you mean EarlyStopping()?"),
        ({"callbacks": [Plain]}, "but got the class Plain; did you mean Plain()?"),
        ({"on_epoch": tg.EarlyStopping}, "but got the class EarlyStopping; did you mean Early"),
        ({"callbacks": [[Plain()]]}, "callbacks[1]: FitCallback | collections.abc.Callable[["),
        ({"callbacks": [awaited]}, "callbacks[1]: " + NOT_RUN + "coroutine, which nobody awaits"),
        ({"callbacks": [Awaited()]}, "callbacks[1]: " + NOT_RUN + "coroutine, which nobody awaits"),
        ({"callbacks": [functools.partial(awaited)]}, "callbacks[1]: " + NOT_RUN + "coroutine"),
        ({"callbacks": [yielding]}, NOT_RUN + "generator, which nobody goes through; write def w"),
        ({"on_epoch": awaited}, "on_epoch: " + NOT_RUN + "coroutine"),
        ({"schedule": awaited}, "schedule: " + NOT_RUN + "coroutine"),
        ({"schedule": tg.RateSchedule}, "got the class RateSchedule; did you mean RateSchedule."),
        ({"schedule": float}, "expected schedule: RateSchedule | "),
    ],
    ids=range(12),
)  # fmt: skip
def test_callbacks_that_cannot_be_asked(given: dict[str, Any], text: str) -> None:
    refused(dict(given), text, TypeError)


def test_a_coroutine_that_a_function_returns_is_refused() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of coroutines that were never awaited
        text = (
            r"expected callbacks\[0\]: a function that has run when it returns but got a coroutine"
        )
        with pytest.raises(TypeError, match=text):
            model().fit(*TRAINED, callbacks=[lambda epoch: awaited(epoch)])
        with pytest.raises(
            TypeError, match="expected schedule: a function that has run when it re"
        ):
            model().fit(*TRAINED, schedule=lambda step: awaited(step))
    network = model()
    with pytest.raises(TypeError, match="completion_handler: a function that has run when it ret"):
        network.execute(
            inputs_data={"x": X[:16]}, loss_labels_data={"y": Y[:16]}, completion_handler=awaited
        )


@pytest.mark.parametrize("given", [Plain(), tg.EarlyStopping(patience=1), Plain().__call__])
def test_one_callback_alone_is_to_be_put_into_a_list(given: Any) -> None:
    with pytest.raises(TypeError, match=r"expected callbacks: .* but got .*; put it into a list"):
        model().fit(*TRAINED, callbacks=given)


@pytest.mark.parametrize("given", [None, (), (Plain(),), [Plain()]])
def test_callbacks_and_metrics_may_be_none_or_any_sequence(given: Any) -> None:
    assert len(model().fit(*TRAINED, callbacks=given, metrics=None)) == 1
    assert model().evaluate(*TRAINED, metrics=None).metrics == {}


def test_an_object_is_one_callback() -> None:
    stop, log = tg.EarlyStopping(patience=1), tg.CSVLog(path="never.csv")
    refused(
        {"callbacks": [stop, stop]}, "each callback once but got EarlyStopping(monitor='loss') "
    )
    refused(
        {"callbacks": [log, stop, log]}, "expected each callback once but got CSVLog twice; make"
    )
    refused(
        {"callbacks": [stop], "on_epoch": stop}, "expected each callback once but got EarlyStop"
    )


# --- numbers that are watched --------------------------------------------------------------------


def test_a_monitor_has_a_name() -> None:
    with pytest.raises(ValueError, match="expected monitor: loss, accuracy or the name of a metric "
                                         "but got an empty text"):  # fmt: skip
        tg.EarlyStopping(patience=1, monitor="")
    for name, meant in [("val_loss", "loss"), ("validation_accuracy", "accuracy")]:
        stop = tg.EarlyStopping(patience=1, monitor=name)
        refused({"callbacks": [stop], "validation": (X, Y)}, f"did you mean '{meant}', which is of")


def test_nan_is_never_better_and_patience_counts_it() -> None:
    bad = X.copy()
    bad[0] = np.nan  # of the validation alone
    network, stop = model(), tg.EarlyStopping(patience=3)
    assert len(network.fit(*TRAINED, epochs=9, validation=(bad, Y), callbacks=[stop])) == 3
    assert (stop.best, stop.best_epoch) == (None, 0)
    assert np.isfinite(network.predict(X)).all()  # of the last epoch
    # Also of labels that do not count, which have no accuracy; and behind a number.
    stop = tg.EarlyStopping(patience=2, monitor="accuracy")
    ignored = np.full(90, -1, np.int32)
    assert len(model().fit(*TRAINED, epochs=9, validation=(X, ignored), callbacks=[stop])) == 2
    assert stop.best is None
    stop, network = tg.EarlyStopping(patience=2), model()
    part, weights = X[70:].copy(), []

    def spoil(epoch: tg.Epoch) -> None:
        weights.append(network.predict(X))
        part[:] = np.nan

    epochs = network.fit(*TRAINED, epochs=9, validation=(part, Y[70:]), callbacks=[spoil, stop])
    assert (len(epochs), stop.best_epoch) == (3, 1)
    np.testing.assert_array_equal(network.predict(X), weights[0])


@pytest.mark.parametrize("where", ["callback", "batches", "schedule"])
def test_a_fit_within_a_fit_of_the_same_graph(where: str) -> None:
    """What else calls the graph there works, and the fit may run again."""
    network = model()
    calls: list[Any] = [lambda: network.fit(X, Y)]

    def call() -> None:
        calls[0]()

    class Batches:
        def __iter__(self) -> Any:
            call()
            return iter([(X[:16], Y[:16])] * 2)

    def rate(step: int) -> float:
        call()
        return 0.01

    def fit() -> list[tg.Epoch]:
        if where == "batches":
            return network.fit(batches=Batches(), epochs=2)
        given: dict[str, Any] = {"schedule": rate} if where == "schedule" else {
            "callbacks": [lambda epoch: call()]}  # fmt: skip
        return network.fit(X, Y, epochs=2, **given)

    with pytest.raises(tg.InvalidArgument, match="expected no other fit of this graph, which one"):
        fit()
    for other in (
        lambda: network.predict(X),
        lambda: network.evaluate(X, Y),
        lambda: network.execute(inputs_data={"x": X[:16]}, loss_labels_data={"y": Y[:16]}).wait(),
        lambda: model(seed=4).fit(X, Y),
    ):
        calls[0] = other
        assert len(fit()) == 2


# --- resuming ------------------------------------------------------------------------------------

RESUMED = {
    "fewer samples": {"inputs": {"x": X[:40]}},
    "another batch size": {"batch_size": 5},
    "fewer epochs": {"epochs": 1},
    "another early stopping": {"callbacks": [tg.EarlyStopping(patience=2)]},
    "wrong labels of a validation": {"validation": (X[:3], np.full(3, 99, np.int32))},
}


@pytest.mark.parametrize("changed", RESUMED.values(), ids=RESUMED)
def test_a_refused_resume_leaves_the_graph(changed: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    model().fit(*TRAINED, epochs=2, callbacks=[tg.Checkpoint(path=path)])
    network = model()
    network.fit(*TRAINED, epochs=3)
    before = network.state()
    given: dict[str, Any] = {"epochs": 4, "resume": path} | changed
    inputs = given.pop("inputs", {}).get("x", TRAINED[0])
    with pytest.raises((ValueError, IndexError)):
        network.fit(inputs, TRAINED[1][: len(inputs)], **given)
    for name, values in network.state().items():
        np.testing.assert_array_equal(values, before[name], err_msg=name)


def test_a_callback_with_a_call_nobody_makes() -> None:
    class Mine(tg.EarlyStopping):
        def __call__(self, epoch: tg.Epoch) -> bool:
            return epoch.number < 1

    refused({"callbacks": [Mine(patience=2)]}, "Mine, whose __call__ nobody would run", TypeError)


@pytest.mark.parametrize("loss", ["hinge", "sigmoid_cross_entropy", "log"])
@pytest.mark.parametrize(("wrong", "got"), [
    (-1, "-1 in row 2; of -1 and 1, pass (labels + 1) / 2"), (2, "2 in row 2"),
    (1.5, "1.5 in row 2"), (-0.25, "-0.25 in row 2"), (np.inf, "inf in row 2"),
])  # fmt: skip
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_labels_that_are_no_shares(loss: str, wrong: float, got: str, dtype: str) -> None:
    layers = [nn.dense(2), *(["sigmoid"] if loss == "log" else [])]
    network = nn.model(layers, input=4, input_type=dtype, loss=loss)
    x, y = np.ones((4, 4), dtype), np.array([[0, 1], [1, 0.25]] * 2, dtype)
    network.evaluate(x, y)
    y[2, 1] = wrong
    text = f"expected labels 'y' from 0 to 1, as this loss has here, but got {got}"
    for call in (network.evaluate, network.fit, lambda x, y: network.fit(batches=[(x, y)])):
        with pytest.raises(ValueError, match=re.escape(text)):
            call(x, y)
    with pytest.raises(ValueError, match=re.escape(text) + " in the validation$"):
        network.fit(x, np.ones_like(y), validation=(x, y))


def test_rates_below_zero_are_refused() -> None:
    schedules = tg.RateSchedule
    for make in (
        lambda: schedules.constant(-0.1),
        lambda: schedules.steps(-0.1, every=2),
        lambda: schedules.steps(0.1, every=2, factor=-0.5),
        lambda: schedules.exponential(-0.1, factor=0.5),
        lambda: schedules.cosine(-0.1, steps=3),
        lambda: schedules.cosine(0.1, steps=3, last=-0.1),
        lambda: schedules.warm_up(-0.1, steps=3),
        lambda: schedules.one_cycle(-0.1, steps=3),
    ):
        with pytest.raises(ValueError, match=r"expected \w+ of at least 0 but got"):
            make()
    for name in ("sgd", "adam", "adamw", "rmsprop"):
        with pytest.raises(ValueError, match=rf"\[{name}\] expected learning_rate to be 0 or"):
            getattr(nn, name)(-0.1)
        getattr(nn, name)(0.0)
