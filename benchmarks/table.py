"""The figures as text."""

from collections.abc import Sequence
from typing import Any

HEAD = ("workload", "threads", "peer", "median", "p10", "p90", "cpu", "peak MiB", "of the bound")


def _number(value: float) -> str:
    return f"{value:.4f}" if value < 1 else f"{value:.2f}" if value < 100 else f"{value:.0f}"


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    peer = row["peer"]
    if row.get("variant") not in (None, "", peer.partition(":")[2]):
        peer = f"{peer.partition(':')[0]} {row['variant']}"
    start = (row["workload"], str(row["threads"]), peer)
    if "error" in row:
        return (*start, row["error"].splitlines()[0])
    wall = row["wall_ms"]
    share = f"{wall['p10'] / row['bound_ms']:.1f}" if row.get("bound_ms") else ""
    odd = "" if row.get("same_losses", True) else " (losses differ)"
    odd += f" ({row['far']} rounds on cores far apart)" if row.get("far") else ""
    return (
        *start,
        *(_number(wall[key]) for key in ("median", "p10", "p90")),
        _number(row["cpu_ms"]["median"]),
        f"{row['peak_mib']:.0f}",
        share + odd,
    )


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Milliseconds per step; the last column is p10 over the bound."""
    lines = [HEAD, *(_cells(row) for row in rows)]
    widths = [max(len(line[k]) for line in lines if k < len(line) - 1 or k < 3) for k in range(8)]
    text = []
    for line in lines:
        cells = [cell.ljust(width) for cell, width in zip(line, [*widths, 0], strict=False)]
        text.append("  ".join(cells).rstrip())
    return "\n".join(text)


def best_peer(rows: Sequence[dict[str, Any]]) -> str:
    """How many times this library's median the fastest peer takes."""
    known = {row["peer"]: row["wall_ms"]["median"] for row in rows if "wall_ms" in row}
    ours = known.pop("ours", None)
    if ours is None or not known:
        return ""
    peer = min(known, key=known.__getitem__)
    first = rows[0]
    ratio = f"{peer} / traingraph {known[peer] / ours:.2f}"
    return f"{first['workload']}, {first['threads']} threads, best peer: {ratio}"


def phases(rows: Sequence[dict[str, Any]]) -> str:
    """Medians of the separate phases, for those that have them."""
    text = []
    for row in rows:
        if parts := row.get("phases"):
            times = ", ".join(f"{k} {_number(v['wall_ms']['median'])}" for k, v in parts.items())
            text.append(f"{row['workload']}, {row['threads']} threads, {row['peer']}: {times}")
    return "\n".join(text)
