"""The C++ and TOML examples in the pages are right.

    examples.py ROOT COMPILER

A C++ block either names its file in the first line (`// invert/invert.cpp`) and is compiled, or stands behind a comment
`<!-- part of FILE -->` and its lines stand in that file, in this order and without others between them ("..." leaves some out).
A TOML block is parsed. Compiling means -fsyntax-only against the public headers, with warnings as errors.
"""

import pathlib
import subprocess
import sys
import tempfile

import pages

try:
    import tomllib
except ImportError:  # Python before 3.11
    tomllib = None

FLAGS = ["-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function"]


def lines_of(text):
    return [line.strip() for line in text.splitlines() if line.strip()]


def contains(whole, part):
    return any(whole[at : at + len(part)] == part for at in range(len(whole) - len(part) + 1))


def check_part(block, root):
    if not block.note.startswith("part of "):
        return "say which file it is in the first line (// a/b.cpp), or <!-- part of FILE --> before the block"
    file = root / block.note.removeprefix("part of ")
    if not file.is_file():
        return f"there is no '{block.note.removeprefix('part of ')}'"
    pieces, whole = [[]], lines_of(file.read_text(encoding="utf-8"))
    for line in lines_of(block.text):
        if line == "...":
            pieces.append([])
        else:
            pieces[-1].append(line)
    for piece in pieces:
        if not contains(whole, piece):
            return f"is not in {block.note.removeprefix('part of ')}: {piece[0]} ..."
    return ""


def write(block, folder):
    file = folder / block.file
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(block.text, encoding="utf-8")
    return file


def compiled(file, root, compiler):
    includes = ["-I", str(root / "framework/include"), "-I", str(file.parent)]
    run = subprocess.run([compiler, *FLAGS, *includes, str(file)], capture_output=True, text=True, check=False)
    return "" if run.returncode == 0 else "does not compile:\n" + run.stderr


def check_page(page, root, compiler):
    found, sources = [], []
    with tempfile.TemporaryDirectory() as folder:
        for block in pages.blocks(page):
            problem = ""
            if block.language == "cpp" and block.file:
                file = write(block, pathlib.Path(folder))
                if file.suffix == ".cpp":
                    sources.append((block, file))
            elif block.language == "cpp":
                problem = check_part(block, root)
            elif block.language == "toml" and tomllib:
                try:
                    tomllib.loads(block.text)
                except tomllib.TOMLDecodeError as error:
                    problem = f"is no TOML: {error}"
            if problem:
                found.append(f"{block.at(root)}: {problem}")
        for block, file in sources:  # when their headers are there
            if problem := compiled(file, root, compiler):
                found.append(f"{block.at(root)}: {problem}")
    return found


def check(root, compiler):
    return [problem for page in pages.pages(root) for problem in check_page(page, root, compiler)]


if __name__ == "__main__":
    problems = check(pathlib.Path(sys.argv[1]).resolve(), sys.argv[2])
    print("\n".join(problems) if problems else "all examples compile")
    sys.exit(bool(problems))
