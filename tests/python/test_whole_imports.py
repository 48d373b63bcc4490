"""A Ctrl-C while another package is imported comes behind the import, which stays whole."""

import signal
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from traingraph import nn
from traingraph._whole_import import whole_import

# Presses Ctrl-C before all of it is there.
PRESSES = "import signal\nsignal.raise_signal(signal.SIGINT)\n"
BAR = """
class tqdm:
    def __init__(self, **given): self.n = 0
    def set_postfix(self, **given): pass
    def update(self, steps): self.n += steps
    def close(self): pass
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that stands in for tqdm."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "tqdm"]:
        monkeypatch.delitem(sys.modules, name)
    (tmp_path / "tqdm").mkdir()
    (tmp_path / "tqdm/__init__.py").write_text(PRESSES)
    (tmp_path / "tqdm/auto.py").write_text(PRESSES + BAR)
    monkeypatch.syspath_prepend(tmp_path)


def fit() -> list[Any]:
    model = nn.model([nn.dense(3)], input=2)
    return model.fit(np.ones((4, 2), np.float32), np.zeros(4, np.int32), progress=True)


@pytest.mark.usefixtures("package")
def test_a_fit_that_was_interrupted_as_it_imported_can_be_repeated() -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        fit()
    assert signal.getsignal(signal.SIGINT) is before
    assert hasattr(sys.modules["tqdm.auto"], "tqdm")
    assert len(fit()) == 1
    monkeypatched = [name for name in sys.modules if name.partition(".")[0] == "tqdm"]
    for name in monkeypatched:
        del sys.modules[name]


def test_another_thread_imports_too() -> None:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(whole_import("json.tool", "none", "x")))
    thread.start()
    thread.join()
    assert found == [sys.modules["json.tool"]]


def test_what_is_missing_is_named_and_the_handler_stays() -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(ImportError) as error:
        whole_import("no_such_module", "such", "it needs it")
    assert error.value.__notes__ == ["it needs it: pip install such"]
    assert signal.getsignal(signal.SIGINT) is before
