#!/usr/bin/env bash
# From a fresh machine with Debian 12 or 13 to a trained network: installs dependencies, builds, draws a small data set, trains on
# it. Fails if the final validation accuracy is below 95 %.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=build/release
data=data/shapes
events=$build/quickstart.jsonl
wanted=0.95

step() { printf '\n== %s\n' "$1" >&2; }

step "Installing missing packages"
tools/install-deps.sh

step "Building into $build"
# GPU code takes long to build: it is built if there is a GPU, or with MILLRACE_CUDA=ON.
if [ -e /dev/nvidia0 ] || [ -e /dev/dxg ]; then gpu=ON; else gpu=OFF; fi
cmake --preset release -DMILLRACE_CUDA="${MILLRACE_CUDA:-$gpu}" >/dev/null
cmake --build --preset release --target programs

if [ -e "$data/.complete" ]; then
  step "Using the images in $data"
else
  step "Drawing images into $data"
  rm -rf "$data"
  "$build/bin/pipeline-data" shapes "$data"
  touch "$data/.complete"
fi

step "Training: pipeline-run pipelines/quickstart.toml"
"$build/bin/pipeline-run" pipelines/quickstart.toml --json >"$events"

accuracy=$(sed -nE '/"event": ?"validate"/s/.*"accuracy": ?([0-9.eE+-]+).*/\1/p' "$events" | tail -n 1)
if [ -z "$accuracy" ]; then
  echo "quickstart.sh: the run reported no validation; its events are in $events" >&2
  exit 1
fi
awk -v accuracy="$accuracy" -v wanted="$wanted" 'BEGIN {
  printf "\nvalidation accuracy %.1f %%\n", 100 * accuracy
  if (accuracy < wanted) { printf "expected at least %.0f %%\n", 100 * wanted > "/dev/stderr"; exit 1 }
}'
