#!/usr/bin/env bash
# Installs what is missing, builds everything, runs every test. usage: tools/test.sh [--sanitizers]
#   --sanitizers   also builds parts of the project once more, under ThreadSanitizer (and without the libraries that only plugins
#                  need) and under AddressSanitizer, and runs their tests
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

select=(--label-exclude rebuild)
for argument in "$@"; do
  case $argument in
    --sanitizers) select=() ;;
    *) echo "test.sh: unknown argument '$argument'; usage: tools/test.sh [--sanitizers]" >&2; exit 2 ;;
  esac
done

tools/install-deps.sh
cmake --preset release -DBUILD_TESTING=ON
cmake --build --preset release
ctest --preset release --parallel 2 "${select[@]}"
