"""The C++ and TOML examples in the pages are right.

    examples.py ROOT COMPILER

A C++ block either names its file in the first line (`// invert/invert.cpp`) and is compiled, or stands after a comment
`<!-- part of FILE -->` and its lines stand in that file, in this order and without others between them ("..." leaves some out).
A TOML block is parsed. Compiling means -fsyntax-only against the public headers, with warnings as errors.

The example in the comment that a header begins with is an excerpt of blocks after `<!-- example of HEADER -->`: its lines stand in
them, in this order; a line with "..." is not compared. Each author header has such a block in plugins/guide, so that what it shows
is compiled.
"""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import pages

try:
    import tomllib
except ImportError:  # Python before 3.11
    tomllib = None

FLAGS = ["-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-x", "c++"]
EXAMPLE = "example of "


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
    includes = ["-I", str(root / "framework/include"), "-I", str(root / "framework"), "-I", str(file.parent)]
    what = [str(file)] if file.suffix == ".cpp" else ["-include", str(file), os.devnull]
    run = subprocess.run([compiler, *FLAGS, *includes, *what], capture_output=True, text=True, check=False)
    return "" if run.returncode == 0 else "does not compile:\n" + run.stderr


def is_included(file, others):
    return any(f'#include "{file.name}"' in other.text for other in others)


def check_page(page, root, compiler, folder):
    """What is wrong, and the calls that say what does not compile."""
    found, sources, blocks = [], [], pages.blocks(page)
    for block in blocks:
        problem = ""
        if block.language == "cpp" and block.file:
            sources.append((block, write(block, folder / page.stem)))
        elif block.language == "cpp":
            problem = check_part(block, root)
        elif block.language == "toml" and tomllib:
            try:
                tomllib.loads(block.text)
            except tomllib.TOMLDecodeError as error:
                problem = f"is no TOML: {error}"
        if problem:
            found.append(f"{block.at(root)}: {problem}")

    def compile_block(block, file):
        problem = compiled(file, root, compiler)
        return [f"{block.at(root)}: {problem}"] if problem else []
    return found, [lambda pair=pair: compile_block(*pair) for pair in sources if not is_included(pair[1], blocks)]


def example_of(header):
    """The lines of the first code in the comment that the header begins with, without comments after them."""
    groups = re.findall(r"(?:^//(?:   .*)?\n)+", header.read_text(encoding="utf-8").split("#pragma once")[0], re.MULTILINE)
    for group in groups:
        lines = code_lines(re.sub(r"^//", "", group, flags=re.MULTILINE))
        if any(line.endswith((";", "{", "}")) for line in lines):
            return [line for line in lines if "..." not in line]
    return []


def code_lines(text):
    """What is compared of code: no comments, no namespace, no layout, and no "my_" where a name is taken."""
    return lines_of(re.sub(r"(^| +)// .*$", "", text, flags=re.MULTILINE).replace("millrace::", "").replace('"my_', '"'))


def check_excerpts(root):
    shown = {}
    for page in pages.pages(root):
        for block in pages.blocks(page):
            if block.note.startswith(EXAMPLE):
                shown.setdefault(block.note.removeprefix(EXAMPLE), []).append(block)
    found = []
    for header in sorted((root / "framework/include/millrace").glob("*.h")):
        name = str(header.relative_to(root))
        if name not in shown and header.name != "plugin.h":  # which has that of stage.h
            found.append(f"{name}: no block of plugins/guide says <!-- {EXAMPLE}{name} -->")
    for name, blocks in shown.items():
        lines = iter([line for block in blocks for line in code_lines(block.text)])
        missing = next((line for line in example_of(root / name) if line not in lines), None)
        if missing:
            found.append(f"{blocks[0].at(root)}: is not the example of {name}, which says: {missing}")
    return found


def check(root, compiler):
    found, calls = check_excerpts(root), []
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for page in pages.pages(root):
            problems, more = check_page(page, root, compiler, pathlib.Path(folder) / str(page.parent.relative_to(root)))
            found, calls = found + problems, calls + more
        return found + [problem for problems in pool.map(lambda call: call(), calls) for problem in problems]


if __name__ == "__main__":
    problems = check(pathlib.Path(sys.argv[1]).resolve(), sys.argv[2])
    print("\n".join(problems) if problems else "all examples compile")
    sys.exit(bool(problems))
