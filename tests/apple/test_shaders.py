"""What Metal's language asks of the shaders' text and a compiler of C++ does not notice."""

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "cpp/src/backends/metal/shaders"
FILES = [*sorted(FOLDER.glob("*.metal")), FOLDER / "arguments.h"]
COMPILER = "clang++-19"
Errors = Callable[[str, Path], str]
KERNEL = re.compile(r"^kernel void (\w+)\((.*?)\) \{$", re.MULTILINE | re.DOTALL)
POSITION = re.compile(r"uint \w+ \[\[thread_position_in_grid\]\]")


def kernels(text: str) -> dict[str, list[str]]:
    """The parameters of each kernel."""
    return {
        name: [" ".join(part.split()) for part in parameters.split(",")]
        for name, parameters in KERNEL.findall(text)
    }


def wrong(text: str) -> list[str]:
    """What Metal would refuse, or the library bind wrongly."""
    found = []
    for name, parameters in kernels(text).items():
        *buffers, position = parameters
        for index, parameter in enumerate(buffers):
            if not re.fullmatch(rf"(device|constant) .*\[\[buffer\({index}\)\]\]", parameter):
                found.append(f"{name}: '{parameter}' is not buffer {index}")
        if not POSITION.fullmatch(position):
            found.append(f"{name}: '{position}' is not the thread's position")
        if len(buffers) > 31:
            found.append(f"{name}: more than 31 buffers")
    code = re.sub(r"//.*", "", text)
    if re.search(r"^(static |inline )?const(expr)? [^()]*=", code, re.MULTILINE):
        found.append("a constant at namespace scope that is not in constant memory")
    for word in ("double", "goto", "dynamic_cast", "virtual", "throw", "new "):
        if re.search(rf"\b{word}", code):
            found.append(f"'{word}' is not in Metal's language")
    pointers = re.findall(r"^.*\w\* ?\w+(?=[,;)\[ ])", code, re.MULTILINE)
    found += [line for line in pointers if not re.search(r"\b(device|constant|thread)\b", line)]
    return found


def test_there_are_shaders() -> None:
    assert sum(len(kernels(path.read_text())) for path in FILES) > 20


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_metals_rules(path: Path) -> None:
    assert wrong(path.read_text()) == []


@pytest.mark.parametrize(
    "text",
    [
        "constexpr int kAxes = 8;\n",
        "kernel void f(device float* x [[buffer(1)]], uint e [[thread_position_in_grid]]) {\n",
        "kernel void f(float* x [[buffer(0)]], uint e [[thread_position_in_grid]]) {\n",
        "kernel void f(device float* x [[buffer(0)]]) {\n",
        "inline double twice(double x) { return 2 * x; }\n",
        "inline float first(const float* x) { return x[0]; }\n",
    ],
)
def test_a_broken_rule_is_found(text: str) -> None:
    assert wrong(text)


# --- address spaces ------------------------------------------------------------------------------


def expanded(path: Path, seen: set[Path]) -> str:
    """The text with each file that it includes once, without attributes; nothing if seen."""
    if path in seen and path.suffix != ".def":
        return ""
    seen.add(path)
    sources = FOLDER.parents[2]
    text = []
    for line in path.read_text().splitlines():
        included = re.fullmatch(r'#include "(.+)"', line)
        if included is None:
            text.append(line if not line.startswith(("#pragma once", "#include <")) else "")
            continue
        name = next(f for f in (FOLDER / included[1], sources / included[1]) if f.exists())
        text.append(expanded(name, seen))
    return re.sub(r"\[\[\w+(\(\d+\))?\]\]", "", "\n".join(text))


def address_space_errors(text: str, folder: Path) -> str:
    source = folder / "shaders.clcpp"
    source.write_text(text)
    header = Path(__file__).parent / "shim/address_spaces.h"
    # Without OpenCL's own functions, which are global where Metal's are not.
    options = ["-x", "clcpp", "-cl-std=clc++2021", "-cl-no-stdinc", "-Xclang", "-fno-builtin"]
    options += ["-target", "spir64", "-fsyntax-only"]
    command = [COMPILER, *options, "-include", header, source]
    return subprocess.run(command, capture_output=True, text=True).stderr


def errors_in_cpp14(text: str, folder: Path) -> str:
    """Of the language that Metal's is made from, where nothing but Metal's header is included."""
    source = folder / "shaders.cpp"
    source.write_text("#include <metal_stdlib>\n" + text)
    options = ["-std=c++14", "-pedantic", "-Wall", "-Werror", "-Wno-unused-function"]
    options += ["-nostdinc", "-nostdinc++", "-fsyntax-only", "-I", Path(__file__).parent / "shim"]
    command = [COMPILER, *options, source]
    return subprocess.run(command, capture_output=True, text=True).stderr


needs_compiler = pytest.mark.skipif(
    shutil.which(COMPILER) is None, reason=f"{COMPILER} is not installed"
)


def all_shaders() -> str:
    seen: set[Path] = set()
    return "\n".join(expanded(path, seen) for path in FILES[:-1])


@needs_compiler
@pytest.mark.parametrize("errors", [address_space_errors, errors_in_cpp14])
def test_the_text_compiles(errors: Errors, tmp_path: Path) -> None:
    text = all_shaders()
    assert len(re.findall(r"^kernel void", text, re.MULTILINE)) > 20
    assert errors(text, tmp_path) == ""


@needs_compiler
@pytest.mark.parametrize("errors", [address_space_errors, errors_in_cpp14])
@pytest.mark.parametrize("call", ["sqrt(x[e])", "max(x[e], 0.0f)", "abs(x[e])", "std::sqrt(x[e])"])
def test_a_function_outside_of_metals_namespace_is_found(
    errors: Errors, call: str, tmp_path: Path
) -> None:
    text = f"kernel void f(device float* x, uint e) {{ x[e] = {call}; }}\n"
    assert "error" in errors(all_shaders() + text, tmp_path)


@needs_compiler
def test_a_wrong_address_space_is_found(tmp_path: Path) -> None:
    text = "kernel void f(device float* x, uint e) { constant float* y = x; }\n"
    assert "error" in address_space_errors(text, tmp_path)
