#!/usr/bin/env python3
"""Compiles each changed source by itself: batches of sources (MILLRACE_UNITE) and precompiled headers hide an include that is missing.

    compile.py ROOT BUILD [--since COMMIT] [--seconds N]

Changed: since the commit that HEAD shares with origin/main or main, or else in the last 20 commits, and in the working tree. After the
changed sources come those that include a changed header, until the time is over; how many are left out then is printed. BUILD has the
options of each source, those of a batch too. Nothing is written. Exit code 77 without a history.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time

COMMITS = 20


def git(root, *words):
    run = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=False)
    return run.stdout.split() if run.returncode == 0 else []


def base_of(root):
    head = git(root, "rev-parse", "HEAD")
    for main in ("origin/main", "main"):
        shared = git(root, "merge-base", "HEAD", main)
        if shared and shared != head:
            return shared[0]
    ancestors = git(root, "rev-list", "--first-parent", f"--max-count={COMMITS + 1}", "HEAD")
    return ancestors[-1] if ancestors else ""


def changed_files(root, since):
    """Newest first."""
    names = git(root, "diff", "--name-only", "HEAD") + git(root, "log", "--first-parent", "-m", "--name-only", "--format=", f"{since}..HEAD")
    return [name for name in dict.fromkeys(names) if (root / name).exists()]


def plain(command):
    """The words of a command, without the precompiled header and what is written, to check one source."""
    words, kept = iter(shlex.split(command)), []
    for word in words:
        if word in ("-o", "-MF", "-MT", "-MQ", "-c", "-include"):
            following = next(words)
            if word == "-include" and "cmake_pch" not in following:
                kept += [word, following]
        elif word not in ("-MD", "-MMD", "-Winvalid-pch") and not re.fullmatch("-O.", word):
            kept.append(word)
    if "ccache" in " ".join(kept):  # which would keep nothing of this
        kept = kept[next(i for i, word in enumerate(kept) if word.endswith("ccache")) + 1:]
    return kept + ["-fsyntax-only"]


def commands(build):
    """{source: words that check it}, for sources in batches too."""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        file = pathlib.Path(entry["directory"], entry["file"])
        if file.suffix == ".cu" or "CMakeFiles" in file.parts and "Unity" not in file.parts:
            continue
        sources = [str(file)]
        if "Unity" in file.parts:
            sources = re.findall(r'^#include "(.+)"', file.read_text(encoding="utf-8"), re.MULTILINE) if file.exists() else []
        for source in filter(os.path.exists, sources):
            found.setdefault(os.path.realpath(source), (entry["directory"], plain(entry["command"])))
    return found


def chosen(root, known, files):
    """Changed sources, then those beside a changed header, then those that include one."""
    sources = [str(root / name) for name in files if name.endswith(".cpp")]
    headers = [name for name in files if name.endswith(".h")]
    sources += [str(root / name)[:-2] + ".cpp" for name in headers]
    names = {os.path.basename(name) for name in headers}
    if names:
        pattern = re.compile(r'#include ["<](?:[^">]*/)?(?:%s)[">]' % "|".join(map(re.escape, sorted(names))))
        sources += [source for source in sorted(known) if pattern.search(pathlib.Path(source).read_text(encoding="utf-8", errors="replace"))]
    return [source for source in dict.fromkeys(map(os.path.realpath, sources)) if source in known]


def complaint(source, command):
    folder, words = command
    run = subprocess.run([*words, source], cwd=folder, capture_output=True, text=True, check=False)
    return "" if run.returncode == 0 else f"{source} does not compile by itself:\n{run.stderr[-2000:]}"


def check(root, build, since, seconds):
    """(how many compile by themselves, how many are left out, what is wrong)"""
    known, end = commands(build), time.monotonic() + seconds
    sources = chosen(root, known, changed_files(root, since))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(lambda source: complaint(source, known[source]) if time.monotonic() < end else None, sources))
    return found.count(""), found.count(None), [each for each in found if each]


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("root", type=pathlib.Path)
    p.add_argument("build", type=pathlib.Path)
    p.add_argument("--since", default="")
    p.add_argument("--seconds", type=float, default=180)
    options = p.parse_args()
    root = options.root.resolve()
    since = options.since or base_of(root)
    if not since:
        print("skipped: there is no history of commits here")
        sys.exit(77)
    good, left, wrong = check(root, options.build.resolve(), since, options.seconds)
    print(f"since {since[:12]}: {good} sources compile by themselves, {len(wrong)} do not, {left} left out for lack of time")
    print("\n".join(wrong))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
