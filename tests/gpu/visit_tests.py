"""Which tests belong to which part of a visit, and what their programs say."""

import fnmatch
import json
import re
import time

from visit_processes import tail_of

TESTS = {"agreement": ("*GpuNetworks.AgreeInFloat32/*", "*GpuNetworks.AgreeInBf16/*", "*GpuFamilies.*", "GpuLayers.*",
                       "*GpuOperators.AgreeInFloat32/*", "*GpuOperators.AgreeInBf16/*", "GpuComparison.*"),
         "bits": ("*GpuNetworks.TrainToTheSameBits*", "GpuReplica.*"),
         "rest": ("*AgreeInTf32*", "*GpuGradients.*", "*GpuCommunicator.*", "*EveryBackend*")}
GROUPS = (("*GpuNetworks.*", 1), ("*GpuFamilies.*", 6), ("*", 64))  # how many tests share a process; the longest ones first
ALONE = ("GpuReplica.*",)  # these want the device for themselves
TEST_LIMIT = 60  # seconds after which a test counts as hung
DEVICE_LOST = 4  # the exit status of a test program that ended itself since its device answers no more


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


def groups_of(tests):
    """Of (program, test): (program, tests that share a process), the longest first; and those that want to be alone."""
    groups, together = [], [(p, t) for p, t in tests if not matches(t, ALONE)]
    for pattern, most in GROUPS:
        for program in sorted({program for program, _ in together}):
            some = [t for p, t in together if p == program and matches(t, [pattern])]
            some = some[::-1] if most == 1 else some  # the largest networks are listed last
            groups += [(program, some[i:i + most]) for i in range(0, len(some), most)]
            together = [(p, t) for p, t in together if p != program or t not in some]
    programs = sorted({program for program, _ in tests})
    return groups, [(program, [t for p, t in tests if p == program and matches(t, ALONE)]) for program in programs]


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
