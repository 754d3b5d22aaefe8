"""Makes a page of the programs' error messages and warnings, from the calls that print them.

    messages.py ROOT OUT.md

Taken are literals in fail(ErrorKind::..., "..."), in fail(... kind, "..."), in add(..., "...") of a list of mistakes, and in warn(...) and doubt(...). What a
call fills in is shown as an ellipsis. What names the place (file, line, stage, sample) is put before it when it is thrown on, so it is not here.
"""

import pathlib
import re
import sys

TOKEN = re.compile(r"""//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|[A-Za-z_][\w:]*|->|\s+|.""", re.DOTALL)
FIELD = re.compile(r"(?<!\{)\{[^{}]*\}")
MISTAKES = {"errors.add", "errors_.add"}
PASSED_ON = {"", "fmt::format"}  # calls and brackets in which a literal is still the message
FEWEST_WORDS = 4
KINDS = {
    "usage": "A file or an option is wrong (exit code 2)",
    "data": "The data cannot be used (exit code 3)",
    "content": "One sample is bad (the policy for bad samples decides; exit code 3 where it ends the run)",
    "storage": "A disk failed, or a server answered what cannot be used (exit code 1)",
    "device": "A device failed (exit code 4)",
    "peer": "Another process of the run is gone (exit code 138)",
    "run": "Something else ended the run (exit code 1)",
    "cause": "The cause decides the exit code: 75 where a server did not answer, so try again",
    "warning": "Warnings",
}


class Calls:
    """The open brackets at a place of a source, each with the name before it and the kind of error that stands in it."""

    def __init__(self):
        self.open, self.previous, self.receiver = [], "", ""

    def see(self, token):
        if token in "([{":
            name = self.previous if re.match(r"\w", self.previous) else ""
            self.open.append([f"{self.receiver}.add" if name == "add" else name, None])
        elif token in ")]}" and self.open:
            self.open.pop()
        elif token.startswith("ErrorKind::") and self.open:
            self.open[-1][1] = token.removeprefix("ErrorKind::")
        elif token == "kind" and self.open and self.open[-1][0] == "fail":  # fail(kind, ...), fail(verdict.kind, ...), fail(error.kind(), ...)
            self.open[-1][1] = "cause"
        if token in (".", "->"):
            self.receiver = self.previous
        self.previous = token

    def kind(self):
        """The kind of a literal here, or None."""
        for name, kind in reversed(self.open):
            if name == "fail":
                return kind
            if name in MISTAKES:
                return "usage"
            if name.startswith("warn") or name == "doubt":
                return "warning"
            if name not in PASSED_ON:
                return None
        return None


def messages_of(source):
    calls, text = Calls(), ""
    for match in TOKEN.finditer(source):
        token = match.group(0)
        if token.isspace() or token.startswith(("//", "/*")):
            continue
        if token.startswith('"'):  # adjacent literals are one
            text += token[1:-1]
            continue
        if text:
            if (kind := calls.kind()) in KINDS and len(text.split()) >= FEWEST_WORDS:
                yield kind, text
            text = ""
        calls.see(token)


def shown(text):
    text = FIELD.sub("…", text.replace('\\"', '"').replace("\\n", " ").replace("\\\\", "\\"))
    return text.replace("{{", "{").replace("}}", "}").strip(" :;,").replace("…'…", "…")


def home(path):
    """What a reader knows the file as: a plugin, a folder of the framework, a program."""
    parts = path.parts
    named = parts[2] if parts[0] == "plugins" and len(parts) > 3 else parts[1]
    return "framework" if named == "include" else named


def collect(root):
    found = {}
    for part in ("framework", "plugins", "tools"):
        for path in sorted((root / part).rglob("*")):
            if path.suffix not in (".cpp", ".h", ".cu", ".cuh") or path.name.endswith("_test.cpp") or "testkit" in path.parts:
                continue
            at = path.relative_to(root)
            for kind, text in messages_of(path.read_text(encoding="utf-8")):
                found.setdefault(kind, {}).setdefault(shown(text), set()).add(home(at))
    return found


def page(found):
    lines = ["# Messages", "", "Error messages and warnings, by their effect. An ellipsis stands for what a "
             "message names. Search here for the words that you see; [when it goes wrong](../guide/when-it-goes-wrong.md) goes from "
             "symptoms to causes.", ""]
    for kind, title in KINDS.items():
        lines += [f"## {title}", "", "| message | from |", "|---|---|"]
        for text, homes in sorted(found[kind].items(), key=lambda item: re.sub(r"\W", "", item[0]).lower()):
            cell = re.sub(r"[^\w\s…]", lambda sign: f"&#{ord(sign.group(0))};", text)  # escapes Markdown
            lines.append(f"| {cell} | {', '.join(sorted(homes))} |")
        lines.append("")
    return "\n".join(lines)


def main():
    root, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    found = collect(root)
    missing = [kind for kind in KINDS if kind not in found]
    if missing:
        sys.exit(f"messages.py: no message of kind {', '.join(missing)} was found: the calls that this script looks for have changed")
    out.write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    main()
