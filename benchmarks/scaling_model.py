"""What steps of ranks take, from a rank's step alone and a link: the formulas of docs/scaling.md.

python -m benchmarks.scaling_model   # the calculated tables of that page

Units: seconds, bytes, bytes per second.
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

# As cpp/src/distributed has them; tests/test_benchmarks.py compares.
WHOLE = 16384  # a bucket up to this many bytes is sent to all others at once
LONG = 65536  # from this many on a message is read from the sender's memory, on one machine

Bucket = tuple[int, ...]  # bytes of its arrays


@dataclass(frozen=True)
class Link:
    """Between two ranks, with both directions at once, as plain programs measure it."""

    latency: float  # of a short message
    rate: float  # each way, through a socket
    read: float = 0.0  # out of the other's memory; 0: on another machine
    message: float = 0.0  # of the processor, for each further message of an exchange


@dataclass(frozen=True)
class Terms:
    """Of what ranks add to a step."""

    exchanges: float = 0.0
    copies: float = 0.0  # packing, adding, unpacking
    overlapped: float = 0.0  # of the exchanges, hidden behind the gradient pass

    @property
    def total(self) -> float:
        return self.exchanges + self.copies - self.overlapped


def buckets_of(description: str) -> list[Bucket]:
    """Of the sums in `compiled_description`, by the float32 arrays that they give."""
    sums = re.findall(r"^ *(%.*) = all_reduce\(", description, re.MULTILINE)
    shapes = [re.findall(r"float32 \(([\d, ]*)\)", line) for line in sums]
    return [
        tuple(4 * math.prod(int(extent) for extent in re.findall(r"\d+", shape)) for shape in line)
        for line in shapes
    ]


def exchange(link: Link, peers: int, length: float) -> float:
    """Each rank sends so many bytes to each of its peers, and receives as many."""
    begun = link.latency + (peers - 1) * link.message
    if link.read and length >= LONG:  # a notice, the reading, an answer
        return 2 * begun + peers * length / link.read
    return begun + peers * length / link.rate


def terms(
    buckets: Iterable[Sequence[int]], ranks: int, link: Link, memory: float, overlapped: float = 0.0
) -> Terms:
    """`memory`: bytes copied per second. `overlapped`: the hidden share of the exchanges."""
    exchanges = copies = 0.0
    for bucket in buckets:
        size = sum(bucket)
        part = size if size <= WHOLE else size / ranks
        exchanges += (1 if size <= WHOLE else 2) * exchange(link, ranks - 1, part)
        packed = 2 * size if len(bucket) > 1 else 0
        # An addition reads a part of each rank and writes one; a copy reads one and writes one.
        copies += (packed + (ranks + 1) / 2 * part) / memory
    return Terms(exchanges, copies, overlapped * exchanges)


# --- carried further -----------------------------------------------------------------------------

# Nodes with sockets: mlp_large as measured on one core, and a network card of 25 Gb/s.
ONE_CORE = 80e-3
MLP_LARGE = ((40, 81920, 8192), (16777216,), (8192,), (6422528,))
CARD = Link(latency=50e-6, rate=0.8 * 25e9 / 8, message=10e-6)
COPIES = 10e9

MEASURED = (45e6, 179.3e-6)  # a sum over two H200, by benchmarks/nccl_sums.py
IN_NODE = MEASURED[0] / MEASURED[1]  # bytes per second of a GPU: two send the bytes once
PER_NODE = 8
LATENCY = 10e-6  # of a message between nodes, in a tree of NCCL
SHARE = 0.8  # of a network's rate that bytes have
BUCKET = 25 << 20


@dataclass(frozen=True)
class Workload:
    name: str
    alone: float  # seconds of a step on one H200
    size: float  # bytes of gradients


RESNET18 = Workload("resnet18_cifar, batch 256, TF32", 5.968e-3, 44.7e6)
TRANSFORMER = Workload("transformer_base, batch 16, TF32", 30.42e-3, 340e6)
WORKLOADS = (RESNET18, TRANSFORMER)


def in_node(size: float, gpus: int) -> float:
    """An all-reduce of one host."""
    return 2 * (gpus - 1) / gpus * size / IN_NODE


def between(size: float, nodes: int, gigabits: float) -> float:
    """Of each GPU its eighth over a network card of its own; then what a tree waits."""
    rate = SHARE * gigabits * 1e9 / 8
    messages = math.ceil(size / BUCKET) * 2 * math.ceil(math.log2(nodes))
    return 2 * (nodes - 1) / nodes * size / PER_NODE / rate + messages * LATENCY


def step(workload: Workload, nodes: int, gigabits: float, samples: int, hidden: float) -> float:
    """`samples`: times the batch, in as many micro-batches. `hidden`: share of the sums."""
    sums = in_node(workload.size, PER_NODE)
    if nodes > 1:
        sums += between(workload.size, nodes, gigabits)
    return samples * workload.alone + (1 - hidden) * sums


def interval(checkpoint: float, between_failures: float) -> float:
    """Young's: seconds of work between checkpoints that take so many seconds."""
    return math.sqrt(2 * checkpoint * between_failures)


