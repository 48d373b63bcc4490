"""The doubles of Apple's frameworks, built once for all tests."""

import os
from pathlib import Path

import pytest
from apple_build import HERE, build
from objective_c import Runtime


@pytest.fixture(scope="session")
def doubles() -> Path:
    """The folder in which libapple_doubles.so and apple_checks are."""
    folder = os.environ.get("TRAINGRAPH_APPLE_CHECKS")
    sanitize = os.environ.get("TRAINGRAPH_APPLE_SANITIZE", "")
    flags = f"-fsanitize={sanitize} -fno-omit-frame-pointer" if sanitize else ""
    return build(
        Path(folder or HERE.parents[1] / "build" / "apple-checks"),
        "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
        f"-DCMAKE_CXX_FLAGS={flags}",
        f"-DCMAKE_OBJCXX_FLAGS={flags}",
    )


@pytest.fixture(scope="session")
def runtime(doubles: Path) -> Runtime:
    """The doubles in this process."""
    return Runtime(doubles)
