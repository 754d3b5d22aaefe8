# Completion of Millrace's programs in bash: options, keys after --set, names, files. The programs list them
# (PROGRAM --complete WORD...). bash-completion finds installed trees; otherwise: source tools/completion/millrace.bash
_millrace() {
  local typed=${COMP_LINE:0:COMP_POINT} words=() candidate text files=
  read -r -a words <<<"$typed"
  [[ $typed == *[[:space:]] ]] && words+=("")
  local last=${words[-1]}
  # Bash completes the part after the last '=' or ':' of a word.
  local before=${last%"${last##*[=:]}"}
  COMPREPLY=()
  while IFS=$'\t' read -r candidate text; do
    if [[ $candidate == :files ]]; then
      files=1
    else
      COMPREPLY+=("${candidate#"$before"}")
    fi
  done < <("${words[0]}" --complete "${words[@]:1}" 2>/dev/null)
  if [[ $files ]]; then
    compopt -o filenames 2>/dev/null
    while IFS= read -r candidate; do COMPREPLY+=("$candidate"); done < <(compgen -f -- "${last#"$before"}")
  fi
  [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
  return 0
}
complete -F _millrace pipeline-run pipeline-data pipeline-inspect pipeline-profile pipeline-report
