"""The workloads in PyTorch on a GPU.

eager, captured in a CUDA graph by hand, compiled, or whole: model and loss compiled together, and
the step with the fused optimizer captured by hand; whole+update has the optimizer compiled as well,
and max-autotune is that with the kernels that were fastest in trials.
"""

import gc
from collections.abc import Callable
from typing import Any

from . import workloads as w
from .peer_torch import criterion_of, model_of, optimizer_of, torch, trained


class Session:
    """`step` runs one training step and returns at once; `loss` is that of one more step."""

    def __init__(self, workload: w.Workload, mode: str, precision: str) -> None:
        torch.manual_seed(0)
        # Memory of earlier sessions that would be shared, or freed while this one's is counted.
        torch.compiler.reset()
        gc.collect()
        torch._C._cuda_clearCublasWorkspaces()
        torch.cuda.empty_cache()
        before = torch.cuda.memory_allocated()
        for library in (torch.backends.cuda.matmul, torch.backends.cudnn):
            library.allow_tf32 = precision != "float32"
        torch.backends.cudnn.benchmark = True
        model = model_of(workload).cuda()
        x, y = (torch.from_numpy(array).cuda() for array in w.data(workload))
        if workload.images and precision != "float32":
            model, x = (z.to(memory_format=torch.channels_last) for z in (model, x))
        updates = mode in ("whole+update", "max-autotune")  # compiled
        whole, captured = mode == "whole" or updates, mode not in ("eager", "compiled")
        tuned = {"mode": "max-autotune-no-cudagraphs"} if mode == "max-autotune" else {}
        kind = {"capturable": True} if workload.optimizer.name == "adam" else {}
        kind["foreach" if updates else "fused"] = True
        optimizer = optimizer_of(workload.optimizer, trained(model), **kind)
        label = y.long() if workload.classes else y
        criterion = criterion_of(workload)
        forward = torch.compile(model, mode="reduce-overhead") if mode == "compiled" else model
        update = torch.compile(optimizer.step) if updates else optimizer.step
        types = {"mixed_bfloat16": torch.bfloat16, "mixed_float16": torch.float16}
        mixed = {"dtype": types[precision]} if precision in types else {"enabled": False}

        def loss_of(x: Any, label: Any) -> Any:
            with torch.autocast("cuda", **mixed):
                return criterion(forward(x), label)

        loss_of = torch.compile(loss_of, **tuned) if whole else loss_of

        def step() -> Any:
            optimizer.zero_grad(set_to_none=not captured)
            loss = loss_of(x, label)
            loss.backward()
            update()
            return loss

        # A captured step does not keep alive what it works on.
        self.eager = self.step = step
        self.losses = [float(step().item())]
        torch.cuda.reset_peak_memory_stats()  # the first step has tried cuDNN's engines
        self.losses += [float(step().item()) for _ in range(2)]
        if captured:
            self.step = self._captured(step, optimizer)
        for _ in range(3):
            self.step()
        self.finish()
        # Now, for later on other sessions' steps would be counted.
        self.peak_bytes = torch.cuda.max_memory_allocated() - before

    @staticmethod
    def _captured(step: Callable[[], Any], optimizer: Any) -> Callable[[], Any]:
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(5):
                step()
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph):
            step()
        return graph.replay  # type: ignore[no-any-return]

    def finish(self) -> None:
        torch.cuda.synchronize()


def ceilings() -> tuple[float, dict[str, float]]:
    """Bytes per second of a large copy, and operations per second of a product by precision."""

    def rate(call: Callable[[], Any], amount: float) -> float:
        for _ in range(3):
            call()
        a, b = torch.cuda.Event(True), torch.cuda.Event(True)
        a.record()
        for _ in range(10):
            call()
        b.record()
        torch.cuda.synchronize()
        return amount * 10 / (a.elapsed_time(b) / 1e3)

    source = torch.randn(2**29, device="cuda")
    target = torch.empty_like(source)
    bandwidth = rate(lambda: target.copy_(source), 2.0 * 4 * 2**29)
    rates = {}
    for name, tf32, kind in (
        ("float32", False, torch.float32),
        ("tf32", True, torch.float32),
        ("mixed_bfloat16", True, torch.bfloat16),
        ("mixed_float16", True, torch.float16),
    ):
        torch.backends.cuda.matmul.allow_tf32 = tf32
        a = torch.randn(8192, 8192, device="cuda", dtype=kind)
        rates[name] = rate(lambda a=a: a @ a, 2.0 * 8192**3)
    return bandwidth, rates
