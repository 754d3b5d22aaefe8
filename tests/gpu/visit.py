#!/usr/bin/env python3
"""A visit to a lent machine with a GPU: starts test and benchmark programs, and writes down each result at once.

  visit.py --out DIR                             the first command of a visit
  visit.py --out DIR --again                     the second one, on the same machine: what failed, each test alone
  visit.py --out DIR --continue results.tar.gz   another visit: what an earlier one left, and more

Every result is a line of DIR/journal.jsonl, on disk before the next program starts. After each part DIR also gets results.json
and results.tar.gz: the journal, engine plans, logs, a trace, and PyTorch's compiled kernels. README.md says more.
"""

import argparse
import collections
import contextlib
import glob
import os
import queue
import re
import signal
import sys
import threading
import time

import visit_machine as on_machine
import visit_results as results
import visit_tests as gtest
from visit_processes import Child, objects, tail_of

# Seconds of the lease; the command begins at second --since of it. A part ends at `end` at the latest, whatever it has reached,
# and the next one begins as soon as it has ended. `compile` goes on beside the parts behind it, until its own end.
Part = collections.namedtuple("Part", "name begin end")
FIRST = [Part("machine", 90, 97), Part("compile", 97, 205), Part("questions", 97, 109), Part("agreement", 109, 215),
         Part("resnet50", 215, 310), Part("layers", 310, 325), Part("airbench", 325, 400), Part("trace", 400, 430),
         Part("sanitizer", 430, 490), Part("bits", 490, 590)]
AGAIN = [Part("machine", 620, 630), Part("alone", 630, 860), Part("files", 630, 860)]
# Another visit begins with what is left of FIRST, each part as long as there, and goes on with these until second 590.
MORE = [Part("rest", 97, 247), Part("files", 247, 307), Part("airbench, five seeds", 307, 427),
        Part("resnet50, max-autotune", 427, 590)]
UNTIMED = ("machine", "compile", "questions", "agreement")  # may run while PyTorch compiles
LAST_WORDS = 15  # seconds behind the last part, after which this command ends itself whatever holds it

QUESTIONS = ("device", "events", "nccl", "dgrad", "genstats")
WAYS = {"as it is": {}, "recordings off": {"MILLRACE_CUDA_WITHOUT": "recordings"},
        "shortcuts off": {"MILLRACE_CUDA_WITHOUT": "accumulate,two_gradients,sign_bits,last_block,norm_pool"}}
BEST = ("--mode", "max-autotune")  # of torch.compile, with CUDA graphs
FAIR = ["--set=run.tune=measure", "--set=run.deterministic=false", "--set=run.folder="]  # as cudnn.benchmark has it
TRIAL = {"airbench": ["network.use=quickstart", "train.optimizer.groups=[]", "run.epochs=1", "train.batch.size=8",
                      "train.read.limit=16", "final.read.limit=8", "validate.read.limit=8"],
         "files": ["network.use=quickstart", "run.precision=fp32", "train.batch.size=8", "train.read.limit=16",
                   "train.decode_image.size=[32, 32]"]}  # with a simulated GPU


