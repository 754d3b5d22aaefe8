#!/usr/bin/env bash
# Finds the product's lines that tests execute: builds all of it for gcov into build/coverage, runs every test, and writes
# build/coverage/lines.txt, a line "file:line" for each that was executed. Two such files compare with `comm -23 before after`.
# Killed processes are not counted.
#
# usage: tools/coverage.sh [--target NAME]... [ctest option...]
# With targets nothing else is built: tools/coverage.sh --target framework_data_test -R '^Split[.]'
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=build/coverage
targets=()
while [[ ${1:-} == --target ]]; do
  targets+=(--target "${2:?--target needs a name}")
  shift 2
done

cmake --preset debug -B $build -DBUILD_TESTING=ON -DMILLRACE_UNITE=ON -DMILLRACE_CUDA=OFF -DMILLRACE_PRECOMPILE=OFF \
  -DCMAKE_CXX_FLAGS_DEBUG="-O1 --coverage -fprofile-update=atomic" >/dev/null
cmake --build $build ${targets[@]+"${targets[@]}"}
find $build -name '*.gcda' -delete
failed=0
ctest --test-dir $build --parallel 2 --label-exclude rebuild "$@" || failed=$?

python3 - $build <<'END'
import gzip, json, pathlib, subprocess, sys, tempfile

build, root, reached, known = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path.cwd(), set(), set()
for data in build.rglob("*.gcda"):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["gcov", "--json-format", data], cwd=folder, check=True, capture_output=True)
        for found in pathlib.Path(folder).glob("*.gz"):
            for file in json.loads(gzip.open(found).read())["files"]:
                path = pathlib.Path(build, file["file"]).resolve()
                if not path.is_relative_to(root) or path.is_relative_to(build):
                    continue
                name = str(path.relative_to(root))
                if name.startswith("tests/") or name.endswith(("_test.cpp", "_fixture.cpp")):
                    continue
                for line in file["lines"]:
                    known.add(f"{name}:{line['line_number']}")
                    if line["count"]:
                        reached.add(f"{name}:{line['line_number']}")
(build / "lines.txt").write_text("".join(line + "\n" for line in sorted(reached)))
print(f"{len(reached)} of {len(known)} lines: {100 * len(reached) / max(1, len(known)):.1f} %")
END
exit $failed
