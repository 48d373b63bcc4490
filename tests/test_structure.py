"""The rules of docs/rooms.md about includes, and about who may name a backend."""

import collections
import re
from pathlib import Path

import pytest

from tracked_files import ROOT, SOURCE_FILES, relative, tracked

SOURCES = ("cpp", "python/bindings")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)

# What a folder may include beside itself and include/traingraph. What follows from two steps is
# allowed too, because a file includes what it uses. Paths are relative to cpp/src.
EDGES = {
    "ops.def": [],
    "ir": ["ops.def"],
    "ops": ["ir"],
    "runtime": ["ir"],
    "distributed": ["runtime"],
    "layers": ["ops", "runtime"],
    "optimizers": ["ops", "runtime"],
    "passes": ["ops", "runtime"],
    "engine": ["runtime"],
    "graph": ["distributed", "engine", "layers", "optimizers", "passes"],
    "mps": ["engine", "layers", "optimizers", "passes"],
    "nn": [],
    "backends/reference": ["distributed", "runtime"],
    "backends/cpu": ["runtime", "backends/reference"],
    "backends/bnns": ["runtime", "backends/reference", "backends/cpu"],
    "backends/null": ["runtime", "backends/reference", "backends/cpu"],
    "backends/cuda": ["runtime"],
    "backends/metal": ["runtime"],
    # The explicit list of backends that are built in.
    "backends/registry.cpp": [
        "backends/bnns",
        "backends/cpu",
        "backends/metal",
        "backends/null",
        "backends/reference",
    ],
}
# The same between the rooms of one folder; "." is the folder's own files.
ROOMS = {
    "graph": {
        "state": [],
        "lowering": ["state"],
        "data": ["lowering"],
        "description": [],
        "program": ["data"],
        "run": ["program"],
        "api": ["run"],
        "checkpoint": ["run"],
        "fit": ["run"],
        "gradients": ["run"],
    },
    "mps": {
        "description": [],
        "recording": [],
        "images": ["recording"],
        "kernels": ["images"],
        "nodes": ["images"],
        "graph": ["nodes"],
        "kernels/convolution": ["kernels"],
        "kernels/loss": ["kernels"],
        "kernels/normalization": ["kernels"],
        "coding": ["description", "kernels/convolution"],
    },
    "runtime": {
        ".": [],
        "numbers": [],
        "threads": [".", "numbers"],
        "files": ["threads"],
        "memory": ["threads"],
        "tensors": ["memory"],
    },
    "layers": {
        "description": [],
        ".": ["description"],
    },
    "backends/cuda": {
        "kernel": [],
        "device": ["kernel"],
        "distributed": ["kernel"],
        "convolution": ["device"],
        "memory": ["device", "distributed"],
        "tasks": ["device"],
        "loss": ["tasks"],
        "pooling": ["convolution"],
        "products": ["tasks"],
        "tensor": ["tasks"],
        "elementwise": ["convolution", "tasks"],
        "normalization": ["convolution", "tasks"],
        "fused": ["elementwise", "products"],
        "launch": ["fused", "memory"],
        ".": ["launch", "normalization"],
    },
    "backends/metal": {
        "device": [],
        "shaders": ["device"],
        "images": ["shaders"],
        "kernels": ["images"],
        ".": ["kernels"],
    },
    "python/bindings": {
        "convert": [],
        "classes": ["convert"],
        ".": ["classes"],
        "execution": ["."],
        "mlcompute": ["execution"],
        "mps": ["."],
    },
}
# Foreign headers and the only folders that may include them.
FOREIGN = {
    "dnnl.hpp": ["backends/cpu"],
    "cub/": ["backends/cuda"],
    # The platform asks for the number of threads.
    "omp.h": ["backends/cpu", "runtime/threads/platform.cpp", "runtime/threads/team.cpp"],
    # The name of a Mac's processor.
    "sys/sysctl.h": ["backends/cpu"],
    "execinfo.h": ["runtime/threads/team.cpp"],
    # The release of a Mac's system, which Accelerate is a part of.
    "sys/utsname.h": ["backends/bnns"],
    "immintrin.h": ["backends/cpu"],
    # The name of a class of the program's.
    "cxxabi.h": ["graph/fit/callbacks.cpp"],
    "pthread.h": ["runtime"],
    "dlfcn.h": ["runtime", "backends/cuda", "distributed/mpi_library.cpp"],
    "fcntl.h": ["runtime", "distributed/socket.cpp"],
    "netdb.h": ["distributed/socket.cpp"],
    "netinet/": ["distributed/socket.cpp"],
    "poll.h": ["distributed"],
    "sys/prctl.h": ["distributed/process_memory.cpp"],
    "sys/socket.h": ["distributed/socket.cpp"],
    "sys/uio.h": ["distributed"],
    "sys/file.h": ["runtime"],
    "sys/stat.h": ["runtime"],
    "sys/auxv.h": ["runtime"],
    "sys/mman.h": ["runtime", "backends"],
    "sys/syscall.h": ["runtime/threads/team.cpp"],
    "unistd.h": ["runtime", "backends/cpu", "distributed", "python/bindings"],
    "pybind11/": ["python/bindings"],
    "Python.h": ["python/bindings"],
    "cuda": ["backends/cuda"],
    "cudnn": ["backends/cuda"],
    "vector_types.h": ["backends/cuda"],
    "cublas": ["backends/cuda"],
    "nccl": ["backends/cuda"],
    "Accelerate/": ["backends/bnns"],
    "Metal/": ["backends/metal"],
    "MetalPerformanceShaders/": ["backends/metal"],
    "Foundation/": ["backends/metal", "backends/bnns"],
}
STANDARD = re.compile(r"[a-z_]+")