class Visit:
    def __init__(self, options):
        self.o, self.begun, self.env, self.patience = options, time.monotonic(), None, gtest.TEST_LIMIT
        self.more = bool(options.earlier)
        self.parts = AGAIN if options.again else FIRST + MORE if self.more else FIRST
        self.last, self.since = self.parts[-1].end, options.since or self.parts[0].begin
        results.make_folders(options.out, self.state("logs"), self.state("answers"))
        if self.more:
            results.restore(options.earlier, options.state)
        self.journal = results.Journal(options.state, options.out, self.lease)
        self.cores = sorted(os.sched_getaffinity(0))
        self.half = self.cores[:max(1, len(self.cores) // 2)]
        self.others = set(self.cores[len(self.half):] or self.cores)
        self.programs = options.programs or self.state("programs")
        self.data = options.data or self.state("cifar10")
        self.trial = options.backend != "cuda"
        self.preparation, self.logs = threading.Thread(target=self.attempt, args=("preparation", self.prepare), daemon=True), 0

    def lease(self):
        return self.since + (time.monotonic() - self.begun) / self.o.scale

    def seconds(self, end):
        """Of a clock, until that second of the lease."""
        return max(0.0, (end - self.lease()) * self.o.scale)

    def state(self, name):
        return os.path.join(self.o.state, name)

    def own(self, name):
        return os.path.join(self.programs, name)

    def log(self, name):
        self.logs += 1
        return self.state("logs/%d-%03d-%s" % (self.begun, self.logs, re.sub(r"[^A-Za-z0-9.-]+", "-", name)))

    def run(self, words, name, seconds, env=None, cores=None):
        """-> (lines, exit status; below 0 for a signal, which it gets after `seconds`)."""
        child, lines, limit = Child(words, self.log(name), env or self.env, cores), [], time.monotonic() + seconds
        while (line := child.line(limit - time.monotonic())) is not None:
            lines.append(line)
        return lines, child.end()

    def machine(self, end):
        self.unpack("programs", self.programs, end + 20)
        found = {} if self.trial else on_machine.device()
        self.device = found.get("name", self.o.backend)
        self.exclusive = "exclusive" in found.get("compute_mode", "").lower()  # one process at a time
        self.python, places = (sys.executable, []) if self.trial else on_machine.python_with_torch()
        # Plans and kernels are for one model of device.
        self.env, self.peer_env = on_machine.environments(self.state("device/" + re.sub(r"[^A-Za-z0-9]+", "-", self.device)),
                                                          self.programs, bool(self.o.programs), self.o.backend, places)
        inspect = [self.own("bin/pipeline-inspect"), "devices"]
        devices, status = self.run(inspect, "devices", 30)
        if status and not self.o.programs:  # this machine's C++ library may be too old
            self.env["LD_LIBRARY_PATH"] = self.own("lib/carried/cxx") + ":" + self.env["LD_LIBRARY_PATH"]
            devices, status = self.run(inspect, "devices", 30)
        self.journal.add("machine", device=self.device, nvidia_smi=found, cores=len(self.cores), kernel=os.uname().release,
                         python=self.python, torch=bool(places), libraries=self.env["MILLRACE_CUDA_LIBRARIES"],
                         sanitizer=on_machine.sanitizer(), devices=devices, status=status)
        there = any(line.startswith(self.o.backend + ":0") for line in devices)
        return "done" if status == 0 and there else "there is no device"

    def unpack(self, name, place, end):
        archive = os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".tar.gz")
        if not os.path.exists(place) and os.path.exists(archive):
            _, status = self.run([sys.executable, "-c", on_machine.UNPACK, archive, place], name, self.seconds(end))
            self.journal.add("prepared", what=name, status=status)

    def unpack_images(self, end):
        self.unpack("cifar10", self.data, end)
        for train in glob.glob(self.data + "/*/train"):  # an archive may have one folder around them
            self.data = os.path.dirname(train)

    def prepare(self):
        """In the background, on half of the cores: data, photographs, and PyTorch's compiler for both peers at once."""
        end, warm = self.lease() + 205 - 97, ["--warm-only", *(BEST if self.more else [])]
        compilers = [] if self.exclusive else [self.peer("resnet50", *warm)]
        self.unpack_images(end)
        compilers += [] if self.exclusive else [self.peer("airbench", *warm)]
        self.draw_photographs(end)
        for child in compilers:
            ready = child.answer(self.seconds(end)) and child.answer(self.seconds(end))
            self.journal.add("prepared", what=os.path.basename(child.log), ready=ready or tail_of(child.log, 3))
            child.end()
        return "done"

    def draw_photographs(self, end):
        """640 drawn images of 400 x 400 pixels, each under twenty names: decoding costs the same again each time."""
        place, part = self.state("photographs"), self.state("photographs.part")
        size = ["--size", "64", "--count", "40"] if self.trial else ["--size", "400", "--count", "640"]
        words = [self.own("bin/pipeline-data"), "shapes", part, "--force", "--validation", "10", *size]
        if not os.path.exists(place) and self.run(words, "shapes", self.seconds(end), cores=self.others)[1] == 0:
            for image in glob.glob(part + "/train/*/*.jpg"):
                for i in range(0 if self.trial else 19):
                    os.link(image, "%s_%d.jpg" % (image, i))
            os.rename(part, place)

    def peer(self, name, *more):
        words = [self.python, self.own("tests/peers/%s.py" % name), *more]
        words += ["--batch", "256", "--steps", "25"] if name == "resnet50" else ["--data", self.data]
        return Child(words, self.log("torch-" + name), self.peer_env, self.others if "--warm-only" in more else None)

    def questions(self, end):
        left = self.journal.unanswered(QUESTIONS)
        for i, name in enumerate(left):
            share = max(2 * self.o.scale, self.seconds(end) / (len(left) - i))
            lines, status = self.run([self.own("tests/gpu_questions"), name, "%.1f" % share], "question-" + name,
                                     share + 5 * self.o.scale)
            self.journal.add("answer", question=name, status=status, device=self.device, answers=objects(lines))
        left = self.journal.unanswered(QUESTIONS)
        return "not answered: " + ", ".join(left) if left else "done"

    # ---- Tests

    def list_tests(self, patterns):
        """-> (program, test) of all that match and have not passed."""
        passed, found = self.journal.tests("passed"), []
        for program in sorted(glob.glob(self.own("tests/*_test"))):
            name = os.path.basename(program)
            for test in gtest.listed(self.run([program, "--gtest_list_tests"], "list-" + name, 60)[0]):
                wanted = gtest.matches(test, patterns) and gtest.matches(test, self.o.filter.split(":"))
                found += [(program, test)] if wanted and (name, test) not in passed else []
        return found

    def tests(self, part, cores, cores_each, end):
        together, alone = gtest.groups_of(self.list_tests(gtest.TESTS[part]))
        groups = queue.Queue()
        for group in together:
            groups.put(group)
        workers = 1 if self.exclusive else max(1, len(cores) // cores_each)
        threads = [threading.Thread(target=self.work, args=(groups, end, set(cores[i::workers])), daemon=True)
                   for i in range(workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(self.seconds(end) + 10)
        for program, tests in alone:
            self.run_group(program, tests, end, set(cores))
        left = len(self.list_tests(gtest.TESTS[part]))
        return "%d tests have not passed" % left if left else "done"

    def work(self, groups, end, cores):
        with contextlib.suppress(queue.Empty):
            while self.seconds(end) > 0:
                self.run_group(*groups.get_nowait(), end, cores)

    def run_group(self, program, tests, end, cores, env=None, event="test", **more):
        """In as many processes as it takes: tests behind one that hangs, crashes or loses the device run in another one."""
        left, in_vain, name = list(tests), 0, os.path.basename(program)
        while left and in_vain < 2 and self.seconds(end) > 0:
            child = Child([program, "--gtest_filter=" + ":".join(left)], self.log(name), {**self.env, **(env or {})}, cores)
            reader, began = gtest.TestReader(), len(left)
            limit = lambda: min(self.patience * self.o.scale - reader.running_for(), self.seconds(end))
            while (line := child.line(limit())) is not None:
                if ended := reader.read(line):
                    left.remove(ended["test"])
                    self.journal.add(event, program=name, **ended, **more)
            hung, out_of_time, status = child.timed_out, child.timed_out and self.seconds(end) <= 0, child.end()
            if status == gtest.DEVICE_LOST:
                self.journal.add("device lost", program=name, after=reader.last, text=tail_of(child.log, 3))
            if out_of_time:
                return
            if reader.test:
                why = "no end in time" if hung else "ended with status %s" % status
                left.remove(reader.test)
                self.journal.add(event, program=name, **reader.broken("hung" if hung else "crashed", why, child.log), **more)
            in_vain = in_vain + 1 if len(left) == began else 0
        for test in left if in_vain == 2 else ():
            self.journal.add(event, program=name, test=test, result="crashed", seconds=0, text="never began", **more)

    def alone(self, end):
        runs = [(way, *test) for way in WAYS for test in self.journal.failed()]
        for i, (way, program, test) in enumerate(runs):
            self.patience = max(10, (end - self.lease()) / (len(runs) - i + 1))
            self.run_group(self.own("tests/" + program), [test], end, set(self.cores), WAYS[way], "alone", way=way)
        return "done" if runs else "nothing failed"

    # ---- Measurements. Ours never waits for PyTorch: where that is not ready in time, ours stands alone

    def race(self, part, ours, peer, rounds, end):
        """`rounds`: for each, whether ours is measured before the peer is asked to be ready, in its turn, or both."""
        def figure(side, turn, answer):
            self.journal.add("figure", **{**(answer or {}), "part": part, "side": side, "turn": turn, "device": self.device})
        before = [i for i, (early, _) in enumerate(rounds) if early and ours]
        for i in before:
            figure("millrace", None if rounds[i][1] else i, ours(i))
        until = end - 0.3 * max(0, end - self.lease())
        ready = peer and peer.answer(self.seconds(until)) and peer.ask(self.seconds(until))  # "loaded", "ready"
        if peer:
            self.journal.add("peer", part=part, ready=ready or tail_of(peer.log, 5))
        for i, (early, late) in enumerate(rounds):
            if ours and late and (ready or not early) and self.seconds(end) > 0:
                figure("millrace", i, ours(i))
            if ready and self.seconds(end) > 0:
                figure("pytorch", i, peer.ask(self.seconds(end)))
        if peer:
            peer.end()

    def bench(self, *more):
        network = self.own("share/millrace/pipelines/networks/%s.toml" % ("quickstart" if self.trial else "resnet50"))
        sizes = ["8", "--precision", "fp32", "--steps", "1", "--warm-up", "1"] if self.trial else ["256", "--steps", "25"]
        return [self.own("tests/gpu_step_bench"), network, "--backend", self.o.backend, "--nondeterministic", "--batch",
                *sizes, *more]

    def resnet50(self, end, part="resnet50", *peer_words):
        # Engines are chosen by timing while the peer loads, in half of the time at most; then heuristics choose what is left.
        for tune, until in (("measure", (self.lease() + end) / 2), ("heuristic", end)):
            bench = Child(self.bench("--serve", "--tune", tune), self.log("resnet50-" + tune), self.env)
            if ready := bench.answer(self.seconds(until)):
                break
            bench.end()
        if ready:
            peer = None if self.exclusive else self.peer("resnet50", "--serve", *peer_words)
            self.race(part, lambda _: bench.ask(self.seconds(end)), peer, [(True, True)] * 5, end)
            bench.end()
        if self.exclusive or not ready:
            self.race(part, None, self.peer("resnet50", "--serve", *peer_words), [(False, True)] * 5, end)
        return results.outcome_of(self.journal, part)

    def layers(self, end):
        """Of a step of ResNet-50: each layer's time, the bytes that it must move, and the rates that follow."""
        lines, status = self.run(self.bench("--layers", "--tune", "measure"), "layers", self.seconds(end))
        for layer in objects(lines):
            self.journal.add("layer", **{**layer, "device": self.device})
        return "done" if status == 0 else "failed"

    def pipeline(self, name, words, end, trial, env=None):
        """-> the events that pipeline-run prints, by kind."""
        words = [self.own("bin/pipeline-run"), *words, *FAIR, "--devices", self.o.backend + ":0", "--json", "--quiet"]
        words += ["--set=" + word for word in TRIAL[trial]] if self.trial else []
        lines, status = self.run(words, name, self.seconds(end), {**self.env, **(env or {})})
        events = collections.defaultdict(list, status=status)
        for event in objects(lines):
            events[event.get("event")].append(event)
        return events

    def airbench(self, end, part="airbench", seeds=2, *peer_words):
        def ours(i):
            recipe = self.own("share/millrace/pipelines/cifar10_airbench.toml")
            events = self.pipeline(part, [recipe, "--set=data.root=" + self.data, "--set=validate.every=end",
                                          "--set=run.seed=%d" % (i + 1)], end, "airbench")
            if events["status"] != 0:
                return {"status": events["status"]}
            return {"seconds": sum(e["seconds"] for e in events["epoch"]), "accuracy": events["validate"][-1]["accuracy"]}
        self.unpack_images(end)  # where the preparation had no time for it
        peer = None if self.exclusive else self.peer("airbench", "--serve", *peer_words)
        self.race(part, ours, peer, [(i == 0, i > 0) for i in range(seeds)], end)
        return results.outcome_of(self.journal, part)

    def photographs(self, part, end, epochs, *more):
        self.draw_photographs(end)
        events = self.pipeline(part, [self.own("tests/pipelines/resnet50_jpeg.toml"), "--set=run.epochs=%d" % epochs,
                                      "--set=data.root=" + self.state("photographs"), *more], end, "files",
                               {"MILLRACE_CUDA_PROFILE": "1", "MILLRACE_CUDA_TRACE": self.state("answers/trace.json")})
        for epoch in events["epoch"]:
            del epoch["event"]
            self.journal.add("figure", **{**epoch, "part": part, "side": "millrace", "turn": None, "device": self.device})
        return results.outcome_of(self.journal, part, ["millrace"])

    def sanitizer(self, end):
        """Each kernel of our own once, without cuDNN in the process."""
        if not on_machine.sanitizer():
            return "there is no compute-sanitizer"
        reports = []
        for tool, until in (("memcheck", (self.lease() + end) / 2), ("racecheck", end)):
            words = [on_machine.sanitizer(), "--tool", tool, "--kernel-name", "kns=millrace", "--print-limit", "20",
                     self.own("tests/gpu_backend_test"), "--gtest_filter=GpuKernels.*"]
            lines, status = self.run(words, tool, self.seconds(until))
            reports += re.findall(r"SUMMARY: (\d+)", "\n".join(lines)) or ["none: status %s" % status]
            self.journal.add("sanitizer", tool=tool, reports=reports[-1], status=status, text="\n".join(lines[-12:]))
        return "done" if reports == ["0", "0"] else "reports: " + ", ".join(reports)

    # ---- All of it

    def run_part(self, part):
        end = min(self.last, self.lease() + part.end - part.begin) if self.more else part.end
        if part.name not in ("machine", "compile") and self.journal.is_done(part.name, self.device):
            return
        if self.seconds(end) <= 0:
            self.journal.add("end", part=part.name, outcome="not reached", device=None)
            return
        if part.name not in UNTIMED and self.preparation.is_alive():
            self.preparation.join(self.seconds(end))
        steps = {"compile": self.preparation.start, "agreement": lambda: self.tests(part.name, self.half, 2, end),
                 "bits": lambda: self.tests(part.name, self.cores, 4, end),
                 "rest": lambda: self.tests(part.name, self.cores, 4, end),
                 "trace": lambda: self.photographs(part.name, end, 1, *([] if self.trial else ["--set=train.read.limit=5120"])),
                 "files": lambda: "something failed" if self.o.again and self.journal.failed() else
                                  self.photographs(part.name, end, 3),
                 "airbench, five seeds": lambda: self.airbench(end, part.name, 5, *BEST),
                 "resnet50, max-autotune": lambda: self.resnet50(end, part.name, *BEST)}
        self.journal.add("begin", part=part.name, until=end)
        self.attempt(part.name, steps.get(part.name) or (lambda: getattr(self, part.name)(end)))
        results.publish(self.o.state, self.o.out, self.journal, last=False)

    def attempt(self, name, work):
        try:
            outcome = work() or "begun"
        except Exception as error:  # of this script: other parts may fare better
            outcome = "failed: %s: %s" % (type(error).__name__, error)
        self.journal.add("end", part=name, outcome=outcome, device=self.device)

    def run_all(self):
        self.journal.add("start", since=self.since, scale=self.o.scale, words=sys.argv[1:])
        self.device = self.o.backend
        for part in self.parts:
            self.run_part(part)

    def finish(self, why):
        for child in list(Child.alive):
            child.kill()
        self.journal.add("finish", why=why)
        results.publish(self.o.state, self.o.out, self.journal, last=True)
        with contextlib.suppress(OSError):
            print(results.table(self.journal), flush=True)
        if why == "held up":
            os._exit(1)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--out", required=True, help="gets the journal and the results")
    p.add_argument("--again", action="store_true", help="what failed, each test alone; or else photographs")
    p.add_argument("--continue", dest="earlier", metavar="RESULTS", help="results.tar.gz or journal.jsonl of an earlier visit")
    p.add_argument("--since", type=float, help="second of the lease at which this command begins (90; 620 with --again)")
    p.add_argument("--state", default="/tmp/millrace-visit", help="where programs, plans and the journal live")
    p.add_argument("--data", help="CIFAR-10 as JPEG files (default: cifar10.tar.gz beside this script)")
    p.add_argument("--backend", default="cuda")
    p.add_argument("--programs", help="a folder with bin, tests and share (default: programs.tar.gz beside this script)")
    p.add_argument("--filter", default="*", help="only these tests")
    p.add_argument("--scale", type=float, default=1, help="seconds of a clock that a second of the schedule takes")
    visit = Visit(p.parse_args())
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    timer = threading.Timer(visit.seconds(visit.last + LAST_WORDS), visit.finish, ["held up"])
    timer.daemon = True
    timer.start()
    try:
        visit.run_all()
    finally:
        visit.finish("stopped" if sys.exc_info()[0] else "done")


if __name__ == "__main__":
    main()
