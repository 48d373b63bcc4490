"""A lower bound per workload: its arithmetic and compulsory traffic over what the machine does."""

import math
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from . import workloads as w


@dataclass(frozen=True)
class Machine:
    """Units: GFLOP/s of float32 multiply-adds, GB/s of memory, bytes of last-level cache."""

    compute: float
    memory: float
    cache: int


@cache
def machine(threads: int, realtime: bool = False) -> Machine | None:
    """Measured by probe.c; None without a C compiler. With realtime before ordinary processes."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        program = str(Path(folder) / "probe")
        source = str(Path(__file__).with_name("probe.c"))
        flags = ["-O3", "-march=native", "-ffp-contract=fast", "-pthread"]
        made = subprocess.run([compiler, *flags, source, "-o", program], check=False)
        if made.returncode != 0:
            return None
        urgency = ["chrt", "--fifo", "1"] if realtime else []
        answer = subprocess.run(
            [*urgency, program, str(threads)], capture_output=True, text=True, check=True
        ).stdout.split()
    return Machine(float(answer[0]), float(answer[1]), _cache_bytes())


def _cache_bytes() -> int:
    """The largest cache of the first core; 0 where the system does not tell."""
    folder = Path("/sys/devices/system/cpu/cpu0/cache")
    sizes = [int(file.read_text().strip().rstrip("K")) for file in folder.glob("index*/size")]
    return max(sizes, default=0) * 1024


@dataclass
class Work:
    """Of one training step. Units: operations (a multiply-add is two), elements."""

    operations: float = 0
    parameters: int = 0
    activations: int = 0


def work(workload: w.Workload) -> Work:
    """Three products per layer with weights; without anything trained before it, two.

    The source of a workload that is not trained has a gradient like all others.
    """
    total = Work()
    batch, *rest = workload.source
    total.parameters = sum(array.size for array in w.parameters(workload))
    first = workload.trained

    def product(multiplications: int) -> None:
        nonlocal first
        total.operations += 2 * multiplications * (2 if first else 3)
        first = False

    def walk(layers: tuple[w.Layer, ...], extent: int) -> int:
        """Of squares of pixels the extent; of sequences the steps; else 1."""
        nonlocal first
        for layer in layers:
            match layer:
                case w.Dense(inputs, outputs):
                    product(batch * extent * inputs * outputs)
                case w.Convolution(inputs, outputs, kernel, stride):
                    extent //= stride
                    result = batch * outputs * extent**2
                    product(result * inputs * kernel**2)
                    total.activations += result
                case w.MaxPool(size, stride, _):
                    extent //= stride or size
                case w.GlobalAverage(size):
                    extent //= size
                case w.Flatten():
                    extent = 1
                case w.LayerNorm():
                    first = False
                case w.Attention(width, _):
                    for outputs in (3 * width, 2 * extent, width):
                        product(batch * extent * width * outputs)
                case w.Lstm(_, hidden, _):
                    for inputs in layer.sources():
                        product(batch * extent * inputs * 4 * hidden)
                        product(batch * extent * hidden * 4 * hidden)
                    extent = 1
                case w.TokenMean():
                    extent = 1
                case w.Residual(body, shortcut):
                    before, extent = extent, walk(body, extent)
                    walk(shortcut, before)
        return extent

    walk(workload.layers, rest[-1 if workload.images else 0] if len(rest) > 1 else 1)
    return total


def crossings(workload: w.Workload, element_bytes: int = 4) -> float:
    """Bytes that cross to memory where nothing stays in a cache; activations of element_bytes.

    A parameter is read and written with what its optimizer keeps, and its gradient read. A
    convolution's result crosses nine times: written; read and written by normalization; read by
    the next layer and again for its weights' gradient; its gradient written, read with it by the
    normalization's gradient, written; read by the convolution's. Values of sequences are not
    counted, because fused kernels need not write them. Where nothing is trained, a loss reads the
    source and writes its gradient; a layer also writes its result, and reads the result's gradient
    and the source once more.
    """
    total = work(workload)
    if not workload.trained:
        arrays = 2 if workload.classes else 5
        return 8.0 * total.parameters + element_bytes * arrays * math.prod(workload.source)
    updates = 7 if workload.optimizer.name == "adam" else 5
    return 4.0 * updates * total.parameters + 9.0 * element_bytes * total.activations


def traffic(workload: w.Workload, cache: int) -> float:
    """Bytes that must cross to memory: none where everything a step touches stays in the cache."""
    total = work(workload)
    kept = {"adam": 4, "sgd": 3, "none": 2}[workload.optimizer.name]  # with gradient and moments
    values = 2 * total.activations
    if not workload.trained:
        values = (2 if workload.classes else 4) * math.prod(workload.source)
    if 4 * (kept * total.parameters + values) <= cache:
        return 0
    return crossings(workload)


def milliseconds(workload: w.Workload, m: Machine) -> float:
    """Arithmetic and traffic one after the other."""
    return work(workload).operations / m.compute / 1e6 + traffic(workload, m.cache) / m.memory / 1e6
