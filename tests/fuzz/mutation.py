"""Changes to bytes and to JSON, drawn from a random number generator."""

import json
import math
from random import Random
from typing import Any

NUMBERS = [
    0, 1, -1, 2, 3, 7, 64, 255, 256, 65535, 2**16, 2**24, 2**31 - 1, 2**31, -(2**31), 2**32,
    2**40, 2**53, 2**62, 2**63 - 1, 2**63, -(2**63), 2**64 - 1, 10**30, 0.5, -0.0, 1e-320, 1e38,
    1e308, math.nan, math.inf, -math.inf,
]  # fmt: skip
TEXTS = ["", "?", "\ud800", "\x00", "a" * 5000, "%s%n", "../../x", "\U0001f600", "None"]


def hostile(random: Random) -> Any:
    kind = random.randrange(10)
    if kind < 6:
        return random.choice(NUMBERS)
    if kind < 8:
        return random.choice(TEXTS)
    return random.choice([None, True, False, [], {}, [1] * 300, {"data": -1}, [[]],
                          json.loads("[" * 80 + "]" * 80)])  # fmt: skip


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every container and key within a JSON value."""
    found, left = [], [value]
    while left:
        one = left.pop()
        keys = one.keys() if isinstance(one, dict) else range(len(one))
        for key in list(keys):
            found.append((one, key))
            if isinstance(one[key], dict | list):
                left.append(one[key])
    return found


def change_number(random: Random, value: Any) -> Any:
    """One number changed by little, or to a small one: most of what comes of it is taken."""
    value = json.loads(json.dumps(value))
    numbers = [(holder, key) for holder, key in places(value) if type(holder[key]) in (int, float)]
    if numbers:
        holder, key = random.choice(numbers)
        holder[key] = random.choice([holder[key] + 1, holder[key] - 1, 0, 1, 2, 3, 5, 0.5, -1])
    return value


def change_json(random: Random, value: Any, others: list[Any]) -> Any:
    """One to three places changed; `others` are values of which parts are taken."""
    value = json.loads(json.dumps(value))
    for _ in range(random.randint(1, 3)):
        known = places(value)
        if not known:
            break
        holder, key = random.choice(known)
        kind = random.randrange(8)
        if kind < 4:
            old = holder[key]
            near = isinstance(old, int | float) and not isinstance(old, bool) and kind == 0
            holder[key] = old + random.choice([-1, 1, 2]) if near else hostile(random)
        elif kind == 4:
            del holder[key]
        elif kind == 5:
            other, from_ = random.choice(known)
            if not (isinstance(other, list) and from_ >= len(other)) and from_ in (
                other if isinstance(other, dict) else range(len(other))
            ):
                holder[key] = json.loads(json.dumps(other[from_]))
        elif kind == 6:
            donor, from_ = random.choice(places(random.choice(others)))
            holder[key] = json.loads(json.dumps(donor[from_]))
        elif isinstance(holder, list):
            holder.insert(key, json.loads(json.dumps(holder[key])))
        else:
            holder[random.choice(TEXTS)] = hostile(random)
    return value


def change_bytes(random: Random, content: bytes) -> bytes:
    changed = bytearray(content)
    for _ in range(random.randint(1, 4)):
        at = random.randint(0, len(changed))
        end = min(len(changed), at + random.choice([1, 1, 2, 8, 50]))
        kind = random.randrange(5)
        if kind == 0:
            changed[at:end] = random.randbytes(end - at)
        elif kind == 1:
            changed[at:at] = random.choice(
                [b'"', b"{", b"]", b",", b"\\u", b"\xff", b"9" * 30, b"-"]
            )
        elif kind == 2:
            del changed[at:end]
        elif kind == 3:
            changed[at:at] = changed[at:end]
        else:
            del changed[at:]
    return bytes(changed)
