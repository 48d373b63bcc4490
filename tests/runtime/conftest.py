"""What tests run with: threads of the core, and PyTorch and a second GPU where there are any."""

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    from op_harness import testing

    testing.set_thread_count(request.param)
    yield request.param
    testing.set_thread_count(1)


@pytest.fixture(scope="module")
def torch(gpu: str) -> Any:
    """PyTorch, where it sees the GPU."""
    module = pytest.importorskip("torch")
    if not module.cuda.is_available():
        pytest.skip("PyTorch sees no GPU")
    return module


@pytest.fixture(scope="module")
def second_gpu(gpu: str) -> str:
    from traingraph import _core

    if len(_core.gpus()) < 2:
        pytest.skip("needs two GPUs")
    return "gpu:1"
