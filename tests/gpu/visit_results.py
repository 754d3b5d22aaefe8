"""The journal of a visit, and what is made of it: results.json, the printed table, the archive."""

import contextlib
import glob
import io
import json
import os
import re
import shutil
import statistics
import tarfile
import threading
import zlib

MOST_BYTES = 10 << 20  # of the archive, which another visit brings along beside all else
MOST_OF_A_LOG = 64 << 10


class Journal:
    """Events, one JSON object a line. Each is on disk, in two places, when add() returns. Thread-safe."""

    def __init__(self, state, out, lease):
        self.lease, self.lock, self.events = lease, threading.Lock(), []
        self.places = [os.path.join(folder, "journal.jsonl") for folder in (state, out)]
        with contextlib.suppress(OSError), open(self.places[0]) as file:
            lines = [line for line in file if line.endswith("\n")]  # a killed visit may have left half a line
            self.events = [json.loads(line) for line in lines]
        for place in self.places:
            write(place, "".join(json.dumps(event) + "\n" for event in self.events).encode())

    def add(self, event, **more):
        entry = {"event": event, "lease": round(self.lease(), 2), **more}
        with self.lock:
            self.events.append(entry)
            for place in self.places:
                with contextlib.suppress(OSError), open(place, "a") as file:  # one of them may be full
                    file.write(json.dumps(entry) + "\n")
                    file.flush()
                    os.fsync(file.fileno())
            if text := line_of(entry):
                with contextlib.suppress(OSError):
                    print(text, flush=True)

    def of(self, event):
        return [e for e in list(self.events) if e["event"] == event]

    def last_results(self):
        """Of each (program, test) its last result."""
        return {(e["program"], e["test"]): e for e in self.of("test")}

    def tests(self, result):
        return {name for name, e in self.last_results().items() if e["result"] == result}

    def failed(self):
        return sorted(self.tests("failed") | self.tests("hung") | self.tests("crashed"))

    def unanswered(self, questions):
        answered = {e["question"] for e in self.of("answer") if e["status"] == 0}
        return [question for question in questions if question not in answered]

    def is_done(self, part, device):
        return any(e["part"] == part and e["outcome"] == "done" and e["device"] == device for e in self.of("end"))


def line_of(e):
    """What is printed of an event at once; nothing of most."""
    if e["event"] == "end":
        return "%6.0f s  %-24s %s" % (e["lease"], e["part"], e["outcome"])
    if e["event"] in ("test", "alone") and e["result"] not in ("passed", "skipped"):
        return "%6.0f s  %s %s %s" % (e["lease"], e["result"], e["test"], e.get("way", ""))
    if e["event"] in ("figure", "peer", "device lost"):
        return "%6.0f s  %s" % (e["lease"], json.dumps({k: v for k, v in e.items() if k not in ("event", "lease")})[:200])
    return ""


# ---- A summary


def agreement(tests):
    """By precision: comparisons with the CPU within the bound and beyond it, whatever a test lets pass besides; the worst."""
    found = {}
    for (_, test), e in tests.items():
        if "GpuComparison." in test:  # plants a fault to see it found
            continue
        for key, text in (e.get("records") or {}).items():
            numbers = re.match(r"(\S+) \(bound (\S+),", text)
            if not numbers:
                continue
            over = float(numbers[1]) / float(numbers[2])
            of = found.setdefault(key.split(" ")[0], {"within_bound": 0, "beyond_bound": 0, "worst_over_bound": 0, "worst": ""})
            of["within_bound" if over <= 1 else "beyond_bound"] += 1  # NaN is beyond it
            if not over <= of["worst_over_bound"]:
                of.update(worst_over_bound=over, worst=test + ": " + key)
    return found


def rates(events):
    """Of one part's figures: medians of each side, and the median over the turns of ours / theirs."""
    result, turns = {}, {}
    key = "images_per_second" if any("images_per_second" in e for e in events) else "seconds"
    for side in ("millrace", "pytorch"):
        for name in (key, "accuracy", "accuracy_tta"):
            found = [e[name] for e in events if e["side"] == side and name in e]
            if found:
                result.setdefault(side, {})[name] = statistics.median(found)
        turns[side] = {e["turn"]: e[key] for e in events if e["side"] == side and key in e and e["turn"] is not None}
    both = [turns["millrace"][i] / turns["pytorch"][i] for i in turns["millrace"] if i in turns["pytorch"]]
    short = [side for side, of in result.items() if key == "seconds" and of.get("accuracy_tta", of.get("accuracy", 0)) < 0.9]
    if both and not short:
        result["ratio"] = statistics.median(both)
    elif both:
        result["no_ratio"] = "below 90 %: " + ", ".join(short)
    return result


def outcome_of(journal, part, sides=("millrace", "pytorch")):
    """Done: since the part has begun, each side has figures and no round of it failed."""
    events = list(journal.events)
    begun = max((i for i, e in enumerate(events) if e["event"] == "begin" and e["part"] == part), default=0)
    for side in sides:
        figures = [e for e in events[begun:] if e["event"] == "figure" and (e["part"], e["side"]) == (part, side)]
        if not figures or not all("images_per_second" in e or "accuracy" in e for e in figures):
            return "%s has no figures" % side if not figures else "%s: not all rounds have figures" % side
    return "done"


