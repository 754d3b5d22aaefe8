// Whole runs, from a pipeline file through the graph, on backend "cpu" and on the recording backend over it.
#include <gtest/gtest.h>

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "millrace/batch.h"
#include "millrace/error.h"
#include "millrace/sample.h"
#include "millrace/stage.h"
#include "millrace/util/load_plugins.h"
#include "ranks/socket_group.h"
#include "run/prepare.h"
#include "run/runner.h"
#include "testkit/recording.h"
#include "testkit/stages.h"

namespace millrace::testkit::whole_run_test {
namespace {

#if defined(__SANITIZE_THREAD__)
constexpr bool kThreadSanitizer = true;
#else
constexpr bool kThreadSanitizer = false;
#endif

constexpr const char* kNetwork = R"(
input = { channels = 3, height = 8, width = 8, mean = [0.5, 0.5, 0.5], deviation = [0.25, 0.25, 0.25] }
layers = [
  { name = "conv1", op = "conv", out = 16, kernel = 3, padding = 1, bias = false },
  { name = "bn1", op = "batch_norm" }, { op = "relu" }, { op = "max_pool", kernel = 2 },
  { name = "fc1", op = "linear", out = 24 }, { op = "gelu" },
  { name = "fc2", op = "linear", out = "${classes}" },
]
)";

constexpr const char* kPipeline = R"(
[run]
epochs    = 3
seed      = 5
threads   = 2
folder    = ""
devices   = "cpu*2"
precision = "fp32"

[network]
use     = "network.toml"
classes = 6

[train]
flow = ["read", "paint", "batch", "forward_backward", "allreduce", "optimizer", "metrics"]
[train.read]
stage    = "counting_source"
size     = 64
classes  = 6
sampling = { shuffle = "every-epoch" }
[train.paint]
size = [8, 8]
[train.batch]
size    = 16
buffers = 2
[train.optimizer]
learning_rate = { initial = 0.05, schedule = "cosine" }
momentum      = 0.9
weight_decay  = 1e-4
lookahead     = { every = 5 }

[validate]
every  = "epoch"
before = false     # waits are counted from the first step on
flow   = ["read", "paint", "batch", "forward", "metrics"]
[validate.read]
stage   = "counting_source"
size    = 20
classes = 6
[validate.paint]
size = [8, 8]
[validate.batch]
size = 8
last = "keep"
[validate.forward]
test_time = "flip_translate"
)";

// Promises a value of the third step, but never reports it.
class PromisesInVain : public Stage {
 public:
  struct Params {};
  static void describe(StageDescription<Params>& d) {
    d.name("promises_in_vain").text("Breaks a promise.");
    d.input(payload::kGradientBucket).output(payload::kGradientBucket).per_replica();
  }
  PromisesInVain(const Params&, const StepContext& context) : context_(context) {}
  void process(int, Packet packet, Output& output) override {
    const std::uint64_t step = static_cast<const GradientBucket&>(*packet.payload).step;
    if (step == 2 && context_.replica == 0) context_.run->promise_scalar(context_.graph, step, "fairness");
    output.emit(0, std::move(packet));
  }

 private:
  const StepContext context_;
};

// Delays the results of a step on rank 1.
class Dawdles : public Stage {
 public:
  struct Params {
    std::int64_t step = 0;  // from 1; 0: the last one of a pass
    double seconds = 2;
  };
  static void describe(StageDescription<Params>& d) {
    d.name("dawdles").text("Takes its time.");
    d.input(payload::kStepResult).output(payload::kStepResult).serial();
    d.params.add("step", &Params::step).text("whose results take time");
    d.params.add("seconds", &Params::seconds).text("how much");
  }
  Dawdles(const Params& params, const StepContext& context) : params_(params), context_(context) {}
  void process(int, Packet packet, Output& output) override {
    const std::int64_t step = params_.step > 0 ? params_.step : static_cast<std::int64_t>(context_.steps_per_epoch);
    const bool is_meant = packet.sequence + 1 == static_cast<std::uint64_t>(step);
    if (is_meant && context_.group != nullptr && context_.group->rank() == 1)
      std::this_thread::sleep_for(std::chrono::duration<double>(params_.seconds));
    output.emit(0, std::move(packet));
  }

