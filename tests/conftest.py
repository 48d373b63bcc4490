"""The options --device and --only-device, rows for devices beside the CPU; and --jacobians."""

import functools
import os
import signal
import sys
import tempfile
from pathlib import Path

import pytest

# NumPy's threads spin for as long as they compute where cores are few and products small.
os.environ["OPENBLAS_NUM_THREADS"] = os.environ.get("OPENBLAS_NUM_THREADS", "1")

import differences
from device_rows import add_options, asked_for, is_about, with_devices
from left_threads import pytest_sessionfinish, pytest_unconfigure  # noqa: F401
from portable import why_skipped
from unfinished import why_unfinished


def pytest_addoption(parser: pytest.Parser) -> None:
    add_options(parser)
    parser.addoption(
        "--jacobians",
        action="store_true",
        help="compare gradients element by element, not along a few directions",
    )


def pytest_configure(config: pytest.Config) -> None:
    # A job in a shell's background ignores Ctrl-C, and so would the programs of tests about it.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    differences.every_element = config.getoption("--jacobians")
    config.addinivalue_line("markers", "row_of(device): a row that --device has added")
    keep_portable(config)
    for device in asked_for(config):
        require(device)


def keep_portable(config: pytest.Config) -> None:
    """Rows of "cpu" are about the portable backend on a Mac where BNNS is verified too."""
    from traingraph import _core

    if "bnns" in _core.backends() and _core.is_verified("bnns"):
        folder = tempfile.TemporaryDirectory()
        config.add_cleanup(folder.cleanup)
        os.environ["XDG_CACHE_HOME"] = folder.name  # which has no note


def require(device: str) -> None:
    """Ends the run where this library or this machine does not have the device."""
    from traingraph import DeviceError, _core

    try:
        if device == "cuda":
            _core.gpus()
        elif device not in _core.backends():
            raise pytest.UsageError(f"--device {device}: this library was built without it")
    except DeviceError as error:
        raise pytest.UsageError(f"--device {device}: {error}") from error
    try:
        from op_harness import testing
    except pytest.skip.Exception:  # built without the private module
        return
    testing.set_package_folders([p for p in sys.path if isinstance(p, str)])


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Widens every parametrization of the test before pytest makes rows of it."""
    plain, devices = metafunc.parametrize, asked_for(metafunc.config)

    @functools.wraps(plain)
    def parametrize(argnames, argvalues, *arguments, **keywords):
        plain(argnames, with_devices(argnames, argvalues, devices), *arguments, **keywords)

    metafunc.parametrize = parametrize  # type: ignore[method-assign]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out rows about nothing that was asked for, and skips what this build does not have."""
    if only := config.getoption("--only-device"):
        left_out = [item for item in items if not is_about(item, only)]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if is_about(item, only)]
    for item in items:
        if not Path("/proc/self/task").is_dir() and item.get_closest_marker("linux"):
            item.add_marker(pytest.mark.skip(reason="reads /proc"))
        if reason := why_skipped(item.nodeid):
            item.add_marker(pytest.mark.skip(reason=reason))
        if reason := why_unfinished(item.nodeid):
            item.add_marker(pytest.mark.xfail(reason=reason))


@pytest.fixture(scope="session")
def gpu(request: pytest.FixtureRequest) -> str:
    """NVIDIA's GPU of --device cuda; tests that need one are skipped without it."""
    if "cuda" not in asked_for(request.config):
        pytest.skip("needs --device cuda")
    return "cuda"
