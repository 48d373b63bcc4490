"""The option --device: devices on which tests that run on several backends run too."""

import sys

import pytest

from portable import why_skipped


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--device",
        action="append",
        choices=["cuda", "metal", "bnns"],
        default=[],
        help="run the suites over backends on it too; may be given once for each of several",
    )


def pytest_configure(config: pytest.Config) -> None:
    for device in config.getoption("--device"):
        add_backend(device)


def add_backend(device: str) -> None:
    from traingraph import DeviceError, _core

    try:
        if device == "cuda":
            _core.gpus()
        elif device not in _core.backends():
            raise pytest.UsageError(f"--device {device}: this library was built without it")
    except DeviceError as error:
        raise pytest.UsageError(f"--device {device}: {error}") from error
    import harness

    harness.BACKENDS.append(device)
    try:
        import op_harness
    except pytest.skip.Exception:  # built without the private module
        return
    op_harness.testing.set_package_folders([p for p in sys.path if isinstance(p, str)])
    op_harness.BACKENDS.append(device)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A row for "cpu" of an argument called device gets one like it for each device."""
    devices = metafunc.config.getoption("--device")
    for mark in metafunc.definition.iter_markers("parametrize"):
        names, rows = mark.args
        names = [name.strip() for name in names.split(",")] if isinstance(names, str) else names
        if not devices or "device" not in names:
            continue
        at = names.index("device")
        for row in list(rows):
            cells = list(row) if len(names) > 1 else [row]
            if cells[at] != "cpu":
                continue
            for device in devices:
                cells[at] = device
                added = tuple(cells) if len(names) > 1 else device
                if added not in rows:  # one mark may stand on several tests
                    rows.append(added)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips what is about parts that this build of the core does not have."""
    for item in items:
        if reason := why_skipped(item.nodeid):
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def gpu(request: pytest.FixtureRequest) -> str:
    """NVIDIA's GPU of --device cuda; tests that need one are skipped without it."""
    if "cuda" not in request.config.getoption("--device"):
        pytest.skip("needs --device cuda")
    return "cuda"