 private:
  const Params params_;
  const StepContext context_;
};

// Takes the results of all steps, but reports none.
class KeepsSilent : public Stage {
 public:
  struct Params {};
  static void describe(StageDescription<Params>& d) {
    d.name("keeps_silent").text("Says nothing.");
    d.input(payload::kStepResult);
  }
  KeepsSilent(const Params&, const StepContext&) {}
  void process(int, Packet, Output&) override {}
};

// Sends a signal just before the last sample of validation, so that the ranks agree on it with the last step.
class Signals : public SampleTransform {
 public:
  struct Params {};
  static inline std::atomic<int> signal{0};
  static void describe(StageDescription<Params>& d) { d.name("signals").text("Lets a signal come."); }
  Signals(const Params&, const StageSite&) {}
  void process(Sample& sample, Draw&) override {
    if (sample.key.index != 19) return;
    signal = SIGTERM;
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
};

// Records reports.
class Told : public RunObserver {
 public:
  void warning(const WarningEvent& e) override { warnings.push_back(e.text); }
  void step(const StepEvent& e) override { steps.push_back(e.step); }
  void epoch(const EpochEvent& e) override { epochs.push_back(e.epoch); }
  void pass(const PassEvent& e) override { samples.push_back(e.samples); }
  std::vector<std::string> warnings;
  std::vector<std::uint64_t> steps, epochs;
  std::vector<double> samples;  // by pass
};

class WholeRun : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / fmt::format("millrace-whole-run-{}", ::getpid());
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ / "network.toml") << kNetwork;
    std::ofstream(folder_ / "pipeline.toml") << kPipeline;
    const std::filesystem::path plugins = MILLRACE_BINARY_DIR "/lib/millrace/plugins";
    if (!std::filesystem::exists(plugins / "cpu.so")) GTEST_SKIP() << "plugin cpu is not built";
    ::setenv("OMP_WAIT_POLICY", "passive", 0);  // as in pipeline-run before it opens the plugin
    for (const char* plugin : {"batch", "forward_backward", "allreduce", "communicator_local", "clip_gradients", "optimizer",
                               "optimizers", "losses", "metrics", "cpu"}) {
      load_plugin(registry_, (plugins / fmt::format("{}.so", plugin)).string());
    }
    add_stages(registry_);
    registry_.add_stage<PromisesInVain>();
    registry_.add_stage<Dawdles>();
    registry_.add_stage<KeepsSilent>();
    registry_.add_stage<Signals>();
    registry_.add(BackendType{{"recording"}, [this] { return recording_; }});
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Weights of every replica at the end of a run.
  std::vector<std::vector<float>> run(const std::string& devices, const std::vector<std::string>& overrides = {}) {
    const Pipeline pipeline = load_pipeline((folder_ / "pipeline.toml").string(), overrides, registry_);
    RunOptions options;
    options.devices = devices;
    const auto prepared = prepare(pipeline, registry_, options);
    run_once(*prepared);
    std::vector<std::vector<float>> values;
    for (const auto& replica : prepared->replicas.here()) {
      for (std::size_t p = 0; p < pipeline.network->parameters.size(); ++p) {
        if (pipeline.network->parameters[p].statistic) continue;  // each replica's own
        values.push_back(replica->read(kValue, static_cast<int>(p)));
      }
    }
    return values;
  }
  // Two ranks on threads of this process. Returns the error of each, or "". `special`: additional settings of each.
  std::array<std::string, 2> run_ranks(const std::array<std::string, 2>& devices, const std::vector<std::string>& overrides,
                                       const RunOptions& asked,
                                       const std::function<void(std::size_t rank, RunOptions&)>& special = {},
                                       const std::function<void(PreparedRun&)>& prepared = {}) {
    std::array<int, 2> pair{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()), 0);
    std::array<std::string, 2> said;
    const auto join = [&](std::size_t rank) {
      SocketGroup group({.rank = static_cast<int>(rank),
                         .sockets = rank == 0 ? std::vector{-1, pair[0]} : std::vector{pair[1], -1},
                         .hosts = {"a", "b"}});
      try {
        const Pipeline pipeline = load_pipeline((folder_ / "pipeline.toml").string(), overrides, registry_);
        RunOptions options = asked;
        options.devices = devices[rank];
        options.group = &group;
        if (special) special(rank, options);
        run_with_rollbacks(pipeline, registry_, options, prepared);
      } catch (const Error& error) {
        group.leave(&error);
        said[rank] = error.what();
      }
    };
    std::thread other(join, 1);
    join(0);
    other.join();
    return said;
  }
  std::vector<std::vector<float>> run_recording(const RecordingOptions& options, const std::vector<std::string>& overrides = {}) {
    recording_ = std::make_shared<RecordingBackend>(registry_.backends().find("cpu")->create(), options);
    return run("recording*2", overrides);
  }
  Violation first_violation() {
    const auto violations = recording_->violations();
    return violations.empty() ? Violation{"none", {}, {}, ""} : violations.front();
  }

  std::filesystem::path folder_;
  Registry registry_;
  std::shared_ptr<RecordingBackend> recording_;
};

