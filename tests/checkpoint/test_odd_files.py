"""What is no regular file, has another name, or cannot be reached: refused, and as it was."""

import contextlib
import errno
import fcntl
import os
import pickle
import signal
import socket
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from checkpoint_network import Network

import traingraph as tg
from traingraph import mps

Graph = tg.MLCTrainingGraph | tg.MLCInferenceGraph


@pytest.fixture(scope="module")
def graphs() -> list[Graph]:
    network = Network()
    return [network.training, network.inference()]


def make_socket(path: Path) -> None:
    with contextlib.chdir(path.parent), socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)


def make_device(path: Path) -> None:
    try:
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only root makes devices")


def make_link(path: Path) -> None:
    os.mkfifo(path.with_name("behind"))
    path.symlink_to("behind")


SPECIAL = {"fifo": os.mkfifo, "socket": make_socket, "device": make_device, "link": make_link}


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """An alarm, for calls that would never return."""

    def ring(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("kind", SPECIAL)
def test_only_regular_files_are_read_and_replaced(
    tmp_path: Path, graphs: list[Graph], kind: str
) -> None:
    path = tmp_path / "file"
    SPECIAL[kind](path)
    before = sorted((name, (tmp_path / name).lstat().st_ino) for name in os.listdir(tmp_path))
    for graph in graphs:
        for call in (graph.save, graph.load):
            with within(5), pytest.raises(tg.FileError, match="is no regular file") as raised:
                call(path)
            assert (raised.value.errno, raised.value.filename) == (errno.EINVAL, str(path))
    # Python itself does not open a socket.
    expected = OSError if kind == "socket" else tg.FileError
    with (
        within(5),
        pytest.raises(expected, match=r"is no regular file|No such device|not supported"),
    ):
        mps.MPSKeyedUnarchiver.unarchive_object(with_file=str(path), device="cpu")
    after = sorted((name, (tmp_path / name).lstat().st_ino) for name in os.listdir(tmp_path))
    assert after == before


@pytest.mark.parametrize("kind", SPECIAL)
def test_a_partial_file_that_is_no_file_is_refused(
    tmp_path: Path, graphs: list[Graph], kind: str
) -> None:
    SPECIAL[kind](tmp_path / ".file.partial")
    before = sorted(os.listdir(tmp_path))
    for graph in graphs:
        with within(5), pytest.raises(tg.FileError, match=r"\.file\.partial") as raised:
            graph.save(tmp_path / "file")
        assert raised.value.errno in (errno.EINVAL, errno.ELOOP)
        assert raised.value.filename == str(tmp_path / "file")
    assert sorted(os.listdir(tmp_path)) == before


def test_a_partial_file_with_another_name_keeps_its_content(
    tmp_path: Path, graphs: list[Graph]
) -> None:
    victim = tmp_path / "backup"
    victim.write_text("precious")
    os.link(victim, tmp_path / ".file.partial")
    with pytest.raises(tg.FileError, match="has another name") as raised:
        graphs[0].save(tmp_path / "file")
    assert raised.value.errno == errno.EMLINK
    assert victim.read_text() == "precious"
    assert sorted(os.listdir(tmp_path)) == [".file.partial", "backup"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_partial_file_of_another_user_is_refused_where_all_may_write(
    tmp_path: Path, graphs: list[Graph]
) -> None:
    partial = tmp_path / ".file.partial"
    partial.write_text("theirs")
    os.chown(partial, 65534, 65534)
    graphs[0].save(tmp_path / "file")  # replaced, in a directory of our own
    partial.write_text("theirs")
    os.chown(partial, 65534, 65534)
    tmp_path.chmod(0o1777)
    with pytest.raises(tg.FileError):
        graphs[0].save(tmp_path / "file")
    assert partial.read_text() == "theirs"


@pytest.mark.parametrize("as_bytes", [False, True])
def test_a_nul_does_not_cut_a_path(tmp_path: Path, graphs: list[Graph], as_bytes: bool) -> None:
    precious = tmp_path / "precious"
    graphs[1].save(precious)
    before = precious.read_bytes()
    path: str | bytes = f"{precious}\0.safetensors"
    for graph in graphs:
        for call in (graph.save, graph.load):
            with pytest.raises(ValueError, match="expected a path without NUL"):
                call(path.encode() if as_bytes else path)
    with pytest.raises(ValueError, match="null byte"):
        mps.MPSKeyedUnarchiver.unarchive_object(with_file=path, device="cpu")
    assert precious.read_bytes() == before
    assert os.listdir(tmp_path) == ["precious"]


@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("links", [1, 3])
def test_a_link_to_nothing_stays(
    tmp_path: Path, graphs: list[Graph], absolute: bool, links: int
) -> None:
    (tmp_path / "disk").mkdir()
    target = tmp_path / "disk" / "file"
    names = [tmp_path / f"link{k}" for k in range(links)]
    for name, to in zip(names, [*names[1:], target], strict=True):
        name.symlink_to(to if absolute else to.relative_to(tmp_path))
    for _ in range(2):  # there is nothing, then there is something
        graphs[0].save(names[0])
        assert all(name.is_symlink() for name in names)
        assert stat.S_ISREG(target.lstat().st_mode)
        graphs[0].load(names[0])
    assert os.listdir(tmp_path / "disk") == ["file"]


def loop(path: Path) -> None:
    path.symlink_to(path.name)


FAILURES: dict[str, tuple[str, Callable[[Path], None], int, int]] = {
    # The name, what is made of it, and errno of save and load.
    "nothing": ("absent", lambda path: None, 0, errno.ENOENT),
    "no directory": ("absent/file", lambda path: None, errno.ENOENT, errno.ENOENT),
    "a directory": ("folder", Path.mkdir, errno.EISDIR, errno.EISDIR),
    "below a file": ("file/x", lambda path: path.parent.touch(), errno.ENOTDIR, errno.ENOTDIR),
    "a loop": ("loop", loop, errno.ELOOP, errno.ELOOP),
    "long": ("n" * 5000, lambda path: None, errno.ENAMETOOLONG, errno.ENAMETOOLONG),
    "long name": ("n" * 250, lambda path: None, errno.ENAMETOOLONG, errno.ENOENT),
    "surrogate": ("\udcff/x", lambda path: None, errno.ENOENT, errno.ENOENT),
}
# A Mac's file systems may refuse a name that is no UTF-8 as such.
OF_A_MAC = {"surrogate": errno.EILSEQ} if sys.platform == "darwin" else {}


@pytest.mark.parametrize("case", FAILURES)
def test_errors_have_a_number_and_a_name(tmp_path: Path, graphs: list[Graph], case: str) -> None:
    name, make, of_save, of_load = FAILURES[case]
    path = tmp_path / name
    make(path)
    for graph in graphs:
        for call, number in ((graph.save, of_save), (graph.load, of_load)):
            if number == 0:
                continue
            with pytest.raises(tg.FileError) as raised:
                call(path)
            error = raised.value
            assert isinstance(error, OSError)
            assert error.errno in (number, OF_A_MAC.get(case, number))
            assert error.filename == str(path)
            if number not in (errno.EISDIR,):
                assert os.strerror(error.errno) in error.strerror
            text = os.fsencode(path).decode(errors="backslashreplace")
            assert str(error) == f"[file '{text}'] {error.strerror}"
            other = pickle.loads(pickle.dumps(error))
            assert type(other) is tg.FileError
            assert (other.args, other.filename) == (error.args, error.filename)
            assert str(other) == str(error)


def test_no_name_and_no_path(graphs: list[Graph]) -> None:
    assert str(tg.FileError("a text")) == "a text"
    with pytest.raises(tg.FileError) as raised:
        graphs[0].save("")
    assert raised.value.errno == errno.ENOENT
    for call in (graphs[0].save, graphs[1].load):
        with pytest.raises(TypeError, match="expected path: str"):
            call(3)
        with pytest.raises(tg.InvalidArgument, match=r"'\\ud800'"):
            call("\ud800")


def test_a_name_that_no_utf8_can_say(graphs: list[Graph]) -> None:
    for graph in graphs:
        with pytest.raises(tg.InvalidArgument, match=r"'\\ud800'"):
            graph.load_state({**graph.state(), "\ud800": np.ones(1)})


def test_ctrl_c_ends_a_wait_for_another_writer(tmp_path: Path, graphs: list[Graph]) -> None:
    """One that has stopped holds its lock for good."""
    path = tmp_path / "file"
    graphs[0].save(path)
    before = path.read_bytes()
    waited = []
    with (tmp_path / ".file.partial").open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        for graph in graphs * 2:
            sent = []

            def send(sent: list[float] = sent) -> None:
                sent.append(time.monotonic())
                signal.raise_signal(signal.SIGINT)  # to whichever thread

            timer = threading.Timer(0.1, send)
            timer.start()
            with within(5), pytest.raises(KeyboardInterrupt):
                graph.save(path)
            waited.append(time.monotonic() - sent[0])
            timer.join()
    assert min(waited) < 0.2, waited
    assert path.read_bytes() == before
    graphs[0].save(path)
    assert os.listdir(tmp_path) == ["file"]


def test_a_signal_with_a_harmless_handler_ends_nothing(tmp_path: Path, graphs: list[Graph]) -> None:
    path = tmp_path / "file"
    count = []
    before = signal.signal(signal.SIGALRM, lambda *_: count.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
    try:
        with (tmp_path / ".file.partial").open("wb") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            threading.Timer(0.2, lambda: fcntl.flock(held, fcntl.LOCK_UN)).start()
            graphs[0].save(path)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(count) > 3
    graphs[0].load(path)
