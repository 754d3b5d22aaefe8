"""Messages that the guides quote are those of the programs.

    messages.py ROOT [--list]

--list prints every message of the product instead, with its place, to be read from end to end; the longest sentences come first.

In tables whose first column is called `symptom` or `message`, what stands in backticks there is a message. Its words must be in a
source, names in quotes, numbers and "..." apart.

Messages and pages keep to the field's words: none of OLD stands in them.
"""

import pathlib
import re
import sys

import pages

GUIDES = ("pipelines/guide", "plugins/guide")
COLUMNS = ("symptom", "message")
FOLDERS = ("framework", "plugins", "tools")
OLD = {"goes on behind": "resumes from", "stands there twice": "is duplicated", " in vain": "was refused", "must be such as": "must look like",
       "course that is left": "abandoned branch", " anew": "again"}
OPEN = re.compile(r"'[^']*'|\.\.\.|\d+")  # what differs from one run to the next


def sources(root):
    """All strings of the product's sources; literals beside each other are one."""
    files = [file for folder in FOLDERS for kind in ("*.cpp", "*.h") for file in (root / folder).rglob(kind)]
    text = "\n".join(file.read_text(encoding="utf-8") for file in files if not file.stem.endswith(("_test", "_fixture")))
    return re.sub(r'"\s*\n\s*"', "", text).replace('\\"', '"')


def said(root):
    """(words of its longest sentence, place, text) of each message: what fail(), add() and warn() are given."""
    call = re.compile(r'(?:\bfail\(ErrorKind::\w+,|errors_?\.add\([^;"]*?|warn_?\(|\.text\(|text = fmt::format\()\s*(?:fmt::format\(\s*)?'
                      r'((?:"(?:[^"\\]|\\.)*"\s*)+)')
    for folder in FOLDERS:
        for file in sorted((root / folder).rglob("*.cpp")):
            source = file.read_text(encoding="utf-8")
            if file.stem.endswith(("_test", "_fixture")) or "testkit" in file.parts:
                continue
            for found in call.finditer(source):
                text = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', found.group(1))).replace('\\"', '"')
                words = max(len(sentence.split()) for sentence in re.split(r"[.;:]\s", text))
                yield words, f"{file.relative_to(root)}:{source.count(chr(10), 0, found.start()) + 1}", text


def messages(page):
    """(line, message) of the page's tables."""
    found, wanted = [], False
    for number, line in pages.prose(page):
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if not cells:
            wanted = False
        elif cells[0] in COLUMNS:
            wanted = True
        elif wanted:
            found += [(number, text) for text in re.findall(r"`([^`]+)`", cells[0])]
    return found


def old_words(root, text):
    """Where pages, or literals of the product, say what is said otherwise now."""
    found = [f"{page.relative_to(root)}:{number}: '{old}'; say {new}" for page in pages.pages(root)
             for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
             for old, new in OLD.items() if old in line]
    literals = re.findall(r'"(?:[^"\\\n]|\\.)*"', text)
    return found + [f"a message says '{old}' in {literal}; say {new}" for literal in literals
                    for old, new in OLD.items() if old in literal]


def check(root):
    text = sources(root)
    found = old_words(root, text)
    for page in sorted(page for folder in GUIDES for page in (root / folder).glob("*.md")):
        for number, message in messages(page):
            pieces = [piece.strip(" ;:,") for piece in OPEN.split(message)]
            found += [f"{page.relative_to(root)}:{number}: no program says '{piece}'"
                      for piece in pieces if len(piece.split()) > 1 and piece not in text]
    return found


if __name__ == "__main__":
    if "--list" in sys.argv:
        for words, place, text in sorted(said(pathlib.Path(sys.argv[1]).resolve()), reverse=True):
            print(f"{words:3} {place}: {text}")
        sys.exit()
    problems = check(pathlib.Path(sys.argv[1]).resolve())
    print("\n".join(problems) if problems else "the programs say what the guide quotes")
    sys.exit(bool(problems))
