#!/usr/bin/env bash
# The table of the README's data section: reading, decoding and batching by Millrace, by bare libjpeg-turbo, by PyTorch's DataLoader
# and by DALI on the CPU, over the same files with as many threads (or workers), alternating. Prints medians of images/s as markdown.
#
#   tools/bench/data_table.sh LARGE SMALL ROUNDS TORCH_PYTHON DALI_PYTHON
#
# LARGE, SMALL: folders with class folders of JPEG files, all of one size in each, such as 480x360 and 32x32. ROUNDS: odd.
# TORCH_PYTHON has torch, torchvision and Pillow; DALI_PYTHON has nvidia-dali. THREADS=2 and SECONDS_EACH=5 (a measurement of a peer) can be set.
# Needs a release build with decode_bench (ninja -C build/release decode_bench programs). Nothing else should run meanwhile.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
[ $# -eq 5 ] || { sed -n '2,10p' "$0" >&2; exit 2; }
large=$1 small=$2 rounds=$3 torch=$4 dali=$5
threads=${THREADS:-2} seconds=${SECONDS_EACH:-5}
bin=build/release/bin
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# data SOURCE DECODE EPOCHS -> a pipeline file with only the data stages
data() {
  cat <<EOF
[run]
name = "data"
epochs = $3
folder = ""
threads = $threads
[train]
flow = ["read", "decode_image", "augment", "batch"]
[train.read]
$1
shuffle = "every-epoch"
[train.decode_image]
$2
[train.augment]
flip_x = 0.5
[train.batch]
size = 64
EOF
}
rate() { "$bin/pipeline-run" "$1" --json --quiet | sed -n 's/.*"event":"pass".*"images_per_second":\([0-9.]*\).*/\1/p'; }
note() { echo "$2" >>"$work/$1"; }
median() { sort -g "$work/$1" | awk '{v[NR] = $1} END {if (NR) printf "%.0f", v[int((NR + 1) / 2)]; else printf "-"}'; }
# The last pair that decode_bench prints before its summary: bare, ours, ratio.
pair() { "$bin/decode_bench" "$@" | awk 'NF >= 6 && $3 ~ /^[0-9.]+$/ {bare = $1; ours = $2; ratio = $3} END {print bare, ours, ratio}'; }

epochs=4
data "stage = \"read_folder\"
path = \"$small\"" "size = [32, 32]" $epochs >"$work/folder.toml"
data "stage = \"read_tar\"
path = \"$work/shards\"" "size = [32, 32]" $epochs >"$work/tar.toml"
"$bin/pipeline-data" pack "$work/folder.toml" --out "$work/shards" --shard-size 64MB >/dev/null

for ((round = 1; round <= rounds; ++round)); do
  read -r bare ours ratio < <(pair "$large" "$threads" 1 64); note large.bare "$bare"; note large.ours "$ours"; note large.ratio "$ratio"
  read -r bare ours ratio < <(pair "$large" "$threads" 1 64 --crop 224); note crop.bare "$bare"; note crop.ours "$ours"; note crop.ratio "$ratio"
  read -r bare ours ratio < <(pair "$small" "$threads" 1 256); note small.bare "$bare"; note small.ours "$ours"; note small.ratio "$ratio"
  note folder.ours "$(rate "$work/folder.toml")"
  note tar.ours "$(rate "$work/tar.toml")"
  for peer in dataloader dali; do
    python=$torch
    [ $peer = dali ] && python=$dali
    note large.$peer "$("$python" tools/bench/data_peers.py $peer "$large" flip "$threads" "$seconds")"
    note crop.$peer "$("$python" tools/bench/data_peers.py $peer "$large" crop224 "$threads" "$seconds")"
    note small.$peer "$("$python" tools/bench/data_peers.py $peer "$small" flip "$threads" "$seconds")"
  done
  echo "round $round of $rounds done" >&2
done

echo "| images/s, $threads threads, median of $rounds | Millrace | bare libjpeg-turbo, whole image | ratio (median of pairs) | DataLoader | DALI, CPU |"
echo "|---|---|---|---|---|---|"
ratio() { sort -g "$work/$1.ratio" | awk '{v[NR] = $1} END {printf "%.2f", v[int((NR + 1) / 2)]}'; }
row() { echo "| $2 | $(median "$1.ours") | $(median "$1.bare") | $(ratio "$1") | $(median "$1.dataloader") | $(median "$1.dali") |"; }
row large "large files, whole, flip"
row crop "large files, random resized crop to 224, flip"
row small "small files, whole, flip"
echo "| small files by pipeline-run, from folders / from tar shards | $(median folder.ours) / $(median tar.ours) | | $(awk -v a="$(median tar.ours)" -v b="$(median folder.ours)" 'BEGIN {printf "%.2f", a / b}') | | |"
