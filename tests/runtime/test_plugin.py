"""Where no GPU can be used, the error says what is missing: plugin, libraries, driver or device."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import traingraph

PLUGIN = "libtraingraph_cuda.so"
INSTALL = "install it with TRAINGRAPH_CUDA=1 pip install '.[cuda13]'"
PACKAGE = Path(traingraph._core.__file__).parent
ASK = """
import numpy
import traingraph as tg
x = tg.MLCTensor(shape=[2])
graph = tg.MLCGraph()
y = graph.node(tg.MLCActivationLayer.relu(), source=x)
inference = tg.MLCInferenceGraph(graph_objects=[graph])
inference.add_inputs({"x": x})
for make in (tg.MLCDevice.gpu, lambda: inference.compile(device="gpu:0"), tg._core.gpus):
    try:
        make()
    except tg.DeviceError as error:
        print(error)
    else:
        print("a GPU")
inference.compile(device="cpu")
assert inference.execute(inputs_data={"x": numpy.float32([-1, 2])}).result.tolist() == [0.0, 2.0]
"""


def answers(package: Path, hidden: bool = True) -> set[str]:
    """What three ways to ask for a GPU say; the CPU works all the same."""
    # Without the folders of site-packages, NVIDIA's libraries are out of reach.
    program = f"import sys; sys.path.insert(0, {str(package.parent)!r})\n"
    if hidden:
        program += "import numpy; sys.path[:] = [p for p in sys.path if 'packages' not in p]\n"
    environment = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
    done = subprocess.run(
        [sys.executable, "-c", program + ASK],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    return set(done.stdout.splitlines())


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The package without its plugin."""
    package = tmp_path / "traingraph"
    (package / "lib").mkdir(parents=True)
    for path in [*PACKAGE.glob("*"), *(PACKAGE / "lib").glob("*.so")]:
        target = package / path.relative_to(PACKAGE)
        if path.is_file() and path.name != PLUGIN:
            os.link(path, target) if path.stat().st_dev == tmp_path.stat().st_dev else shutil.copy(
                path, target
            )
    for path in Path(traingraph.__file__).parent.glob("*.py"):
        if not (package / path.name).exists():
            shutil.copy(path, package / path.name)
    return package


def test_without_the_plugin(copy: Path) -> None:
    (message,) = answers(copy)
    assert message == f"[device] expected a GPU but this build has no {PLUGIN}; {INSTALL}"


def test_without_the_plugin_there_is_code_for_no_gpu(copy: Path) -> None:
    command = [sys.executable, "-m", "traingraph", "info", "--json"]
    environment = os.environ | {"PYTHONPATH": str(copy.parent)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    found = json.loads(done.stdout)
    assert found["gpu_architectures"] == []
    assert found["gpu"].endswith(f"has no {PLUGIN}; {INSTALL}")


def test_a_plugin_that_cannot_be_loaded(copy: Path) -> None:
    (copy / "lib" / PLUGIN).write_text("no library")
    (message,) = answers(copy)
    assert "expected NVIDIA's libraries (pip install 'traingraph[cuda13]')" in message
    assert PLUGIN in message


def compiled(source: str, library: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    file = library.with_suffix(".c")
    file.write_text(source)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, file], check=True)


def test_a_plugin_whose_libraries_are_missing(copy: Path, tmp_path: Path) -> None:
    needed = tmp_path / "libcudnn_gone.so"
    compiled("int gone(void) { return 1; }", needed)
    file = tmp_path / "plugin.c"
    file.write_text("int gone(void); void* traingraph_plugin(void) { return gone() ? 0 : 0; }")
    target = copy / "lib" / PLUGIN
    subprocess.run(["cc", "-shared", "-fPIC", "-o", target, file, needed], check=True)
    needed.unlink()
    (message,) = answers(copy)
    assert "expected NVIDIA's libraries" in message
    assert needed.name in message


@pytest.mark.parametrize("answer", ["0", "&other"])
def test_a_plugin_of_another_build(copy: Path, answer: str) -> None:
    source = 'static struct {const char* id; void* f;} other = {"another", 0};\n'
    compiled(
        source + f"void* traingraph_plugin(void) {{ return {answer}; }}", copy / "lib" / PLUGIN
    )
    (message,) = answers(copy)
    assert f"{PLUGIN} of build " in message
    assert ("but got no plugin" if answer == "0" else "but got another") in message


