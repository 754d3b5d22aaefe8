#!/usr/bin/env python3
"""Rehearses a visit to a GPU machine without one: gpu-check on the simulated GPU.

The run is watched by commands that are killed, as a lender of machines kills them. Its
tests include some that fail, crash, hang and end their program; one part throws, because
a file lies where it wants a folder. Then the runner itself is killed. At the end journal,
results and archive must say all of it, in order. A second visit begins with the first
one's engine plans, and is stopped.

  rehearsal.py GPU_CHECK PLANTED_FOLDER WORK_FOLDER
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time

GPU_CHECK, PLANTED, WORK = (os.path.abspath(word) for word in sys.argv[1:4])
STATE, OUT = os.path.join(WORK, "state"), os.path.join(WORK, "out")
PARTS = ["questions", "agreement", "rest", "sanitizer"]
PATIENCE = 200  # seconds, for machines that do much else or are paused
COMMAND = [GPU_CHECK, "--backend", "simulated", "--state", STATE, "--out", OUT, "--tests", PLANTED, "--test-limit", "30",
           "--filter", "Planted.*:GpuComparison.*:*GpuOperators.AgreeIn*/LinearRelu:GpuReplica.GivesBack*"]
COMMAND += [word for part in PARTS for word in ("--part", part)]


def fail(text):
    sys.exit("rehearsal: " + text)


def expect(condition, text):
    if not condition:
        fail(text)


def watch(*more):
    """A watching command, in a process group of its own and with an empty OUT, elsewhere."""
    shutil.rmtree(OUT, ignore_errors=True)
    elsewhere = os.path.join(WORK, "elsewhere%d" % time.monotonic_ns())
    os.makedirs(elsewhere)
    return subprocess.Popen(COMMAND + list(more), cwd=elsewhere, text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, start_new_session=True)


def kill(process):
    """As a lender does: the whole group. Its pipe must end although the run goes on."""
    os.killpg(process.pid, signal.SIGKILL)
    return process.communicate(timeout=PATIENCE)[0]


def journal():
    try:
        with open(os.path.join(STATE, "journal.jsonl")) as file:
            return [json.loads(line) for line in file if line.endswith("\n")]
    except FileNotFoundError:
        return []


def wait_for(what, condition):
    limit = time.monotonic() + PATIENCE
    while not condition():
        expect(time.monotonic() < limit, "waited in vain for " + what)
        time.sleep(0.05)


def has_ended(process):
    """A process that nobody has waited for yet does nothing any more."""
    try:
        with open("/proc/%d/stat" % process) as file:
            return file.read().rsplit(")", 1)[1].split()[0] in "ZX"
    except OSError:
        return True


def tests():
    return [event["test"] for event in journal() if event["event"] == "test"]


def runner():
    return [event["process"] for event in journal() if event["event"] == "start"][-1]


def results():
    with open(os.path.join(OUT, "results.json")) as file:
        return json.load(file)


def killed_watchers():
    first = watch()
    wait_for("a crash", lambda: "Planted.Crashes" in tests())
    process = runner()
    output = kill(first)
    expect("goes on in the background" in output, "the first watcher says: " + output)
    expect(os.path.exists("/proc/%d" % process), "the run died with its watcher")

    second = watch()
    wait_for("results", lambda: os.path.exists(os.path.join(OUT, "results.tar.gz")))
    third = watch()
    output = third.communicate(timeout=PATIENCE)[0]
    expect(third.returncode == 1 and "watches this run already" in output, "a second watcher says: " + output)
    output = kill(second)
    expect("watching the run of process %d" % process in output, "the second watcher says: " + output)
    expect(runner() == process, "another run was started")


def interrupted_watcher():
    watcher = watch()
    line = watcher.stdout.readline()
    expect("watching the run of process" in line, "a watcher begins with: " + line)
    watcher.send_signal(signal.SIGINT)
    output = watcher.communicate(timeout=PATIENCE)[0]
    expect(watcher.returncode == 130 and "the run goes on" in output, "an interrupted watcher says: " + output)
    short = watch("--watch-minutes", "0.01")
    output = short.communicate(timeout=PATIENCE)[0]
    expect(short.returncode == 75, "a short watch ends with %d: %s" % (short.returncode, output))


def killed_runner():
    """A machine that restarts, as far as a program can tell."""
    wait_for("the last test", lambda: os.path.exists(os.path.join(STATE, "last_has_begun")))
    process = runner()
    os.kill(process, signal.SIGKILL)
    wait_for("the runner's end", lambda: has_ended(process))
    done = tests()
    last = watch()
    output = last.communicate(timeout=2 * PATIENCE)[0]
    print(output)
    expect("the last run died" in output, "the last watcher does not name the death")
    expect(last.returncode == 1, "the run ends with %d" % last.returncode)
    again = watch()
    output = again.communicate(timeout=PATIENCE)[0]
    expect(again.returncode == 1 and "rest" in output, "watching a finished run says: " + output)
    for test in done:
        expect(tests().count(test) == 1, test + " ran again after the runner's death")


def look_at_results():
    expected = {"Planted.PassesFirst": "passed", "Planted.Fails": "failed", "Planted.IsSkipped": "skipped",
                "Planted.Crashes": "crashed", "Planted.PassesAfterACrash": "passed", "Planted.Hangs": "hung",
                "Planted.PassesAfterAHang": "passed", "Planted.EndsTheProgram": "crashed", "Planted.PassesLast": "passed"}
    found = {event["test"]: event["result"] for event in journal() if event["event"] == "test"}
    for test, result in expected.items():
        expect(found.get(test) == result, "%s: %s instead of %s" % (test, found.get(test), result))
    parts = results()["parts"]
    expect([name for name in parts if name in PARTS] == PARTS, "order of parts: " + str(list(parts)))
    expect(parts["questions"]["outcome"] == "failed" and "answers" in parts["questions"]["why"],
           "the part that throws: " + str(parts["questions"]))
    agreement = parts["agreement"]
    expect(agreement["outcome"] == "passed", "agreement: " + str(agreement))
    for precision in ("fp32", "tf32", "bf16"):
        expect(agreement["tests"]["agreement"][precision]["within_bound"] > 0, "no comparison in " + precision)
    expect(parts["rest"]["outcome"] == "failed", "rest: " + str(parts["rest"]))
    failures = {failure["test"].split(": ")[1]: failure["result"] for failure in parts["rest"]["tests"]["failures"]}
    expect(failures == {t: r for t, r in expected.items() if r not in ("passed", "skipped")}, "failures: " + str(failures))


def look_at_archive():
    archive = os.path.join(OUT, "results.tar.gz")
    expect(sorted(os.listdir(OUT)) == ["results.json", "results.tar.gz"], "OUT holds " + str(os.listdir(OUT)))
    with tarfile.open(archive) as tar:
        names = tar.getnames()
        json.load(tar.extractfile("results.json"))
        lines = tar.extractfile("journal.jsonl").read().decode().splitlines()
    expect(len(lines) == len(journal()), "the journal in the archive has %d lines" % len(lines))
    expect(any(name.startswith("logs/gpu_planted_test") for name in names), "no log in " + str(names))
    expect("plans/planted" in names, "no engine plans in " + str(names))
    expect(not any("photograph" in name or name.endswith(".jpg") for name in names), "photographs in " + str(names))
    print("archive: %d bytes, %d files" % (os.path.getsize(archive), len(names)))


def processes_of(state):
    found = []
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/environ" % process, "rb") as file:
                if b"MILLRACE_GPU_CHECK=" + state.encode() in file.read().split(b"\0"):
                    found.append(process)
        except OSError:
            pass
    return found


def second_visit():
    state, out = os.path.join(WORK, "second"), os.path.join(WORK, "second_out")
    command = [GPU_CHECK, "--backend", "simulated", "--state", state, "--out", out]
    watcher = subprocess.Popen(command + ["--part", "rest", "--tests", PLANTED, "--filter", "Planted.Hangs",
                                          "--plans", os.path.join(OUT, "results.tar.gz")], stdout=subprocess.PIPE, text=True)
    wait_for("engine plans", lambda: os.path.exists(os.path.join(state, "cache", "plans", "planted")))
    wait_for("a test of the second visit", lambda: processes_of(state))
    subprocess.run(command + ["--stop"], check=True)
    output = watcher.communicate(timeout=PATIENCE)[0]
    expect(watcher.returncode == 1 and "was stopped" in output, "the watcher of a stopped run says: " + output)
    wait_for("the end of all processes after --stop", lambda: not processes_of(state))


def main():
    shutil.rmtree(WORK, ignore_errors=True)
    os.makedirs(os.path.join(STATE, "cache", "plans"))
    with open(os.path.join(STATE, "cache", "plans", "planted"), "w") as file:
        file.write("a choice of engines\n")
    os.chmod(STATE, 0o700)
    with open(os.path.join(STATE, "answers"), "w") as file:
        file.write("a file where the questions want a folder\n")
    try:
        killed_watchers()
        interrupted_watcher()
        killed_runner()
        look_at_results()
        look_at_archive()
        second_visit()
    finally:
        subprocess.run(COMMAND + ["--stop"], stdout=subprocess.DEVNULL, check=False)


if __name__ == "__main__":
    main()
