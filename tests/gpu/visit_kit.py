"""What a visit is made of: programs with limits, what tests print, the journal, and what is made of it."""

import collections
import contextlib
import fnmatch
import glob
import itertools
import json
import os
import queue
import re
import shutil
import signal
import statistics
import subprocess
import tarfile
import threading
import time

MOST_BYTES = 10 << 20  # of the archive, which another visit brings along beside all else
FAILED = ("failed", "hung", "crashed")


def first_of(*patterns):
    """The first file that one of the patterns names."""
    return next((path for pattern in patterns for path in sorted(glob.glob(pattern))), None)


def tail_of(log, lines):
    with open(log, errors="replace") as file:
        return "\n".join(collections.deque((line.rstrip("\n") for line in file), lines))[-4000:]


def objects(lines):
    """The JSON objects among lines; what only looks like one, with a number that is none, is left out."""
    for line in lines:
        with contextlib.suppress(ValueError):
            if line.startswith("{"):
                yield json.loads(line)


class Child:
    """A program in a process group of its own. What it prints is read by lines, and goes to a log with its errors."""
    alive = set()

    def __init__(self, words, log, env=None, cores=None):
        self.log, self.lines, self.timed_out = log, queue.SimpleQueue(), False
        self.process = subprocess.Popen([str(word) for word in words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=open(log, "ab"), env=env, process_group=0)
        Child.alive.add(self)
        with contextlib.suppress(OSError):  # it may have ended
            os.sched_setaffinity(self.process.pid, cores or os.sched_getaffinity(0))
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        with open(self.log, "ab", buffering=0) as log:
            for line in self.process.stdout:
                log.write(line)
                self.lines.put(line.decode(errors="replace").rstrip("\n"))
        self.lines.put(None)

    def line(self, seconds):
        """The next line; None at the end, or after `seconds` (then timed_out)."""
        try:
            line = self.lines.get(timeout=max(0, seconds))
        except queue.Empty:
            self.timed_out = True
            return None
        if line is None:
            self.lines.put(None)
        return line

    def answer(self, seconds):
        """The next JSON object that it prints; None when none comes in time."""
        limit = time.monotonic() + seconds
        return next(objects(iter(lambda: self.line(limit - time.monotonic()), None)), None)

    def ask(self, seconds):
        """Sends an empty line, for which it prints an object."""
        with contextlib.suppress(OSError):  # it has ended
            self.process.stdin.write(b"\n")
            self.process.stdin.flush()
        return self.answer(seconds)

    def end(self):
        """-> its exit status, below 0 for a signal. A process that even a kill does not end is left behind."""
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        for seconds in (0 if self.timed_out else 10, 5):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(seconds)
            self.kill()
        Child.alive.discard(self)
        return self.process.returncode

    def kill(self):
        with contextlib.suppress(OSError):
            os.killpg(self.process.pid, signal.SIGKILL)


def matches(test, patterns):
    return any(fnmatch.fnmatchcase(test, pattern) for pattern in patterns)


def listed(lines):
    """The tests that a program prints for --gtest_list_tests."""
    suite = ""
    for line in lines:
        word = line.split("  # ")[0].strip()
        if line.startswith(" "):
            yield suite + word
        suite = suite if line.startswith(" ") else word


def groups_of(tests, sizes):
    """Of (program, test): (program, tests that share a process): so many of each pattern. The last ones come first."""
    for pattern, most in sizes:
        some = [(program, test) for program, test in reversed(tests) if matches(test, [pattern])]
        tests = [test for test in tests if test not in some]
        for program, group in itertools.groupby(some, key=lambda one: one[0]):
            names = [test for _, test in group]
            yield from ((program, names[i:i + most]) for i in range(0, len(names), most))


def test_results(child, patience, seconds_left):
    """-> the result of each test of a GoogleTest program as it ends; then that of one that hung, or crashed it."""
    test, begun, said, records = None, 0, [], {}

    def ended(result):
        return {"test": test, "result": result, "seconds": round(time.monotonic() - begun, 3), "records": records,
                "text": "" if result == "passed" else "\n".join(said)[-2000:]}
    while (line := child.line(min(seconds_left(), patience - (time.monotonic() - begun if test else 0)))) is not None:
        kind, rest = (re.findall(r"^\[ +(RUN|OK|FAILED|SKIPPED|RECORDS) +\] (.*)", line) or [("", "")])[0]
        if kind == "RUN" and not test:
            test, begun, said, records = rest.strip(), time.monotonic(), [], {}
        elif kind == "RECORDS" and test:
            records = json.loads(rest)
        elif kind and test and re.split(r"[ ,]", rest)[0] == test:
            yield ended({"OK": "passed", "FAILED": "failed", "SKIPPED": "skipped"}[kind])
            test = None
        else:
            said.append(line)
    out_of_time, status = child.timed_out and seconds_left() <= 0, child.end()
    if test and not out_of_time:
        said += ["no end in time" if child.timed_out else "ended with status %s" % status, tail_of(child.log, 8)]
        yield ended("hung" if child.timed_out else "crashed")


class Journal:
    """Events, each a JSON object on a line, in two folders when add() returns. Thread-safe."""

    def __init__(self, state, out, lease):
        self.state, self.out, self.lease, self.lock, self.events = state, out, lease, threading.Lock(), []
        self.places = [os.path.join(folder, "journal.jsonl") for folder in (state, out)]
        if os.path.exists(self.places[0]):
            with open(self.places[0]) as file:  # a visit that was killed may have left half a line
                self.events = [json.loads(line) for line in file if line.endswith("\n")]
        for place in self.places:
            with open(place, "w") as file:
                file.writelines(json.dumps(event) + "\n" for event in self.events)

    def add(self, event, **more):
        entry = {"event": event, "lease": round(self.lease(), 2), **more}
        with self.lock:
            self.events.append(entry)
            for place in self.places:
                with open(place, "a") as file:
                    file.write(json.dumps(entry) + "\n")
            if event in ("end", "figure", "peer", "device lost") or entry.get("result") in FAILED:
                with contextlib.suppress(OSError):  # nobody reads it any more
                    print(json.dumps(entry)[:200], flush=True)

    def of(self, event):
        return [e for e in list(self.events) if e["event"] == event]

    def results(self):
        """Of each (program, test) its last result."""
        return {(e["program"], e["test"]): e for e in self.of("test")}

    def failed(self):
        return sorted(test for test, e in self.results().items() if e["result"] in FAILED)

    def last_outcome(self, part):
        return ([None] + [e["outcome"] for e in self.of("end") if e["part"] == part])[-1]

    def agreement(self):
        """By precision: comparisons with the CPU within the bound and beyond it, whatever a test lets pass."""
        found = {}
        for (_, test), e in self.results().items():
            for key, text in e.get("records", {}).items():
                numbers = re.match(r"(\S+) \(bound (\S+),", text)
                if numbers and "GpuComparison." not in test:  # plants a fault to see it found
                    over = float(numbers[1]) / float(numbers[2])
                    found.setdefault(key.split()[0], []).append((over, test + ": " + key))
        return {precision: {"within_bound": sum(over <= 1 for over, _ in each),
                            "beyond_bound": sum(not over <= 1 for over, _ in each),
                            "worst": max(each, key=lambda one: (one[0] != one[0], one[0]))}  # NaN is worse than any
                for precision, each in found.items()}

    def outcome(self, part, sides=("millrace", "pytorch")):
        """Of a part that measures, since it has begun: each side has figures, and no round of it failed."""
        begun = max(i for i, e in enumerate(self.events) if (e["event"], e.get("part")) == ("begin", part))
        figures = [e for e in self.events[begun:] if e["event"] == "figure" and e["part"] == part]
        lack = [side for side in sides if side not in {e["side"] for e in figures}]
        lack += [e["side"] for e in figures if "images_per_second" not in e and "accuracy" not in e]
        return "not all figures of " + ", ".join(dict.fromkeys(lack)) if lack else "done"

    def rates(self, part):
        """Medians of each side, and the median over the turns of ours / theirs."""
        events, result, turns = [e for e in self.of("figure") if e["part"] == part], {}, {}
        key = "images_per_second" if any("images_per_second" in e for e in events) else "seconds"
        for side in ("millrace", "pytorch"):
            own = [e for e in events if e["side"] == side]
            found = {name: [e[name] for e in own if name in e] for name in (key, "accuracy", "accuracy_tta")}
            result[side] = {name: statistics.median(values) for name, values in found.items() if values}
            turns[side] = {e["turn"]: e[key] for e in own if key in e}
        both = [turns["millrace"][i] / turns["pytorch"][i] for i in turns["millrace"] if i in turns["pytorch"]]
        short = [side for side, of in result.items() if of.get("accuracy_tta", of.get("accuracy", 0)) < 0.9]
        if both and short and key == "seconds":
            result["no_ratio"] = "below 90 %: " + ", ".join(short)
        elif both:
            result["ratio"] = statistics.median(both)
        return result

    def summary(self):
        def pick(event, *keys):
            return [{key: e[key] for key in keys if key in e} for e in self.of(event)]
        tests = self.results()
        failures = [{"program": of[0], "test": of[1], "result": tests[of]["result"], "text": tests[of]["text"],
                     "alone": {e["way"]: e["result"] for e in self.of("alone") if (e["program"], e["test"]) == of}}
                    for of in self.failed()]
        parts = {e["part"]: "unfinished" for e in self.of("begin")} | {e["part"]: e["outcome"] for e in self.of("end")}
        return {"machine": pick("machine", "device", "nvidia_smi", "cores", "devices", "libraries")[-1:],
                "layers": pick("layer", "layer", "pass", "ms", "gb_s", "tflop_s"),
                "questions": pick("answer", "question", "status", "answers"),
                "sanitizer": pick("sanitizer", "tool", "status", "text"),
                "device_lost": pick("device lost", "program", "after"),
                "agreement": self.agreement(), "failures": failures, "parts": parts,
                "tests": collections.Counter(e["result"] for e in tests.values()),
                "figures": {part: self.rates(part) for part in dict.fromkeys(e["part"] for e in self.of("figure"))}}

    def publish(self, last):
        """-> the summary. results.json and results.tar.xz are replaced at once; what matters most comes first, until
        the archive is full. PyTorch's kernels come at the end of a visit: they take seconds to pack."""
        summary, names = self.summary(), ["results.json", "results.tar.xz"]
        part, archive_part = [os.path.join(self.out, name + ".part") for name in names]
        with open(part, "w") as file:
            json.dump(summary, file, indent=1)
        with open(archive_part, "wb") as archive, tarfile.open(fileobj=archive, mode="w:xz", preset=1) as tar:
            tar.add(part, "results.json")
            patterns = ["journal.jsonl", "device/*/cache/**", "answers/**", "logs/*"]
            for pattern in patterns + ["device/*/torch/**"] * last:
                for path in sorted(glob.glob(pattern, root_dir=self.state, recursive=True)):
                    whole = os.path.join(self.state, path)
                    if os.path.isfile(whole) and archive.tell() + os.path.getsize(whole) < MOST_BYTES:
                        tar.add(whole, path)
        for name in names:
            os.replace(os.path.join(self.out, name + ".part"), os.path.join(self.out, name))
        return summary


def restore(earlier, state):
    """An earlier visit's journal, plans and compiled kernels. A journal beside the archive is as new, or newer."""
    with tarfile.open(earlier) as tar:
        tar.extractall(state, members=[m for m in tar if not m.name.startswith("logs/")], filter="data")
    journal = os.path.join(os.path.dirname(os.path.abspath(earlier)), "journal.jsonl")
    if os.path.exists(journal):
        shutil.copy(journal, state)
