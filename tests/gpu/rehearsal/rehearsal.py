#!/usr/bin/env python3
"""Rehearses two visits to a GPU machine without one: visit.py on the simulated GPU, with its seconds made shorter.

Beside real tests there are planted ones that fail, crash, hang, end their program and lose the device. One of PyTorch's sides
answers as it should, the other never becomes ready, and a sanitizer reports. The first visit ends as a lease
may end, without a word: killed while a test runs. Its journal must hold everything that was done till then. The second visit goes
on from it; a third is stopped by a signal, and one that lacks a program ends at once.

  rehearsal.py BUILD_FOLDER WORK_FOLDER
"""

import ctypes
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import time

BUILD, WORK = (os.path.abspath(word) for word in sys.argv[1:3])
GPU = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROGRAMS, FIRST, SECOND, THIRD, FOURTH = (os.path.join(WORK, name) for name in ("programs", "first", "second", "third", "fourth"))
PEER = """
import json, os, sys, time
say = lambda **figures: print(json.dumps(figures), flush=True)
say(loaded=True)
{ready}
for i, _ in enumerate(sys.stdin):
    say(images_per_second=100.0 + i, seconds=0.01)
"""
SANITIZER = """#!/bin/sh
case "$*" in *racecheck*) echo "========= RACECHECK SUMMARY: 2 hazards displayed" ;; *) echo "ERROR SUMMARY: 0 errors" ;; esac
"""
# One real test; all others are planted.
TESTS = """#!/bin/sh
case "${1#--gtest_filter=}" in
  "*GpuOperators.AgreeInFloat32"*) exec %(tests)s/gpu_backend_test --gtest_filter=%(real)s-"${1##*-}" ;;
  *) exec %(tests)s/planted_gpu/gpu_planted_test "$@" ;;
esac
"""
NAMES = {"backend": "simulated", "network": "quickstart", "sizes": "--batch 8 --precision fp32 --steps 1 --warm-up 1",
         "shapes": "--size 64 --count 40", "traced": "", "python": sys.executable, "programs": PROGRAMS,
         "cifar10": os.path.join(WORK, "cifar10"), "photographs": os.path.join(WORK, "photographs"),
         "sanitizer": os.path.join(WORK, "sanitizer"),
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


def make_programs():
    for name in ("bin", "lib", "share"):
        os.makedirs(PROGRAMS, exist_ok=True)
        os.symlink(os.path.join(BUILD, name), os.path.join(PROGRAMS, name))
    os.makedirs(os.path.join(PROGRAMS, "tests"))
    tests = os.path.join(BUILD, "tests")
    os.symlink(os.path.join(tests, "gpu_step_bench"), os.path.join(PROGRAMS, "tests/gpu_step_bench"))
    os.symlink(os.path.join(GPU, "pipelines"), os.path.join(PROGRAMS, "tests/pipelines"))
    write(os.path.join(PROGRAMS, "tests/gpu_backend_test"), TESTS % {"tests": tests, "real": REAL})
    write(os.path.join(PROGRAMS, "tests/gpu_kernels_test"), "#!/bin/sh\n")
    write(os.path.join(PROGRAMS, "tests/conformance_test"), "#!/bin/sh\n")
    write(NAMES["sanitizer"], SANITIZER)
    write(os.path.join(PROGRAMS, "tests/peers/resnet50.py"), PEER.format(ready="say(ready=True)"))
    write(os.path.join(PROGRAMS, "tests/peers/airbench.py"), PEER.format(
        ready="os.listdir(sys.argv[sys.argv.index('--data') + 1])\ntime.sleep(3600)"))
    subprocess.run([os.path.join(BUILD, "bin/pipeline-data"), "shapes", os.path.join(WORK, "data"), "--count", "40",
                    "--validation", "20"], check=True, stdout=subprocess.DEVNULL)
    with open(os.path.join(WORK, "data/much"), "wb") as file:
        file.truncate(1 << 27)  # unpacking takes longer than Python takes to start a peer
    os.makedirs(os.path.join(WORK, "lend"))
    shutil.copy(os.path.join(GPU, "visit.py"), os.path.join(WORK, "lend"))
    shutil.make_archive(os.path.join(WORK, "lend/cifar10"), "xztar", WORK, "data")


@functools.cache
def scale():
    """Seconds for a second of the schedule: short ones, and longer where this machine has much else to do."""
    begin = time.monotonic()
    network = os.path.join(PROGRAMS, "share/millrace/pipelines/networks/quickstart.toml")
    subprocess.run([os.path.join(BUILD, "tests/gpu_step_bench"), network, "--backend", "simulated", "--batch", "8", "--precision",
                    "fp32", "--steps", "1", "--warm-up", "1"], check=True, stdout=subprocess.DEVNULL)
    return max(0.04, 0.07 * (time.monotonic() - begin))


def visit(out, *more, **names):
    words = [sys.executable, os.path.join(WORK, "lend/visit.py"), "--out", out, "--scale", str(scale()), *more]
    words += ["--set=%s=%s" % name for name in {**NAMES, **names}.items()]
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
        if e["event"] == kind and e["test"] != REAL:
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
    time.sleep(20 * scale())
    process.kill()
    events = journal(FIRST)
    ends = events[0]["event"], events[-1]["event"]
    expect(ends[0] == "start" and ends[1] != "finish" and process.wait() == -signal.SIGKILL, "the journal: %s ... %s" % ends)
    expect(results(events) == {test: [result] for test, result in PLANTED.items()}, "tests: %s" % results(events))
    lost = [e for e in events if e["event"] == "program ended" and e["status"] == 4]
    expect(len(lost) == 1 and lost[0]["after"] == ["GpuComparison.LosesTheDevice"], "lost devices: %s" % lost)
    expect(outcomes(events)["memcheck"] == "done" and "2 hazards" in outcomes(events)["racecheck"], "%s" % outcomes(events))
    figures = {(e["part"], e["side"]) for e in events
               if e["event"] == "figure" and ({"accuracy", "accuracy_tta"} <= e.keys() or "images_per_second" in e)}
    expect({("resnet50", "millrace"), ("resnet50", "pytorch"), ("airbench", "millrace")} <= figures, "figures: %s" % figures)
    expect(("airbench", "pytorch") not in figures, "a peer that never is ready was measured")
    with open(os.path.join(FIRST, "log.txt")) as file:
        expect("GpuComparison.Hangs" in file.read(), "the log lacks what a program printed")
    return events


def continued_visit(before):
    shutil.rmtree(NAMES["cifar10"])  # as on another machine
    process = visit(SECOND, "--continue", os.path.join(FIRST, "journal.jsonl"), "--seconds", "390")
    said = process.communicate(timeout=300)[0]
    print(said)
    expect(process.returncode == 0, "the second visit ends with %s" % process.returncode)
    events = journal(SECOND)
    expect(events[:len(before)] == before, "the journal has lost its beginning")
    expect(events[-1]["event"] == "finish" and events[-1]["why"] == "done", "the journal ends with %s" % events[-1])
    expect(results(events).get(UNDER_WAY) == ["hung"], "the test that was under way: %s" % results(events))
    for test, result in PLANTED.items():
        found = results(events)[test]
        expect(found == [result] * (1 if result == "passed" else 2), "%s: %s" % (test, found))
    real = [e["result"] for e in events if e["event"] == "test" and e["test"] == REAL]
    expect(real == ["passed"], "a real test: %s" % real)
    alone = results(events, "alone")
    failed = {test: [result] * 2 for test, result in {**PLANTED, UNDER_WAY: "hung"}.items()
              if result not in ("passed", "skipped")}
    expect(alone == failed, "what failed, alone: %s" % alone)
    peers = [str(e["ready"]) for e in events if e["event"] == "peer"]
    expect(not any("Error" in said for said in peers), "a peer began without its images: %s" % peers)
    begun = [e["part"] for e in events[len(before):] if e["event"] == "begin"]
    for step, outcome in outcomes(before).items():
        expect(outcome != "done" or step not in begun, step + " was done, and is done again")
    expect("rest" in begun and outcomes(events)["rest"] == "done", "steps of another visit: %s" % begun)
    with open(os.path.join(SECOND, "results.json")) as file:
        summary = json.load(file)
    expect(summary["agreement"]["fp32 within"] > 0, "no comparison: %s" % summary["agreement"])
    expect(summary["figures"]["resnet50"]["ratios"]["images_per_second"] > 0, "no ratio: %s" % summary["figures"])


def stopped_visit():
    process = visit(THIRD)
    wait_for(process, THIRD, "agreement")
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=60)[0]
    last = journal(THIRD)[-1]
    expect(process.returncode == 1 and last["event"] == "finish" and "signal" in last["why"], "stopped: %s, %s" % (last, said))


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


def main():
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    shutil.rmtree(WORK, ignore_errors=True)
    try:
        make_programs()
        before = killed_visit()
        end_orphans()
        continued_visit(before)
        stopped_visit()
        refused_visit()
    finally:
        end_orphans()


if __name__ == "__main__":
    main()