def closure(folder: str, edges: dict[str, list[str]]) -> set[str]:
    """The folder and all that it may include."""
    found, waiting = set(), [folder]
    while waiting:
        current = waiting.pop()
        if current not in found:
            found.add(current)
            waiting.extend(edges.get(current, []))
    return found


def forbidden_room(house: str, source: str, target: str) -> str:
    """Why a file of a folder may not include another of it, by their paths there, or nothing."""
    if house not in ROOMS:
        return ""
    rooms = [Path(path).parent.as_posix() for path in (source, target)]
    unknown = [room for room in rooms if room not in ROOMS[house]]
    if unknown:
        return f"{unknown[0]} is no room of {house}"
    allowed = closure(rooms[0], ROOMS[house])
    return "" if rooms[1] in allowed else f"in {house}, {rooms[0]} must not know {rooms[1]}"


def folder_of(path: str) -> str:
    """The key of EDGES for a path relative to cpp/src, or its first parts if there is none."""
    parts = path.split("/")
    for length in (2, 1):
        key = "/".join(parts[:length])
        if key in EDGES:
            return key
    return "/".join(parts[:2])


def forbidden(path: str, bracket: str, included: str) -> str:
    """Why this file (relative to the root) may not include that, or nothing."""
    if included.startswith("traingraph/"):
        return ""
    if path.startswith("cpp/include/"):
        return "" if STANDARD.fullmatch(included) else "a public header includes something foreign"
    if bracket == "<":
        if STANDARD.fullmatch(included) and included not in FOREIGN:
            return ""
        places = [places for name, places in FOREIGN.items() if included.startswith(name)]
        own = path.removeprefix("cpp/src/")
        if any(f"{own}/".startswith(f"{place}/") for allowed in places for place in allowed):
            return ""
        return "a foreign header outside its folder"
    if path.startswith("python/bindings/"):
        if not (ROOT / "python/bindings" / included).is_file():
            return "the bindings see the public headers only"
        house = "python/bindings"
        return forbidden_room(house, path.removeprefix(f"{house}/"), included)
    if included == "ops.def":
        return ""
    own = path.removeprefix("cpp/src/")
    source, target = folder_of(own), folder_of(included)
    if source not in EDGES:
        return f"{source} is no folder of the layout"
    if target not in closure(source, EDGES):
        return f"{source} must not know {target}"
    if source != target:
        return ""
    return forbidden_room(
        source, own.removeprefix(f"{source}/"), included.removeprefix(f"{source}/")
    )


def includes(path: Path) -> list[tuple[str, str]]:
    return INCLUDE.findall(path.read_text())


# --- dependencies --------------------------------------------------------------------------------


