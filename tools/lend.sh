#!/usr/bin/env bash
# Prepares a visit to a lent machine with a GPU: builds with CUDA and the tests, fills the ignored folder build/lend, and prints the
# command to run there, in the repository's root (tests/gpu/README.md).
# usage: tools/lend.sh [--cifar10 ARCHIVE|FOLDER] [--continue JOURNAL] [--build FOLDER] [--jobs N] [--no-build]
#   --cifar10    CIFAR-10 as JPEG files, train/<class>/*.jpg and test/<class>/*.jpg, or an archive of it (MILLRACE_CIFAR10)
#   --continue   an earlier visit's journal.jsonl, which is packed too: finished work is not repeated
#   --build      a build folder to use (build/lend-build, made like preset develop, so that ccache has most of it)
#   --no-build   packs that folder's contents
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { echo "lend.sh: $*" >&2; }
refuse() { say "$@"; exit 1; }

cifar10=${MILLRACE_CIFAR10:-} earlier='' build=build/lend-build jobs=$(nproc) builds=yes
while [ $# -gt 0 ]; do
  case $1 in
    --no-build) builds='' && shift && continue ;;
    --cifar10 | --continue | --build | --jobs) [ $# -gt 1 ] || refuse "$1 needs a value" ;;
    *) refuse "unknown option '$1'; the first lines of this script name them" ;;
  esac
  case $1 in --cifar10) cifar10=$2 ;; --continue) earlier=$2 ;; --build) build=$2 ;; --jobs) jobs=$2 ;; esac
  shift 2
done

most_mib=60  # the working tree and build/lend; 64 is the machines' limit
newest=(GLIBC_2.39 GLIBCXX_3.4.33)  # newest symbol versions on a lent machine
lend=build/lend
tests=(gpu_backend_test gpu_kernels_test gpu_step_bench conformance_test)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/programs

build_programs() {
  cmake --preset develop -B "$build" -DMILLRACE_CUDA=ON -DMILLRACE_CUDA_ARCHITECTURES=90 >"$work/configure.log" ||
    { cat "$work/configure.log" >&2; exit 1; }
  cmake --build "$build" --parallel "$jobs" --target programs "${tests[@]}" >&2 ||
    refuse "the build failed; is a CUDA 13 toolkit with the headers of cuDNN 9 and NCCL here?"
}

# Required for a visit.
check_parts() {
  local part
  for part in lib/millrace/plugins/cuda.so lib/millrace/plugins/cpu.so bin/pipeline-run "${tests[@]/#/tests/}"; do
    [ -s "$tree/$part" ] || refuse "$part is missing in $build: that was built without CUDA, or without the tests"
  done
  for part in cuda layers losses optimizers clip_gradients; do
    grep -q '\.nv_fatbin' "$tree/lib/millrace/plugins/$part.so" || refuse "$part.so in $build holds no code for a device"
  done
}