TEST_F(WholeRun, AnAsynchronousDeviceEndsWithTheSameWeightsAsTheProcessor) {
  const auto expected = run("cpu*2");
  for (std::uint64_t seed = 1; seed <= 2; ++seed) {
    EXPECT_EQ(run_recording({.seed = seed}), expected) << "seed " << seed;
    for (const Violation& violation : recording_->violations()) ADD_FAILURE() << violation.text();
  }
}

// A stage that reads all gradients forces their complete computation, as it once was for all. The front's values still move,
// since lookahead blends them.
TEST_F(WholeRun, AFrontThatNoLongerLearnsIsLeftOutToTheSameWeights) {
  const std::string groups = R"(train.optimizer.groups=[{ match = ["conv1.*", "bn1.*"], until_epoch = 1 }])";
  const auto whole = run("cpu*2", {groups, "train.clip_gradients.global_norm=1e30",
                                   "train.flow=[\"read\", \"paint\", \"batch\", \"forward_backward\", \"allreduce\", "
                                   "\"clip_gradients\", \"optimizer\", \"metrics\"]"});
  EXPECT_EQ(run("cpu*2", {groups}), whole);
  EXPECT_EQ(run_recording({.seed = 3}, {groups}), whole);
  for (const Violation& violation : recording_->violations()) ADD_FAILURE() << violation.text();
  EXPECT_NE(run("cpu*2"), whole) << "the front learns to the end";
}