# Says that it was loaded, by a file in the current directory.
LOADED = """#include <fcntl.h>
__attribute__((constructor)) static void loaded(void) { open("loaded", O_CREAT | O_WRONLY, 0600); }
"""


@pytest.mark.parametrize("entry", ["", ".", "packages", "/packages"])
def test_libraries_are_looked_for_in_folders_that_stay(
    copy: Path, tmp_path: Path, entry: str
) -> None:
    """A relative entry of sys.path means another folder after a chdir."""
    here = tmp_path / "here"
    libraries = here / entry.strip("/") / "nvidia/cu13/lib"
    libraries.mkdir(parents=True)
    compiled(LOADED, libraries / "libcublasLt.so.13")
    compiled("void* traingraph_plugin(void) { return 0; }", copy / "lib" / PLUGIN)
    absolute = entry.startswith("/")
    entries = [str(copy.parent), f"{here}{entry}" if absolute else entry]
    program = f"""
import sys, numpy
sys.path[:] = {entries!r} + [p for p in sys.path if p and 'packages' not in p]
import traingraph as tg
try:
    tg._core.gpus()
except tg.DeviceError as error:
    print(error)
"""
    environment = {
        k: v for k, v in os.environ.items() if k not in ("LD_LIBRARY_PATH", "PYTHONPATH")
    }
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=here, capture_output=True, text=True, check=True, env=environment,
    )  # fmt: skip
    assert "but got no plugin" in done.stdout
    assert (here / "loaded").exists() == absolute


def test_a_program_with_the_core_inside_has_no_plugin_in_the_current_directory(
    tmp_path: Path,
) -> None:
    """Of a program that was found by PATH the loader knows no folder."""
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    bin_, here = tmp_path / "bin", tmp_path / "here"
    bin_.mkdir()
    (here / "lib").mkdir(parents=True)
    main = tmp_path / "main.cpp"
    main.write_text(
        "#include <cstdio>\n#include <traingraph/errors.h>\n"
        '#include "runtime/plugin.h"\n'
        'int main() { try { traingraph::plugin_devices("cuda"); }\n'
        "catch (const traingraph::DeviceError& error) { std::puts(error.what()); } }\n"
    )
    root = Path(__file__).resolve().parents[2] / "cpp"
    parts = ("plugin", "peers", "errors", "message_text", "threads/fork_guard")
    sources = [main, *[root / f"src/runtime/{part}.cpp" for part in parts]]
    subprocess.run(
        [compiler, "-std=c++20", "-O0", '-DTRAINGRAPH_BUILD_ID="this"', f"-I{root}/include",
         f"-I{root}/src", *sources, "-ldl", "-o", bin_ / "program"],
        check=True,
    )  # fmt: skip
    source = LOADED + "void* traingraph_plugin(void) { return 0; }"
    compiled(source, here / PLUGIN)
    compiled(source, here / "lib" / PLUGIN)

    def answer() -> str:
        environment = os.environ | {"PATH": f"{bin_}:{os.environ['PATH']}"}
        command = ["sh", "-c", "program"]
        done = subprocess.run(
            command, cwd=here, env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout

    assert f"this build has no {PLUGIN}" in answer()
    assert not (here / "loaded").exists()
    shutil.copy(here / PLUGIN, bin_)
    assert "but got no plugin" in answer()
    assert (here / "loaded").exists()


@pytest.mark.skipif(not (PACKAGE / "lib" / PLUGIN).is_file(), reason="built without the plugin")
def test_the_plugin_of_this_build() -> None:
    """One answer from every way to ask."""
    (message,) = answers(PACKAGE, hidden=False)
    missing = (
        "NVIDIA's libraries",
        "NVIDIA's driver",
        "NVIDIA driver for CUDA",
        "driver finds none",
    )
    assert message == "a GPU" or any(text in message for text in missing)


@pytest.mark.skipif(not (PACKAGE / "lib" / PLUGIN).is_file(), reason="built without the plugin")
def test_the_plugin_says_what_it_has_code_for() -> None:
    """Without a GPU as well, as long as NVIDIA's libraries are there."""
    try:
        found = traingraph._core.gpu_architectures()
    except traingraph.DeviceError as error:
        pytest.skip(str(error))
    assert found
    assert all(re.fullmatch(r"all|all-major|\d+a?(-real|-virtual)?", name) for name in found)
