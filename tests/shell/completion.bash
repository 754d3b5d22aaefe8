# completion.bash ROOT BUILD: what bash makes of command lines that are being typed, by the script that is installed.
PATH=$2/bin:$PATH
source "$1/tools/completion/millrace.bash"
cd "$1/pipelines" || exit 1
failed=0

# expect LINE WORD...: these words are among those that bash offers behind LINE; none at all: it offers none.
expect() {
  COMP_LINE=$1
  COMP_POINT=${#COMP_LINE}
  shift
  _millrace
  [[ $# -eq 0 && ${#COMPREPLY[@]} -ne 0 ]] && set -- "nothing"
  for word in "$@"; do
    [[ " ${COMPREPLY[*]} " == *" $word "* ]] && continue
    echo "'$COMP_LINE': expected $word, found ${COMPREPLY[*]:0:8}" >&2
    failed=1
  done
}

expect "pipeline-run --che" --check
expect "pipeline-run cla" classify
expect "pipeline-run cifar10_r" cifar10_resnet.toml
expect "pipeline-run --set train.batch.s" # no file is named yet
expect "pipeline-run quickstart.toml --set train.batch.si" train.batch.size=
expect "pipeline-run classify --set data.pa" data.path=
expect "pipeline-run classify --set train.read.li" train.read.limit=
expect "pipeline-run classify --set train.augment.border=re" reflect
expect "pipeline-run classify --set train.optimizer.nest" train.optimizer.nesterov=
expect "pipeline-run classify --set train.optimizer.type=ada" adamw
expect "pipeline-run classify --set network.use=resnet1" resnet18
expect "pipeline-run classify --set=run.deterministic=f" false
expect "pipeline-run classify --weights recipes/cl" recipes/classify.toml
expect "pipeline-run classify --steps 1"
expect "pipeline-profile quickstart.toml --la" --layers
expect "pipeline-report --so" --sort
expect "pipeline-inspect resnet1" resnet101 resnet18
expect "pipeline-inspect cross_ent" cross_entropy
expect "pipeline-data st" statistics
expect "pipeline-data show classify --set image.si" image.side=
expect "pipeline-data split classify --ou" --out
exit $failed
