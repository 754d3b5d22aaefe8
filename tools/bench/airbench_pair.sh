#!/usr/bin/env bash
# Training speed compared with PyTorch: the airbench network at batch 1024, alternating on the same machine.
# usage: tools/bench/airbench_pair.sh CIFAR10_FOLDER [ROUNDS [PYTHON [PRECISION]]]
#
# Ours: the whole run, reading JPEG files included, images/s of the second epoch of twelve steps. PyTorch: tensors in memory, median
# of six steps after three. Prints each round and the median ratio. PYTHON is an interpreter that has torch; EXTRA is passed to
# torch_airbench.py (EXTRA=--compile).
set -euo pipefail
data=$1 rounds=${2:-5} python=${3:-/usr/bin/python3} precision=${4:-fp32}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
run=${PIPELINE_RUN:-$here/build/release/bin/pipeline-run}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for class in "$data"/train/*/; do  # 12,300 images: twelve whole batches
  mkdir -p "$work/train/$(basename "$class")"
  find "$class" -name '*.jpg' | sort | sed -n '1,1230p' | xargs cp -t "$work/train/$(basename "$class")"
done

ours() {
  # Every epoch reads its files: the cache is too small to save the second one that.
  "$run" "$here/pipelines/cifar10_airbench.toml" --set 'train.cache.memory="1"' --set train.cache.device=false \
    --set data.path="$work" --set "validate.read.path=$work/train" --set "final.read.path=$work/train" --graph train \
    --set run.epochs=2 --set run.folder= --set checkpoint.every=never --set run.precision="$precision" --json --quiet |
    "$python" -c 'import json, sys; print([round(e["images_per_second"], 1) for e in map(json.loads, sys.stdin) if e["event"] == "epoch"][1])'
}
theirs() {
  # shellcheck disable=SC2086
  "$python" "$here/tools/bench/torch_airbench.py" --steps 6 --threads "$(nproc)" --dtype "$precision" ${EXTRA:-} |
    "$python" -c 'import json, sys; print(json.loads(sys.stdin.read().splitlines()[-1])["images_per_second"])'
}

for ((round = 1; round <= rounds; ++round)); do
  a=$(ours)
  b=$(theirs)
  echo "$a $b" >> "$work/pairs"
  echo "round $round: Millrace $a, PyTorch $b images/s"
done
"$python" - "$work/pairs" <<'PY'
import statistics, sys
pairs = [tuple(map(float, line.split())) for line in open(sys.argv[1])]
print("median: Millrace %.1f, PyTorch %.1f images/s, ratio %.2f" % (
    statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs), statistics.median(a / b for a, b in pairs)))
PY