def lost(checkpoint: float, between_failures: float, restart: float) -> float:
    """The share of the time: checkpoints, work done again, restarts."""
    period = interval(checkpoint, between_failures)
    return checkpoint / period + (period / 2 + restart) / between_failures


HOURS = 3600.0
PUBLISHED = 54 * 24 * HOURS / 419 * 2048  # of a node: 419 failures of 2,048 nodes in 54 days


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def of_sockets() -> list[str]:
    rows = [
        row("ranks", "exchanges", "copies", "step", "efficiency"),
        row("--:", "--:", "--:", "--:", "--:"),
    ]
    for ranks in (2, 8, 64, 1000):
        added = terms(MLP_LARGE, ranks, CARD, COPIES)
        taken = ONE_CORE + added.total
        cells = (f"{seconds * 1e3:.1f}" for seconds in (added.exchanges, added.copies, taken))
        rows.append(row(f"{ranks:,}", *cells, f"{ONE_CORE / taken:.2f}"))
    return rows


def of_one_host() -> list[str]:
    rows = [row("workload", *(f"{n} GPUs" for n in (2, 4, 8))), row("---", "--:", "--:", "--:")]
    for workload in WORKLOADS:
        cells = []
        for gpus in (2, 4, 8):
            taken = workload.alone + in_node(workload.size, gpus)
            cells.append(f"{taken * 1e3:.2f} ({workload.alone / taken:.2f})")
        rows.append(row(workload.name, *cells))
    return rows


def of_many_nodes() -> list[str]:
    rows = [
        row("workload", "batch", "100 Gb/s", "400 Gb/s", "400 Gb/s, half hidden"),
        row("---", "--:", "--:", "--:", "--:"),
    ]
    for workload in WORKLOADS:
        for samples in (1, 4, 16):
            cells = []
            for rate, hidden in ((100, 0.0), (400, 0.0), (400, 0.5)):
                taken = step(workload, 1000, rate, samples, hidden)
                cells.append(f"{taken * 1e3:.1f} ({samples * workload.alone / taken:.2f})")
            rows.append(row(workload.name, f"{samples} times", *cells))
    return rows


def of_failures() -> list[str]:
    rows = [
        row("nodes", "hours between failures", "checkpoint", "interval", "restart", "lost"),
        row("--:", "--:", "--:", "--:", "--:", "--:"),
    ]
    for nodes in (1, 100, 1000):
        for checkpoint, restart in ((1.0, 60.0), (12.0, 300.0)):
            hours = PUBLISHED / nodes
            rows.append(
                row(
                    f"{nodes:,}",
                    f"{hours / HOURS:,.1f}",
                    f"{checkpoint:.0f} s",
                    f"{interval(checkpoint, hours) / 60:.1f} min",
                    f"{restart / 60:.0f} min",
                    f"{lost(checkpoint, hours, restart):.2%}",
                )
            )
    return rows


TABLES = (of_sockets, of_one_host, of_many_nodes, of_failures)


def main() -> None:
    for table in TABLES:
        print("\n".join(table()), end="\n\n")


if __name__ == "__main__":
    main()
