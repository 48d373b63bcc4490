"""The doubles of Apple's frameworks, built once for all tests."""

import os
from pathlib import Path

import pytest
from apple_build import HERE, build
from mps_session import draw_anew
from objective_c import Runtime


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.apple)


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    """Each test draws the same numbers, whichever ran before it."""
    draw_anew()


@pytest.fixture(scope="session")
def doubles() -> Path:
    """The folder in which they are; TRAINGRAPH_APPLE_CHECKS names one that was built already."""
    built = os.environ.get("TRAINGRAPH_APPLE_CHECKS")
    return Path(built) if built else build(HERE.parents[1] / "build" / "apple-checks")


@pytest.fixture(scope="session")
def runtime(doubles: Path) -> Runtime:
    """The doubles in this process."""
    return Runtime(doubles)


@pytest.fixture(scope="session")
def metal_build() -> Path:
    """The build folder of the package that is tested; TRAINGRAPH_APPLE_BUILD names it."""
    folder = Path(os.environ.get("TRAINGRAPH_APPLE_BUILD", HERE.parents[1] / "build" / "apple"))
    if not (folder / "build.ninja").exists():
        pytest.skip("needs the build folder of a build with TRAINGRAPH_APPLE_DOUBLES")
    return folder
