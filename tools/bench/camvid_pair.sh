#!/usr/bin/env bash
# Segmentation training speed compared with PyTorch: pipelines/unet_camvid.toml, or segnet_basic_camvid.toml, alternating on one machine.
# usage: tools/bench/camvid_pair.sh CAMVID [ROUNDS [PYTHON [PRECISION [NETWORK]]]]
#
# Ours: images/s of the second epoch of STEPS steps (6), with cached images. PyTorch: torch_camvid.py, images in memory,
# median of STEPS steps after two; EXTRA is passed to it (EXTRA=--compile). Prints each round and the median ratio. PYTHON is an
# interpreter that has torch, torchvision and pillow; PRECISION bf16 or fp32; NETWORK unet or segnet_basic.
set -euo pipefail
data=$1 rounds=${2:-5} python=${3:-/usr/bin/python3} precision=${4:-bf16} network=${5:-unet}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
run=${PIPELINE_RUN:-$here/build/release/bin/pipeline-run}
steps=${STEPS:-6}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

ours() {
  "$run" "$here/pipelines/${network}_camvid.toml" --graph train --set data.path="$data" --set train.read.limit=$((8 * steps)) \
    --set run.epochs=2 --set run.folder= --set run.best= --set run.precision="$precision" --devices cpu --json --quiet |
    "$python" -c 'import json, sys; print([round(e["images_per_second"], 2) for e in map(json.loads, sys.stdin) if e["event"] == "epoch"][1])'
}
theirs() {
  # shellcheck disable=SC2086
  "$python" "$here/tools/bench/torch_camvid.py" "$data" --network "$network" --steps "$steps" --dtype "$precision" ${EXTRA:-} |
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
