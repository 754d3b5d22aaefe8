#!/usr/bin/env bash
# Installs missing packages, builds everything, runs every test. usage: tools/test.sh [--sanitizers] [--debian RELEASE]
#   --sanitizers       also builds everything under both sanitizers, and for fuzzing by clang, and all programs without CUDA; runs tests
#                      of what AddressSanitizer has, and of parts that are built once more under ThreadSanitizer without the libraries
#                      that only plugins need; clang checks what mutexes guard. Hours on two cores, of which most is building
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
# Sources in batches, as users build: half the time. No two of a batch may give one name to different things; a test compiles each
# changed source by itself.
cmake --preset develop -DBUILD_TESTING=ON -DMILLRACE_UNITE=ON
cmake --build --preset develop --target programs  # they do not depend on the tests
cmake --build --preset develop --target all benchmarks
failed=0
whole() {  # PRESET [OPTION...]: everything
  { cmake --preset "$1" -DBUILD_TESTING=ON "${@:2}" && cmake --build --preset "$1" --target all; } || failed=$?
}
# As users without CUDA and tests build: all programs with --sanitizers, else the sources that compile differently there, without the optimizer.
if [ "${options[0]-}" = --sanitizers ]; then  # a build that fails stops no other one
  { cmake --preset release -DMILLRACE_CUDA=OFF -DBUILD_TESTING=OFF >/dev/null && cmake --build --preset release --target kernels programs; } ||
    failed=$?
  whole asan -DMILLRACE_UNITE=ON  # the tests below run parts of it
  whole tsan -DMILLRACE_UNITE=ON
  { cmake -S . -B build/fuzz -G Ninja -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE=-O1 \
      -DMILLRACE_FUZZ=ON -DBUILD_TESTING=ON && cmake --build build/fuzz --target all &&
    ctest --test-dir build/fuzz --label-regex fuzz --parallel "$(nproc)" --output-on-failure; } || failed=$?
else
  cmake --preset release -B build/without_cuda -DMILLRACE_CUDA=OFF -DBUILD_TESTING=OFF -DCMAKE_CXX_FLAGS_RELEASE=-O0 >/dev/null
  cmake --build build/without_cuda --target kernels
fi
ctest --preset develop --parallel $(($(nproc) + 1)) "${select[@]}" || failed=$?  # many tests mostly wait

echo "the tests that took longest, in seconds:"
awk '/^[0-9]+\/[0-9]+ Test: / { name = $3 } /^Test time = / { print $4, name }' \
  build/develop/Testing/Temporary/LastTest.log | sort -rn | sed -n 1,25p  # reads to the end: pipefail
echo "skipped, tests and why:"
awk '/: Skipped$/ { getline reason; ++count[substr(reason, 1, 120)] }
     /^skipped: / { ++count[substr($0, 10, 120)] } END { for (each in count) print count[each], each }' \
  build/develop/Testing/Temporary/LastTest.log | sort -rn
tools/check-commits.sh || true  # for information: merged commits keep their subjects
exit $failed
