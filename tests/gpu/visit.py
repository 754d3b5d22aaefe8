#!/usr/bin/env python3
"""A visit to a lent machine with a GPU: starts test and benchmark programs, and writes down each result at once.

  visit.py --out DIR                             the first command of a visit
  visit.py --out DIR --again                     the second one, on the same machine: what failed, each test alone
  visit.py --out DIR --continue results.tar.xz   another visit: what an earlier one left, and more

Every result is a line of DIR/journal.jsonl before the next program starts. After each part DIR also gets results.json
and results.tar.xz: the journal, engine plans, logs, a trace, and PyTorch's compiled kernels. README.md says more.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import glob
import itertools
import json
import os
import queue
import re
import shutil
import signal
import sys
import tarfile
import threading
import time

from visit_kit import Child, Journal, first_of, groups_of, listed, matches, objects, restore, tail_of, test_results

# Seconds of the lease. A part ends at `end` at the latest, whatever it has reached, and the next one begins then, or as
# soon as it has ended. `do`: a method of Visit, called with (name, end, *arguments); none: that of the part's name.
Part = collections.namedtuple("Part", "name begin end do arguments", defaults=("", ()))
BEST = ("--mode", "max-autotune")  # of torch.compile, with CUDA graphs
AGREE = ("*GpuNetworks.AgreeInFloat32/*", "*GpuNetworks.AgreeInBf16/*", "*GpuFamilies.*", "GpuLayers.*",
         "*GpuOperators.AgreeInFloat32/*", "*GpuOperators.AgreeInBf16/*", "GpuComparison.*")
FIRST = [Part("machine", 90, 97), Part("compile", 97, 205), Part("questions", 97, 109),
         Part("agreement", 109, 215, "tests", (2, 4, *AGREE)), Part("resnet50", 215, 310), Part("layers", 310, 325),
         Part("airbench", 325, 400, "airbench", (2,)),
         Part("trace", 400, 430, "photographs", (1, "--set=train.read.limit=5120")), Part("sanitizer", 430, 490),
         Part("replica", 490, 555, "tests", (1, 1, "GpuReplica.*")),
         Part("bits", 555, 590, "tests", (1, 4, "*GpuNetworks.TrainToTheSameBits*"))]
AGAIN = [Part("machine", 620, 630), Part("alone", 630, 860), Part("files", 630, 860, "photographs", (3,))]
# Another visit begins with what is left of FIRST, each part as long as there, and goes on with these until second 590.
MORE = [Part("rest", 97, 247, "tests",
             (1, 4, "*AgreeInTf32*", "*GpuGradients.*", "*GpuCommunicator.*", "Discovered/EveryBackend.*")),
        Part("files", 247, 307, "photographs", (3,)), Part("airbench, five seeds", 307, 427, "airbench", (5, *BEST)),
        Part("resnet50, max-autotune", 427, 590, "resnet50", BEST)]
EVERY_TIME = ("machine", "compile")
UNTIMED = ("machine", "compile", "questions", "agreement")  # may run while PyTorch compiles
LAST_WORDS = 15  # seconds behind the last part, after which this command ends itself whatever holds it

FIND_TORCH = """import importlib.util, json, sys
for place in sys.path if importlib.util.find_spec("torch") else []: print(json.dumps({"place": place}))"""
QUESTIONS = ("device", "events", "nccl", "dgrad", "genstats")
GROUPS = (("*GpuNetworks.*", 1), ("*GpuFamilies.*", 6), ("*", 64))  # tests that share a process; the longest first
TEST_LIMIT = 60  # seconds after which a test counts as hung
DEVICE_LOST = 4  # the exit status of a test program that ended itself since its device answers no more
WAYS = {"as it is": {}, "recordings off": {"MILLRACE_CUDA_WITHOUT": "recordings"},
        "shortcuts off": {"MILLRACE_CUDA_WITHOUT": "accumulate,two_gradients,sign_bits,last_block,norm_pool"}}
FAIR = ["--set=run.tune=measure", "--set=run.deterministic=false", "--set=run.folder="]  # as cudnn.benchmark has it
TRIAL = {"airbench": ["network.use=quickstart", "train.optimizer.groups=[]", "run.epochs=1", "train.batch.size=8",
                      "train.read.limit=16", "final.read.limit=8", "validate.read.limit=8"],
         "files": ["network.use=quickstart", "run.precision=fp32", "train.batch.size=8", "train.read.limit=16",
                   "train.decode_image.size=[32, 32]"]}  # with a simulated GPU


class Visit:
    def __init__(self, options):
        self.o, self.begun, self.logs = options, time.monotonic(), itertools.count(1)
        self.parts = AGAIN if options.again else FIRST + MORE if options.earlier else FIRST
        self.last, self.since = self.parts[-1].end, options.since or self.parts[0].begin
        self.programs, self.data = options.programs or self.state("programs"), options.data or self.state("cifar10")
        self.cores, self.trial = sorted(os.sched_getaffinity(0)), options.backend != "cuda"
        self.env, self.device, self.python, self.exclusive = dict(os.environ), options.backend, sys.executable, False
        self.others = self.cores[len(self.cores) // 2:]  # what measures nothing, beside tests
        for folder in (options.out, self.state("logs"), self.state("answers")):
            os.makedirs(folder, exist_ok=True)
        if options.earlier:
            restore(options.earlier, options.state)
        self.journal = Journal(options.state, options.out, self.lease)
        self.preparation = threading.Thread(target=self.attempt, args=("preparation", self.prepare), daemon=True)

    def lease(self):
        return self.since + (time.monotonic() - self.begun) / self.o.scale

    def seconds(self, end):
        """Of a clock, until that second of the lease."""
        return max(0.0, (end - self.lease()) * self.o.scale)

    def state(self, name):
        return os.path.join(self.o.state, name)

    def own(self, name):
        return os.path.join(self.programs, name)

    # ---- Programs

    def start(self, words, name, env=None, cores=None):
        log = "%d-%03d-%s" % (self.begun, next(self.logs), re.sub(r"[^A-Za-z0-9.-]+", "-", name))
        return Child(words, self.state("logs/" + log), {**self.env, **(env or {})}, cores)

    def run(self, words, name, seconds, env=None, cores=None):
        """-> (lines, exit status; below 0 for a signal, which it gets after `seconds`)."""
        child, limit = self.start(words, name, env, cores), time.monotonic() + seconds
        return list(iter(lambda: child.line(limit - time.monotonic()), None)), child.end()

    def machine(self, _, end):
        self.unpack("programs", self.programs)
        smi, places, asked = {}, [], "name,uuid,driver_version,memory.total,compute_mode,clocks.max.sm,power.limit"
        if not self.trial:
            says = self.run(["sh", "-c", "nvidia-smi --format=csv,noheader --query-gpu=" + asked], "nvidia-smi", 30)[0]
            smi = dict(zip(asked.split(","), ", ".join(says[:1]).split(", ")))
            self.python = first_of("/opt/*/.venv/bin/python3") or shutil.which("python3") or sys.executable
            places = [found["place"] for found in objects(self.run([self.python, "-c", FIND_TORCH], "torch", 30)[0])]
        self.device = smi.get("name") or self.o.backend
        self.exclusive = "exclusive" in smi.get("compute_mode", "").lower()  # one process at a time
        self.sanitizer_program = shutil.which("compute-sanitizer") or first_of("/usr/local/cuda*/bin/compute-sanitizer")
        kept = self.state("device/" + re.sub(r"[^A-Za-z0-9]+", "-", self.device))  # of one model of device
        # CUDA's libraries are those that PyTorch brings, if it does: both sides use the same.
        cuda = [folder for place in places for folder in sorted(glob.glob(place + "/nvidia/*/lib"))]
        cuda += glob.glob("/usr/local/cuda*/lib64")
        self.env.update(MILLRACE_GPU_TEST_BACKEND=self.o.backend, MILLRACE_TEST_RECORDS="1",
                        MILLRACE_CACHE=kept + "/cache", MILLRACE_CUDA_LIBRARIES=":".join(cuda),
                        MILLRACE_PIPELINES=self.own("share/millrace/pipelines"),
                        TORCHINDUCTOR_CACHE_DIR=kept + "/torch/inductor", TRITON_CACHE_DIR=kept + "/torch/triton")
        if not self.o.programs:
            libraries = [self.own("lib"), self.own("lib/carried"), *cuda, "/usr/local/nvidia/lib64"]
            self.env["LD_LIBRARY_PATH"] = ":".join(libraries)
        devices, status = self.run([self.own("bin/pipeline-inspect"), "devices"], "devices", 30)
        self.journal.add("machine", device=self.device, nvidia_smi=smi, cores=len(self.cores), devices=devices,
                         python=self.python, libraries=cuda, sanitizer=self.sanitizer_program)
        there = any(line.startswith(self.o.backend + ":0") for line in devices)
        return "done" if status == 0 and there else "there is no device"

    def unpack(self, name, place):
        archive = first_of(os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".tar.*"))
        if not os.path.exists(place) and archive:
            with tarfile.open(archive) as tar:
                tar.extractall(place + ".part", filter="tar")
            os.rename(place + ".part", place)  # a whole folder or none

    # ---- Preparation, in the background on half of the cores

    def compile(self, *_):
        self.preparation.start()

    def prepare(self):
        """CIFAR-10, photographs, and PyTorch's compiler for both peers at once."""
        best = BEST if "done" == self.journal.last_outcome("resnet50") == self.journal.last_outcome("airbench") else []
        end, warm = self.lease() + 205 - 97, ["--warm-only", *best]
        compilers = [] if self.exclusive else [self.peer("resnet50", *warm)]
        self.unpack("cifar10", self.data)
        self.data = os.path.dirname(first_of(self.data + "/train", self.data + "/*/train") or self.data + "/train")
        compilers += [] if self.exclusive else [self.peer("airbench", *warm)]
        self.draw_photographs(end)
        for child in compilers:
            ready = child.answer(self.seconds(end)) and child.answer(self.seconds(end))  # "loaded", "ready"
            self.journal.add("prepared", what=os.path.basename(child.log), ready=ready or tail_of(child.log, 3))
            child.end()
        return "done"

    def draw_photographs(self, end):
        """640 drawn images of 400 x 400 pixels, each under twenty names: decoding costs the same again each time."""
        place, part = self.state("photographs"), self.state("photographs.part")
        size = ["--size", "64", "--count", "40"] if self.trial else ["--size", "400", "--count", "640"]
        words = [self.own("bin/pipeline-data"), "shapes", part, "--force", "--validation", "10", *size]
        if not os.path.exists(place) and self.run(words, "shapes", self.seconds(end), cores=self.others)[1] == 0:
            for image, i in itertools.product(glob.glob(part + "/train/*/*.jpg"), range(0 if self.trial else 19)):
                os.link(image, "%s_%d.jpg" % (image, i))
            os.rename(part, place)

    def peer(self, name, *more):
        words = [self.python, self.own("tests/peers/%s.py" % name), *more]
        words += ["--batch", "256", "--steps", "25"] if name == "resnet50" else ["--data", self.data]
        env = {"LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", "")}
        return self.start(words, "torch-" + name, env, self.others if "--warm-only" in more else None)

    # ---- Questions and tests

    def questions(self, _, end):
        answered = [e["question"] for e in self.journal.of("answer") if e["status"] == 0]
        left, failed = [question for question in QUESTIONS if question not in answered], []
        for i, name in enumerate(left):
            share = max(2 * self.o.scale, self.seconds(end) / (len(left) - i))
            words = [self.own("tests/gpu_questions"), name, "%.1f" % share]
            lines, status = self.run(words, "question-" + name, share + 5 * self.o.scale)
            self.journal.add("answer", question=name, status=status, device=self.device, answers=list(objects(lines)))
            failed += [name] if status else []
        return "not answered: " + ", ".join(failed) if failed else "done"

    def list_tests(self, patterns):
        """-> (program, test) of all that match and have not passed."""
        passed, found = [test for test, e in self.journal.results().items() if e["result"] == "passed"], []
        for program in sorted(glob.glob(self.own("tests/*_test"))):
            name = os.path.basename(program)
            found += [(name, test) for test in listed(self.run([program, "--gtest_list_tests"], "list-" + name, 60)[0])]
        wanted = [of for of in found if matches(of[1], patterns) and matches(of[1], self.o.filter.split(":"))]
        return [of for of in wanted if of not in passed]

    def tests(self, _, end, share, workers, *patterns):
        """On a part of the cores, in so many processes at once."""
        cores, free = self.cores[:len(self.cores) // share or 1], queue.SimpleQueue()
        workers = 1 if self.exclusive else min(workers, len(cores))
        for i in range(workers):
            free.put(cores[i::workers])

        def work(group):
            own = free.get()
            self.run_group(*group, end, own)
            free.put(own)
        with concurrent.futures.ThreadPoolExecutor(workers) as pool:
            list(pool.map(work, groups_of(self.list_tests(patterns), GROUPS)))
        left = len(self.list_tests(patterns))
        return "%d tests have not passed" % left if left else "done"

    def run_group(self, program, tests, end, cores, env=None, event="test", patience=TEST_LIMIT, **more):
        """In as many processes as it takes: tests behind one that hangs, crashes or loses the device run in another."""
        left, last = list(tests), None
        while left and self.seconds(end) > 0:
            child = self.start([self.own("tests/" + program), "--gtest_filter=" + ":".join(left)], program, env, cores)
            began = len(left)
            for result in test_results(child, patience * self.o.scale, lambda: self.seconds(end)):
                last = result["test"]
                left.remove(last)
                self.journal.add(event, program=program, **result, **more)
            if child.process.returncode == DEVICE_LOST:
                self.journal.add("device lost", program=program, after=last, text=tail_of(child.log, 3))
            if len(left) == began and self.seconds(end) > 0:
                self.journal.add(event, program=program, test=left.pop(0), result="crashed", seconds=0,
                                 text="did not begin\n" + tail_of(child.log, 8), **more)

    def alone(self, _, end):
        runs = [(way, *test) for way in WAYS for test in self.journal.failed()]
        for i, (way, program, test) in enumerate(runs):
            patience = max(10, (end - self.lease()) / (len(runs) - i + 1))
            self.run_group(program, [test], end, self.cores, WAYS[way], "alone", patience, way=way)
        return "done" if runs else "nothing failed"

    # ---- Measurements. Ours never waits for PyTorch: where that is not ready in time, ours stands alone

    def race(self, part, ours, peer, early, rounds, end):
        """Rounds of both in turns; the `early` first ones of ours come before the peer is asked to be ready."""
        for i in range(early if ours else 0):
            self.figure(part, "millrace", i, ours(i))
        until = end - 0.3 * max(0, end - self.lease())
        ready = peer and peer.answer(self.seconds(until)) and peer.ask(self.seconds(until))  # "loaded", "ready"
        if peer:
            self.journal.add("peer", part=part, ready=ready or tail_of(peer.log, 5))
        for i in rounds:
            if ours and i >= early and self.seconds(end) > 0:
                self.figure(part, "millrace", i, ours(i))
            if ready and self.seconds(end) > 0:
                self.figure(part, "pytorch", i, peer.ask(self.seconds(end)))
        if peer:
            peer.end()
        return self.journal.outcome(part)

    def figure(self, part, side, turn, answer):
        known = {"part": part, "side": side, "turn": turn, "device": self.device}
        self.journal.add("figure", **{**(answer or {}), **known})

    def bench(self, *more):
        network = self.own("share/millrace/pipelines/networks/%s.toml" % ("quickstart" if self.trial else "resnet50"))
        sizes = "--batch 8 --precision fp32 --steps 1 --warm-up 1" if self.trial else "--batch 256 --steps 25"
        return [self.own("tests/gpu_step_bench"), network, "--backend", self.o.backend, "--nondeterministic",
                *sizes.split(), *more]

    def resnet50(self, part, end, *peer_words):
        # Engines are chosen by timing, in half of the time at most; then by heuristics.
        for tune, until in (("measure", (self.lease() + end) / 2), ("heuristic", end)):
            bench = self.start(self.bench("--serve", "--tune", tune), "resnet50-" + tune)
            if ready := bench.answer(self.seconds(until)):
                break
            bench.end()
        ours = (lambda _: bench.ask(self.seconds(end))) if ready else None
        peer = None if self.exclusive else self.peer("resnet50", "--serve", *peer_words)
        outcome = self.race(part, ours, peer, 5, range(5, 10), end)
        bench.end()
        if not self.exclusive:
            return outcome
        return self.race(part, None, self.peer("resnet50", "--serve", *peer_words), 0, range(5), end)

    def layers(self, _, end):
        """Of a step of ResNet-50: each layer's time, the bytes that it must move, and the rates that follow."""
        lines, status = self.run(self.bench("--layers", "--tune", "measure"), "layers", self.seconds(end))
        for layer in objects(lines):
            self.journal.add("layer", **{**layer, "device": self.device})
        return "done" if status == 0 else "failed"

    def pipeline(self, name, words, end, trial, env=None):
        """-> the events that pipeline-run prints, by kind."""
        words = [self.own("bin/pipeline-run"), *words, *FAIR, "--devices", self.o.backend + ":0", "--json", "--quiet"]
        words += ["--set=" + word for word in TRIAL[trial]] if self.trial else []
        lines, status = self.run(words, name, self.seconds(end), env)
        events = collections.defaultdict(list, status=status)
        for event in objects(lines):
            events[event.pop("event")].append(event)
        return events

    def airbench(self, part, end, seeds, *peer_words):
        def ours(i):
            recipe = self.own("share/millrace/pipelines/cifar10_airbench.toml")
            events = self.pipeline(part, [recipe, "--set=data.path=" + self.data, "--set=validate.every=end",
                                          "--set=run.seed=%d" % (i + 1)], end, "airbench")
            if events["status"] != 0:
                return {"status": events["status"]}
            accuracy = events["validate"][-1]["accuracy"]
            return {"seconds": sum(e["seconds"] for e in events["epoch"]), "accuracy": accuracy}
        peer = None if self.exclusive else self.peer("airbench", "--serve", *peer_words)
        return self.race(part, ours, peer, 1, range(seeds), end)

    def photographs(self, part, end, epochs, *more):
        if self.o.again and self.journal.failed():
            return "something failed"
        self.draw_photographs(end)
        words = [self.own("tests/pipelines/resnet50_jpeg.toml"), "--set=run.epochs=%d" % epochs]
        words += ["--set=data.path=" + self.state("photographs"), *([] if self.trial else more)]
        profile = {"MILLRACE_CUDA_PROFILE": "1", "MILLRACE_CUDA_TRACE": self.state("answers/trace.json")}
        for epoch in self.pipeline(part, words, end, "files", profile)["epoch"]:
            self.figure(part, "millrace", None, epoch)
        return self.journal.outcome(part, ["millrace"])

    def sanitizer(self, _, end):
        """Each kernel of our own once, without cuDNN in the process."""
        if not self.sanitizer_program:
            return "there is no compute-sanitizer"
        found = []
        for tool, until in (("memcheck", (self.lease() + end) / 2), ("racecheck", end)):
            words = [self.sanitizer_program, "--tool", tool, "--print-limit", "20", self.own("tests/gpu_kernels_test")]
            lines, status = self.run(words, tool, self.seconds(until))
            found += re.findall(r"SUMMARY: (\d+)", "\n".join(lines)) or ["none"]
            found += ["status %d" % status] if status else []
            self.journal.add("sanitizer", tool=tool, status=status, text="\n".join(lines[-12:]))
        return "done" if found == ["0", "0"] else "reports: " + ", ".join(found)

    # ---- All of it

    def run_part(self, part):
        end = min(self.last, self.lease() + part.end - part.begin) if self.o.earlier else part.end
        ends = [(e["part"], e["outcome"], e["device"]) for e in self.journal.of("end")]
        if (part.name, "done", self.device) in ends and part.name not in EVERY_TIME:
            return
        if self.seconds(end) <= 0:
            self.journal.add("end", part=part.name, outcome="not reached", device=None)
            return
        if part.name not in UNTIMED and self.preparation.is_alive():
            self.preparation.join(self.seconds(end))
        self.journal.add("begin", part=part.name, until=end)
        self.attempt(part.name, lambda: getattr(self, part.do or part.name)(part.name, end, *part.arguments))
        self.journal.publish(last=False)

    def attempt(self, name, work):
        try:
            outcome = work() or "begun"
        except Exception as error:  # of this script: other parts may fare better
            outcome = "failed: %s: %s" % (type(error).__name__, error)
        self.journal.add("end", part=name, outcome=outcome, device=self.device)

    def finish(self, why):
        try:
            for child in list(Child.alive):
                child.kill()
            self.journal.add("finish", why=why)
            print(json.dumps(self.journal.publish(last=True), indent=1)[-9000:], flush=True)
        finally:
            if why == "held up":
                os._exit(1)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--out", required=True, help="gets the journal and the results")
    p.add_argument("--again", action="store_true", help="what failed, each test alone; or else photographs")
    p.add_argument("--continue", dest="earlier", metavar="RESULTS", help="results.tar.xz of an earlier visit")
    p.add_argument("--since", type=float, help="second of the lease at which this begins (90; 620 with --again)")
    p.add_argument("--state", default="/tmp/millrace-visit", help="where programs, plans and the journal live")
    p.add_argument("--data", help="CIFAR-10 as JPEG files (cifar10.tar.xz beside this script)")
    p.add_argument("--backend", default="cuda")
    p.add_argument("--programs", help="a folder with bin, tests and share (programs.tar.xz beside this script)")
    p.add_argument("--filter", default="*", help="only these tests")
    p.add_argument("--scale", type=float, default=1, help="seconds of a clock that a second of the schedule takes")
    visit = Visit(p.parse_args())
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    timer = threading.Timer(visit.seconds(visit.last + LAST_WORDS), visit.finish, ["held up"])
    timer.daemon = True
    timer.start()
    try:
        visit.journal.add("start", since=visit.since, scale=visit.o.scale, words=sys.argv[1:])
        for part in visit.parts:
            visit.run_part(part)
    finally:
        visit.finish("stopped" if sys.exc_info()[0] else "done")


if __name__ == "__main__":
    main()
