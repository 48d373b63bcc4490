"""Choices of options among which every pair of values occurs."""

import itertools
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

Choice = dict[str, Any]
Pair = tuple[tuple[str, int], tuple[str, int]]
CANDIDATES = 12  # completions of a pair, of which the one with most new pairs is taken
TRIES = 200  # completions that are tried before a pair is held for impossible


def pairs_of(places: dict[str, int]) -> set[Pair]:
    return set(itertools.combinations(sorted(places.items()), 2))


def every_pair(
    factors: dict[str, Sequence[Any]], fits: Callable[[Choice], bool], seed: int = 0
) -> tuple[list[Choice], list[Pair]]:
    """Choices, each of which fits, and the pairs that no choice has that fits."""
    random = Random(seed)
    counts = {name: len(values) for name, values in factors.items()}

    def choice(places: dict[str, int]) -> Choice:
        return {name: factors[name][places[name]] for name in factors}

    def completed(*fixed: tuple[str, int]) -> dict[str, int]:
        return {name: random.randrange(count) for name, count in counts.items()} | dict(fixed)

    single = [name for name in counts if len(counts) == 1]
    wanted: dict[Any, None] = {}
    for one, other in itertools.combinations(sorted(counts), 2):
        for a, b in itertools.product(range(counts[one]), range(counts[other])):
            wanted[(one, a), (other, b)] = None
    if single:
        alone = [choice({single[0]: k}) for k in range(counts[single[0]])]
        return [one for one in alone if fits(one)], []
    if not counts:
        return [{}], []
    found: list[Choice] = []
    impossible: list[Pair] = []
    while wanted:
        pair = next(iter(wanted))
        candidates: list[dict[str, int]] = []
        for _ in range(TRIES):
            places = completed(*pair)
            if fits(choice(places)):
                candidates.append(places)
                if len(candidates) == CANDIDATES:
                    break
        if not candidates:
            impossible.append(pair)
            del wanted[pair]
            continue
        best = max(candidates, key=lambda places: len(pairs_of(places) & wanted.keys()))
        for covered in pairs_of(best):
            wanted.pop(covered, None)
        found.append(choice(best))
    return found, impossible
