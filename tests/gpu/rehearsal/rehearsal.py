#!/usr/bin/env python3
"""Rehearses two visits to a GPU machine without one: visit.py on the simulated GPU, with its seconds made shorter.

Beside real tests there are planted ones that fail, crash, hang, end their program and lose the device. One of PyTorch's sides
answers as it should, the other never becomes ready; two questions fail. The first visit ends as a lease may end, without a
word: killed in its last part, where minute 8 of a real one is. Its journal must hold everything that was done till then. The
second visit goes on from it; a second command then runs what failed alone.

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
import tarfile
import time

BUILD, WORK = (os.path.abspath(word) for word in sys.argv[1:3])
GPU = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROGRAMS, FIRST, SECOND, THIRD = (os.path.join(WORK, name) for name in ("programs", "first", "second", "third"))
PEER = """
import json, sys, time
say = lambda **figures: print(json.dumps(figures), flush=True)
say(loaded=True)
if "--warm-only" in sys.argv: {compiled}
for i, _ in enumerate(sys.stdin):
    {answer}
"""
ANSWERS = 'say(ready=True) if i == 0 else say(images_per_second=100.0 + i, seconds=0.01)'
QUESTIONS = """#!/bin/sh
[ "$1" != nccl ] || exec sleep 3600
echo '{"question": "'$1'"}'
[ "$1" != genstats ]
"""
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
    for name in ("gpu_backend_test", "gpu_step_bench", "planted_gpu/gpu_planted_test"):
        os.symlink(os.path.join(BUILD, "tests", name), os.path.join(PROGRAMS, "tests", os.path.basename(name)))
    os.symlink(os.path.join(GPU, "pipelines"), os.path.join(PROGRAMS, "tests/pipelines"))
    write(os.path.join(PROGRAMS, "tests/gpu_questions"), QUESTIONS)
    write(os.path.join(PROGRAMS, "tests/peers/resnet50.py"), PEER.format(answer=ANSWERS, compiled="sys.exit(say(ready=True))"))
    write(os.path.join(PROGRAMS, "tests/peers/airbench.py"), PEER.format(answer="time.sleep(3600)", compiled="time.sleep(3600)"))
    subprocess.run([os.path.join(BUILD, "bin/pipeline-data"), "shapes", os.path.join(WORK, "data"), "--count", "40",
                    "--validation", "20"], check=True, stdout=subprocess.DEVNULL)


@functools.cache
def scale():
    """Seconds for a second of the schedule: short ones, and longer where this machine has much else to do."""
    begin = time.monotonic()
    network = os.path.join(PROGRAMS, "share/millrace/pipelines/networks/quickstart.toml")
    subprocess.run([os.path.join(BUILD, "tests/gpu_step_bench"), network, "--backend", "simulated", "--batch", "8", "--precision",
                    "fp32", "--steps", "1", "--warm-up", "1"], check=True, stdout=subprocess.DEVNULL)
    return max(0.04, 0.1 * (time.monotonic() - begin))


def visit(state, out, *more):
    words = [sys.executable, os.path.join(GPU, "visit.py"), "--state", os.path.join(WORK, state), "--out", out, "--programs",
             PROGRAMS, "--backend", "simulated", "--data", os.path.join(WORK, "data"), "--scale", str(scale()), "--filter",
             ":".join(["GpuComparison.*", UNDER_WAY, REAL]), *more]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def journal(out):
    if not os.path.exists(os.path.join(out, "journal.jsonl")):
        return []
    with open(os.path.join(out, "journal.jsonl")) as file:
        return [json.loads(line) for line in file if line.endswith("\n")]


def results(events, kind="test"):
    """Of each test of the planted program, all results that it had."""
    found = {}
    for e in events:
        if e["event"] == kind and e["program"] == "gpu_planted_test":
            found.setdefault(e["test"].removeprefix("GpuComparison."), []).append(e["result"])
    return found


def outcomes(events):
    return {e["part"]: e["outcome"] for e in events if e["event"] == "end"}


def killed_visit():
    process = visit("state", FIRST)
    while not any(e["event"] == "begin" and e["part"] == "replica" for e in journal(FIRST)):
        expect(process.poll() is None, "the visit has ended before its last part")
        time.sleep(0.1)
    time.sleep(20 * scale())
    process.kill()
    events = journal(FIRST)
    ends = events[0]["event"], events[-1]["event"]
    expect(ends[0] == "start" and ends[1] != "finish" and process.wait() == -signal.SIGKILL, "the journal: %s ... %s" % ends)
    expect(results(events) == {test: [result] for test, result in PLANTED.items()}, "tests: %s" % results(events))
    lost = [e for e in events if e["event"] == "device lost"]
    expect(len(lost) == 1 and lost[0]["after"] == "GpuComparison.LosesTheDevice", "lost devices: %s" % lost)
    asked = {e["question"]: e["status"] for e in events if e["event"] == "answer"}
    expect(asked == {"device": 0, "events": 0, "nccl": -signal.SIGKILL, "dgrad": 0, "genstats": 1}, "questions: %s" % asked)
    figures = {(e["part"], e["side"]) for e in events if e["event"] == "figure" and len(e) > 6}
    expect({("resnet50", "millrace"), ("resnet50", "pytorch"), ("airbench", "millrace")} <= figures, "figures: %s" % figures)
    expect(("airbench", "pytorch") not in figures, "a peer that never is ready was measured")
    with tarfile.open(os.path.join(FIRST, "results.tar.xz")) as tar:
        names = tar.getnames()
    expect({"journal.jsonl", "results.json"} <= set(names) and any(n.startswith("logs/") for n in names), "archive: %s" % names)
    return events


def continued_visit(before):
    process = visit("second_state", SECOND, "--continue", os.path.join(FIRST, "results.tar.xz"))
    said = process.communicate(timeout=300)[0]
    print(said)
    expect(process.returncode == 0, "the second visit ends with %s" % process.returncode)
    events = journal(SECOND)
    expect(events[:len(before)] == before, "the journal has lost its beginning")
    expect(events[-1]["event"] == "finish" and events[-1]["why"] == "done", "the journal ends with %s" % events[-1])
    hung = results(events).pop(UNDER_WAY)
    expect(hung == ["hung"], "the test that was under way: %s" % hung)
    for test, found in results(events).items():
        if test == UNDER_WAY:
            continue
        again = 1 if PLANTED[test] == "passed" else 2
        expect(len(found) == again and set(found) == {PLANTED[test]}, "%s: %s" % (test, found))
    real = [e["result"] for e in events if e["event"] == "test" and e["test"] == REAL]
    expect(real == ["passed"], "a real test: %s" % real)
    begun = [e["part"] for e in events[len(before):] if e["event"] == "begin"]
    for part, outcome in outcomes(before).items():
        expect(outcome != "done" or part == "machine" or part not in begun, part + " was done, and is done again")
    expect("rest" in begun and outcomes(events)["rest"] == "done", "parts of another visit: %s" % begun)
    with open(os.path.join(SECOND, "results.json")) as file:
        summary = json.load(file)
    expect(summary["agreement"]["fp32"]["within_bound"] > 0, "no comparison: %s" % summary["agreement"])
    expect(summary["figures"]["resnet50"]["ratio"] > 0, "no ratio: %s" % summary["figures"])


def second_command():
    process = visit("second_state", THIRD, "--again")
    process.communicate(timeout=300)
    alone = results(journal(THIRD), "alone")
    failed = {test: [result] * 3 for test, result in {**PLANTED, UNDER_WAY: "hung"}.items()
              if result not in ("passed", "skipped")}
    expect(alone == failed, "what failed, alone: %s" % alone)


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
        second_command()
    finally:
        end_orphans()


if __name__ == "__main__":
    main()
