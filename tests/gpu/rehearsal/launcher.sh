#!/usr/bin/env bash
# The bundle's launcher takes CUDA's libraries from one place together: ./millrace libraries, with folders of empty files.
# usage: launcher.sh LAUNCHER WORK_FOLDER
set -euo pipefail

launcher=$1 work=$2
rm -rf "$work"
mkdir -p "$work/bin" "$work/bundle" "$work/some"
cp "$launcher" "$work/bundle/millrace"

# Python's packages have a folder for each library, a toolkit has one for all.
packages=$work/site-packages/nvidia toolkit=$work/toolkit
mkdir -p "$packages"/{cu13,cudnn,nccl}/lib "$toolkit"
touch "$packages"/cu13/lib/{libcublasLt.so.13,libnvrtc.so.13} "$packages/cudnn/lib/libcudnn.so.9" "$packages/nccl/lib/libnccl.so.2"
touch "$toolkit"/{libcublasLt.so.13,libnvrtc.so.13,libcudnn.so.9,libnccl.so.2} "$work/some/libnccl.so.2"
pythons=$packages/cu13/lib:$packages/cudnn/lib:$packages/nccl/lib

# This machine's own Python and loader are not asked.
printf '#!/bin/sh\necho %s\n' "$work/site-packages" >"$work/bin/python3"
printf '#!/bin/sh\n' >"$work/bin/ldconfig"
chmod +x "$work/bin"/*
cp "$work/bin/python3" "$work/bin/python"

expect() {  # WHAT EXPECTED [VARIABLE=VALUE]...
  local what=$1 expected=$2 found
  shift 2
  # The driver, which this machine may have, comes last and from elsewhere.
  found=$(env -u VIRTUAL_ENV -u CONDA_PREFIX -u MILLRACE_CUDA_LIBRARIES -u MILLRACE_CUDA_ORIGIN "PATH=$work/bin:$PATH" \
    "LD_LIBRARY_PATH=$toolkit" "$@" "$work/bundle/millrace" libraries 2>"$work/warnings")
  case $found in "$expected" | "$expected":*) ;; *) echo "$what: $found instead of $expected" >&2; exit 1 ;; esac
}
quiet() { [ ! -s "$work/warnings" ] || { echo "$1 warns: $(cat "$work/warnings")" >&2; exit 1; }; }

expect "Python's by default" "$pythons"
quiet "one origin"
expect "the machine's where it is asked for" "$toolkit" MILLRACE_CUDA_ORIGIN=machine
quiet "another origin"
expect "named folders" "$toolkit" "MILLRACE_CUDA_LIBRARIES=$toolkit" LD_LIBRARY_PATH=
expect "what a named folder lacks" "$packages/cu13/lib:$packages/cudnn/lib:$work/some" "MILLRACE_CUDA_LIBRARIES=$work/some"
grep -q "come from 'named', which lacks libcublasLt" "$work/warnings" || { echo "a mixture is not named" >&2; exit 1; }
rm "$packages/nccl/lib/libnccl.so.2"
expect "the first origin that has all of them" "$toolkit"
quiet "an origin with all of them"
