"""Two ranks beside two threads, and beside what the model of docs/scaling.md calculates.

python -m benchmarks.scaling [--workloads lenet_digits,mlp_large] [--batch 64]
                             [--places machine,network] [--link 1gbit] [--rounds 10]
                             [--seconds 0.5] [--realtime] [--overlapped 0] [--json figures.json]

*machine*: a rank on each of two cores. *network*: the same in network and process namespaces of
their own, joined by a virtual cable, which `--link` slows down by a token bucket (Linux, root).
*alone* are steps of both ranks at once that exchange nothing. *threads* is one process that
computes both batches on both cores. All take turns, round by round, and so do the measurements of
the link and of copies in memory, from which each round's step is calculated. A sample is a run of
steps that lasts about `--seconds`, each of which waits for its result. `--overlapped` is the share
of the exchanges that the calculation takes for hidden behind the gradient pass.
"""

import argparse
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

from .arguments import names
from .runner import quantiles
from .scaling_model import Bucket, Link, terms
from .workloads import WORKLOADS

HERE = "127.0.0.1"
CABLE = ("198.18.0.1", "198.18.0.2")  # of the block that is set aside for benchmarks, RFC 2544
Numbers = dict[str, list[float]]


class Member:
    """A process of benchmarks.scaling_rank."""

    def __init__(self, within: list[str], variables: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [*within, sys.executable, "-m", "benchmarks.scaling_rank"],
            env=os.environ | variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def tell(self, *question: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("[scaling] expected an answer of each process but one has ended")
        return json.loads(line)

    def ask(self, *question: Any) -> Any:
        self.tell(*question)
        return self.answer()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


class Place:
    """Two ranks, and the link between them."""

    def __init__(self, name: str, rate: str, members: list[Member], host: str) -> None:
        self.name, self.rate, self.members = name, rate, members
        port = members[0].ask("listen")
        for member, other in zip(members, (None, host), strict=True):
            member.tell("connect", other, port)
        self.answers()

    def answers(self) -> list[Any]:
        return [member.answer() for member in self.members]

    def all(self, *question: Any) -> list[Any]:
        """Of all ranks, which begin together."""
        for member in self.members:
            member.tell(*question)
        return self.answers()

    def begin(self, workload: str, batch: int | None) -> None:
        self.ready = self.all("begin", workload, batch)[0]
        self.buckets: list[Bucket] = [tuple(bucket) for bucket in self.ready["buckets"]]

    def link(self) -> Link:
        short = self.all("short")
        rate, read = fmean(self.all("socket_rate")), 0.0
        if self.name == "machine":
            places = self.all("place")
            for member, other in zip(self.members, reversed(places), strict=True):
                member.tell("read_rate", other["process"], other["address"])
            read = fmean(self.answers())
        latency, message = map(fmean, zip(*short, strict=True))
        return Link(latency, rate, read, message)

    def round(self, count: int, overlapped: float) -> dict[str, float]:
        """Milliseconds of a step, measured and calculated, and what the latter is made of."""
        alone = self.all("time", "alone", count)
        together = self.all("time", "together", count)
        link = self.link()
        memory = fmean(self.all("copy"))
        added = terms(self.buckets, len(self.members), link, memory, overlapped)
        # Sums wait for the slower rank of each step.
        slower = fmean(map(max, *alone))
        return {
            "alone": fmean(map(fmean, alone)) * 1e3,
            "slower": slower * 1e3,
            "together": fmean(map(fmean, together)) * 1e3,
            "calculated": (slower + added.total) * 1e3,
            "exchanges": added.exchanges * 1e3,
            "copies": added.copies * 1e3,
            "memory": memory,
            **asdict(link),
        }


def tool(*command: str) -> None:
    subprocess.run(command, check=True)


@contextlib.contextmanager
def cable(link: str) -> Iterator[list[list[str]]]:
    """Two namespaces that see one another over it alone: what runs a program within each."""
    spaces = [f"scaling{os.getpid()}{end}" for end in "ab"]
    ends = [f"sc{os.getpid() % 10**8}{end}" for end in "ab"]
    try:
        for space in spaces:
            tool("ip", "netns", "add", space)
        tool("ip", "link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
        for space, end, address in zip(spaces, ends, CABLE, strict=True):
            tool("ip", "link", "set", end, "netns", space)
            tool("ip", "-n", space, "address", "add", f"{address}/30", "dev", end)
            tool("ip", "-n", space, "link", "set", end, "up")
            tool("ip", "-n", space, "link", "set", "lo", "up")
            if link:
                bucket = ("tbf", "rate", link, "burst", "32kb", "latency", "50ms")
                tool("tc", "-n", space, "qdisc", "add", "dev", end, "root", *bucket)
        apart = ["unshare", "--pid", "--fork", "--kill-child"]
        yield [["ip", "netns", "exec", space, *apart] for space in spaces]
    finally:
        # The cable goes with its ends, or lies here where nobody has one.
        for space in spaces:
            subprocess.run(["ip", "netns", "delete", space], stderr=subprocess.DEVNULL, check=False)
        subprocess.run(["ip", "link", "delete", ends[0]], stderr=subprocess.DEVNULL, check=False)


@contextlib.contextmanager
def place(
    name: str, rate: str, within: list[list[str]], host: str, cores: list[int]
) -> Iterator[Place]:
    with socket.socket() as free:
        free.bind((HERE, 0))
        port = free.getsockname()[1]
    members: list[Member] = []
    try:
        for rank, command in enumerate(within):
            own = {
                "RANK": str(rank), "WORLD_SIZE": str(len(within)), "MASTER_ADDR": host,
                "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1",
            }  # fmt: skip
            members.append(Member([*command, "taskset", "-c", str(cores[rank])], own))
        yield Place(name, rate, members, host)
    finally:
        for member in members:
            member.end()


def measure(
    workload: str, places: list[Place], threads: Member, arguments: argparse.Namespace
) -> list[Any]:
    about = threads.ask("begin", workload, arguments.batch)
    for each in places:
        each.begin(workload, arguments.batch)
    once = min(threads.ask("time", "threads", 3))
    count = max(1, round(arguments.seconds / once))
    both: list[float] = []
    rounds: dict[str, list[dict[str, float]]] = {each.name: [] for each in places}
    for _ in range(arguments.rounds):
        both.append(fmean(threads.ask("time", "threads", count)) * 1e3)
        for each in places:
            rounds[each.name].append(each.round(count, arguments.overlapped))
    return [
        {
            "workload": workload, "place": each.name, "link": each.rate, "steps": count,
            **about, **each.ready, "threads": quantiles(both), **summary(rounds[each.name]),
        }
        for each in places
    ]  # fmt: skip


def summary(rounds: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    return {name: quantiles([each[name] for each in rounds]) for name in rounds[0]}


def in_words(row: dict[str, Any], name: str) -> str:
    found = row[name]
    return f"{name} {found['median']:.4g} ({found['p10']:.4g}, {found['p90']:.4g})"


def show(row: dict[str, Any]) -> None:
    median = {name: found["median"] for name, found in row.items() if isinstance(found, dict)}
    sizes = [sum(bucket) for bucket in row["buckets"]]
    times = ", ".join(
        in_words(row, name) for name in ("alone", "together", "calculated", "threads")
    )
    where = f"{row['place']} {row['link']}".rstrip()
    error = median["calculated"] / median["together"] - 1
    within = row["together"]["p10"] <= median["calculated"] <= row["together"]["p90"]
    print(
        f"{row['workload']}, batch {row['batch']} each, {where}: ms, {times}\n"
        f"  efficiency {median['alone'] / median['together']:.3f} of a rank alone, "
        f"{median['threads'] / median['together']:.3f} of two threads; calculated {error:+.1%}, "
        f"{'within' if within else 'outside'} p10 to p90\n"
        f"  calculated of: the slower rank alone {median['slower']:.4g}, "
        f"exchanges {median['exchanges']:.4g}, copies {median['copies']:.4g}; "
        f"buckets of {', '.join(f'{size:,}' for size in sizes)} bytes\n"
        f"  link: {median['latency'] * 1e6:.1f} µs, sockets {median['rate'] / 1e9:.3g} GB/s, "
        f"reading {median['read'] / 1e9:.3g} GB/s; {share_of_link(row, median):.2f} of it used; "
        f"copies {median['memory'] / 1e9:.3g} GB/s; a message {median['message'] * 1e6:.1f} µs of "
        "processor",
        flush=True,
    )


def share_of_link(row: dict[str, Any], median: dict[str, float]) -> float:
    """What the link needs for the bytes of a step, over the time that ranks add."""
    sent = sum(map(sum, row["buckets"]))  # by each of two: a half and a sum's half, or all of it
    added = (median["together"] - median["slower"]) / 1e3
    return sent / (median["read"] or median["rate"]) / added if added > 0 else float("inf")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workloads", type=names, default=["lenet_digits", "mlp_large"])
    parser.add_argument("--batch", type=int, help="of each rank; the workload's")
    parser.add_argument("--places", type=names, default=["machine", "network"])
    parser.add_argument("--link", default="", help="rate of the virtual cable, as tc has it")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--realtime", action="store_true", help="before ordinary processes; root")
    parser.add_argument("--overlapped", type=float, default=0.0)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    for given, known in ((arguments.workloads, WORKLOADS), (arguments.places, PLACES)):
        for name in given:
            if name not in known:
                parser.error(f"expected some of {','.join(known)} but got {name}")
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        parser.error(f"expected two cores but got {len(cores)}")
    if "network" in arguments.places and os.geteuid() != 0:
        parser.error("expected root for network namespaces; write --places machine")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what was made is taken away
    with contextlib.ExitStack() as stack:
        places = []
        first = ["chrt", "--fifo", "1"] if arguments.realtime else []
        for name in arguments.places:
            apart = name == "network"
            within = stack.enter_context(cable(arguments.link)) if apart else [[], []]
            within = [[*command, *first] for command in within]
            host, rate = (CABLE[0], arguments.link) if apart else (HERE, "")
            places.append(stack.enter_context(place(name, rate, within, host, cores)))
        both = ",".join(map(str, cores[:2]))
        threads = Member([*first, "taskset", "-c", both], {"OMP_NUM_THREADS": "2"})
        stack.callback(threads.end)
        rows = []
        for workload in arguments.workloads:
            found = measure(workload, places, threads, arguments)
            for row in found:
                show(row)
            rows += found
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


PLACES = ("machine", "network")

if __name__ == "__main__":
    main()
