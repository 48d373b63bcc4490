"""``python -m traingraph``: what is installed, and where CMake finds it."""

import argparse
import json
import pathlib
import sys

import traingraph
from traingraph import _core, _verify


def gpus() -> tuple[list[str], str]:
    """The GPUs, and why there are none."""
    try:
        backend = "metal" if "metal" in _core.backends() else "cuda"
        return [f"{backend}:{k}: {name}" for k, name in enumerate(_core.gpus())], ""
    except traingraph.DeviceError as error:
        return [], str(error)


def gpu_architectures() -> list[str]:
    """What the plugin for GPUs has code for; nothing where there is none that can be loaded."""
    try:
        return _core.gpu_architectures()
    except traingraph.DeviceError:
        return []


def information() -> dict[str, object]:
    """Versions and what this machine offers. Devices are those that compute."""
    found, reason = gpus()
    return {
        "traingraph": traingraph.__version__,
        "onednn": _core.onednn_version(),
        "instruction_set": _core.instruction_set(),
        "backends": _core.backends(),
        "reference_loops": {
            name: ops for name in _core.backends() if (ops := _core.looped_ops(name))
        },
        "devices": [
            repr(device).removeprefix("<MLCDevice ").removesuffix(">")
            for device in (traingraph.MLCDevice.cpu(), traingraph.MLCDevice.reference())
        ]
        + found,
        "gpu": reason or f"{len(found)} found",
        "gpu_architectures": gpu_architectures(),
        "threads": traingraph.get_num_threads(),
        "python": sys.version.split()[0],
    }


def as_text(value: object) -> str:
    """A value of `information` in one line."""
    if isinstance(value, dict):
        return "; ".join(f"{name}: {as_text(part)}" for name, part in value.items()) or "none"
    return ", ".join(value) if isinstance(value, list) else str(value)


def cmake_directory() -> pathlib.Path:
    """Where ``find_package(traingraph)`` looks: pass it as ``traingraph_DIR``."""
    # The package of an editable installation has several folders; one of them was installed to.
    candidates = [pathlib.Path(folder) / "lib/cmake/traingraph" for folder in traingraph.__path__]
    extension = _core.__file__
    candidates.append(pathlib.Path(extension).parent / "lib/cmake/traingraph")
    return next((folder for folder in candidates if folder.is_dir()), candidates[-1])


def main(arguments: list[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    parser = argparse.ArgumentParser(prog="traingraph", description=traingraph.__doc__)
    parser.add_argument("--cmake-dir", action="store_true", help="print the CMake package folder")
    commands = parser.add_subparsers(dest="command")
    info = commands.add_parser("info", help="print versions, backends and threads")
    info.add_argument("--json", action="store_true", help="print one JSON object")
    check = commands.add_parser("verify", help="run the test suite on a backend of this machine")
    check.add_argument("--device", required=True, help="its name, such as metal, bnns or cuda")
    check.add_argument("--tests", default="tests", type=pathlib.Path, help="the repository's tests")
    check.add_argument(
        "--report", default="verify.json", type=pathlib.Path, help="the file to write"
    )
    options = parser.parse_args(arguments)

    if options.cmake_dir:
        print(cmake_directory())
    elif options.command == "info" and options.json:
        print(json.dumps(information(), indent=2))
    elif options.command == "info":
        for name, value in information().items():
            print(f"{name:17} {as_text(value)}")
    elif options.command == "verify":
        try:
            return _verify.verify(options.device, options.tests, options.report)
        except traingraph.Error as error:
            print(error, file=sys.stderr)
            return 2
    else:
        parser.print_help()
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
