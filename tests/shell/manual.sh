# manual.sh ROOT BUILD: the built pages are valid for mandoc, and match --help.
command -v mandoc >/dev/null || { echo "skipped: mandoc is missing, which reads the pages"; exit 77; }
failed=0
for program in pipeline-run pipeline-data pipeline-inspect pipeline-profile pipeline-report; do
  page=$2/share/man/man1/$program.1
  # Without a date: the same sources give the same page.
  faults=$(mandoc -T lint -W warning "$page" | grep -v 'missing date')
  text=$(mandoc -T utf8 "$page" | sed 's/.\x08//g')
  for option in $("$2/bin/$program" --help | sed -n 's/^  \(--[a-z-]*\).*/\1/p'); do
    case $text in *"$option"*) ;; *) faults="$faults $option is missing" ;; esac
  done
  case $text in *"EXIT STATUS"*"SEE ALSO"*) ;; *) faults="$faults a section is missing" ;; esac
  [ -z "$faults" ] || { echo "$program: $faults" >&2; failed=1; }
done
case $text in *"$program - "*) ;; *) echo "$program: no line for man -k" >&2; failed=1 ;; esac
exit $failed
