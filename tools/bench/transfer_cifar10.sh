#!/usr/bin/env bash
# Gain of transfer learning: airbench94 is trained on eight classes of CIFAR-10; then the other two are learned from 50 images of
# each, from its weights with a new last layer and the front frozen, and from scratch. Prints both accuracies on the 2,000 test images
# for some seeds.
# usage: tools/bench/transfer_cifar10.sh CIFAR10_FOLDER [EPOCHS_BEFORE [SEEDS [CLASS,CLASS]]]
#
# WEIGHTS=FILE: of the eight classes, from an earlier run; KEEP=FOLDER leaves the first run there. Rates, batches and epochs are the
# best of some tried for each of the two.
set -euo pipefail
data=$1 epochs=${2:-6} seeds=${3:-3} pair=${4:-airplane,ship}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
run=${PIPELINE_RUN:-$here/build/release/bin/pipeline-run}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Both as TOML lists of names.
list() { sed 's/[^ ]\+/"&"/g; s/ /,/g; s/.*/[&]/' <<<"$*"; }
two=$(list ${pair/,/ })
eight=
for class in airplane automobile bird cat deer dog frog horse ship truck; do
  [[ ,$pair, == *,$class,* ]] || eight+=" $class"
done
eight=$(list $eight)

# learn FILE CLASSES EPOCHS FOLDER [OPTIONS...]: prints the last validation's accuracy.
learn() {
  local file=$1 classes=$2 epochs=$3 folder=$4
  shift 4
  "$run" "$here/pipelines/$file" --set data.path="$data" --set train.read.only="$classes" --set validate.read.only="$classes" \
    --set run.epochs="$epochs" --set run.folder="$folder" --set validate.every=end --json --quiet "$@" |
    python3 -c 'import json, sys
print([e["accuracy"] for e in map(json.loads, sys.stdin) if e["event"] == "validate" and e["graph"] == "validate"][-1])'
}
# learn_few RATE BATCH SEED [OPTIONS...]: learns from a hundred images.
learn_few() {
  local rate=$1 batch=$2 seed=$3
  shift 3
  learn cifar10.toml "$two" 60 "" --set network.use=airbench94 --set network.classes=2 --set train.read.limit=100 \
    --set run.seed="$seed" --set train.batch.size="$batch" --set 'train.optimizer.scale_with_batch={ reference = 20 }' \
    --set train.optimizer.weight_decay=5e-4 \
    --set "train.optimizer.learning_rate={ initial = $rate, schedule = \"one_cycle\" }" "$@"
}

if [[ -z ${WEIGHTS:-} ]]; then
  folder=${KEEP:-$work/eight}
  echo "eight classes, $epochs epochs: $(learn cifar10_airbench.toml "$eight" "$epochs" "$folder" --set network.classes=8 \
    --set final.read.only="$eight")"
  WEIGHTS=$(ls "$folder"/*/latest/weights.safetensors)
fi
for ((seed = 1; seed <= seeds; ++seed)); do
  from_scratch=$(learn_few 0.2 20 "$seed")
  transferred=$(learn_few 0.05 50 "$seed" --weights "$WEIGHTS" --set 'network.new=["fc"]' \
    --set 'network.freeze=["whiten","group1","group2"]')
  echo "seed $seed: from scratch $from_scratch, transferred $transferred"
done