def summary(journal):
    tests = journal.last_results()
    counts = {}
    for e in tests.values():
        counts[e["result"]] = counts.get(e["result"], 0) + 1
    figures = {part: rates([e for e in journal.of("figure") if e["part"] == part]) for part in
               dict.fromkeys(e["part"] for e in journal.of("figure"))}
    parts = {e["part"]: {"outcome": "unfinished"} for e in journal.of("begin")}
    parts.update({e["part"]: {"outcome": e["outcome"]} for e in journal.of("end")})
    failures = [{"program": name[0], "test": name[1], "result": tests[name]["result"], "text": tests[name]["text"],
                 "alone": {e["way"]: e["result"] for e in journal.of("alone") if (e["program"], e["test"]) == name}}
                for name in journal.failed()]
    pick = lambda event, *keys: [{k: e[k] for k in keys if k in e} for e in journal.of(event)]
    return {"machine": pick("machine", "device", "nvidia_smi", "cores", "kernel", "devices", "libraries")[-1:], "parts": parts,
            "tests": counts, "failures": failures, "agreement": agreement(tests), "figures": figures,
            "questions": pick("answer", "question", "status", "answers"), "layers": pick("layer", "layer", "pass", "ms", "gb_s",
                                                                                         "tflop_s"),
            "sanitizer": pick("sanitizer", "tool", "reports", "status"), "device_lost": pick("device lost", "program", "after")}


def table(journal):
    s = summary(journal)
    lines = ["", "%-26s %s" % ("device", s["machine"][0]["device"] if s["machine"] else "unknown")]
    lines += ["%-26s %s" % (part, of["outcome"]) for part, of in s["parts"].items()]
    lines += ["%-26s %s" % ("tests", ", ".join("%d %s" % (n, result) for result, n in sorted(s["tests"].items())))]
    lines += ["%-26s %d within the bound, %d beyond it; worst %.2f times it (%s)" %
              (precision, a["within_bound"], a["beyond_bound"], a["worst_over_bound"], a["worst"])
              for precision, a in s["agreement"].items()]
    lines += ["%-26s %s" % (part, json.dumps(figures)) for part, figures in s["figures"].items()]
    lines += ["%-26s %s  %s" % (f["result"], f["test"], json.dumps(f["alone"]) if f["alone"] else "") for f in s["failures"]]
    return "\n".join(lines)[-9000:]


# ---- The archive


def entries(state, out, last):
    """-> (name, bytes), what matters most first. PyTorch's kernels only at the end: they take seconds to pack."""
    for name in ("results.json", "journal.jsonl"):
        with open(os.path.join(out, name), "rb") as file:
            yield name, file.read()
    patterns = ["device/*/cache/**", "answers/**", "logs/*"] + (["device/*/torch/**"] if last else [])
    for pattern in patterns:
        for path in sorted(glob.glob(os.path.join(state, pattern), recursive=True)):
            if os.path.isfile(path):
                with open(path, "rb") as file:
                    data = file.read()
                if pattern == "logs/*" and len(data) > MOST_OF_A_LOG:
                    data = data[:MOST_OF_A_LOG // 4] + b"\n[...]\n" + data[-3 * MOST_OF_A_LOG // 4:]
                yield os.path.relpath(path, state), data


def publish(state, out, journal, last):
    """results.json and results.tar.gz, each replaced at once. What does not fit any more is left out."""
    write(os.path.join(out, "results.json"), json.dumps(summary(journal), indent=1).encode())
    archive, room = os.path.join(out, "results.tar.gz"), MOST_BYTES
    with tarfile.open(archive + ".part", "w:gz", compresslevel=6) as tar:
        for name, data in entries(state, out, last):
            room -= (size := len(zlib.compress(data, 1)) + 600)
            if room < 0:
                room += size
                continue
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    os.replace(archive + ".part", archive)


def make_folders(*folders):
    for folder in folders:
        os.makedirs(folder, exist_ok=True)


def write(path, data):
    with open(path + ".part", "wb") as file:
        file.write(data)
    os.replace(path + ".part", path)


def restore(earlier, state):
    """An earlier visit's journal, engine plans and compiled kernels. A journal beside the archive may be the newer one."""
    journal = os.path.join(os.path.dirname(os.path.abspath(earlier)), "journal.jsonl")
    os.makedirs(state, exist_ok=True)
    if earlier.endswith(".tar.gz"):
        with tarfile.open(earlier) as tar:
            tar.extractall(state, members=[m for m in tar if not m.name.startswith("logs/")], filter="data")
    there = os.path.join(state, "journal.jsonl")
    if os.path.exists(journal) and (not os.path.exists(there) or os.path.getsize(journal) > os.path.getsize(there)):
        shutil.copy(journal, there)
