#!/usr/bin/env bash
# Builds the core, the bindings and the private test module with a sanitizer and runs suites on them:
#   tests/sanitize.sh address    AddressSanitizer and UndefinedBehaviorSanitizer
#   tests/sanitize.sh thread     ThreadSanitizer
#   tests/sanitize.sh fuzz       the fuzz targets on the build of `address`, two minutes each
#   tests/sanitize.sh threads    the stress test of pairs of calls, two and four threads, under each
# More arguments go to pytest, or to tests/fuzz/driver.py. Needs GCC, CMake, ninja and a Python that has the extra "test"; PYTHON
# names it.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
kind=${1:-}
shift || true

# Left out: tests that measure or limit the process's memory, fork, load PyTorch, or count on the time
# of a kill, none of which goes with a sanitizer, and those of the package's files.
case "$kind" in
  address | fuzz)
    # The interpreter was not built with them: their libraries are loaded first, and its own leaks
    # are not counted. What asks for too much is answered as it is without them.
    preload="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libstdc++.so)"
    export PYTHONMALLOC=malloc ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1
    threads=2
    tests=(tests/reference tests/layers tests/passes tests/optimizers tests/runtime tests/python
      tests/train tests/graph tests/checkpoint tests/mps
      --ignore=tests/runtime/test_device_double.py --ignore=tests/python/test_verify.py
      --ignore=tests/python/test_stubs.py
      -k 'not memory and not fork and not released and not torch and not no_library_counts and not killed_over')
    ;;
  thread)
    preload=$(gcc -print-file-name=libtsan.so)
    export TSAN_OPTIONS=ignore_noninstrumented_modules=1
    # libgomp is not instrumented: what is checked are the core's own threads.
    threads=1
    tests=(tests/graph/test_concurrency.py tests/graph/test_linking.py
      tests/graph/test_user_gradients.py tests/python/test_execution.py
      tests/train/test_client_order.py tests/runtime/test_streams.py -k 'not fork')
    ;;
  threads)
    export STRESS=1 SEED=${SEED:-$RANDOM} PYTHON=$python
    for each in thread address; do "$0" "$each"; done
    exit 0
    ;;
  *)
    sed -n '2,7p' "$0"
    exit 2
    ;;
esac

preset=asan
if [[ $kind == thread ]]; then preset=tsan; fi
build=build/$preset
launcher=()
if command -v ccache >/dev/null; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
cmake --preset "$preset" "${launcher[@]}" -DPython_EXECUTABLE="$(command -v "$python")"
cmake --build "$build"
cmake --install "$build" --prefix "$build/package/traingraph" >/dev/null
cp -r python/traingraph/. "$build/package/traingraph"

# What a sanitizer writes must not be caught with what a test prints. Address-space layouts of recent kernels leave ThreadSanitizer no room.
run=(setarch "$(uname -m)" -R env "PYTHONPATH=$PWD/$build/package" "LD_PRELOAD=$preload" "$python")
if [[ $kind == fuzz ]]; then
  targets=(tests/fuzz/{checkpoints,archives,descriptors,calls,changing_sources}.py)
  exec "${run[@]}" tests/fuzz/driver.py "${targets[@]}" "$@"
fi
if [ -n "${STRESS:-}" ]; then
  for count in 2 4; do
    "${run[@]}" tests/graph/stress_threads.py --threads "$count" --seed "$SEED" \
      --seconds "${SECONDS_EACH:-60}" --step-threads "$threads"
  done
  exit 0
fi
"${run[@]}" -c 'import sys, pytest, traingraph
traingraph.set_num_threads(int(sys.argv[1]))
sys.exit(pytest.main(sys.argv[2:]))' "$threads" -q --capture=sys "${tests[@]}" "$@"
