#!/usr/bin/env bash
# Lists subjects of commits that are not imperatives of at most 72 characters (CONTRIBUTING.md). Exit code 1 if there are any.
#   tools/check-commits.sh          of commits that are not in the upstream branch yet, so that they can still be changed
#   tools/check-commits.sh FILE     of the message in FILE, as git's hook commit-msg calls it
set -euo pipefail

# The error of a subject; empty if it is valid. Checks only a verb's form, and words that cannot begin an imperative.
fault_of() {
  local subject=$1 verb
  verb=${subject#*: }
  verb=${verb%% *}
  [ ${#subject} -le 72 ] || { echo "${#subject} characters, 72 are allowed"; return; }
  case ${verb,,} in
    *ss | process | focus | alias | bias | need | speed | feed | seed | shed | embed | exceed | proceed | bring | string | ring) ;;
    the | a | an | no | its | this | these | all | each | every | it | what | which | is | are | does | now | of | with | in | on | for | and | or | *ed | *ing | *s)
      echo "'$verb' is not an imperative: write an order, such as 'add' or 'refuse'" ;;
  esac
}

subjects() {
  if [ $# -gt 0 ]; then
    sed -n '/^#/d; /./{p;q}' "$1"
  elif git rev-parse --verify --quiet '@{upstream}' >/dev/null 2>&1; then
    git log --no-merges --format=%s '@{upstream}..'
  fi
}

found=0
while IFS= read -r subject; do
  case $subject in fixup!* | squash!* | Merge\ * | Revert\ *) continue ;; esac
  fault=$(fault_of "$subject")
  [ -z "$fault" ] || { echo "check-commits.sh: '$subject': $fault" >&2; found=1; }
done < <(subjects "$@")
exit $found
