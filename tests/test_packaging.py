"""The installed package and the install trees: what an application that embeds the core meets."""

import importlib.metadata
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import pytest

import traingraph
from traingraph import _core

ROOT = Path(__file__).resolve().parents[1]
# Not the directory of __init__.py: in an editable install that is the source tree.
PACKAGE = Path(_core.__file__).parent
EMBED = ROOT / "examples" / "embed"
HEADERS = ROOT / "tests" / "embed"
ONEDNN = "onednn-devel-cpu-gomp"

STANDARD_HEADER = re.compile(r"[a-z_]+")


def run(*command: object) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def two_ranks(program: Path) -> list[str]:
    """What each of two processes prints that train together."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        master = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
    processes = [
        subprocess.Popen(
            [program],
            env={**os.environ, **master, "WORLD_SIZE": "2", "RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    return [process.communicate(timeout=120)[0] for process in processes]


def cmake(source: Path, build: Path, *options: str) -> None:
    run("cmake", "-G", "Ninja", "-S", source, "-B", build, *options)
    run("cmake", "--build", build)


def cmake_directory() -> Path:
    return Path(run(sys.executable, "-m", "traingraph", "--cmake-dir").strip())


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Install prefixes by form. They share objects, but for kernels with another oneDNN."""
    # As deep in the checkout as the package's own build, whose objects ccache then knows.
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="packaging-", dir=ROOT / "build") as build:
        return installed_in(Path(build), tmp_path_factory)