TEST_F(WholeRun, AFigureThatIsPromisedAndNeverToldHoldsTheRunUpOnce) {
  const Pipeline pipeline =
      load_pipeline((folder_ / "pipeline.toml").string(),
                    {"train.flow=[\"read\", \"paint\", \"batch\", \"forward_backward\", \"allreduce\", \"promises_in_vain\", "
                     "\"optimizer\", \"metrics\"]"},
                    registry_);
  const auto told = std::make_shared<Told>();
  RunOptions options;
  options.hooks.observer = told;
  options.report_patience = 0.05;
  run_once(*prepare(pipeline, registry_, options));
  const std::vector<std::string> expected = {
      "step 4: metrics that its stages promised did not arrive within 0.05 s; from here on steps are reported after their "
      "epochs"};
  const auto is_of_paint = [](const std::string& text) {
    return text.find("[validate.paint]: it changes images") != std::string::npos;
  };
  EXPECT_EQ(std::erase_if(told->warnings, is_of_paint), 1U);
  EXPECT_EQ(told->warnings, expected);
  EXPECT_EQ(told->steps, (std::vector<std::uint64_t>{1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
  EXPECT_EQ(told->epochs, (std::vector<std::uint64_t>{1, 2, 3}));
}

// However long one rank's last steps take, and even if rank 0 is ahead.
TEST_F(WholeRun, APassOfTwoRanksIsMeasuredToItsLastSample) {
  const auto told = std::make_shared<Told>();
  RunOptions options;
  options.hooks.observer = told;
  options.report_patience = 0.5;
  const auto said =
      run_ranks({"cpu*2", "cpu*2"}, {R"(validate.flow=["read", "paint", "batch", "forward", "dawdles", "metrics"])"}, options);
  EXPECT_EQ(said, (std::array<std::string, 2>{}));
  EXPECT_EQ(told->samples, (std::vector<double>{20, 20, 20}));
}

// For rank 0 the pass is over before it checks for a stop again, while rank 1 checks during the last step.
TEST_F(WholeRun, AStopThatIsAgreedUponWithTheLastStepOfAPassEndsAllRanks) {
  const auto told = std::make_shared<Told>();
  RunOptions options;
  options.hooks.observer = told;
  Signals::signal = 0;
  options.hooks.stop_signal = &Signals::signal;
  const auto said = run_ranks({"cpu*2", "cpu*2"},
                              {R"(validate.flow=["read", "paint", "signals", "batch", "forward", "dawdles", "metrics"])",
                               "validate.batch.buffers=1", "validate.forward.test_time=unset"},
                              options, [](std::size_t rank, RunOptions& special) {
                                if (rank == 0) special.check_period = std::chrono::minutes(10);
                              });
  EXPECT_EQ(said, (std::array<std::string, 2>{}));
  EXPECT_EQ(told->epochs, (std::vector<std::uint64_t>{1}));
  EXPECT_EQ(told->samples, (std::vector<double>{})) << "a pass that was stopped is no figure";
}

// The first results of rank 1 arrive after rank 0's own limit, which rank 1 extends.
TEST_F(WholeRun, ACheckpointWithinAnEpochHasTheFiguresOfAllRanks) {
  const auto told = std::make_shared<Told>();
  RunOptions options;
  options.hooks.observer = told;
  options.report_patience = 1;
  const auto said = run_ranks({"cpu*2", "cpu*2"},
                              {R"(train.flow=["read", "paint", "batch", "forward_backward", "allreduce", "optimizer", "dawdles",
                                  "metrics"])",
                               "train.dawdles.step=2", "train.dawdles.seconds=2.6", "checkpoint.every=\"2 steps\"",
                               "run.epochs=1", "run.folder=" + (folder_ / "runs").string()},
                              options);
  EXPECT_EQ(said, (std::array<std::string, 2>{}));
  for (const std::string& warning : told->warnings) EXPECT_EQ(warning.find("were reported within"), std::string::npos) << warning;
}

// It waits for them once.
TEST_F(WholeRun, CheckpointsDoNotWaitForFiguresThatNeverCome) {
  RunOptions options;
  options.report_patience = 0.5;
  const auto start = std::chrono::steady_clock::now();
  const auto said = run_ranks({"cpu*2", "cpu*2"},
                              {R"(train.flow=["read", "paint", "batch", "forward_backward", "allreduce", "optimizer",
                                  "keeps_silent"])",
                               "checkpoint.every=\"1 step\"", "run.folder=" + (folder_ / "runs").string()},
                              options);
  EXPECT_EQ(said, (std::array<std::string, 2>{}));
  // 9 of 12 checkpoints lie within an epoch, and two ranks would wait one after the other.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(5500));
}

