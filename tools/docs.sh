#!/usr/bin/env bash
# Builds the site: the pages of the tree, with navigation, search, an API reference made from the headers and a list of all messages. It
# needs mkdocs, doxygen and graphviz, and nothing from the network; the site needs neither. usage: tools/docs.sh OUT
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
if [ $# -ne 1 ]; then
  echo "usage: tools/docs.sh OUT" >&2
  exit 2
fi
for program in mkdocs doxygen dot; do
  if ! command -v "$program" >/dev/null; then
    echo "docs.sh: $program is missing; tools/install-deps.sh mkdocs doxygen graphviz installs them" >&2
    exit 1
  fi
done
mkdir -p "$1"
out=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$root"

# The pages and their pictures, at their places in the tree, so that links between them work.
mkdir "$work/pages"
cp --parents ./*.md "$work/pages"
find framework pipelines plugins tests tools \( -name '*.md' -o -name '*.svg' -o -name '*.png' \) -print0 |
  xargs -0 cp --parents -t "$work/pages"

(cat tools/docs/Doxyfile; echo "OUTPUT_DIRECTORY = $work") | doxygen -
python3 tools/docs/api.py "$work/xml" "$work/pages/api"
python3 tools/docs/messages.py . "$work/pages/pipelines/reference/messages.md"

MILLRACE_DOCS=$work/pages mkdocs build --quiet --strict --clean --config-file tools/docs/mkdocs.yml --site-dir "$out"
echo "$out/index.html"