def installed_in(build: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    located = run(sys.executable, ROOT / "third_party/locate.py", ONEDNN, "dnnl-config.cmake")
    with_python = [f"-DPython_EXECUTABLE={sys.executable}"]
    without_python = ["-DCMAKE_DISABLE_FIND_PACKAGE_Python=ON"]
    forms = {
        "shared": ["-DBUILD_SHARED_LIBS=ON", *with_python],
        "static": ["-DBUILD_SHARED_LIBS=OFF", *with_python],
        "system": [
            "-DBUILD_SHARED_LIBS=ON",
            "-DTRAINGRAPH_ONEDNN=system",
            f"-Ddnnl_DIR={located.strip()}",
            *without_python,
        ],
        "without": ["-DBUILD_SHARED_LIBS=OFF", "-DTRAINGRAPH_ONEDNN=OFF", *without_python],
    }
    prefixes = {}
    for form, options in forms.items():
        cmake(ROOT, build, "-DCMAKE_BUILD_TYPE=Release", *options)
        staging = tmp_path_factory.mktemp("staging") / form
        run("cmake", "--install", build, "--prefix", staging)
        # Moved after installing: the package must not remember where it was put.
        prefixes[form] = Path(shutil.move(staging, tmp_path_factory.mktemp("prefix") / form))
    return prefixes


def check_example(prefix: Path, build: Path) -> None:
    cmake(EMBED, build, f"-DCMAKE_PREFIX_PATH={prefix}")
    assert run(build / "embed") == "y = 2.000 x + 5.000\n"


def test_example_trains_inside_an_application(tmp_path: Path) -> None:
    check_example(cmake_directory(), tmp_path)


@pytest.mark.packaging
@pytest.mark.parametrize("form", ["shared", "static", "system", "without"])
def test_example_trains_with_each_form(trees: dict[str, Path], form: str, tmp_path: Path) -> None:
    check_example(trees[form], tmp_path)


@pytest.mark.packaging
def test_onednn_is_the_chosen_one(trees: dict[str, Path]) -> None:
    """The package's copy is private, the system's stays where it was."""
    core = "lib/libtraingraph.so"
    private = {form: (trees[form] / "lib/libtraingraph_dnnl.so").exists() for form in trees}
    assert private == {"shared": True, "static": True, "system": False, "without": False}
    assert "libdnnl.so.3" in needed(trees["system"] / core)
    assert "libdnnl.so.3" not in needed(trees["shared"] / core)
    archive = run("nm", "-C", "--undefined-only", trees["without"] / "lib/libtraingraph.a")
    assert "dnnl_" not in archive
    assert "GOMP_parallel" in archive  # with threads all the same


def test_example_is_short() -> None:
    assert len((EMBED / "main.cpp").read_text().splitlines()) <= 60


@pytest.mark.packaging
def test_static_form_links_only_onednn_from_the_package(
    trees: dict[str, Path], tmp_path: Path
) -> None:
    cmake(EMBED, tmp_path, f"-DCMAKE_PREFIX_PATH={trees['static']}")
    assert {name for name in needed(tmp_path / "embed") if "traingraph" in name} == {
        "libtraingraph_dnnl.so"
    }


@pytest.mark.packaging
@pytest.mark.parametrize("form", ["shared", "static"])
def test_public_headers_compile_alone_and_their_contract_holds(
    trees: dict[str, Path], form: str, tmp_path: Path
) -> None:
    # The text is that of both forms, but for a macro of export.h.
    alone = "ON" if form == "shared" else "OFF"
    cmake(HEADERS, tmp_path, f"-DCMAKE_PREFIX_PATH={trees[form]}", f"-DALONE={alone}")
    lines = run(tmp_path / "contract", tmp_path / "checkpoint.safetensors").splitlines()
    assert len(lines) >= 13
    of_bytes = run(tmp_path / "kernel_bytes").splitlines()
    assert len(of_bytes) >= 23
    of_fits = run(tmp_path / "fits", tmp_path / "fit.safetensors").splitlines()
    assert len(of_fits) == 8
    assert all(line.endswith(": ok") for line in lines + of_bytes + of_fits)
    first, last = map(float, run(tmp_path / "branches").split())
    assert last < first / 10
    x, y, refusal = run(tmp_path / "networks_in_turn").splitlines()
    assert abs(float(x) - 2) < 0.8
    assert abs(float(y) - 1) < 0.8
    assert refusal == "[model] expected blocks of shared() in train but got dense(2)"
    loss, accuracy = (float(line.split()[1]) for line in run(tmp_path / "mlp").splitlines())
    assert loss < 0.3
    assert accuracy > 0.95
    first, last = two_ranks(tmp_path / "ranks")
    assert re.fullmatch(r"0 of 2: loss 0\.\d+\n", first)
    assert last == first.replace("0 of", "1 of", 1)


def test_an_mlp_in_cpp_is_short() -> None:
    """Lines with code; cmake compiles it above."""
    lines = [line.strip() for line in (HEADERS / "mlp.cpp").read_text().splitlines()]
    assert len([line for line in lines if line and not line.startswith("//")]) <= 20


def test_cmake_dir_is_in_the_installed_package() -> None:
    assert cmake_directory() == PACKAGE / "lib/cmake/traingraph"


def test_stubs_are_in_the_installed_package() -> None:
    """Editors and type checkers read them; the repository has none."""
    assert (PACKAGE / "py.typed").exists()
    assert "class MLCTrainingGraph" in (PACKAGE / "_core.pyi").read_text()
    assert "MLCTrainingGraph" in (PACKAGE / "__init__.pyi").read_text()
    assert "MPSNNGraph" in (PACKAGE / "mps/__init__.pyi").read_text()


def test_public_headers_include_nothing_foreign() -> None:
    headers = sorted((PACKAGE / "include").rglob("*.h"))
    assert headers
    for header in headers:
        for included in re.findall(r'#\s*include\s*[<"]([^>"]+)', header.read_text()):
            own = included.startswith("traingraph/")
            assert own or STANDARD_HEADER.fullmatch(included), f"{header.name}: {included}"


# --- binaries ------------------------------------------------------------------------------------


def dynamic(library: Path, tag: str) -> list[str]:
    return re.findall(rf"\({tag}\).*\[(.*)\]", run("readelf", "-d", library))


def needed(library: Path) -> list[str]:
    return dynamic(library, "NEEDED")


def test_core_exports_only_its_namespace() -> None:
    symbols = run("nm", "-D", "-C", "--defined-only", PACKAGE / "lib/libtraingraph.so").splitlines()
    names = [line.split(maxsplit=2)[2] for line in symbols]
    data = re.compile(r"(typeinfo for|typeinfo name for|vtable for) ")
    assert [name for name in names if not data.sub("", name).startswith("traingraph::")] == []
    assert any(name.startswith("traingraph::TrainingGraph::execute(") for name in names)
    assert "typeinfo for traingraph::ShapeError" in names


def test_the_extension_exports_its_initialiser_alone() -> None:
    symbols = run("nm", "-D", "--defined-only", _core.__file__).splitlines()
    assert [line.split()[2] for line in symbols] == ["PyInit__core"]


def test_only_the_plugin_knows_cuda() -> None:
    plugin = PACKAGE / "lib/libtraingraph_cuda.so"
    for library in PACKAGE.rglob("*.so"):
        found = [name for name in needed(library) if re.match("lib(cu|nv)", name)]
        assert sorted(found) == (
            [] if library != plugin else ["libcublasLt.so.13", "libcudnn.so.9"]
        )
    if plugin.is_file():
        symbols = run("nm", "-D", "--defined-only", plugin).splitlines()
        assert [line.split()[2] for line in symbols] == ["traingraph_plugin"]


@pytest.mark.skipif(sys.platform != "linux", reason="what ELF files say")
@pytest.mark.parametrize("library", ["_core", "libtraingraph"])
def test_what_is_given_away_is_hardened(library: str) -> None:
    """Guards in frames, checked calls of the C library, tables that are read-only once loaded."""
    path = _core.__file__ if library == "_core" else PACKAGE / "lib/libtraingraph.so"
    assert "BIND_NOW" in run("readelf", "-d", path)
    segments = run("readelf", "-lW", path)
    assert "GNU_RELRO" in segments
    assert "RWE" not in segments
    imported = run("nm", "-D", "--undefined-only", path)
    assert "__stack_chk_fail" in imported
    if library == "libtraingraph":
        assert re.search(r"__\w+_chk\b", imported.replace("__stack_chk_fail", ""))


def test_core_links_a_private_onednn() -> None:
    private = PACKAGE / "lib/libtraingraph_dnnl.so"
    assert dynamic(private, "SONAME") == [private.name]
    for library in PACKAGE.rglob("*.so"):
        assert not [name for name in needed(library) if name.startswith("libdnnl")]
    assert private.name in needed(PACKAGE / "lib/libtraingraph.so")


def test_libraries_find_each_other_by_origin() -> None:
    assert dynamic(PACKAGE / "lib/libtraingraph.so", "RUNPATH") == ["$ORIGIN"]
    assert "libtraingraph.so" in needed(Path(_core.__file__))
    assert dynamic(Path(_core.__file__), "RUNPATH") == ["$ORIGIN/lib"]


def test_another_onednn_in_the_process_is_not_used() -> None:
    """With the public libdnnl loaded first, the core still runs on its own copy and one libgomp."""
    files = importlib.metadata.files("onednn-cpu-gomp") or []
    public = next(file for file in files if file.name == "libdnnl.so.3").locate()
    script = f"""
import ctypes
ctypes.CDLL({str(public)!r})
import traingraph
with open("/proc/self/maps") as maps:
    print("\\n".join({{line.split()[-1] for line in maps if ".so" in line}}))
"""
    loaded = [Path(line).name for line in run(sys.executable, "-c", script).splitlines()]
    assert "libtraingraph_dnnl.so" in loaded
    assert len([name for name in loaded if name.startswith("libgomp")]) == 1


@pytest.mark.packaging
@pytest.mark.skipif(platform.machine() != "x86_64", reason="one level on other processors")
def test_levels_share_no_inline_functions(trees: dict[str, Path]) -> None:
    """An inline function that an object of a high level leaves for others could be the one kept."""
    listing = run("nm", "-C", "--defined-only", trees["static"] / "lib/libtraingraph.a")
    checked = set()
    for member in re.split(r"\n(?=\S+\.o:\n)", listing):
        symbols = re.findall(r"^[0-9a-f]+ (\w) (.*)$", member, re.MULTILINE)
        levels = {level for _, name in symbols for level in re.findall(r"\bv[34]::", name)}
        for level in levels:
            checked.add(level)
            # DW.ref: a pointer to the exception routine, the same at every level; no code.
            shared = [
                name
                for kind, name in symbols
                if kind in "WVu" and level not in name and not name.startswith("DW.ref.")
            ]
            assert not shared, f"{member.splitlines()[0]} at {level} also defines {shared}"
    assert checked == {"v3::", "v4::"}


def versions(library: Path, name: str) -> set[tuple[int, ...]]:
    found = re.findall(rf"\b{name}_([0-9.]+)\b", run("readelf", "--version-info", library))
    return {tuple(map(int, version.split("."))) for version in found}


def test_private_onednn_runs_on_old_systems() -> None:
    assert max(versions(PACKAGE / "lib/libtraingraph_dnnl.so", "GLIBC")) <= (2, 28)


def test_vector_functions_are_the_old_ones() -> None:
    """libmvec's exp, log, sin, cos and pow came with glibc 2.22, others only with 2.35."""
    symbols = run("nm", "-D", "--undefined-only", PACKAGE / "lib/libtraingraph.so")
    used = re.findall(r"_ZGV\S+", symbols)
    assert [name for name in used if not name.endswith("@GLIBC_2.22")] == []


@pytest.mark.skipif("AUDITWHEEL_PLAT" not in os.environ, reason="needs a manylinux image")
def test_release_wheel_runs_on_old_systems() -> None:
    floor = tuple(map(int, re.findall(r"\d+", os.environ["AUDITWHEEL_PLAT"])[:2]))
    for library in PACKAGE.rglob("*.so"):
        assert max(versions(library, "GLIBC")) <= floor, library


# --- metadata and files --------------------------------------------------------------------------


def test_version_has_one_source() -> None:
    package = PACKAGE / "lib/cmake/traingraph/traingraph-config-version.cmake"
    assert importlib.metadata.version("traingraph") == traingraph.__version__
    assert f'set(PACKAGE_VERSION "{traingraph.__version__}")' in package.read_text()


def test_numpy_is_the_only_dependency() -> None:
    requires = importlib.metadata.requires("traingraph") or []
    assert [line for line in requires if "extra ==" not in line] == ["numpy"]


def test_licences_are_shipped() -> None:
    files = importlib.metadata.files("traingraph") or []
    licences = {
        str(file).split("licenses/", 1)[1]: file.locate()
        for file in files
        if ".dist-info/licenses/" in str(file)
    }
    assert "MIT License" in Path(licences["LICENSE"]).read_text()
    onednn = "third_party/licenses/onednn/"
    assert "Apache License" in Path(licences[onednn + "LICENSE"]).read_text()
    assert Path(licences[onednn + "THIRD-PARTY-PROGRAMS"]).stat().st_size > 10_000


def test_installed_names_are_our_own() -> None:
    """No file, header folder or library that could shadow another package's."""
    files = [Path(str(file)) for file in importlib.metadata.files("traingraph") or []]
    # An editable install adds hooks of its build backend.
    tops = {file.parts[0] for file in files if not re.match(r"\.\.|_", file.parts[0])}
    assert {re.sub(r"-[0-9.]+\.dist-info$", "", top) for top in tops} == {"traingraph"}
    assert {path.name for path in (PACKAGE / "include").iterdir()} == {"traingraph"}
    assert {path.name for path in (PACKAGE / "lib/cmake").iterdir()} == {"traingraph"}
    libraries = {path.name for path in (PACKAGE / "lib").iterdir() if path.is_file()}
    # Of a build with TRAINGRAPH_TESTING.
    libraries -= {"libtraingraph_double.so", "libtraingraph_failing_new.so"}
    onednn = {"libtraingraph_dnnl.so"} if _core.onednn_version() != "none" else set()
    assert libraries == {"libtraingraph.so"} | onednn


def test_the_plugin_runs_with_what_it_is_built_from_and_later() -> None:
    """The extra begins at the versions that the build asks for, and ends with their major one.

    NVRTC is loaded by name, and no part of the build.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    overrides = project["tool"]["scikit-build"]["overrides"]
    (pinned,) = [each["build"]["requires"] for each in overrides if "build" in each]
    found = (ROOT / "third_party/nvidia.cmake").read_text()
    listed = (ROOT / "third_party/README.md").read_text()
    ranges = []
    for each in pinned:
        name, version = each.split("==")
        ranges.append(f"{name}>={version},<{int(version.split('.')[0]) + 1}")
        assert f"add_nvidia_library({name} {version} " in found
        assert f"`{each}`" in listed
    assert project["project"]["optional-dependencies"]["cuda13"] == [
        *ranges,
        "nvidia-cuda-nvrtc>=13,<14",
    ]
