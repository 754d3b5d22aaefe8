#!/usr/bin/env python3
"""Rehearses visits to a GPU machine (visit.py) without one.

`wrong`: programs that stand for the real ones answer at once, fail, crash, hang, end early and lose the device. One of PyTorch's
sides answers as it should, the other never becomes ready; a sanitizer reports. The first visit ends as a
lease may end, without a word: killed while a test runs. Its journal must hold everything that was done till then. The second
visit goes on from it; a third is stopped by a signal, and one that lacks a program ends at once.

`commands`: the real programs on the simulated GPU, each with few images and one turn. Nothing is slow on purpose here, so every
limit is a whole one, and a busy machine changes nothing.

  rehearsal.py wrong|commands BUILD_FOLDER WORK_FOLDER
"""

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import time

KIND, BUILD, WORK = sys.argv[1], *(os.path.abspath(word) for word in sys.argv[2:4])
GPU = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROGRAMS, FIRST, SECOND, THIRD, FOURTH = (os.path.join(WORK, name) for name in ("programs", "first", "second", "third", "fourth"))
SCALE, PATIENCE = 0.1, 4  # of `wrong`: seconds for a second of the schedule; seconds after which a test hangs
PEER = """
import json, os, sys, time
say = lambda **figures: print(json.dumps(figures), flush=True)
say(loaded=True)
{ready}
for i, _ in enumerate(sys.stdin):
    say(images_per_second=100.0 + i, seconds=0.01)
"""
READY = PEER.format(ready="say(ready=True)")
NEVER_READY = PEER.format(ready="os.listdir(sys.argv[sys.argv.index('--data') + 1])\ntime.sleep(3600)")
# Programs of `wrong`.
INSPECT = """#!/bin/sh
echo "simulated:0 acted out"
"""
SHAPES = """#!/bin/sh
mkdir -p "$2/train/circle" && : >"$2/train/circle/1.jpg"
"""
TRAINING = """#!/bin/sh
echo '{"event": "epoch", "graph": "train", "seconds": 0.5}'
echo '{"event": "epoch", "graph": "train", "seconds": 0.25}'
echo '{"event": "validate", "graph": "validate", "accuracy": 0.5}'
echo '{"event": "validate", "graph": "final", "accuracy": 0.625}'
"""
BENCH = """#!/bin/sh
case "$*" in *--layers*) exit ;; esac
echo '{"ready": true}'
while read -r line; do echo '{"images_per_second": 200, "seconds": 0.01}'; done
"""
WATCH = """#!/bin/sh
case "$*" in *loop-ms*) while :; do echo "1980, 2619, 512.25, 54, 0x0000000000000004"; sleep 0.05; done ;; esac
echo acted out
"""
SANITIZER = """#!/bin/sh
case "$*" in *racecheck*) echo "========= RACECHECK SUMMARY: 2 hazards displayed" ;; *) echo "ERROR SUMMARY: 0 errors" ;; esac
"""
# The planted tests pass for all tests of a visit in `wrong`; in `commands` one real test does.
PLANTED_TESTS = """#!/bin/sh
exec %s/planted_gpu/gpu_planted_test "$@"
"""
REAL_TEST = """#!/bin/sh
case "${1#--gtest_filter=}" in "*GpuOperators.AgreeInFloat32"*) exec %s/gpu_backend_test --gtest_filter=%s-"${1##*-}" ;; esac
"""
SIZES = "--batch 8 --precision fp32 --steps 1 --warm-up 1"
NAMES = {"backend": "simulated", "network": "quickstart", "sizes": SIZES, "small_network": "quickstart", "small_sizes": SIZES,
         "shapes": "--size 64 --count 40", "traced": "", "python": sys.executable, "programs": PROGRAMS,
         "cifar10": os.path.join(WORK, "cifar10"), "photographs": os.path.join(WORK, "photographs"),
         "sanitizer": os.path.join(WORK, "sanitizer"), "nvidia_smi": os.path.join(WORK, "nvidia-smi"),
         "airbench": "--set=network.use=quickstart --set=train.optimizer.groups=[] --set=run.epochs=1 --set=train.batch.size=8 "
                     "--set=train.read.limit=16 --set=final.read.limit=8 --set=validate.read.limit=8",
         "files": "--set=network.use=quickstart --set=run.precision=fp32 --set=train.batch.size=8 --set=train.read.limit=16 "
                  "--set=train.decode_image.size=[32,32]"}
PLANTED = {"PassesFirst": "passed", "Fails": "failed", "IsSkipped": "skipped", "Crashes": "crashed",
           "PassesBehindACrash": "passed", "LosesTheDevice": "failed", "PassesBehindALostDevice": "passed",
           "EndsTheProgram": "crashed", "Hangs": "hung", "PassesLast": "passed"}
