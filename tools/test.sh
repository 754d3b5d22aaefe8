#!/usr/bin/env bash
# Installs what is missing, builds everything, runs every test. usage: tools/test.sh [--fast]
#   --fast   without the tests that build the project once more (under the sanitizers, without its optional libraries)
# Tests on real data look for it in $MILLRACE_DATA and are reported as skipped where it is not set.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

select=()
for argument in "$@"; do
  case $argument in
    --fast) select=(--label-exclude rebuild) ;;
    *) echo "test.sh: unknown argument '$argument'; usage: tools/test.sh [--fast]" >&2; exit 2 ;;
  esac
done

tools/install-deps.sh
cmake --preset release -DBUILD_TESTING=ON
cmake --build --preset release
ctest --preset release --parallel 2 "${select[@]}"
