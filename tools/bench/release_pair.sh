#!/usr/bin/env bash
# A training step with this system's libraries and with another Debian release's, alternating on the same machine.
# usage: tools/bench/release_pair.sh RELEASE [PAIRS [NETWORK:PRECISION:BATCH...]]      e.g. tools/bench/release_pair.sh 13 5
#
# Builds cpu_step_bench here and, by tools/in-debian.sh (which needs root), there. Prints images/s of each pair, and the median of
# the ratios. Tables of operations with oneDNN's choice for each are left in build/release_pair. Nothing else should run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
release=$1 pairs=${2:-5}
cases=("${@:3}")
[ ${#cases[@]} -gt 0 ] || cases=(airbench94:bf16:1024 airbench94:fp32:1024 resnet50:bf16:64 resnet50:fp32:64)
build=(sh -c 'cmake --preset release -DBUILD_TESTING=ON >/dev/null && cmake --build --preset release --target cpu_step_bench >&2')
tables=build/release_pair
mkdir -p "$tables"

"${build[@]}"
tools/in-debian.sh "$release" sh -c 'tools/install-deps.sh && "$@"' sh "${build[@]}"

# rate TABLE COMMAND...: images/s that the benchmark prints; the operations go to TABLE
rate() {
  local table=$1
  shift
  "$@" 2>"$table" | sed -nE 's/.*: ([0-9.]+) images\/s.*/\1/p'
}

for case in "${cases[@]}"; do
  IFS=: read -r network precision batch <<<"$case"
  bench=(build/release/bin/cpu_step_bench "pipelines/networks/$network.toml" --precision "$precision" --batch "$batch")
  ratios=()
  for ((pair = 1; pair <= pairs; ++pair)); do
    here=$(rate "$tables/$network-$precision-here" "${bench[@]}")
    there=$(rate "$tables/$network-$precision-debian$release" tools/in-debian.sh "$release" "${bench[@]}")
    echo "$network $precision: here $here, Debian $release $there images/s"
    ratios+=("$(awk "BEGIN { printf \"%.3f\", $there / $here }")")
  done
  median=$(printf '%s\n' "${ratios[@]}" | sort -n | awk '{ all[NR] = $1 } END { print (all[int((NR + 1) / 2)] + all[int(NR / 2) + 1]) / 2 }')
  echo "$network $precision: median of Debian $release / here: $median"
done