def test_dependencies_point_one_way() -> None:
    files = [
        path
        for folder in SOURCES
        for suffix in ("*.h", "*.cpp", "*.cu", "*.mm")
        for path in sorted((ROOT / folder).rglob(suffix))
    ]
    assert len(files) > 100
    wrong = [
        f"{relative(path)} includes {name}: {reason}"
        for path in files
        for bracket, name in includes(path)
        if (reason := forbidden(relative(path), bracket, name))
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("cpp/src/ir/graph.cpp", '#include "ops/op.h"'),
        ("cpp/src/ir/graph.h", '#  include "runtime/backend.h"'),
        ("cpp/src/ops/matmul.cpp", '#include "runtime/kernel.h"'),
        ("cpp/src/ops/matmul.cpp", '#include "passes/passes.h"'),
        ("cpp/src/runtime/program.cpp", '#include "graph/run/executor.h"'),
        ("cpp/src/layers/softmax.cpp", '#include "graph/state/graph_state.h"'),
        ("cpp/src/layers/softmax.cpp", '#include "passes/passes.h"'),
        ("cpp/src/passes/fuse.cpp", '#include "backends/cpu/cpu.h"'),
        ("cpp/src/graph/run/executor.cpp", '#include "backends/cpu/cpu.h"'),
        ("cpp/src/backends/reference/softmax.cpp", '#include "backends/cpu/cpu.h"'),
        ("cpp/src/backends/cpu/softmax.cpp", '#include "backends/null/null.h"'),
        ("cpp/src/backends/cpu/softmax.cpp", '#include "ops/op.h"'),
        ("cpp/src/backends/cuda/softmax.cpp", '#include "backends/reference/reference.h"'),
        ("cpp/src/backends/reference/softmax.cpp", "#include <dnnl.hpp>"),
        ("cpp/src/backends/registry.cpp", '#include "backends/cuda/launch/gpu.h"'),
        ("cpp/src/graph/run/executor.cpp", "#include <cuda_runtime_api.h>"),
        ("cpp/src/graph/run/executor.cpp", "#include <omp.h>"),
        ("cpp/src/helpers/text.cpp", '#include "ir/graph.h"'),
        ("cpp/src/graph/run/executor.cpp", '#include "helpers/text.h"'),
        ("cpp/include/traingraph/graph.h", "#include <dnnl.hpp>"),
        ("cpp/include/traingraph/graph.h", '#include "ir/graph.h"'),
        ("python/bindings/mlcompute/graph.cpp", '#include "graph/run/executor.h"'),
        ("python/bindings/mlcompute/graph.cpp", "#include <dnnl.hpp>"),
        ("python/bindings/convert/data.cpp", '#include "classes/signature.h"'),
        ("python/bindings/mps/image.cpp", '#include "execution/handle.h"'),
        ("cpp/src/mps/recording/emission.cpp", '#include "mps/kernels/forms.h"'),
        ("cpp/src/graph/lowering/lowering.cpp", '#include "graph/data/data_binding.h"'),
        ("cpp/src/backends/cuda/device/transpose.cu", '#include "backends/cuda/launch/gpu.h"'),
        ("cpp/src/backends/metal/text/names.h", '#include "backends/metal/device/ref.h"'),
    ],
)
def test_a_forbidden_include_is_found(path: str, line: str) -> None:
    ((bracket, name),) = INCLUDE.findall(f"// text\n{line}\n")
    assert forbidden(path, bracket, name)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("cpp/src/graph/run/executor.cpp", '#include "ir/graph.h"'),
        ("cpp/src/backends/cpu/softmax.cpp", '#include "backends/reference/reference.h"'),
        ("cpp/src/backends/cpu/onednn.h", "#include <dnnl.hpp>"),
        ("cpp/src/ops/op.h", '#include "ops.def"'),
        ("python/bindings/mlcompute/graph.cpp", '#include "bindings.h"'),
        ("python/bindings/mlcompute/graph.cpp", "#include <pybind11/stl.h>"),
    ],
)
def test_an_allowed_include_is_not_reported(path: str, line: str) -> None:
    ((bracket, name),) = INCLUDE.findall(line)
    assert not forbidden(path, bracket, name)


def test_edges_have_no_cycle() -> None:
    for edges in (EDGES, *ROOMS.values()):
        for folder, targets in edges.items():
            assert all(folder not in closure(target, edges) for target in targets)


def test_the_page_of_rooms_states_the_same_edges() -> None:
    text = (ROOT / "docs/rooms.md").read_text()
    table = dict(re.findall(r"^\| `([a-z_./]+)` \| ([^|]*) \|", text, re.MULTILINE))
    rooms = {f"{house}/{room}": to for house, edges in ROOMS.items() for room, to in edges.items()}
    for folder, targets in (EDGES | rooms).items():
        if folder in rooms or (ROOT / "cpp/src" / folder).exists():
            stated = sorted(re.findall(r"`([a-z_./]+)`", table[folder]))
            assert stated == sorted(targets), folder


# What docs/how_to_add.md adds by a file of its own: a class, an op and its attributes, kernels. A
# folder may list as many of one kind as there are; a reader searches only among the others.
ADDITION = re.compile(
    r"class_description\(\)|\bDescribing<|\bDefinition\b|struct \w+Attributes\b|\bKernelEntry\b|"
    r"const Call& call|make_operation\(\)|^kernel void",
    re.MULTILINE,
)


def crowded(texts: dict[str, str]) -> dict[str, int]:
    """Folders with more than 32 files that are no additions, by path and text of the files."""
    others = [path for path, text in texts.items() if not ADDITION.search(text)]
    count = collections.Counter(path.rpartition("/")[0] for path in others)
    return {folder: files for folder, files in count.items() if files > 32}


def test_folders_of_sources_hold_few_files_beside_additions() -> None:
    sources = [path for path in tracked() if path.suffix in SOURCE_FILES]
    texts = {relative(path): path.read_text() for path in sources}
    assert not crowded({path: text for path, text in texts.items() if path.startswith(SOURCES)})


