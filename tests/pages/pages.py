"""The project's pages, as the checks here see them: which files they are, and the fenced blocks in them."""

import dataclasses
import pathlib
import re

FOLDERS = ("framework", "plugins", "pipelines", "tests", "tools")
NAMED = re.compile(r"^(?://|#) ([\w./-]+\.(?:toml|cpp|h|txt|csv))$")  # the first line of a block that is a file
FENCE = re.compile(r"^```(\w*)((?: [\w=./-]+)*)\s*$")
NOTE = re.compile(r"^<!-- (.*) -->$")


@dataclasses.dataclass
class Block:
    page: pathlib.Path
    line: int  # number of the first line in the fence
    language: str
    words: list  # behind the language, on the line of the fence
    text: str
    note: str  # comment on the line before the fence: "not run: it needs a GPU"

    @property
    def file(self):
        """The name that the block's first line gives it, or a word of the fence (`csv file=tags.csv`), or nothing."""
        if name := self.word("file"):
            return name
        named = NAMED.match(self.text.split("\n", 1)[0])
        return named.group(1) if named else None

    def word(self, key):
        return next((word.removeprefix(f"{key}=") for word in self.words if word.startswith(f"{key}=")), "")

    def at(self, root):
        return f"{self.page.relative_to(root)}:{self.line}"


def pages(root):
    found = [root / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md") if (root / name).exists()]
    for folder in FOLDERS:
        found += sorted((root / folder).rglob("README.md"))
    for pattern in ("framework/flow.md", "pipelines/guide/*.md", "pipelines/reference/*.md", "plugins/guide/*.md"):
        found += sorted(root.glob(pattern))
    return found


def blocks(page):
    found, open_block, note = [], None, ""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        fence = FENCE.match(line)
        if open_block is not None:
            if line.strip() == "```":
                found.append(open_block)
                open_block = None
            else:
                open_block.text += line + "\n"
        elif fence:
            open_block = Block(page, number + 1, fence.group(1), fence.group(2).split(), "", note)
        if line.strip():
            comment = NOTE.match(line.strip())
            note = comment.group(1) if comment else ""
    if open_block is not None:
        raise ValueError(f"{page}:{open_block.line}: the fence is never closed")
    return found


def prose(page):
    """(number, line) of everything outside fences."""
    inside, lines = False, []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("```"):
            inside = not inside
        elif not inside:
            lines.append((number, line))
    return lines


def anchors(page):
    """What a link to a heading of the page may say after '#'."""
    found = set()
    for _, line in prose(page):
        if heading := re.match(r"^#+ (.*)$", line):
            text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading.group(1))
            found.add(re.sub(r"[^\w -]", "", text.lower()).replace(" ", "-"))
    return found