# Network plugins depend on thirty libraries that a visit does not need.
gather_programs() {
  mkdir -p "$tree"/{bin,lib/millrace/plugins,lib/carried,share/millrace,tests}
  cp "$build"/bin/pipeline-{run,inspect,data,profile} "$tree/bin"
  cp -L "$build"/lib/libmillrace.so.[0-9] "$tree/lib"  # the name in programs' dependencies
  cp "$build"/lib/millrace/plugins/*.so "$tree/lib/millrace/plugins"
  rm -f "$tree"/lib/millrace/plugins/storage_{s3,http}.so
  cp -r pipelines "$tree/share/millrace"
  local program
  for program in "${tests[@]}"; do
    if [ -e "$build/tests/$program" ]; then cp "$build/tests/$program" "$tree/tests"; fi
  done
  cp -r tests/gpu/peers tests/gpu/pipelines "$tree/tests"
  cp tools/bench/torch_airbench.py "$tree/tests/peers"  # a peer uses its network and recipe
  find "$tree" -name __pycache__ -prune -exec rm -rf {} +
  find "$tree" -type f \( -perm -u+x -o -name '*.so*' \) ! -name '*.py' -exec strip --strip-unneeded {} +
}

# Provided by the machine: the C and C++ libraries, the driver, and all of CUDA.
from_the_machine='^(linux-vdso|ld-linux.*|libc|libm|libdl|librt|libpthread|libutil|libresolv|libanl|libmvec|libnss_.*|libstdc\+\+|libgcc_s)\.so|^libcu(da|dnn|blas)|^libnv|^libnccl'

# Every other library that a file of the tree needs, itself or through others: "name path" lines.
needed_libraries() {
  find "$tree" -type f \( -perm -u+x -o -name '*.so*' \) ! -name '*.py' -print0 |
    LD_LIBRARY_PATH=$tree/lib xargs -0 -n 1 ldd 2>/dev/null |
    awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 } $2 == "=>" && $3 == "not" { print $1, "missing" }' |
    sort -u | grep -Ev "$from_the_machine" | grep -v '^libmillrace\.' || true
}

carry_libraries() {
  local library path
  while read -r library path; do
    [ "$path" != missing ] || refuse "$library, which a program of the build needs, is not on this machine"
    cp -L "$path" "$tree/lib/carried/$library"
    strip --strip-unneeded "$tree/lib/carried/$library"
  done < <(needed_libraries)
}

check_versions() {
  local symbols most needed
  symbols=$(find "$tree" -type f \( -perm -u+x -o -name '*.so*' \) ! -name '*.py' -exec objdump -T {} + 2>/dev/null)
  for most in "${newest[@]}"; do
    needed=$({ grep -ow "${most%_*}_[0-9.]*" <<<"$symbols" || true; } | sort -uV | tail -n 1)
    [ "$(printf '%s\n' "$needed" "$most" | sort -V | tail -n 1)" = "$most" ] ||
      refuse "the programs need $needed, and a lent machine has $most: build on an older release (tools/in-debian.sh)"
  done
}

# Equal files give equal archives.
pack() {  # ARCHIVE FOLDER NAME...
  local archive=$1 folder=$2
  shift 2
  tar --create --directory "$folder" --dereference --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 "$@" | xz -T0 >"$lend/$archive"
}

pack_cifar10() {
  local names
  case $cifar10 in
    '') refuse "where is CIFAR-10? --cifar10 takes JPEG files, train/<class>/*.jpg and test/<class>/*.jpg, or an archive" ;;
    *.xz) cp "$cifar10" "$lend/cifar10.tar.xz" ;;
    *.gz | *.tgz) gzip -dc "$cifar10" | xz -T0 >"$lend/cifar10.tar.xz" ;;
    *) if [ -d "$cifar10" ]; then pack cifar10.tar.xz "$cifar10" train test; else xz -T0 <"$cifar10" >"$lend/cifar10.tar.xz"; fi ;;
  esac
  names=$(tar --list --xz --file "$lend/cifar10.tar.xz")
  for part in train test; do
    grep -q "\(^\|/\)$part/[^/]*/[^/]*\.jpg$" <<<"$names" || refuse "$cifar10 holds no $part/<class>/*.jpg"
  done
}

# Bytes sent to the machine: the working tree, and build/lend.
travelling() {
  { git ls-files -z --cached --others --exclude-standard | xargs -0 stat --format=%s 2>/dev/null; stat --format=%s -- "$lend"/*; } |
    awk '{ sum += $1 } END { printf "%d\n", sum }'
}

[ -z "$earlier" ] || cp "$earlier" "$work/journal.jsonl" || refuse "$earlier is not the journal of a visit"
begun=$SECONDS
[ -z "$builds" ] || build_programs
built=$((SECONDS - begun))
rm -rf "$lend" && mkdir -p "$lend"
gather_programs
check_parts
carry_libraries
check_versions
pack programs.tar.xz "$tree" .
pack_cifar10
cp tests/gpu/visit.py "$lend"
if [ -n "$earlier" ]; then cp "$work/journal.jsonl" "$lend"; fi
bytes=$(travelling)
if [ "$bytes" -gt $((most_mib << 20)) ]; then
  say "$((bytes >> 20)) MiB would travel, and $most_mib may; the largest:"
  du -ak "$tree" | sort -rn | sed -n 1,12p >&2
  exit 1
fi

say "built in $built s, packed in $((SECONDS - begun - built)) s; $((bytes >> 20)) MiB of $most_mib travel with the working tree:"
(cd "$lend" && stat --format='  %s bytes  %n' -- *) >&2
cat <<END
Run this on the machine, in the repository's root, with build/lend carried along and 600 seconds as its limit:

  python3 build/lend/visit.py --out "\$OUT"${earlier:+ --continue build/lend/journal.jsonl}

If time is left, copy the journal that came back to build/lend/journal.jsonl, and go on at once, on the same machine:

  python3 build/lend/visit.py --out "\$OUT" --continue build/lend/journal.jsonl --since 660
END
