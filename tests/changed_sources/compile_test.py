#!/usr/bin/env python3
"""compile.py finds what a batch of sources hides, and looks at no more than it should.   compile_test.py COMPILER"""

import json
import pathlib
import subprocess
import sys
import tempfile

import compile as tested

COMPILER = sys.argv[1]


def expect(found, wanted, what):
    if found != wanted:
        sys.exit(f"{what}: found {found}, expected {wanted}")


def commit(root):
    for words in (["add", "-A"], ["-c", "user.name=n", "-c", "user.email=n@example", "commit", "-qm", "all", "--no-verify"]):
        subprocess.run(["git", "-C", str(root), *words], check=True)


with tempfile.TemporaryDirectory() as name:
    root = pathlib.Path(name).resolve()
    subprocess.run(["git", "-C", name, "init", "-q"], check=True)
    build = root / "build"
    unity = build / "CMakeFiles/all.dir/Unity/unity_0_cxx.cxx"
    unity.parent.mkdir(parents=True)
    (root / ".gitignore").write_text("build\n")
    (root / "whole.cpp").write_text("#include <set>\nstd::set<int> whole;\n")
    (root / "lacks.cpp").write_text("int lacks;\n")
    (root / "old.cpp").write_text("int does not compile\n")
    (root / "part.h").write_text("#pragma once\n#include <map>\n")
    (root / "includes.cpp").write_text('#include "part.h"\nstd::map<int, int> includes;\n')
    unity.write_text("".join(f'#include "{root / file}"\n' for file in ("whole.cpp", "lacks.cpp", "old.cpp", "includes.cpp")))
    pch = "-Winvalid-pch -include /nowhere/cmake_pch.hxx"
    command = f"cmake -E env A=1 /usr/bin/ccache {COMPILER} -O3 {pch} -MD -MT u.o -MF u.o.d -o u.o -c {unity}"
    (build / "compile_commands.json").write_text(json.dumps([dict(directory=str(build), command=command, file=str(unity))]))
    commit(root)
    since = tested.git(root, "rev-parse", "HEAD")[0]
    expect(tested.check(root, build, since, 60), (0, 0, []), "nothing has changed")

    (root / "whole.cpp").write_text("#include <set>\nstd::set<int> whole, more;\n")
    (root / "lacks.cpp").write_text("std::set<int> lacks;\n")
    commit(root)
    good, left, wrong = tested.check(root, build, since, 60)
    expect((good, left, len(wrong)), (1, 0, 1), "an include that the batch hides")
    expect("lacks.cpp does not compile by itself" in wrong[0], True, wrong[0])
    expect(tested.check(root, build, since, -1), (0, 2, []), "no time")

    since = tested.git(root, "rev-parse", "HEAD")[0]
    (root / "part.h").write_text("#pragma once\n")  # in the working tree alone
    good, left, wrong = tested.check(root, build, since, 60)
    expect((good, left, len(wrong)), (0, 0, 1), "a source that lives on what a changed header has included")
    expect(tested.base_of(root) != "", True, "the beginning of a short history")
print("what is planted is found")