TEST_F(WholeRun, WhatFailsBeforeARunBeginsIsToldToTheOtherRanks) {
  const auto said = run_ranks({"cpu*2", "cpu*2"}, {}, {}, {}, [](PreparedRun& prepared) {
    if (!prepared.options.is_first()) fail(ErrorKind::usage, "something is wrong here");
  });
  EXPECT_EQ(said, (std::array<std::string, 2>{"rank 1 of 2 on b has ended: something is wrong here", "something is wrong here"}));
}

// As when "auto" finds a GPU on all machines but one.
TEST_F(WholeRun, RanksWhoseDevicesAreOfTwoBackendsAreRefused) {
  recording_ = std::make_shared<RecordingBackend>(registry_.backends().find("cpu")->create(), RecordingOptions{});
  for (const std::string& said : run_ranks({"cpu*2", "recording*2"}, {}, {})) {
    EXPECT_NE(said.find("the backend of the devices is cpu on rank 0, recording on rank 1"), std::string::npos) << said;
  }
}

// Between choosing a checkpoint and the first step, samples are listed and networks compiled, which may take minutes.
TEST_F(WholeRun, ARunWithWhichAnotherProcessHasGoneOnIsLeftAlone) {
  const Pipeline pipeline = load_pipeline((folder_ / "pipeline.toml").string(),
                                          {"run.folder=" + (folder_ / "runs").string(), "checkpoint.every=epoch"}, registry_);
  const std::filesystem::path run = run_once(*prepare(pipeline, registry_, {})).folder;
  const std::filesystem::path latest = run / "checkpoints" / "latest";
  RunOptions options;
  options.resume.run = run.string();
  {
    const auto late = prepare(pipeline, registry_, options);
    std::ofstream(latest) << "step-000000004\n";
    try {
      run_once(*late);
      ADD_FAILURE() << "it went on";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::run);
      EXPECT_EQ(error.message(), fmt::format("another process has resumed the run in '{0}' since this one chose "
                                             "'{0}/checkpoints/step-000000012': the newest checkpoint is 'step-000000004' now; "
                                             "start again",
                                             run.string()));
    }
  }
  EXPECT_EQ(run_once(*prepare(pipeline, registry_, options)).step, 12U);
}

// One bucket per step, four waits for it and two of the optimizer: steps are counted from 0.
TEST_F(WholeRun, AWaitThatIsLeftOutIsReported) {
  if (kThreadSanitizer) GTEST_SKIP() << "the planted fault is a data race";
  run_recording({.leave_out_wait = 6 * 5 + 3});
  const Violation violation = first_violation();
  EXPECT_EQ(violation.kind, "missing wait");
  EXPECT_EQ(violation.operation.text(), "allreduce.copy of step 5 (replica 1, bucket 0)");
  EXPECT_EQ(violation.before.text(), "allreduce.sum of step 5 (replica 0, bucket 0)");
}

TEST_F(WholeRun, ABatchThatIsRecycledEarlyIsReported) {
  run_recording({.release_batch_early = 3});
  const Violation violation = first_violation();
  EXPECT_EQ(violation.kind, "buffer reused in flight");
  EXPECT_EQ(violation.before.name, "forward_backward.ingest");
  EXPECT_EQ(violation.before.step, 1U);
}

TEST_F(WholeRun, ABucketThatIsUpdatedBeforeItIsReducedIsReported) {
  if (kThreadSanitizer) GTEST_SKIP() << "the planted fault is a data race";
  run_recording({.ignore_after = 2 * 7 + 1});
  const Violation violation = first_violation();
  EXPECT_EQ(violation.kind, "missing wait");
  EXPECT_EQ(violation.operation.name, "optimizer.update");
  EXPECT_EQ(violation.operation.step, 7U);
  EXPECT_EQ(violation.before.step, 7U);
}

}  // namespace
}  // namespace millrace::testkit::whole_run_test
