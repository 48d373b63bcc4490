#!/usr/bin/env bash
# Checks what stands for Apple's frameworks on Linux, and the backends written for them:
#   tests/apple/check.sh             the doubles: numbers, rules, selectors
#   tests/apple/check.sh sanitize    the same under AddressSanitizer and UndefinedBehaviorSanitizer
#   tests/apple/check.sh analyze     clang's analyzer over the backends, leaks of objects with it
#   tests/apple/check.sh darwin      all sources, read as the compiler of a Mac reads them
#   tests/apple/check.sh backends    the core built with the doubles, and the suites over its backends;
#                                    metal's once more where headers are read to the caller's favour
#   tests/apple/check.sh all         all of them, as several of these names do
# Installs nothing. Needs clang++-19 with its sanitizers' run-time library, libc++ 19, libobjc of
# GCC 12 and libblocksruntime; PYTHON names the interpreter that has the extra "test" beside it, and
# TRAINGRAPH_BINDINGS, where the package is installed, its _core module, not to compile it again.
set -euo pipefail
cd "$(dirname "$0")/../.."
python=${PYTHON:-python3}
command -v clang++-19 >/dev/null || { echo "clang++-19 is not installed" >&2 && exit 1; }

# What is about the backends needs the package that backends() builds.
of_metal=(tests/apple/test_metal.py tests/apple/test_images_between_ops.py
  tests/apple/test_named_*.py tests/apple/test_steps_in_flight.py)
of_backends=("${of_metal[@]}" tests/apple/test_verified_kernels.py
  tests/apple/test_bnns_backend.py tests/apple/test_bnns_verification.py
  tests/apple/test_stand_ins.py tests/apple/test_verify_on_doubles.py)
without_package=(tests/apple "${of_backends[@]/#/--ignore=}")

doubles() {
  "$python" -m pytest -q -m apple "${without_package[@]}"
}

# The first compares names and compiles; the second has a sanitized program of its own.
without_sanitizers=(tests/apple/test_inventory.py tests/apple/test_accelerate_double.py)

# An interpreter that was not built with the sanitizers has to load them first; compilers have not.
sanitize() {
  local folder=$PWD/build/apple-sanitized runtime
  runtime=$(clang++-19 -print-file-name=libclang_rt.asan-x86_64.so)
  (cd tests/apple && "$python" -c 'import sys
from pathlib import Path
from apple_build import build
build(Path(sys.argv[1]), "address,undefined")' "$folder")
  # Python frees little at its end. The runtime's classes are read as they are laid out.
  ASAN_OPTIONS=detect_leaks=0:handle_abort=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
    TRAINGRAPH_APPLE_CHECKS=$folder LD_PRELOAD=$runtime \
    "$python" -m pytest -q -m apple "${without_package[@]}" "${without_sanitizers[@]/#/--ignore=}"
}

analyze() {
  "$python" tests/apple/analyze.py
}

darwin() {
  local toolchain=$PWD/tests/apple/darwin/toolchain.cmake
  cmake -S tests/apple/darwin -B build/darwin/unavailable -G Ninja --toolchain "$toolchain"
  cmake -S . -B build/darwin -G Ninja --toolchain "$toolchain" -DCMAKE_BUILD_TYPE=Release \
    -DTRAINGRAPH_BUILD_PYTHON=ON -DTRAINGRAPH_TESTING=ON -DTRAINGRAPH_WERROR=ON \
    -DPython_EXECUTABLE="$(command -v "$python")" \
    -Dpybind11_DIR="$("$python" -m pybind11 --cmakedir)"
  cmake --build build/darwin
}

backends() {
  local launcher=()
  if command -v ccache >/dev/null; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
  # Portable, as on a Mac.
  cmake -S . -B build/apple -G Ninja -DCMAKE_BUILD_TYPE=Release -DTRAINGRAPH_APPLE_DOUBLES=ON \
    -DTRAINGRAPH_PORTABLE=ON -DTRAINGRAPH_BUILD_PYTHON=ON -DTRAINGRAPH_TESTING=ON "${launcher[@]}" \
    -DTRAINGRAPH_BINDINGS="${TRAINGRAPH_BINDINGS:-}" \
    -Dpybind11_DIR="$("$python" -m pybind11 --cmakedir)"
  cmake --build build/apple
  cmake --install build/apple --prefix build/apple-package/traingraph
  cp -r python/traingraph/. build/apple-package/traingraph
  export PYTHONPATH=$PWD/build/apple-package TRAINGRAPH_APPLE_BUILD=$PWD/build/apple
  local distributed=("$python" -m pytest -q -n auto --dist worksteal)
  "${distributed[@]}" -m apple "${of_backends[@]}"
  APPLE_DOUBLE_READINGS=lenient "${distributed[@]}" -m apple "${of_metal[@]}"
  # Rows about the backends that the core was built with, in one run; kernels that the doubles
  # compute as their ops do are noted as `traingraph verify` does it.
  local devices
  export XDG_CACHE_HOME=$PWD/build/apple-cache TRAINGRAPH_APPLE_NOTED=1
  (cd tests/apple && "$python" -c 'import os, pathlib, metal_package
metal_package.note_what_is_right(pathlib.Path(os.environ["XDG_CACHE_HOME"]))')
  read -ra devices < <("$python" -c 'from traingraph import _core
print(*(f"--only-device={name}" for name in ("metal", "bnns") if name in _core.backends()))')
  "${distributed[@]}" "${devices[@]}" tests/reference tests/layers tests/optimizers tests/train \
    tests/graph tests/checkpoint tests/mps tests/runtime tests/passes
  # Where kernels with states, weights and offsets are.
  APPLE_DOUBLE_READINGS=lenient "${distributed[@]}" --only-device=metal \
    tests/reference tests/layers tests/mps tests/train
}

parts=("${@:-doubles}")
if [[ ${parts[0]} == all ]]; then parts=(doubles sanitize analyze darwin backends); fi
for part in "${parts[@]}"; do
  case "$part" in
    doubles | sanitize | analyze | darwin | backends) "$part" ;;
    *)
      sed -n '2,11p' "$0"
      exit 2
      ;;
  esac
done
