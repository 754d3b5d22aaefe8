#!/usr/bin/env bash
# Installs dependencies, builds everything, runs every test. usage: tools/test.sh [--sanitizers] [--debian RELEASE]
#   --sanitizers       also builds everything under both sanitizers, and for fuzzing by clang, all without precompiled headers; builds
#                      parts once more, under ThreadSanitizer (and without the libraries that only plugins need) and under AddressSanitizer, and runs their tests; clang checks what mutexes guard; builds all programs
#                      without CUDA
#   --debian RELEASE   does all of it inside that release of Debian (12 or 13): see tools/in-debian.sh, which needs root
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() { echo "test.sh: $1; usage: tools/test.sh [--sanitizers] [--debian RELEASE]" >&2; exit 2; }

select=(--label-exclude rebuild)
options=()
analysers=()
release=
while [ $# -gt 0 ]; do
  case $1 in
    --sanitizers) select=(); options+=("$1"); analysers=(clang) ;;
    --debian) [ $# -ge 2 ] || usage "--debian needs a release"; release=$2; shift ;;
    *) usage "unknown argument '$1'" ;;
  esac
  shift
done
[ -z "$release" ] || exec tools/in-debian.sh "$release" tools/test.sh ${options[@]+"${options[@]}"}

tools/install-deps.sh mkdocs doxygen zsh mandoc ${analysers[@]+"${analysers[@]}"}  # the site, completion and man pages
# Sources in batches, as users build: half the time. No two of a batch may give one name to different things.
cmake --preset develop -DBUILD_TESTING=ON -DMILLRACE_UNITE=ON
cmake --build --preset develop --target programs  # they do not depend on the tests
cmake --build --preset develop --target all benchmarks
# A build without CUDA and tests: only the parts that are compiled differently, a fifth of all. With --sanitizers all of it.
cmake --preset release -DMILLRACE_CUDA=OFF -DBUILD_TESTING=OFF >/dev/null
cmake --build --preset release --target kernels ${options[0]+programs}
if [ "${options[0]-}" = --sanitizers ]; then  # complete: each source on its own, without precompiled headers, with either compiler
  for preset in asan tsan; do
    cmake --preset $preset -DBUILD_TESTING=ON
    cmake --build --preset $preset --target all
  done
  cmake -S . -B build/fuzz -G Ninja -DCMAKE_CXX_COMPILER=clang++ -DMILLRACE_FUZZ=ON -DBUILD_TESTING=ON
  cmake --build build/fuzz --target all
fi
failed=0
ctest --preset develop --parallel $(($(nproc) + 1)) "${select[@]}" || failed=$?  # many tests wait while they measure time

echo "skipped, tests and why:"
awk '/: Skipped$/ { getline reason; ++count[substr(reason, 1, 120)] }
     /^skipped: / { ++count[substr($0, 10, 120)] } END { for (each in count) print count[each], each }' \
  build/develop/Testing/Temporary/LastTest.log | sort -rn
tools/check-commits.sh || true  # for information: merged commits keep their subjects
exit $failed
