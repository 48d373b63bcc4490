"""Locks and threads of a process, as a child that it forks finds them."""

import pytest

_testing = pytest.importorskip("traingraph._testing", reason="built with TRAINGRAPH_TESTING")

HELD = {"lock": "raises", "try_lock": "raises", "lock_unless_lost": "refuses", "both": "raises"}


@pytest.mark.parametrize("recursive", [False, True])
@pytest.mark.parametrize("how", HELD)
def test_locks(how: str, recursive: bool) -> None:
    assert _testing.lock_after_fork(how, held_by_parent=True, recursive=recursive) == HELD[how]
    assert _testing.lock_after_fork(how, held_by_parent=False, recursive=recursive) == "locks"


def test_conditions() -> None:
    assert _testing.condition_after_fork() == "works"


def test_numbers_of_threads() -> None:
    assert _testing.threads_after_fork() == "tells them apart"


@pytest.mark.parametrize("amid", [False, True])
def test_calls_of_a_library_with_its_own_locks(amid: bool) -> None:
    assert _testing.library_call_after_fork(amid) == ("raises" if amid else "works")
