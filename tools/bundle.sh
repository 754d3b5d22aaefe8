#!/usr/bin/env bash
# One archive with everything that a machine needs to train: programs, plugins, pipelines, GPU tests, and the shared libraries they
# need, but for the C library, the driver and CUDA's libraries, which its launcher finds where it runs (tools/bundle/millrace).
# usage: tools/bundle.sh [BUILD_FOLDER [ARCHIVE]]   default: build/release, build/millrace-VERSION-x86_64.tar.xz
#
# The build folder holds what `cmake --build --preset release` makes; without its GPU tests the archive is made without them. Where
# another version of glibc is older than this machine's, make the bundle on the oldest one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
repository=$PWD

build=${1:-build/release}
version=$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$build/CMakeCache.txt")
name=millrace-$version-$(uname -m)
archive=$(realpath -m "${2:-build/$name.tar.xz}")
most_bytes=40000000

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/$name

say() { echo "bundle.sh: $*" >&2; }

install_programs() {
  cmake --install "$build" --prefix "$tree" --strip >"$work/install.log" || { cat "$work/install.log" >&2; exit 1; }
  rm -rf "$tree/include" "$tree/lib/cmake" "$tree"/lib/*/cmake
  if [ ! -d "$tree/lib" ]; then  # the launcher looks there
    say "this build installs into '$(sed -n 's/^CMAKE_INSTALL_LIBDIR:.*=//p' "$build/CMakeCache.txt")'; configure it with -DCMAKE_INSTALL_LIBDIR=lib"
    exit 1
  fi
  cp LICENSE README.md "$tree"
  install -m 755 tools/bundle/millrace "$tree/millrace"
}

# Programs of tests/gpu and of plugins that need a device are called gpu_*; conformance_test asks every backend. Two of them need
# no device and stay here.
install_gpu_tests() {
  mkdir -p "$tree/tests"
  local program
  for program in "$build"/tests/gpu_* "$build/tests/conformance_test"; do
    case $(basename "$program") in gpu_contract_test | gpu_check_test) continue ;; esac
    if [ -f "$program" ] && [ -x "$program" ]; then install -m 755 --strip "$program" "$tree/tests"; fi
  done
  [ -x "$tree/tests/gpu_check" ] || say "without gpu-check: $build/tests/gpu_check was not built"
  cp -r tests/gpu/peers tests/gpu/pipelines tests/gpu/README.md "$tree/tests"
  cp tools/bench/torch_airbench.py "$tree/tests/peers"  # whose network and recipe a peer takes
  find "$tree/tests" -name __pycache__ -prune -exec rm -rf {} +
}

# What comes with the machine: the C library and its relatives, and everything of CUDA.
from_the_machine='^(linux-vdso|ld-linux.*|libc|libm|libdl|librt|libpthread|libutil|libresolv|libanl|libmvec|libnss_.*)\.so|^libcu(da|dnn|blas)|^libnv|^libnccl'

# Every other library that a file of the bundle needs, itself or through others: "name path" lines.
needed_libraries() {
  find "$tree" -type f \( -perm -u+x -o -name '*.so*' \) ! -name millrace -print0 |
    LD_LIBRARY_PATH=$tree/lib xargs -0 -n 1 ldd 2>/dev/null |
    awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 } $2 == "=>" && $3 == "not" { print $1, "missing" }' |
    sort -u | grep -Ev "$from_the_machine" | grep -v '^libmillrace\.'
}

install_libraries() {
  local library path folder
  mkdir -p "$tree/lib/bundled/cxx"
  while read -r library path; do
    if [ "$path" = missing ]; then
      say "$library, which a program of the build needs, is not on this machine"
      exit 1
    fi
    folder=$tree/lib/bundled
    case $library in libstdc++.so.6 | libgcc_s.so.1) folder=$folder/cxx ;; esac
    # Under its full name, which tells the version, with a link under the name that programs ask for.
    path=$(readlink -f "$path")
    install -m 644 "$path" "$folder"
    strip --strip-unneeded "$folder/$(basename "$path")"
    [ "$library" = "$(basename "$path")" ] || ln -sf "$(basename "$path")" "$folder/$library"
  done < <(needed_libraries)
}

# The same files make the same archive.
pack() {
  mkdir -p "$(dirname "$archive")"
  tar --create --directory "$work" --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 "$name" |
    xz -6 --threads=0 >"$archive.part"
  mv "$archive.part" "$archive"
  local bytes
  bytes=$(stat --format=%s "$archive")
  say "$archive: $((bytes / 1000)) kB, $(du -sm "$tree" | cut -f1) MiB unpacked"
  if [ "$bytes" -gt "$most_bytes" ]; then
    say "that is more than $((most_bytes / 1000000)) MB; the largest files:"
    find "$tree" -type f -printf '%s %P\n' | sort -rn | head -n 10 >&2
    exit 1
  fi
}

install_programs
install_gpu_tests
install_libraries
grep -rIl --fixed-strings "$repository" "$tree" | head -n 5 | sed 's/^/bundle.sh: names the source tree: /' >&2 || true
pack
