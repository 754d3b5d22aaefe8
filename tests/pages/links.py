"""Links, their anchors and paths in the pages lead somewhere, and pages are short.

    links.py ROOT

A link is followed relative to its page. Text in backticks counts as a path when it begins with a folder of the tree, or when it
has a slash and its first part exists beside the page; a name of a source (`order.cpp`) must exist somewhere in the tree.
"""

import os
import pathlib
import re
import sys

import pages

MOST_WORDS = {"README.md": 700, "pipelines/guide/": 900, "pipelines/reference/": 900, "plugins/guide/": 900}
INDICES, MOST_LINES = ("framework/README.md", "pipelines/README.md", "plugins/README.md", "tools/README.md"), 150
MADE = "<!-- made by "
LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`]+)`")
PATH = re.compile(r"^[\w.+-]+(/[\w.+-]+)+/?$")
SOURCE = re.compile(r"^[a-z][\w-]*\.(h|cpp|cu|cuh|py|sh|cmake)$")
SKIPPED = {".git", "build", "data", "runs"}


def names_in(root):
    names = set()
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in SKIPPED and not name.startswith("build")]
        names.update(files)
    return names


def is_missing(text, page, root, names, own):
    """Whether `text` looks like a path of the tree and is none."""
    if SOURCE.match(text):
        return text not in names and text not in own
    if not PATH.match(text) or text in own or any(part.isupper() for part in text.split("/")):
        return False  # plugins/KIND/NAME stands for others
    if any((base / text).exists() for base in (page.parent, root, root / "framework/include", root / "framework")):
        return False
    first = text.split("/", 1)[0]
    return first in pages.FOLDERS or first == "millrace" or (page.parent != root and (page.parent / first).exists())


def leads_somewhere(target, page):
    """Whether the page, and the heading after '#' in it, are there."""
    if "://" in target:
        return True
    name, _, anchor = target.partition("#")
    other = page.parent / name if name else page
    return other.exists() and (not anchor or other.suffix != ".md" or anchor in pages.anchors(other))


def check_page(page, root, names):
    found = []
    own = {block.file for block in pages.blocks(page)}
    own |= {os.path.basename(file) for file in own if file}
    for number, line in pages.prose(page):
        at = f"{page.relative_to(root)}:{number}"
        found += [f"{at}: the link leads nowhere: {target}" for target in LINK.findall(line) if not leads_somewhere(target, page)]
        for text in CODE.findall(line):
            if is_missing(text, page, root, names, own):
                found.append(f"{at}: there is no '{text}' in the tree")
    return found


def length_problems(root):
    """Pages that are too long. Pages that are made from the programs are as long as these have keys."""
    found = []
    for page in pages.pages(root):
        name, text = str(page.relative_to(root)), page.read_text(encoding="utf-8")
        words, lines = len(text.split()), text.count("\n")
        most = next((most for start, most in MOST_WORDS.items() if name.startswith(start)), None)
        if most and words > most and MADE not in text:
            found.append(f"{name}: has {words} words, at most {most} are allowed: move some to another page")
        if name in INDICES and lines > MOST_LINES:
            found.append(f"{name}: has {lines} lines, at most {MOST_LINES} are allowed: it leads to other pages")
    return found


def check(root):
    names = names_in(root)
    return [problem for page in pages.pages(root) for problem in check_page(page, root, names)] + length_problems(root)


if __name__ == "__main__":
    problems = check(pathlib.Path(sys.argv[1]).resolve())
    print("\n".join(problems) if problems else "all links and paths lead somewhere")
    sys.exit(bool(problems))
