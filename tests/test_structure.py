"""The rules of docs/architecture.md about files: who includes whom, and how long they are."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("cpp", "python/bindings")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)

# What a folder may include beside itself and include/traingraph. What follows from two steps is
# allowed too, because a file includes what it uses. Paths are relative to cpp/src.
EDGES = {
    "ops.def": [],
    "ir": ["ops.def"],
    "ops": ["ir"],
    "runtime": ["ir"],
    "layers": ["ops", "runtime"],
    "optimizers": ["ops", "runtime"],
    "passes": ["ops", "runtime"],
    "graph": ["layers", "optimizers", "passes"],
    "mps": ["layers", "optimizers", "passes"],
    "backends/reference": ["runtime"],
    "backends/cpu": ["runtime", "backends/reference"],
    "backends/bnns": ["runtime", "backends/reference"],
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
# Foreign headers and the only folders that may include them.
FOREIGN = {
    "dnnl.hpp": ["backends/cpu"],
    "cub/": ["backends/cuda"],
    # The platform asks for the number of threads.
    "omp.h": ["backends/cpu", "runtime/platform.cpp"],
    # The name of a Mac's processor.
    "sys/sysctl.h": ["backends/cpu"],
    "immintrin.h": ["backends/cpu"],
    "pthread.h": ["runtime"],
    "dlfcn.h": ["runtime", "backends/cuda"],
    "fcntl.h": ["runtime"],
    "sys/file.h": ["runtime"],
    "sys/stat.h": ["runtime"],
    "sys/auxv.h": ["runtime"],
    "sys/mman.h": ["runtime", "backends"],
    "unistd.h": ["runtime", "backends/cpu", "python/bindings"],
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
# The folders that a person reads; generated text and licences may be longer.
CODE = (".cpp", ".h", ".def", ".py", ".cu", ".mm", ".metal", ".cmake")
LONG_REASON = re.compile(r"^\W*Over 400 lines: \w+", re.MULTILINE)


def closure(folder: str) -> set[str]:
    """The folder and all that it may include."""
    found, waiting = set(), [folder]
    while waiting:
        current = waiting.pop()
        if current not in found:
            found.add(current)
            waiting.extend(EDGES[current])
    return found


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
        inside = "/" not in included and (ROOT / "python/bindings" / included).is_file()
        return "" if inside else "the bindings see the public headers only"
    if included == "ops.def":
        return ""
    source, target = folder_of(path.removeprefix("cpp/src/")), folder_of(included)
    if source not in EDGES:
        return f"{source} is no folder of the layout"
    return "" if target in closure(source) else f"{source} must not know {target}"


def includes(path: Path) -> list[tuple[str, str]]:
    return INCLUDE.findall(path.read_text())


def tracked() -> list[Path]:
    """Every file of the repository; of an unpacked archive, what lies in its folders."""
    listing = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        text=True,
    )
    if listing.returncode == 0:
        found = [ROOT / line for line in listing.stdout.splitlines()]
    else:
        names = ["cpp", "docs", "examples", "benchmarks", "python", "tests", "third_party"]
        found = [path for name in names for path in (ROOT / name).rglob("*")]
    return [path for path in found if path.is_file() and "__pycache__" not in path.parts]


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


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
        ("cpp/src/runtime/program.cpp", '#include "graph/executor.h"'),
        ("cpp/src/layers/softmax.cpp", '#include "graph/graph_state.h"'),
        ("cpp/src/layers/softmax.cpp", '#include "passes/passes.h"'),
        ("cpp/src/passes/fuse.cpp", '#include "backends/cpu/cpu.h"'),
        ("cpp/src/graph/executor.cpp", '#include "backends/cpu/cpu.h"'),
        ("cpp/src/backends/reference/softmax.cpp", '#include "backends/cpu/cpu.h"'),
        ("cpp/src/backends/cpu/softmax.cpp", '#include "backends/null/null.h"'),
        ("cpp/src/backends/cpu/softmax.cpp", '#include "ops/op.h"'),
        ("cpp/src/backends/cuda/softmax.cpp", '#include "backends/reference/reference.h"'),
        ("cpp/src/backends/reference/softmax.cpp", "#include <dnnl.hpp>"),
        ("cpp/src/backends/registry.cpp", '#include "backends/cuda/gpu.h"'),
        ("cpp/src/graph/executor.cpp", "#include <cuda_runtime_api.h>"),
        ("cpp/src/graph/executor.cpp", "#include <omp.h>"),
        ("cpp/src/helpers/text.cpp", '#include "ir/graph.h"'),
        ("cpp/src/graph/executor.cpp", '#include "helpers/text.h"'),
        ("cpp/include/traingraph/graph.h", "#include <dnnl.hpp>"),
        ("cpp/include/traingraph/graph.h", '#include "ir/graph.h"'),
        ("python/bindings/graph.cpp", '#include "graph/executor.h"'),
        ("python/bindings/graph.cpp", "#include <dnnl.hpp>"),
    ],
)
def test_a_forbidden_include_is_found(path: str, line: str) -> None:
    ((bracket, name),) = INCLUDE.findall(f"// text\n{line}\n")
    assert forbidden(path, bracket, name)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("cpp/src/graph/executor.cpp", '#include "ir/graph.h"'),
        ("cpp/src/backends/cpu/softmax.cpp", '#include "backends/reference/reference.h"'),
        ("cpp/src/backends/cpu/onednn.h", "#include <dnnl.hpp>"),
        ("cpp/src/ops/op.h", '#include "ops.def"'),
        ("python/bindings/graph.cpp", '#include "bindings.h"'),
        ("python/bindings/graph.cpp", "#include <pybind11/stl.h>"),
    ],
)
def test_an_allowed_include_is_not_reported(path: str, line: str) -> None:
    ((bracket, name),) = INCLUDE.findall(line)
    assert not forbidden(path, bracket, name)


def test_edges_have_no_cycle() -> None:
    for folder, targets in EDGES.items():
        assert all(folder not in closure(target) for target in targets)


def test_architecture_document_states_the_same_edges() -> None:
    text = (ROOT / "docs/architecture.md").read_text()
    table = dict(re.findall(r"^\| `([a-z_./]+)` \| (.*) \|$", text, re.MULTILINE))
    for folder, targets in EDGES.items():
        if (ROOT / "cpp/src" / folder).exists():
            stated = sorted(re.findall(r"`([a-z_./]+)`", table[folder]))
            assert stated == sorted(targets), folder


# --- files ---------------------------------------------------------------------------------------


def too_long(text: str, tests: bool = False) -> str:
    lines = text.splitlines()
    if len(lines) > 800:
        return f"{len(lines)} lines, at most 800"
    if len(lines) > 400 and not tests and not LONG_REASON.search("\n".join(lines[:10])):
        return f"{len(lines)} lines without 'Over 400 lines: <reason>' at the top"
    return ""


def test_files_are_short() -> None:
    """A list of tests may be long without a reason."""
    found = {
        relative(path): too_long(path.read_text(), path.name.startswith("test_"))
        for path in tracked()
        if path.suffix in CODE
    }
    assert {path: reason for path, reason in found.items() if reason} == {}


def test_a_long_file_is_found() -> None:
    assert not too_long("x\n" * 400)
    assert too_long("x\n" * 401)
    assert not too_long("// Over 400 lines: one table.\n" + "x\n" * 600)
    assert too_long("// Over 400 lines: one table.\n" + "x\n" * 800)
    assert not too_long("x\n" * 800, tests=True)
    assert too_long("x\n" * 801, tests=True)


# Put together here, so that this file does not contain what it looks for.
FOLDERS = "|".join(("work", "tmp", "root", "Users", "home", "build", "mnt"))
MACHINE_PATH = re.compile(rf"(?<![\w.$)}}\]>*:/-])/({FOLDERS})/\w")
REGISTRY = re.compile("pypi" + r"\.(org|python\.org)|" + "files.python" + "hosted")


def local_names(text: str) -> list[str]:
    return [match.group() for rule in (MACHINE_PATH, REGISTRY) for match in rule.finditer(text)]


def test_nothing_names_a_machine() -> None:
    wrong = {}
    for path in tracked():
        if "licenses" in path.parts or path.suffix in (".png", ".npz", ".so"):
            continue
        # Anchored patterns: folders inside the repository.
        found = [] if path.name == ".gitignore" else local_names(path.read_text(errors="replace"))
        if found:
            wrong[relative(path)] = found
    assert wrong == {}


def test_a_machine_path_is_found() -> None:
    assert local_names('open("' + "/".join(("", "tmp", "x")) + '")')
    assert local_names("see " + "/".join(("", "home", "somebody")))
    assert local_names("https://" + "pypi" + ".org/simple")
    assert not local_names("cpp/build/x and ${DIR}/tmp/x and tests/work/x")


# --- the table of ops ----------------------------------------------------------------------------


def ops() -> list[tuple[str, str]]:
    text = (ROOT / "cpp/src/ops.def").read_text()
    return re.findall(r"^TRAINGRAPH_OP\((\w+), \w+, (true|false)\)", text, re.MULTILINE)


def test_every_op_has_a_definition_and_a_loop() -> None:
    """A change of an op touches its family's file in ops/ and in backends/reference/."""
    assert len(ops()) > 10
    rules = "".join(path.read_text() for path in (ROOT / "cpp/src/ops").glob("*.cpp"))
    loops = "".join(
        path.read_text() for path in (ROOT / "cpp/src/backends/reference").glob("*.cpp")
    )
    for name, _ in ops():
        assert f"Definition {name}_definition" in rules, name
        instantiations = (
            f"template void {name}<double>(const Call&)", f"TRAINGRAPH_FOR_ANY_TYPE({name})",
        )  # fmt: skip
        assert any(text in loops for text in instantiations), name


