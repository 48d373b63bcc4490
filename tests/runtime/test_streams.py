"""Tasks whose results come later: what begins before what is finished."""

import random

import pytest

_testing = pytest.importorskip("traingraph._testing", reason="built with TRAINGRAPH_TESTING")

MOST_BEGUN = 9  # the newest, and those that may wait for their results before it


def check(leaves: list[bool], wait_for: int) -> None:
    events = _testing.run_tasks(leaves, wait_for)
    count = len(leaves)
    for what in ("begin", "finish"):
        assert [k for name, k in events if name == what] == list(range(count))
    place = {event: at for at, event in enumerate(events)}
    assert place["finish", wait_for] < place["waited", wait_for]
    begun = 0
    for what, k in events:
        if what == "begin":
            # Who leaves nothing, as with a completion handler, stands after all that is finished.
            assert leaves[k] or begun == 0
            begun += 1
        elif what == "finish":
            begun -= 1
        assert 0 <= begun <= MOST_BEGUN


@pytest.mark.parametrize("count", [1, 2, 9, 10, 40])
@pytest.mark.parametrize("leave", [True, False])
def test_tasks_of_one_kind(count: int, leave: bool) -> None:
    for wait_for in (0, count // 2, count - 1):
        check([leave] * count, wait_for)


def test_tasks_begin_before_others_are_finished() -> None:
    events = _testing.run_tasks([True] * 20, 19)
    assert events.index(("begin", 8)) < events.index(("finish", 0))


def test_what_is_waited_for_changes_no_thread() -> None:
    """But where it is held up on its way to the wait, for longer than the worker has patience."""
    threads = [_testing.threads_of_task(waits=True, behind=False) for _ in range(50)]
    assert {begun for begun, _ in threads} == {"this"}
    assert [finished for _, finished in threads].count("another") <= 2


def test_what_nobody_waits_for_is_finished_by_the_worker() -> None:
    assert _testing.threads_of_task(waits=False, behind=False) == ("this", "another")
    # Behind another task: a submission does not wait.
    assert _testing.threads_of_task(waits=False, behind=True) == ("another", "another")


def test_any_mixture() -> None:
    chance = random.Random(1)
    for _ in range(200):
        count = chance.randrange(1, 30)
        leaves = [chance.random() < 0.7 for _ in range(count)]
        check(leaves, chance.randrange(count))


def test_work_amid_which_streams_are_merged_stays_alone() -> None:
    assert _testing.works_alone_after_a_merge()


def test_tasks_submitted_amid_a_merge_stay_in_its_order() -> None:
    assert all(_testing.tasks_stay_in_order_amid_a_merge() for _ in range(300))


def test_who_waits_comes_before_what_is_submitted_later() -> None:
    assert _testing.order_around_a_turn(merged=False) == [0, 1, 2, 3, 4]
    # A stream that joins another one brings its tasks; who waits comes behind them.
    assert sorted(_testing.order_around_a_turn(merged=True)) == [0, 1, 2, 3, 4]
