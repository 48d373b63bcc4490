#!/usr/bin/env bash
# Checks what stands for Apple's frameworks on Linux, and the backends written for them:
#   tests/apple/check.sh             the doubles: numbers, rules, selectors
#   tests/apple/check.sh sanitize    the same under AddressSanitizer and UndefinedBehaviorSanitizer
#   tests/apple/check.sh analyze     clang's analyzer over all Objective-C++, leaks of objects with it
#   tests/apple/check.sh all         all three
# Installs nothing. Needs clang++-19 and gobjc++-12, libobjc and libblocksruntime; PYTHON names the
# interpreter that has pytest and numpy.
set -euo pipefail
cd "$(dirname "$0")/../.."
python=${PYTHON:-python3}

doubles() {
  "$python" -m pytest -q tests/apple
}

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
    "$python" -m pytest -q tests/apple --ignore=tests/apple/test_inventory.py
}

analyze() {
  "$python" tests/apple/analyze.py
}

case "${1:-doubles}" in
  doubles | sanitize | analyze) "${1:-doubles}" ;;
  all) doubles && sanitize && analyze ;;
  *) sed -n '2,9p' "$0" && exit 2 ;;
esac