def test_a_crowded_folder_is_found() -> None:
    layer = "const ClassDescription& Softmax::class_description() {"
    assert crowded({f"cpp/src/layers/{k}.cpp": "int helper();" for k in range(33)})
    assert not crowded({f"cpp/src/layers/{k}.cpp": layer for k in range(100)})


# --- locales -------------------------------------------------------------------------------------

# Functions of C and C++ that read or write in another way under another locale. Integers and texts
# alone are the same everywhere.
BY_LOCALE = re.compile(
    r"\b(?:(?:to|is)(?:w?lower|w?upper)|isw?(?:alpha|alnum|digit|xdigit|space|blank|punct|print|graph)"
    r"|strto(?:f|d|ld)|ato(?:f|i|l|ll)|sto(?:f|d|ld|i|l|ll|ul|ull)|[a-z]*(?:printf|scanf)"
    r"|str(?:coll|xfrm|ftime)|setlocale|[io]?stringstream|wstring_convert|regex|put_time)\b"
)
# What writes and reads numbers for all others, and lines without any number.
KNOWS_LOCALES = {
    "cpp/src/ir/number_text.cpp": {"strtod", "snprintf", "stoi", "stoull"},
    "cpp/src/ir/number_text.h": {"ostringstream"},
    "cpp/src/nn/layer_block.h": {"ostringstream"},
    "cpp/src/runtime/files/verification.cpp": {"istringstream"},
    "cpp/src/runtime/plugin.cpp": {"istringstream"},
    "cpp/src/runtime/table_backend.h": {"fprintf"},
}


def test_no_source_asks_the_locale() -> None:
    found = collections.defaultdict(set)
    for path in tracked():
        if path.suffix in SOURCE_FILES and relative(path).startswith(SOURCES):
            code = re.sub(r'//.*|"(?:[^"\\\n]|\\.)*"|#\s*include.*', "", path.read_text())
            for name in BY_LOCALE.findall(code):
                found[relative(path)].add(name)
    assert found == KNOWS_LOCALES


# --- names of backends ---------------------------------------------------------------------------

# The table of device names, the list of backends that are built in, and Apple's functions of
# devices, two of which have the name of one.
NAMES_BACKENDS = (
    "cpp/src/runtime/device.cpp",
    "cpp/src/backends/registry.cpp",
    "cpp/src/graph/description/describe_devices.cpp",
)
BACKENDS = ("reference", "cpu", "cuda", "metal", "bnns")
NAMED = re.compile(rf'"({"|".join(BACKENDS)})"')


def backends_named(path: str, text: str) -> list[str]:
    """Other backends that a file's string literals name."""
    code = re.sub(r"//.*", "", text)
    return [
        name
        for name in NAMED.findall(code)
        if path not in NAMES_BACKENDS and not path.startswith(f"cpp/src/backends/{name}/")
    ]


def test_the_core_names_no_backend() -> None:
    files = [path for path in tracked() if path.suffix in SOURCE_FILES]
    core = {relative(path): path.read_text() for path in files if "cpp/src" in relative(path)}
    assert {
        path: found for path, text in core.items() if (found := backends_named(path, text))
    } == {}


def test_a_named_backend_is_found() -> None:
    text = 'backend_named("cuda");  // as "metal" is\n'
    assert backends_named("cpp/src/graph/api/graph.cpp", text) == ["cuda"]
    assert backends_named("cpp/src/backends/cuda/cuda.cpp", text) == []


# --- locks ---------------------------------------------------------------------------------------

# The library's own raise in a forked child where a thread of the parent has them for ever.
NATIVE_LOCK = re.compile(
    r"std::(recursive_|shared_|timed_)?mutex\b|std::condition_variable|std::(once_flag|call_once)|"
    r"gil_safe_call_once"
)
MAKES_LOCKS = (
    "cpp/include/traingraph/mutex.h",
    "cpp/src/runtime/threads/fork_guard.cpp",
    "cpp/src/runtime/threads/mutex.cpp",
)


def native_locks(path: str, text: str) -> bool:
    return path not in MAKES_LOCKS and NATIVE_LOCK.search(text) is not None


def test_locks_know_of_forks() -> None:
    files = {relative(path): path for path in tracked() if path.suffix in SOURCE_FILES}
    own = {name: path for name, path in files.items() if name.startswith(SOURCES)}
    assert not [name for name, path in own.items() if native_locks(name, path.read_text())]


@pytest.mark.parametrize("line", ["std::mutex mutex;", "std::call_once(made, make);"])
def test_a_native_lock_is_found(line: str) -> None:
    assert native_locks("cpp/src/graph/run/executor.h", line)