# --- the table of client behaviours --------------------------------------------------------------

BEHAVIOUR = re.compile(r"^\| (\d+) \| .+ \| (.+) \|$", re.MULTILINE)
MPS = "MPS interface: not there yet"


def untested(table: str, kind: str, tests: dict[str, str]) -> list[str]:
    """Rows whose file has no test of their number, by the text of each file of tests."""
    wrong = []
    for number, place in BEHAVIOUR.findall(table):
        name = f"test_{kind}_{int(number):02}_" if kind == "row" else f"test_{kind}_{number}_"
        if place != MPS and f"def {name}" not in tests.get(place.strip("`"), ""):
            wrong.append(f"{name} in {place}")
    return wrong


def test_every_client_behaviour_has_a_test() -> None:
    rows, programs = (ROOT / "docs/client_behaviours.md").read_text().split("Programs whose")
    tests = {relative(path): path.read_text() for path in (ROOT / "tests").rglob("test_*.py")}
    assert [int(number) for number, _ in BEHAVIOUR.findall(rows)] == list(range(1, 25))
    assert [int(number) for number, _ in BEHAVIOUR.findall(programs)] == [1, 2, 3, 4]
    assert untested(rows, "row", tests) == []
    assert untested(programs, "program", tests) == []
    # And no test claims a row that the page does not place in its file.
    stated = {(f"{int(number):02}", place.strip("`")) for number, place in BEHAVIOUR.findall(rows)}
    claimed = {
        (number, name)
        for name, text in tests.items()
        for number in re.findall(r"^def test_row_(\d\d)_", text, re.MULTILINE)
    }
    assert claimed - stated == set()


def test_an_untested_behaviour_is_found() -> None:
    table = "| 7 | order | `tests/a.py` |\n| 16 | nil | " + MPS + " |\n"
    test = "def test_row_" + "07_order() -> None:"
    assert untested(table, "row", {"tests/a.py": test}) == []
    assert untested(table, "row", {"tests/a.py": test.replace("07", "08")})
    assert untested(table, "row", {"tests/b.py": test})
