"""Which ops of a run are launched together: every grouping keeps the order that they need."""

import random

import pytest

_testing = pytest.importorskip("traingraph._testing", reason="built with TRAINGRAPH_TESTING")

Groups = list[tuple[list[list[int]], list[int]]]


def check(dependencies: list[list[int]], tasks: list[int]) -> Groups:
    """The groups, after each rule about them was checked."""
    return checked(_testing.launch_groups(dependencies, tasks), dependencies, tasks)


def ordered(dependencies: list[list[int]], costs: list[float], needed: list[bool]) -> list[int]:
    """The order in which single ops are launched."""
    tasks = [0] * len(costs)
    groups: Groups = _testing.launch_order(dependencies, tasks, costs, needed)
    return [levels[0][0] for levels, _ in checked(groups, dependencies, tasks)]


def checked(groups: Groups, dependencies: list[list[int]], tasks: list[int]) -> Groups:
    place = {}
    for number, (levels, needs) in enumerate(groups):
        assert all(need < number for need in needs)
        for level, positions in enumerate(levels):
            assert positions
            for position in positions:
                assert position not in place
                place[position] = number, level
    assert sorted(place) == list(range(len(tasks)))
    for position, before in enumerate(dependencies):
        number, level = place[position]
        for earlier in before:
            other, below = place[earlier]
            assert below < level if other == number else other in groups[number][1]
    for levels, _ in groups:
        members = [position for positions in levels for position in positions]
        assert len(members) == 1 or all(tasks[position] > 0 for position in members)
    return groups


def reduced(dependencies: list[set[int]]) -> list[list[int]]:
    """Without edges that others imply."""
    above: list[set[int]] = []
    result = []
    for before in dependencies:
        implied: set[int] = set().union(*(above[k] for k in before))
        result.append(sorted(before - implied, reverse=True))
        above.append(implied | before)
    return result


@pytest.mark.parametrize("seed", range(200))
def test_random_graphs(seed: int) -> None:
    draw = random.Random(seed)
    count = draw.randint(1, 40)
    edges = [
        {k for k in range(n) if n - k < 12 and draw.random() < 0.15 * draw.random()}
        for n in range(count)
    ]
    tasks = [draw.choice((0, 1, 4, 32, 100, 1000)) for _ in range(count)]
    dependencies = reduced(edges)
    apart = check(dependencies, tasks)
    costs = [draw.choice((1.0, 2.0, 50.0)) for _ in range(count)]
    needed = [draw.random() < 0.8 for _ in range(count)]
    groups = checked(_testing.launch_order(dependencies, tasks, costs, needed), dependencies, tasks)
    assert sorted(levels for levels, _ in groups) == sorted(levels for levels, _ in apart)


def test_a_chain_of_small_ops_is_one_launch() -> None:
    groups = check([[], [0], [1], [2]], [1, 4, 2, 1])
    assert groups == [([[0], [1], [2], [3]], [])]


def test_a_large_op_in_between_parts_a_chain() -> None:
    groups = check([[], [0], [1]], [1, 0, 1])
    assert [levels for levels, _ in groups] == [[[0]], [[1]], [[2]]]


def test_updates_wait_for_each_other_but_nobody_waits_for_them() -> None:
    # Large gradients one after another, a small update of each.
    groups = check([[], [0], [0], [2], [2]], [0, 1, 0, 1, 0])
    assert ([[1, 3]], [0, 1]) in groups
    # An op that the next large one waits for is not put off.
    groups = check([[], [0], [0], [1, 2], [2]], [0, 1, 0, 0, 1])
    assert ([[1]], [0]) in groups


def test_a_constant_joins_what_waits_for_it() -> None:
    # A small op, another one, a constant, and a small one that reads both.
    groups = check([[], [0], [], [2, 1]], [1, 1, 1, 1])
    assert groups == [([[0, 2], [1], [3]], [])]


def chain(length: int) -> list[list[int]]:
    return [[k - 1] if k else [] for k in range(length)]


def test_what_nobody_waits_for_holds_up_nothing() -> None:
    # A chain of small ops with a branch of two that are only reported, and a large op at its end.
    groups = check([*chain(4), [3], [4], [3]], [1, 1, 1, 1, 1, 1, 0])
    assert groups == [([[0], [1], [2], [3]], []), ([[4], [5]], [0]), ([[6]], [0])]
    # Without anything that waits it stays one launch.
    groups = check([*chain(4), [3], [4], [3]], [1] * 7)
    assert groups == [([[0], [1], [2], [3], [4, 6], [5]], [])]


def test_a_short_chain_beside_others_is_launched_one_by_one() -> None:
    groups = check([*chain(4), [3]], [1, 1, 1, 0, 1])
    assert groups == [([[k]], [k - 1] if k else []) for k in range(5)]


def test_updates_beside_a_short_chain_stay_one_launch() -> None:
    # Two large ops with two updates each; then small ops, one after the other, and a large one.
    groups = check([[], [0], [0], [0], [3], [3], [3], [6], [7]], [0, 1, 1, 0, 1, 1, 1, 1, 0])
    launches = [levels for levels, _ in groups]
    assert launches == [[[0]], [[3]], [[6]], [[7]], [[1, 2, 4, 5]], [[8]]]


def test_ops_of_many_tasks_join_no_chain() -> None:
    groups = check([[], [0], [0]], [1, 100, 100])
    assert [levels for levels, _ in groups] == [[[0]], [[1, 2]]]


def test_what_the_costliest_chain_waits_for_is_launched_first() -> None:
    # A gradient; what it gives the weights, and their update; the gradient further back, and the
    # product and the update behind that one.
    dependencies: list[list[int]] = [[], [0], [1], [0], [3], [4]]
    costs = [1.0, 1.0, 5.0, 1.0, 1.0, 6.0]
    needed = [True, True, False, True, True, False]
    assert ordered(dependencies, costs, needed) == [0, 3, 4, 1, 5, 2]
    # Of two alike, the one that more wait for.
    assert ordered([[], [0], [0], [1, 2], [2]], [1.0] * 5, [True] * 3 + [False] * 2)[:2] == [0, 2]


def test_what_nobody_needs_is_launched_last() -> None:
    # Two large updates that keep their order: none needs the other. Beside the first one a chain.
    dependencies: list[list[int]] = [[], [0], [0], [2], [3, 1]]
    costs = [1.0, 99.0, 1.0, 1.0, 9.0]
    assert ordered(dependencies, costs, [True, False, True, True, False]) == [0, 2, 3, 1, 4]
    # Did the second one need the first one, it were awaited with all that it costs.
    assert ordered(dependencies, costs, [True] * 5)[:2] == [0, 1]
