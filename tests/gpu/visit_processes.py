"""The programs that a visit starts: with limits, and read line by line."""

import contextlib
import fnmatch
import json
import os
import re
import select
import signal
import subprocess
import time


class Child:
    """A program in a process group of its own. Its output is read by lines, its errors go to a log."""

    alive = set()

    def __init__(self, words, log, env=None, cores=None):
        self.log, self.pending, self.timed_out = log, b"", False
        with open(log, "ab") as errors:
            self.process = subprocess.Popen([str(word) for word in words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=errors, env=env, process_group=0)
        Child.alive.add(self)
        with contextlib.suppress(OSError):
            os.sched_setaffinity(self.process.pid, cores or os.sched_getaffinity(0))

    def line(self, seconds):
        """The next line; None at the end, or after `seconds` (then timed_out)."""
        limit = time.monotonic() + seconds
        while b"\n" not in self.pending:
            left = limit - time.monotonic()
            self.timed_out = left <= 0 or not select.select([self.process.stdout], [], [], left)[0]
            more = b"" if self.timed_out else os.read(self.process.stdout.fileno(), 65536)
            if not more and (self.timed_out or not self.pending):
                return None
            self.pending += more or b"\n"
        line, self.pending = self.pending.split(b"\n", 1)
        with open(self.log, "ab") as log:
            log.write(line + b"\n")
        return line.decode(errors="replace")

    def answer(self, seconds):
        """The next JSON object that it prints; None when none comes in time."""
        limit = time.monotonic() + seconds
        while (line := self.line(limit - time.monotonic())) is not None:
            if line.startswith("{"):
                return json.loads(line)
        return None

    def ask(self, seconds):
        """Sends an empty line, for which it prints an object."""
        with contextlib.suppress(OSError):
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


def tail_of(log, lines):
    """The last lines of a file, as one text."""
    with contextlib.suppress(OSError), open(log, "rb") as file:
        file.seek(max(0, os.path.getsize(log) - 4000))
        return "\n".join(file.read().decode(errors="replace").splitlines()[-lines:])
    return ""


def matches(test, patterns):
    return any(fnmatch.fnmatchcase(test, pattern) for pattern in patterns)


def listed(lines):
    """The tests that a program prints for --gtest_list_tests."""
    tests, suite = [], ""
    for line in lines:
        word = line.split("  # ")[0].rstrip()
        if not line.startswith(" "):
            suite = word
        elif suite.endswith("."):
            tests.append(suite + word.strip())
    return tests


class TestReader:
    """What a test program of GoogleTest prints, as results."""

    def __init__(self):
        self.test = self.last = None  # under way; the last one that ended
        self.said, self.records, self.begun = [], {}, 0

    def running_for(self):
        return time.monotonic() - self.begun if self.test else 0

    def read(self, line):
        """-> the result, when the line says that a test has ended; else None."""
        found = re.match(r"\[ +(RUN|OK|FAILED|SKIPPED|RECORDS) +\] (.*)", line)
        kind, rest = found.groups() if found else ("", "")
        if kind == "RUN" and not self.test:
            self.test, self.said, self.records, self.begun = rest.strip(), [], {}, time.monotonic()
        elif kind == "RECORDS" and self.test:
            self.records = json.loads(rest)
        elif self.test and kind in ("OK", "FAILED", "SKIPPED") and re.split(r"[ ,]", rest)[0] == self.test:
            milliseconds = re.findall(r"\((\d+) ms\)", rest)
            return self.ended({"OK": "passed", "FAILED": "failed", "SKIPPED": "skipped"}[kind], int(milliseconds[-1]) / 1000)
        else:
            self.said.append(line)
        return None

    def broken(self, result, why, log):
        """The result of a test whose process did not end it."""
        self.said += [why, tail_of(log, 8)]
        return self.ended(result, round(self.running_for(), 2))

    def ended(self, result, seconds):
        self.test, self.last = None, self.test
        return {"test": self.last, "result": result, "seconds": seconds, "records": self.records,
                "text": "" if result == "passed" else "\n".join(self.said)[-2000:]}
