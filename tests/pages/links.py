"""Links and paths in the pages lead somewhere, and the root page is short.

    links.py ROOT

A link is followed relative to its page. Text in backticks counts as a path when it begins with a folder of the tree, or when it
has a slash and its first part exists beside the page; a name of a source (`order.cpp`) must exist somewhere in the tree.
"""

import os
import pathlib
import re
import sys

import pages

MOST_WORDS = 1500
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


def check_page(page, root, names):
    found = []
    own = {block.file for block in pages.blocks(page)}
    own |= {os.path.basename(file) for file in own if file}
    for number, line in pages.prose(page):
        at = f"{page.relative_to(root)}:{number}"
        for target in LINK.findall(line):
            if "://" not in target and not (page.parent / target.split("#")[0]).exists():
                found.append(f"{at}: the link leads nowhere: {target}")
        for text in CODE.findall(line):
            if is_missing(text, page, root, names, own):
                found.append(f"{at}: there is no '{text}' in the tree")
    return found


def check(root):
    found, names = [], names_in(root)
    for page in pages.pages(root):
        found += check_page(page, root, names)
    words = len((root / "README.md").read_text(encoding="utf-8").split())
    if words > MOST_WORDS:
        found.append(f"README.md: has {words} words, at most {MOST_WORDS} are allowed: move some to the page of a folder")
    return found


if __name__ == "__main__":
    problems = check(pathlib.Path(sys.argv[1]).resolve())
    print("\n".join(problems) if problems else "all links and paths lead somewhere")
    sys.exit(bool(problems))