UNDER_WAY = "GpuReplica.IsUnderWayWhenTheLeaseEnds"
REAL = "Fixed/GpuOperators.AgreeInFloat32/LinearRelu"


def expect(condition, text):
    if not condition:
        sys.exit("rehearsal: " + text)


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)
    os.chmod(path, 0o755)


def link(source, *place):
    os.makedirs(os.path.dirname(os.path.join(PROGRAMS, *place)), exist_ok=True)
    os.symlink(source, os.path.join(PROGRAMS, *place))


def make_programs():
    tests = os.path.join(BUILD, "tests")
    program = lambda name, text: write(os.path.join(PROGRAMS, name), text)
    if KIND == "wrong":
        for name, text in (("inspect", INSPECT), ("data", SHAPES), ("run", TRAINING)):
            program("bin/pipeline-" + name, text)
        program("tests/gpu_step_bench", BENCH)
        program("tests/gpu_backend_test", PLANTED_TESTS % tests)
        program("tests/peers/airbench.py", NEVER_READY)
        write(os.path.join(WORK, "data/train/1.jpg"), "x")
        with open(os.path.join(WORK, "data/much"), "wb") as file:
            file.truncate(1 << 26)  # unpacking takes longer than Python takes to start a peer
    else:
        for name in ("bin", "lib", "share"):
            link(os.path.join(BUILD, name), name)
        link(os.path.join(tests, "gpu_step_bench"), "tests/gpu_step_bench")
        program("tests/gpu_backend_test", REAL_TEST % (tests, REAL))
        program("tests/peers/airbench.py", READY)
        subprocess.run([os.path.join(BUILD, "bin/pipeline-data"), "shapes", os.path.join(WORK, "data"), "--count", "40",
                        "--validation", "20"], check=True, stdout=subprocess.DEVNULL)
    link(os.path.join(GPU, "pipelines"), "tests/pipelines")
    program("tests/gpu_kernels_test", "#!/bin/sh\n")
    program("tests/conformance_test", "#!/bin/sh\n")
    program("tests/peers/resnet50.py", READY)
    write(NAMES["sanitizer"], SANITIZER if KIND == "wrong" else "#!/bin/sh\n")
    write(NAMES["nvidia_smi"], WATCH)
    os.makedirs(os.path.join(WORK, "lend"))
    shutil.copy(os.path.join(GPU, "visit.py"), os.path.join(WORK, "lend"))
    shutil.make_archive(os.path.join(WORK, "lend/cifar10"), "xztar", WORK, "data")


def visit(out, *more):
    words = [sys.executable, os.path.join(WORK, "lend/visit.py"), "--out", out]
    words += [*more, "--scale", str(SCALE), "--patience", str(PATIENCE)] if KIND == "wrong" else [*more, "--turns", "1"]
    words += ["--set=%s=%s" % name for name in NAMES.items()]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def journal(out):
    if not os.path.exists(os.path.join(out, "journal.jsonl")):
        return []
    with open(os.path.join(out, "journal.jsonl")) as file:
        return [json.loads(line) for line in file if line.endswith("\n")]


def results(events, kind="test"):
    """Of each test of the planted program, all results that it had."""
    found = {}
    for e in events:
        if e["event"] == kind:
            found.setdefault(e["test"].removeprefix("GpuComparison."), []).append(e["result"])
    return found


def outcomes(events):
    return {e["part"]: e["outcome"] for e in events if e["event"] == "end"}


def wait_for(process, out, step):
    while not any(e["event"] == "begin" and e["part"] == step for e in journal(out)):
        expect(process.poll() is None, "the visit has ended before " + step)
        time.sleep(0.1)


def killed_visit():
    process = visit(FIRST)
    wait_for(process, FIRST, "replica")
    time.sleep(1)  # less than a test takes to hang
    process.kill()
    events = journal(FIRST)
    ends = events[0]["event"], events[-1]["event"]
    expect(ends[0] == "start" and ends[1] != "finish" and process.wait() == -signal.SIGKILL, "the journal: %s ... %s" % ends)
    expect(results(events) == {test: [result] for test, result in PLANTED.items()}, "tests: %s" % results(events))
    lost = [e for e in events if e["event"] == "program ended" and e["status"] == 4]
    expect(len(lost) == 1 and lost[0]["after"] == ["GpuComparison.LosesTheDevice"], "lost devices: %s" % lost)
    with open(os.path.join(FIRST, "log.txt")) as file:
        expect("GpuComparison.Hangs" in file.read(), "the log lacks what a program printed")
    return events


