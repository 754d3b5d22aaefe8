# completion.zsh ROOT BUILD: what zsh offers behind command lines, by the function that is installed. The two functions of zsh that
# show what is offered only print it here.
PATH=$2/bin:$PATH
fpath=($1/tools/completion $fpath)
autoload -U _millrace
_describe() { [[ $1 == -V ]] && shift 2; print -l -- "${(@P)1}" }
_files() { print -- files }
cd $1/pipelines || exit 1
failed=0

# expect LINE TEXT: what zsh offers behind LINE has this line.
expect() {
  words=(${(s: :)1})
  [[ $1 == *' ' ]] && words+=('')
  CURRENT=$#words
  offered=$(_millrace)
  [[ $'\n'$offered$'\n' == *$'\n'$2$'\n'* ]] && return
  print -u2 -- "'$1': expected $2, found ${offered[1,200]}"
  failed=1
}

expect "pipeline-run --quie" "--quiet:only warnings, bad samples and requested output on standard error: observe.console.quiet"
expect "pipeline-run classify --set train.augment.flip_x" "train.augment.flip_x=:probability of mirroring left to right (0.5)"
expect "pipeline-run classify --set train.augment.border=re" "train.augment.border=reflect:"
expect "pipeline-run cla" "classify:"
expect "pipeline-run cla" "files"
expect "pipeline-data sta" "statistics:mean, deviation, sizes, labels"
exit $failed
