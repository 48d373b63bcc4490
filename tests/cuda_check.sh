#!/bin/bash
# Configures, builds and tests the CUDA backend on a machine with a GPU, in one call:
#
#   tests/cuda_check.sh tests/layers tests/runtime -x
#
# Arguments go to pytest. Needs nvcc, CMake, ninja and a python3 with pybind11, pytest, NumPy and the
# packages of oneDNN, cuBLAS and cuDNN that third_party/README.md names. BUILD is the build folder.
# The plugin has what the default build has for this machine's GPUs, or for ARCHITECTURES.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
build=${BUILD:-$root/build/cuda_check}

gpus=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | sort -u | paste -sd ';')
architectures=${ARCHITECTURES:-$(cmake -DGPUS="$gpus" -P "$root/cpp/cmake/cuda_architectures.cmake")}

mkdir -p "$build"
cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
  -DTRAINGRAPH_BUILD_PYTHON=ON -DTRAINGRAPH_TESTING=ON -DTRAINGRAPH_CUDA=ON \
  -DCMAKE_CUDA_ARCHITECTURES="$architectures" -DPython_EXECUTABLE="$(command -v python3)" >"$build.log" 2>&1 ||
  { tail -30 "$build.log"; exit 1; }
ninja -C "$build" >"$build.log" 2>&1 || { grep -E 'FAILED|error' -A5 "$build.log" | head -60; exit 1; }
# Products that ptxas makes wait for each other it mentions in passing.
if grep 'Potential Performance Loss' "$build.log"; then exit 1; fi
cmake --install "$build" --prefix "$build/package/traingraph" >/dev/null
cp -r "$root/python/traingraph/." "$build/package/traingraph"

cd "$root"
export PYTHONPATH=$build/package${PYTHONPATH:+:$PYTHONPATH}
python3 -m traingraph info
exec python3 -m pytest -q --device cuda "$@"