def continued_visit(before):
    shutil.rmtree(NAMES["cifar10"])  # as on another machine
    process = visit(SECOND, "--continue", os.path.join(FIRST, "journal.jsonl"))
    said = process.communicate(timeout=200)[0]
    print(said)
    expect(process.returncode == 0, "the second visit ends with %s" % process.returncode)
    events = journal(SECOND)
    expect(events[:len(before)] == before, "the journal has lost its beginning")
    expect(events[-1]["event"] == "finish" and events[-1]["why"] == "done", "the journal ends with %s" % events[-1])
    expect(results(events).get(UNDER_WAY) == ["hung"], "the test that was under way: %s" % results(events))
    for test, result in PLANTED.items():
        found = results(events)[test]
        expect(found == [result] * (1 if result == "passed" else 2), "%s: %s" % (test, found))
    alone = results(events, "alone")
    failed = {test: [result] * 2 for test, result in {**PLANTED, UNDER_WAY: "hung"}.items()
              if result not in ("passed", "skipped")}
    expect(alone == failed, "what failed, alone: %s" % alone)
    peers = [str(e["ready"]) for e in events if e["event"] == "peer"]
    expect(len(peers) == 4 and not any("Error" in said for said in peers), "a peer began without its images: %s" % peers)
    begun = [e["part"] for e in events[len(before):] if e["event"] == "begin"]
    for step, outcome in outcomes(before).items():
        expect(outcome != "done" or step not in begun, step + " was done, and is done again")
    ends = outcomes(events)
    expect(ends["rest"] == ends["resnet50"] == ends["memcheck"] == "done" and "2 hazards" in ends["racecheck"], "%s" % ends)
    check_races(events)
    with open(os.path.join(SECOND, "results.json")) as file:
        summary = json.load(file)
    expect(summary["figures"]["resnet50"]["ratios"]["images_per_second"] > 0, "no ratio: %s" % summary["figures"])
    clocks = next((each for each in summary["clocks"].values() if "watts" in each), {})  # short races may have no sample
    expect((clocks.get("watts"), clocks.get("held_back")) == (512.25, ["0x0000000000000004"]), "clocks: %s" % clocks)


def check_races(events):
    figures = {(e["part"], e["side"]): e for e in events
               if e["event"] == "figure" and ({"accuracy", "accuracy_tta"} <= e.keys() or "images_per_second" in e)}
    for mode in ("", ", reduce-overhead"):
        for race, side in (("resnet50", "millrace"), ("resnet50", "pytorch"), ("airbench", "millrace")):
            expect((race + mode, side) in figures, "no figure of %s, %s" % (race + mode, side))
        expect(("airbench" + mode, "pytorch") not in figures, "a peer that never is ready was measured")
    expect(figures["airbench", "millrace"]["epochs"] == [0.5, 0.25], "epochs: %s" % figures["airbench", "millrace"])


def stopped_visit():
    process = visit(THIRD)
    wait_for(process, THIRD, "agreement")
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=60)[0]
    events = journal(THIRD)
    last = events[-1]
    expect(process.returncode == 1 and last["event"] == "finish" and "signal" in last["why"], "stopped: %s, %s" % (last, said))
    expect(results(events).get("Hangs") in (None, ["hung"]), "a test that the stop ended has a result: %s" % results(events))


def refused_visit():
    os.remove(os.path.join(PROGRAMS, "tests/gpu_step_bench"))
    process = visit(FOURTH)
    said = process.communicate(timeout=60)[0]
    expect(process.returncode == 1 and "gpu_step_bench" in said, "a program is missing: %s" % said)


def end_orphans():
    """A killed visit's children have become this process's."""
    with open("/proc/self/task/%d/children" % os.getpid()) as file:
        for child in map(int, file.read().split()):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def visit_with_real_programs():
    process = visit(FIRST)
    print(process.communicate()[0])
    events = journal(FIRST)
    bad = {step: outcome for step, outcome in outcomes(events).items() if outcome not in ("done", "seen", "begun")}
    expect(process.returncode == 0 and not bad, "the visit ends with %s: %s" % (process.returncode, bad))
    real = [e["result"] for e in events if e["event"] == "test"]
    expect(real == ["passed"], "a real test: %s" % real)
    with open(os.path.join(FIRST, "results.json")) as file:
        summary = json.load(file)
    expect(summary["agreement"]["fp32 within"] > 0, "no comparison: %s" % summary["agreement"])
    layers = {e["part"] for e in summary["findings"] if "layer" in e}
    expect(layers == {"layers", "layers, airbench94"}, "layers: %s" % layers)
    for race, key in (("resnet50", "images_per_second"), ("airbench", "seconds")):
        expect(summary["figures"][race]["ratios"][key] > 0, "no ratio: %s" % summary["figures"])


def main():
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    shutil.rmtree(WORK, ignore_errors=True)
    try:
        make_programs()
        if KIND == "commands":
            visit_with_real_programs()
            return
        before = killed_visit()
        end_orphans()
        continued_visit(before)
        stopped_visit()
        refused_visit()
    finally:
        end_orphans()


if __name__ == "__main__":
    main()
