"""The option --device: a device on which the suites over backends run beside those built in."""

import sys

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--device", choices=["cuda"], help="run the suites over backends on it too")


def pytest_configure(config: pytest.Config) -> None:
    device = config.getoption("--device")
    if device is None:
        return
    from traingraph import DeviceError, _core

    try:
        _core.gpus()
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


@pytest.fixture(scope="session")
def gpu(request: pytest.FixtureRequest) -> str:
    """The device of --device; tests that need one are skipped without it."""
    device = request.config.getoption("--device")
    if device is None:
        pytest.skip("needs --device")
    return device
