#!/usr/bin/env bash
# What transfer learning brings: a network is trained on eight classes of CIFAR-10; then the other two are learned from 50 images of
# each, from its weights with a new last layer, and from scratch. Prints both accuracies on the 2,000 test images for some seeds.
# usage: tools/bench/transfer_cifar10.sh CIFAR10_FOLDER [EPOCHS_BEFORE [SEEDS [CLASS,CLASS]]]
set -euo pipefail
data=$1 epochs=${2:-8} seeds=${3:-3} pair=${4:-dog,horse}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
run=${PIPELINE_RUN:-$here/build/release/bin/pipeline-run}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Both as TOML has lists of names.
list() { sed 's/[^ ]\+/"&"/g; s/ /,/g; s/.*/[&]/' <<<"$*"; }
two=$(list ${pair/,/ })
eight=
for class in airplane automobile bird cat deer dog frog horse ship truck; do
  [[ ,$pair, == *,$class,* ]] || eight+=" $class"
done
eight=$(list $eight)

# learn CLASSES EPOCHS BATCH RATE FOLDER [OPTIONS...]: prints the last validation's accuracy.
learn() {
  local classes=$1 epochs=$2 batch=$3 rate=$4 folder=$5
  shift 5
  "$run" "$here/pipelines/cifar10.toml" --set data.root="$data" --set train.read.only="$classes" \
    --set validate.read.only="$classes" --set run.epochs="$epochs" --set run.folder="$folder" --set validate.every=end \
    --set "train.optimizer.learning_rate={ initial = $rate, schedule = \"cosine\" }" --set train.optimizer.weight_decay=5e-4 \
    --set train.batch.size="$batch" --json --quiet "$@" |
    python3 -c 'import json, sys; print([e["accuracy"] for e in map(json.loads, sys.stdin) if e["event"] == "validate"][-1])'
}

eight_accuracy=$(learn "$eight" "$epochs" 128 0.1 "$work/eight" --set network.classes=8)
echo "eight classes, $epochs epochs: $eight_accuracy"
weights=$(ls "$work"/eight/*/*/weights.safetensors)
for ((seed = 1; seed <= seeds; ++seed)); do
  options=(--set network.classes=2 --set train.read.limit=100 --set run.seed="$seed")
  from_scratch=$(learn "$two" 60 20 0.1 "$work/scratch$seed" "${options[@]}")
  transferred=$(learn "$two" 30 20 0.02 "$work/transfer$seed" "${options[@]}" --weights "$weights" --set 'network.new=["fc"]' \
    --set 'train.optimizer.groups=[{ match = "fc.*", rate_factor = 10 }]')
  echo "seed $seed: from scratch (60 epochs) $from_scratch, transferred (30 epochs) $transferred"
done
