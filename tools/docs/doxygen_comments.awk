# Converts the author headers for Doxygen: plain comments become its own. `//` lines before a declaration describe it, and
# so does a comment after it. Indented lines are code. The first comment of a file describes the file. A comment with a blank line
# after it describes nothing that Doxygen lists.

# Escapes text that Doxygen would treat as commands, outside code in backticks.
function escaped(text,    parts, count, i, result) {
  count = split(text, parts, "`")
  for (i = 1; i <= count; ++i) {
    if (i % 2) {
      gsub(/\\/, "\\\\\\\\", parts[i])
      gsub(/::/, "\\::", parts[i])
      gsub(/[@<>#%$]/, "\\\\&", parts[i])
    }
    result = result (i > 1 ? "`" : "") parts[i]
  }
  return result
}

function keep(line) { kept = kept line "\n" }

function end_code() {
  if (in_code) keep("/// @endcode")
  in_code = 0
  blank_lines = 0
}

FNR == 1 { keep("/// @file") }

/^ *\/\/ (----|clang-format|NOLINT)/ { next }  # sections, and words for other tools

/^ *\/\// {
  text = $0
  sub(/^ *\/\/ ?/, "", text)
  if (text ~ /^  /) {
    if (!in_code) keep("/// @code{.cpp}")
    in_code = 1
    for (; blank_lines > 0; --blank_lines) keep("///")
    keep("/// " substr(text, 3))
  } else if (text == "" && in_code) {
    ++blank_lines
  } else {
    end_code()
    keep("/// " escaped(text))
  }
  next
}

{
  end_code()
  if ($0 !~ /^ *$/) printf "%s", kept
  kept = ""
  if (match($0, /[;,}]  +\/\/ /)) {
    print substr($0, 1, RSTART) " ///< " escaped(substr($0, RSTART + RLENGTH))
  } else {
    print
  }
}
