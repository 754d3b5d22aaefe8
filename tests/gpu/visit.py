#!/usr/bin/env python3
"""A visit to a lent machine with a GPU: runs a table of steps in their order, and writes each result down at once.

  visit.py --out DIR                      for 540 seconds at most, and ends by itself
  visit.py --out DIR --continue JOURNAL   goes on: what an earlier visit has done is not done again

DIR/journal.jsonl has each result before the next program starts, DIR/results.json what they amount to after each step,
DIR/log.txt what the programs printed, DIR/trace.json the trace of a run. README.md says more.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import glob
import importlib.util
import json
import os
import queue
import re
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time

# A step takes at most `limit` seconds. `do`: the method of Visit that runs the command, records its output, and returns "done"
# or what is missing. The command of run_tests is a pattern for each of the parallel processes.
Step = collections.namedtuple("Step", "name limit do command")
BENCH = "{tests}/gpu_step_bench {pipelines}/networks/{network}.toml --backend {backend} --nondeterministic {sizes} "
SMALL_BENCH = BENCH.replace("{network}", "{small_network}").replace("{sizes}", "{small_sizes}")
RUN = "{bin}/pipeline-run --devices {backend}:0 --json --quiet --set=run.tune=measure --set=run.deterministic=false " \
      "--set=run.folder= --set=checkpoint.every=never "
AIRBENCH = RUN + "{pipelines}/cifar10_airbench.toml --set=data.path={cifar10} --set=validate.every=end {airbench} "
FILES = RUN + "{tests}/pipelines/resnet50_jpeg.toml --set=data.path={photographs} {files} "
TRACE = "env MILLRACE_CUDA_PROFILE=1 MILLRACE_CUDA_TRACE={out}/trace.json " + FILES + "--set=run.epochs=1 {traced}"
SANITIZER = "{sanitizer} --tool %s --destroy-on-device-error kernel --print-limit 50 {tests}/gpu_kernels_test"
TORCH = "env LD_LIBRARY_PATH={libraries} {python} {tests}/peers/"
PEERS = {"resnet50": TORCH + "resnet50.py --serve --batch 256 --steps 25",
         "airbench": TORCH + "airbench.py --serve --data {cifar10}"}
STEPS = (
    Step("machine", 30, "look_at_machine", "{bin}/pipeline-inspect devices"),
    Step("driver", 10, "measure", "{nvidia_smi} --format=csv "
         "--query-gpu=name,uuid,driver_version,compute_mode,power.limit,clocks.max.sm"),
    # PyTorch compiles for both races during the steps after this one, which measure no speed.
    Step("peers", 60, "start_peers", "{bin}/pipeline-data shapes {photographs}.part --force --validation 10 {shapes}"),
    Step("agreement", 110, "run_tests",
         "*GpuNetworks.AgreeInFloat32/* *GpuNetworks.AgreeInBf16/* *GpuFamilies.*:GpuLayers.*:GpuComparison.* "
         "*GpuOperators.AgreeInFloat32/*:*GpuOperators.AgreeInBf16/*"),
    Step("replica", 65, "run_tests", "GpuReplica.*"),
    Step("bits", 40, "run_tests", "*TrainToTheSameBitsInBf16/* *TrainToTheSameBitsInEveryWay/*"),
    Step("rest", 60, "run_tests", "*GpuNetworks.AgreeInTf32/* *GpuOperators.AgreeInTf32/* *GpuGradients.*"),
    Step("two devices", 20, "run_tests", "*GpuCommunicator.*"),
    Step("resnet50", 130, "race", BENCH + "--serve"),
    Step("airbench", 100, "race", AIRBENCH),
    Step("layers", 20, "measure", BENCH + "--layers"),
    Step("layers, airbench94", 20, "measure", SMALL_BENCH + "--layers"),
    Step("trace", 30, "measure", TRACE),
    Step("files", 60, "measure", FILES),
    Step("peers, reduce-overhead", 10, "start_peers", ""),  # they compile during the next steps
    Step("memcheck", 120, "measure", SANITIZER % "memcheck"),
    Step("racecheck", 60, "measure", SANITIZER % "racecheck"),
    Step("conformance", 30, "measure", "{tests}/conformance_test --gtest_filter=Discovered/EveryBackend.*/{backend}"),
    Step("recordings off", 60, "run_what_failed", "env MILLRACE_CUDA_WITHOUT=recordings "),
    Step("shortcuts off", 60, "run_what_failed",
         "env MILLRACE_CUDA_WITHOUT=accumulate,sign_bits,last_block,norm_pool "),
    Step("resnet50, reduce-overhead", 130, "race", BENCH + "--serve"),
    Step("airbench, reduce-overhead", 100, "race", AIRBENCH))
# Runs during a race and prints a line for each sample: MHz, MHz, W, degrees, and bits that say what holds the clocks back.
WATCH = "{nvidia_smi} --format=csv,noheader,nounits --loop-ms=200 " \
        "--query-gpu=clocks.sm,clocks.mem,power.draw,temperature.gpu,clocks_event_reasons.active"
# What stands for {NAME} in commands, besides folders of {programs}. --set changes one.
NAMES = {"backend": "cuda", "network": "resnet50", "sizes": "--tune measure --batch 256 --steps 25", "airbench": "",
         "small_network": "airbench94", "small_sizes": "--tune measure --batch 1024 --steps 25",
         "files": "", "traced": "--set=train.read.limit=5120", "shapes": "--size 400 --count 640",
         "python": sys.executable, "libraries": os.environ.get("LD_LIBRARY_PATH", ""), "nvidia_smi": "env nvidia-smi",
         "sanitizer": shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer",
         **{name: "/tmp/millrace-visit/" + name for name in ("programs", "cifar10", "photographs")}}
SIDES, FIGURES = ("millrace", "pytorch"), {"images_per_second", "seconds", "accuracy", "accuracy_tta"}
RACE = 60  # seconds of a race that belong to its turns; PyTorch may use the rest to get ready
LEASE = 860  # second of the lease by which all is over
FAILED = ("failed", "hung", "crashed")


def objects(lines):
    """The JSON objects among lines; what only looks like one, with a number that is none, is left out."""
    for line in lines:
        with contextlib.suppress(ValueError):
            if line.startswith("{"):
                yield json.loads(line)


class Program:
    """A program in a process group of its own. What it prints, errors too, is read by lines."""
    running, log = set(), os.devnull  # all that run; the file that gets the end of what each printed

    def __init__(self, words, env):
        self.words, self.late, self.lines, self.said = words, False, queue.SimpleQueue(), collections.deque(maxlen=2000)
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        env=env, process_group=0, bufsize=1, text=True, errors="replace")
        Program.running.add(self)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.said.append(line.rstrip("\n"))
            self.lines.put(self.said[-1])
        self.lines.put(None)

    def line(self, until):
        """The next line; None at the end, or when none has come until then: it is late."""
        with contextlib.suppress(queue.Empty):
            line = self.lines.get(timeout=max(0, until - time.monotonic()))
            if line is None:
                self.lines.put(None)  # for the next call
            return line
        self.late = True

    def lines_so_far(self):
        """The lines that have come and were not read yet."""
        found = []
        with contextlib.suppress(queue.Empty):
            while (line := self.lines.get_nowait()) is not None:
                found.append(line)
            self.lines.put(None)
        return found

    def says_ready(self):
        """True once it has printed that it is ready, or has ended."""
        return self.process.poll() is not None or any('"ready": true' in line for line in list(self.said))

    def answer(self, until):
        """The next JSON object that it prints; None when none comes in time."""
        return next(objects(iter(lambda: self.line(until), None)), None)

    def ask(self, until):
        """Sends an empty line, for which it prints an object."""
        with contextlib.suppress(OSError):  # it has ended
            self.process.stdin.write("\n")
        return self.answer(until)

    def tail(self, lines):
        return "\n".join(list(self.said)[-lines:])[-4000:]

    def end(self):
        """-> its exit status, below 0 for a signal. A process that even a kill does not end is left behind."""
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        for seconds in (0 if self.late else 10, 5):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(seconds)
            self.kill()
        Program.running.discard(self)
        with open(Program.log, "a") as log:
            log.write("== %s: %s\n%s\n" % (" ".join(self.words)[:300], self.process.returncode, "\n".join(self.said)))
        return self.process.returncode

    def kill(self):
        with contextlib.suppress(OSError):
            os.killpg(self.process.pid, signal.SIGKILL)


class Journal:
    """Events, each a JSON object on a line."""

    def __init__(self, path, lease, earlier):
        self.path, self.lease = path, lease
        with open(earlier) as file:
            lines = [line for line in file if line.endswith("\n")]  # a visit that was killed may have left half a line
        self.events = [json.loads(line) for line in lines]
        with open(path, "w") as file:
            file.writelines(lines)

    def add(self, event, **more):
        entry = {"event": event, "lease": round(self.lease(), 2), **more}
        self.events.append(entry)
        with open(self.path, "a") as file:  # in one piece, also when tests end side by side
            file.write(json.dumps(entry) + "\n")
        if event in ("end", "finish"):
            with open(os.path.join(os.path.dirname(self.path), "results.json"), "w") as file:
                json.dump(self.summary(), file, indent=1)
        if event in ("end", "figure", "peer") or entry.get("result") in FAILED:
            with contextlib.suppress(OSError):  # nobody reads it any more
                print(json.dumps(entry)[:200], flush=True)

    def of(self, *events):
        return [e for e in list(self.events) if e["event"] in events]

    def tests(self, *results):
        """Of each (program, test) its last result, if it is one of these."""
        last = {(e["program"], e["test"]): e for e in self.of("test")}
        return {test: e for test, e in sorted(last.items()) if e["result"] in results or not results}

    def rates(self, step):
        """Medians of each side since the step began last, and their ratios ours / theirs."""
        begun = max((i for i, e in enumerate(self.events) if (e["event"], e.get("part")) == ("begin", step)), default=0)
        rates = {side: collections.defaultdict(list) for side in SIDES}
        for e in self.events[begun:]:
            for key in FIGURES & e.keys() if (e["event"], e.get("part")) == ("figure", step) else ():
                rates[e["side"]][key].append(e[key])
        ours, theirs = ({key: statistics.median(each) for key, each in rates[side].items()} for side in SIDES)
        return dict(zip(SIDES, (ours, theirs)), ratios={key: ours[key] / theirs[key] for key in ours if key in theirs})

    def agreement(self):
        """Of comparisons with the CPU, how many are within the bound and beyond it, whatever a test lets pass."""
        found = collections.Counter()
        for (_, test), e in self.tests().items():
            for key, text in e["records"].items():
                if (off := re.match(r"(\S+) \(bound (\S+),", text)) and "GpuComparison." not in test:  # plants a fault
                    found[key.split()[0] + (" within" if float(off[1]) <= float(off[2]) else " beyond")] += 1
        return found

    def clocks(self):
        """For each race and side the medians of what the device did meanwhile, and all that held its clocks back."""
        samples, found = collections.defaultdict(list), {}
        for e in self.of("clocks"):
            samples[e["part"], e["side"]] += [line.split(", ") for line in e["samples"] if line.count(",") == 4]
        for (part, side), lines in samples.items():
            columns = [[float(word) for word in column if re.fullmatch(r"[\d.]+", word)] for column in list(zip(*lines))[:4]]
            medians = [statistics.median(column) if column else None for column in columns]
            found["%s, %s" % (part, side)] = {**dict(zip(("sm_mhz", "memory_mhz", "watts", "degrees"), medians)),
                                              "held_back": sorted({line[4] for line in lines}), "samples": len(lines)}
        return found

    def summary(self):
        parts = {e["part"]: "unfinished" for e in self.of("begin")} | {e["part"]: e["outcome"] for e in self.of("end")}
        return {"machine": self.of("machine")[-1:], "findings": self.of("finding", "layer", "answer"), "parts": parts,
                "printed": self.of("printed", "sanitizer"), "agreement": self.agreement(), "clocks": self.clocks(),
                "failures": [*self.tests(*FAILED).values(), *self.of("alone", "program ended", "device lost")],
                "tests": collections.Counter(e["result"] for e in self.tests().values()),
                "figures": {step: self.rates(step) for step in dict.fromkeys(e["part"] for e in self.of("figure"))}}


class Visit:
    def __init__(self, options):
        self.o, self.begun, self.scale, self.stopped = options, time.monotonic(), options.scale, False
        self.end = self.begun + min(options.seconds, LEASE - options.since) * self.scale
        self.names = {**NAMES, **dict(word.split("=", 1) for word in options.set), "out": options.out}
        self.env, self.device, self.peers, self.ready = dict(os.environ), None, {}, {}
        self.journal = Journal(os.path.join(options.out, "journal.jsonl"), self.lease, options.earlier)

    def lease(self):
        return self.o.since + (time.monotonic() - self.begun) / self.scale

    def start(self, command):
        names = {name: shlex.quote(text) if text.startswith("/") else text for name, text in self.names.items()}
        program = Program(shlex.split(command.format(**names)), self.env)
        if self.stopped:  # by a signal that came while this one was being started
            program.kill()
        return program

    def run(self, command, until):
        """-> (lines, exit status; below 0 for a signal, which it gets then)."""
        program = self.start(command)
        return list(iter(lambda: program.line(until), None)), program.end()

    def look_at_machine(self, step, until):
        self.unpack("programs")
        programs, backend = self.names["programs"], self.names["backend"]
        self.names.update(bin=programs + "/bin", tests=programs + "/tests",
                          pipelines=programs + "/share/millrace/pipelines")
        needed = {word for one in STEPS for word in one.command.split() if re.match("{(bin|tests)}", word)}
        if missing := [word for word in sorted(needed) if not os.path.exists(word.format(**self.names))]:
            sys.exit("visit.py: %s lacks %s, which tools/lend.sh packs" % (programs, ", ".join(missing)))
        # Both sides load the CUDA libraries of the Python that has PyTorch, which is this one.
        nvidia = importlib.util.find_spec("nvidia")
        cuda = [folder for place in (nvidia.submodule_search_locations if nvidia else [])
                for folder in sorted(glob.glob(place + "/*/lib"))] + glob.glob("/usr/local/cuda*/lib64")
        self.env.update(MILLRACE_GPU_TEST_BACKEND=backend, MILLRACE_TEST_RECORDS="1",
                        MILLRACE_PIPELINES=self.names["pipelines"], MILLRACE_CUDA_LIBRARIES=":".join(cuda),
                        LD_LIBRARY_PATH=":".join([programs + "/lib", programs + "/lib/carried", *cuda,
                                                  "/usr/local/nvidia/lib64"]))
        devices = self.run(step.command, until)[0]
        self.journal.add("machine", cores=os.cpu_count(), devices=devices, python=sys.executable, libraries=cuda)
        self.device = next((line.split(None, 1)[1] for line in devices if line.startswith(backend + ":0 ")), None)
        return "seen" if self.device else sys.exit("visit.py: backend %s has no device here" % backend)

    def unpack(self, name):
        place, here = self.names[name], os.path.dirname(os.path.abspath(__file__))
        if not os.path.exists(place):
            shutil.unpack_archive(os.path.join(here, name + ".tar.xz"), place + ".part")
            images = glob.glob(place + ".part/*/train")  # an archive of images may hold them in a folder
            os.rename(os.path.dirname(images[0]) if images else place + ".part", place)  # a whole folder or none

    def start_peers(self, step, until):
        _, comma, mode = step.name.partition(", ")
        for kind in PEERS:
            if kind == "airbench":  # the first peer compiles meanwhile
                self.unpack("cifar10")
            if not self.done(kind + comma + mode):
                self.start_peer(kind + comma + mode)
        place = self.names["photographs"]
        if step.command and not os.path.exists(place) and self.run(step.command, until)[1] == 0:
            for i, image in enumerate(glob.glob(place + ".part/train/*/*.jpg") * 19):  # each name costs a decoding
                os.link(image, "%s_%d.jpg" % (image, i))
            os.rename(place + ".part", place)
        return "begun"

    def start_peer(self, name):
        kind, _, mode = name.partition(", ")
        self.peers[name] = self.start("%s --mode %s" % (PEERS[kind], mode or "default"))

    def race(self, step, until):
        """Rounds of both sides in turns; ours alone where PyTorch is not ready in time."""
        if step.name not in self.peers:
            self.start_peer(step.name)
        for name in [name for name in self.peers if name not in self.ready]:  # none may compile during a race
            peer, patience = self.peers[name], until - RACE * self.scale
            self.ready[name] = peer.answer(patience) and peer.answer(patience)  # "loaded", "ready"
            self.journal.add("peer", part=name, ready=self.ready[name] or peer.tail(5))
            if not self.ready[name]:
                peer.end()
        bench, peer, whole = self.start(step.command) if "--serve" in step.command else None, self.peers[step.name], []
        watch = self.start(WATCH)
        for turn in range(self.o.turns if not bench or bench.answer(until) else 0):
            for side in SIDES if self.ready[step.name] else SIDES[:1]:
                watch.lines_so_far()  # of what came between two turns
                program = peer if side == "pytorch" else bench
                answer = program.ask(until) if program else self.train(step.command, turn + 1, until)
                self.figure(step, side, turn, answer or {})
                self.journal.add("clocks", part=step.name, side=side, turn=turn, samples=watch.lines_so_far())
                whole += [side] if answer and FIGURES & answer.keys() else []
        watch.kill()
        for program in filter(None, (bench, peer, watch)):
            program.end()
        lack = [side for side in SIDES if whole.count(side) < self.o.turns]
        return "not all figures of " + ", ".join(lack) if lack else "done"

    def figure(self, step, side, turn, answer):
        self.journal.add("figure", **{**answer, "part": step.name, "side": side, "turn": turn, "device": self.device})

    def train(self, command, seed, until):
        lines, status = self.run("%s --set=run.seed=%d" % (command, seed), until)
        events = [e for e in objects(lines) if e["event"] in ("epoch", "validate")]
        found = {e["graph"]: e["accuracy"] for e in events if e["event"] == "validate"}
        if status or not found.keys() >= {"validate", "final"}:
            return {"status": status}
        epochs = [e["seconds"] for e in events if e["event"] == "epoch"]
        return {"seconds": sum(epochs), "epochs": epochs, "accuracy": found["validate"], "accuracy_tta": found["final"]}

    def measure(self, step, until):
        """Of what it prints, epochs of a run are figures; other objects are findings, such as layers and answers."""
        lines, status = self.run(step.command, until)
        for found in objects(lines):
            kind = found.pop("event", "finding")
            if kind == "epoch":
                self.figure(step, "millrace", None, found)
            elif kind == "finding":
                self.journal.add(kind, **{**found, "part": step.name, "device": self.device})
        self.journal.add("printed", part=step.name, status=status, text="\n".join(lines[-12:])[-2000:])
        reports = [line for line in lines if re.search("SUMMARY: [1-9]|no device", line)]  # from compute-sanitizer
        return "done" if status == 0 and not reports else "; ".join(["status %d" % status, *reports])

    def run_tests(self, step, until):
        passed = [test for _, test in self.journal.tests("passed")]
        with concurrent.futures.ThreadPoolExecutor() as pool:
            bad = sum(pool.map(lambda pattern: self.test(pattern, passed, until, self.o.patience), step.command.split()))
        return "%d or more tests have not passed" % bad if bad else "done"

    def run_what_failed(self, step, until):
        for _, test in self.journal.tests(*FAILED):
            self.test(test, [], until, self.o.patience / 4, step.command, event="alone", way=step.name)
        return "done"

    def test(self, pattern, without, until, patience, prefix="", event="test", **more):
        """In as many processes as it takes: tests after one that hangs, crashes or loses the device run in another.
        A test hangs after so many seconds. -> how many have not passed, and one more if not all have run."""
        without, before, bad, more = [*without], None, 0, {"program": "gpu_backend_test", **more}
        while time.monotonic() < min(until, self.end) and len(without) != before:
            before, skip, test = len(without), ":".join(without), None
            program = self.start("%s{tests}/gpu_backend_test --gtest_filter=%s-%s" % (prefix, pattern, skip))
            while found := program.answer(min(until, time.monotonic() + patience)):
                test = found.get("begins")
                if "test" in found:
                    self.journal.add(event, **found, **more)
                    without.append(found["test"])
                    bad += found["result"] != "passed"
            status = program.end()
            if self.stopped:  # this script has ended it
                break
            if test and time.monotonic() < until:
                self.journal.add(event, test=test, result="hung" if program.late else "crashed", records={},
                                 text=program.tail(20), **more)
                without.append(test)
                bad += 1
            elif status in (0, 1):
                return bad
            self.journal.add("program ended", after=without[-1:], status=status, text=program.tail(8), **more)
        return bad + 1

    def done(self, name):
        return (name, "done", self.device) in [(e["part"], e["outcome"], e["device"]) for e in self.journal.of("end")]

    def take(self, step):
        until = min(self.end, time.monotonic() + step.limit * self.scale)
        if self.done(step.name):
            return
        if time.monotonic() >= self.end:
            return self.journal.add("end", part=step.name, outcome="not reached", device=None)
        self.journal.add("begin", part=step.name, limit=step.limit)
        try:
            outcome = getattr(self, step.do)(step, until)
        except Exception as error:  # in this script: other steps may succeed
            outcome = "failed: %s: %s" % (type(error).__name__, error)
        self.journal.add("end", part=step.name, outcome=outcome, device=self.device)

    def next(self, left):
        """The first step of these, but a race as soon as no peer compiles any more and its own is ready."""
        if all(peer.says_ready() for peer in self.peers.values()):
            for step in left:
                if step.do == "race" and step.name in self.peers:
                    return step
        return left[0]

    def stop(self, *_):
        """Ends what runs. No exception: threads that run tests would go on, and write after the last event."""
        self.end, self.stopped = 0, True
        for program in list(Program.running):
            program.kill()


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--out", required=True, help="a folder for the journal and what becomes of it")
    p.add_argument("--continue", dest="earlier", metavar="JOURNAL", default=os.devnull, help="of an earlier visit")
    p.add_argument("--since", type=float, default=90, help="second of the lease at which this begins")
    p.add_argument("--seconds", type=float, default=540, help="that this takes at most")
    p.add_argument("--scale", type=float, default=1, help="seconds of a clock for a second of a limit")
    p.add_argument("--patience", type=float, default=60, help="seconds of a clock that a test may take")
    p.add_argument("--turns", type=int, default=5, help="of each side in a race")
    p.add_argument("--set", action="append", default=[], help="NAME=VALUE: what stands for {NAME} in commands")
    options = p.parse_args()
    os.makedirs(options.out, exist_ok=True)
    Program.log, visit = os.path.join(options.out, "log.txt"), Visit(options)
    signal.signal(signal.SIGTERM, visit.stop)
    visit.journal.add("start", since=options.since, scale=options.scale, words=sys.argv[1:])
    left, why = list(STEPS), "failed"
    try:
        while left and not visit.stopped:
            step = visit.next(left)
            left.remove(step)
            visit.take(step)
        why = "stopped by a signal" if visit.stopped else "done"
    except SystemExit as error:
        why = str(error)
    finally:
        visit.stop()
        visit.journal.add("finish", why=why)
    return why if why != "done" else 0


if __name__ == "__main__":
    sys.exit(main())
