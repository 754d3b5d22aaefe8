"""The programs that a visit starts: with limits, and read line by line."""

import contextlib
import json
import os
import select
import signal
import subprocess
import time


def objects(lines):
    """The JSON objects among lines; what only looks like one, with a number that is none, is left out."""
    found = []
    for line in lines:
        with contextlib.suppress(ValueError):
            found += [json.loads(line)] if line.startswith("{") else []
    return found


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
            if found := objects([line]):
                return found[0]
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
