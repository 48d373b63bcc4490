#!/usr/bin/env bash
# Runs clang-tidy with the repository's .clang-tidy over each file of the core, and fails where it
# finds something, or where a file does not include what it uses.
# Needs clang-tidy, run-clang-tidy and omp.h of LLVM 19 (Debian's clang-tidy-19 and libomp-19-dev),
# CMake, ninja and a Python that has the extra "test"; PYTHON names it.
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --preset tidy -DPython_EXECUTABLE="$(command -v "${PYTHON:-python3}")"
# Warnings of the compiler are the compiler's matter; GCC has some that clang does not know.
run-clang-tidy-19 -quiet -p build/tidy -extra-arg=-Wno-everything -warnings-as-errors='*' \
  '/cpp/src/'
