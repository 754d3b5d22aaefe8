// Messages to users about plugins that violate requirements: from `pipeline-inspect --conformance`, and in a run.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <span>
#include <sstream>

#include "pipelines/command.h"

namespace millrace::test {
namespace {

constexpr double kLimit = 120;  // seconds, for a hanging program

Interruption limited() {
  Interruption limit;
  limit.limit = kLimit;
  return limit;
}

Outcome verdict_on(const std::string& file) {
  return run_command({tool("pipeline-inspect"), "--conformance", file, "--limit", "5"}, limited());
}

std::string hostile_folder() { return MILLRACE_BINARY_DIR "/tests/hostile"; }

// For everything in hostile.cpp and services.cpp; made once for all tests of a process.
const Outcome& verdict() {
  static const Outcome outcome = [] {
    Outcome first = verdict_on(hostile_folder() + "/hostile.so");
    const Outcome second = verdict_on(MILLRACE_BINARY_DIR "/tests/hostile_services/services.so");
    EXPECT_EQ(second.code, 1) << second.err;
    first.out += second.out;
    first.killed = first.killed || second.killed;
    return first;
  }();
  return outcome;
}

// The text after "stage 'NAME': CHECK: " in a check's line.
std::string said(const std::string& subject, const std::string& check) {
  const std::string begin = fmt::format("{}: {}: ", subject, check);
  std::istringstream lines(verdict().out);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(begin)) return line.substr(begin.size());
  }
  return "nothing";
}

struct Promise {
  const char* subject;
  const char* check;
  const char* expected;  // continuation of the line
};

// In services.cpp.
constexpr Promise kOfServices[] = {
    {"storage 'muddle'", "description", "passed"},
    {"storage 'muddle'", "listing", "failed: it lists '"},
    {"storage 'muddle'", "reading", "failed: "},  // the first file's, whichever it is
    {"storage 'muddle'", "refusals",
     "failed: reading what is not there is an error of kind storage, expected data: the network failed"},
    {"storage 'muddle'", "thread safety", "failed: on one of its threads: "},
    {"backend 'other_inputs'", "description", "passed"},
    {"backend 'other_inputs'", "refusals", "passed"},
    {"backend 'other_inputs'", "logits", "failed: the outputs of a small network differ from those of plain loops by "},
    {"backend 'other_rates'", "logits", "passed"},
    {"backend 'other_rates'", "training", "failed: after step 1 the value of 'fc1.weight' differs from that of plain loops by "},
    {"backend 'another_second'", "training", "passed"},
    {"backend 'another_second'", "state",
     "failed: a replica with the states of another does not go on to the same bits: 'gradient' of 'fc1.weight'"},
    {"backend 'any_device'", "description", "failed: it calls itself 'plain'"},
    {"backend 'any_device'", "refusals", "failed: a device that is not there is not refused"},
    {"backend 'any_device'", "training", "passed"},
    {"backend 'any_device'", "cancellation", "passed"},
};

void expect_said(std::span<const Promise> promises) {
  for (const Promise& promise : promises) {
    EXPECT_TRUE(said(promise.subject, promise.check).starts_with(promise.expected))
        << promise.subject << ", " << promise.check << ": " << said(promise.subject, promise.check);
  }
}

// One test for all: each test is a process, and the verdict takes seconds.
TEST(Hostile, EveryBrokenPromiseIsNamed) {
  constexpr const char* kBoom = "failed: it threw: ";
  const Promise broken[] = {
      {"stage 'throws'", "determinism", kBoom},
      {"stage 'throws_number'", "determinism", kBoom},
      {"stage 'crashes'", "determinism", "failed: it ended with signal 11"},
      {"stage 'exits'", "determinism", "failed: it ended the process with exit code 0"},
      {"stage 'exits_at_once'", "leaks", "failed: it ended the process with exit code 3"},
      {"stage 'aborts'", "slots", "failed: it ended with signal 6"},
      {"stage 'wrong_shape'", "results", "failed: an image is 4 x 4 x 3, and image_shape() announces 8 x 8 x 3"},
      {"stage 'wrong_label'", "results", "failed: a sample got the label 1000, and there are 2 classes"},
      {"stage 'gives_nan'", "results", "failed: a sample got a number that is not finite"},
      {"stage 'at_random'", "determinism", "failed: a sample comes out differently the second time"},
      {"stage 'writes_behind'", "slots", "failed: it wrote outside the slot of its image (8 x 8 x 3): 1 byte after it"},
      {"stage 'constructor_throws'", "wrong table", "failed: it threw: boom"},
      {"stage 'destructor_throws'", "stop twice", "failed: it ended with signal 6"},
      {"stage 'blocks'", "determinism", "failed: it did not end within 5 s"},
      {"stage 'blocks'", "leaks", "not applicable"},
      {"stage 'leaks'", "leaks", "failed: it keeps about "},
      {"stage 'keeps_a_sample'", "own sample", "failed: a sample changed after it was sent on"},
      {"stage 'shares_a_place'", "determinism", "passed"},
      {"stage 'shares_a_place'", "thread safety", "failed: a sample comes out differently on several threads"},
      {"stage 'bad_default'", "defaults", "failed: it refuses its own defaults: "},
      {"stage 'without_text'", "description", "failed: the parameter 'without_text.chance' has no text"},
      {"stage 'forgets_its_state'", "state", "failed: what it saves is another text after a new stage has restored it"},
      {"stage 'draws_in_secret'", "determinism",
       "failed: it threw: sample 'sample/0': the stage drew a random number, but its is_random() returns false"},
      {"stage 'wrong_example'", "wrong table",
       "failed: example 'chance = 2': it is refused: example:1:10: 'chance' must be a number between 0 and 1, found 2"},
      {"stage 'wrong_example'", "construction", "failed: as in 'wrong table'"},
      {"stage 'reads_differently'", "construction", "passed"},
      {"stage 'reads_differently'", "determinism",
       "failed: example 'path = '${folder}/digits.own'': it reads other samples the second time"},
      {"layer 'wrong_gradient'", "gradients", "failed: example ''"},
      {"optimizer 'moves_padding'", "padding", "failed: a value that is 0 and has no gradient does not stay 0"},
      {"optimizer 'moves_padding'", "rate", "failed: a value moves at a learning rate of 0"},
      {"optimizer 'ignores_the_rate'", "padding", "passed"},
      {"optimizer 'ignores_the_rate'", "rate", "failed: a value moves at a learning rate of 0"},
      {"loss 'counts_less'", "gradients", "passed"},
      {"loss 'counts_less'", "weight", "failed: example '' on cpu: its kernels count a weight of "},
  };
  expect_said(broken);
  expect_said(kOfServices);
  EXPECT_EQ(verdict().code, 1) << verdict().err;
  EXPECT_FALSE(verdict().killed);
  EXPECT_EQ(verdict().out.find("'harmless': failed"), std::string::npos);
  for (const char* check : {"determinism", "thread safety", "own sample", "results", "slots", "bad samples", "leaks"}) {
    EXPECT_EQ(said("stage 'harmless'", check), "passed") << check;
  }
  for (const char* check : {"construction", "determinism", "thread safety", "cancellation", "leaks"}) {
    EXPECT_EQ(said("stage 'own_format'", check), "passed") << check;
  }
}

// A line per complaint, and only the worst parameter.
TEST(Hostile, WrongGradientsAreSaidInALine) {
  const std::string line = said("layer 'wrong_gradient'", "gradients");
  EXPECT_NE(line.find("backward does not give the gradients of forward; "), std::string::npos) << line;
  EXPECT_NE(line.find(": relative error "), std::string::npos) << line;
  EXPECT_LT(line.size(), 1200U) << line;
}

TEST(Hostile, APluginOfOursPassesEveryCheck) {
  const Outcome outcome = verdict_on(MILLRACE_BINARY_DIR "/lib/millrace/plugins/augment.so");
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_NE(outcome.out.find("plugin 'augment.so': load: passed\n"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("stage 'augment': determinism: passed\n"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find(" checks passed, 0 failed, 2 not applicable:\n"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("\n  stage 'augment': batches: only batchers are asked this\n"), std::string::npos) << outcome.out;
}

void expect_not_loaded(const std::string& file, const std::string& why) {
  const Outcome outcome = verdict_on(file);
  EXPECT_EQ(outcome.code, 1) << file << ": " << outcome.err;
  EXPECT_NE(outcome.out.find(": load: failed: "), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find(why), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("0 of 1 checks passed, 1 failed, 0 not applicable\n"), std::string::npos) << outcome.out;
}

TEST(Hostile, WhatHarmsWhileItIsLoadedIsNamed) {
  const std::string folder = MILLRACE_BINARY_DIR "/tests/hostile_loading/", old = MILLRACE_BINARY_DIR "/tests/plugins/";
  expect_not_loaded(folder + "throws.so", "it ended with signal 6");
  expect_not_loaded(folder + "aborts.so", "it ended with signal 6");
  expect_not_loaded(folder + "exits.so", "it ended the process with exit code 0");
  expect_not_loaded(folder + "missing.so", "there_is_no_such_function");
  expect_not_loaded(folder + "registration.so", "an exception of unknown type");
  expect_not_loaded(folder + "destructor.so", "it ended with signal 6");
  expect_not_loaded(old + "other_abi.so", "was built for ABI");
  expect_not_loaded(old + "no_descriptor.so", "is not a Millrace plugin");
  expect_not_loaded(old + "half_registered.so", "the stage 'twice' is registered already");
}

TEST(Hostile, FilesThatAreNoLibraryAreNamed) {
  const TemporaryFolder folder;
  std::ofstream(folder / "empty.so");
  std::ofstream(folder / "text.so") << "not an ELF file\n";
  std::ofstream(folder / "cut.so", std::ios::binary) << read_file(hostile_folder() + "/hostile.so").substr(0, 3000);
  for (const char* name : {"empty.so", "text.so", "cut.so", "missing.so"}) {
    expect_not_loaded(folder / name, fmt::format("plugin '{}' cannot be opened", folder / name));
  }
}

// Training with the stage between decode_image and batch.
Outcome run_with(const std::string& stage, const std::vector<std::string>& more = {}) {
  const TemporaryFolder folder;
  std::ofstream(folder / "t.toml") << fmt::format(R"([run]
name   = "t"
folder = ""
epochs = 1

[network]
use     = "{}"
classes = 10

[train]
flow = ["read", "decode_image", "{}", "batch", "forward_backward", "optimizer", "metrics"]

[train.read]
stage = "read_folder"
path  = "{}/train"
limit = 120

[train.decode_image]
size = [32, 32]

[train.batch]
size = 40

[train.optimizer]
learning_rate = {{ initial = 0.1 }}
)",
                                                  pipeline("networks/quickstart.toml"), stage, shapes());
  std::vector<std::string> words = {tool("pipeline-run"), folder / "t.toml", "--quiet"};
  words.insert(words.end(), more.begin(), more.end());
  setenv("MILLRACE_PLUGIN_PATH", hostile_folder().c_str(), 1);  // NOLINT(concurrency-mt-unsafe): one thread
  Outcome outcome = run_command(words, limited());
  unsetenv("MILLRACE_PLUGIN_PATH");  // NOLINT(concurrency-mt-unsafe)
  return outcome;
}

void expect_run(const std::string& stage, int code, const std::vector<std::string>& texts,
                const std::vector<std::string>& more = {}) {
  const Outcome outcome = run_with(stage, more);
  EXPECT_EQ(outcome.code, code) << stage << ": " << outcome.err;
  EXPECT_FALSE(outcome.killed) << stage;
  for (const std::string& text : texts) EXPECT_NE(outcome.err.find(text), std::string::npos) << stage << ": " << outcome.err;
}

TEST(HostileRun, NamesTheStageThatThrows) {
  expect_run("throws", 1, {"stage 'train.throws' (", "t.toml:11:33): sample '", "boom"});
  expect_run("throws_number", 1, {"stage 'train.throws_number' (", "): sample '", "an exception of unknown type"});
  expect_run("constructor_throws", 1, {"[train.constructor_throws]: boom"});
  expect_run("constructor_throws", 1, {"[train.constructor_throws]: an exception of unknown type"},
             {"--set", "train.constructor_throws.number=true"});
}

TEST(HostileRun, NamesTheStageThatEndsTheProcess) {
  expect_run("crashes", 128 + 11, {"signal 11", " in stage 'train.crashes'"});
  expect_run("aborts", 128 + 6, {"signal 6", " in stage 'train.aborts'"});
  expect_run("exits", 1, {"a plugin ended the process by exit() in stage 'train.exits'"});
  expect_run("exits_at_once", 3, {"a plugin ended the process by _exit() in stage 'train.exits_at_once'"});
  expect_run("overflows", 128 + 11, {"signal 11", " in stage 'train.overflows'"});
}

// The programs, each loading plugins in its own way.
const std::vector<std::vector<std::string>>& programs() {
  static const std::string file = pipeline("quickstart.toml");
  static const std::vector<std::vector<std::string>> commands = {{tool("pipeline-run"), file, "--check"},
                                                                 {tool("pipeline-inspect")},
                                                                 {tool("pipeline-data"), "check", file},
                                                                 {tool("pipeline-profile"), file}};
  return commands;
}

// A program next to one library that does harm while it is loaded.
Outcome run_beside(const std::string& library, const Interruption& interruption, const std::vector<std::string>& command) {
  const TemporaryFolder folder;
  std::filesystem::copy_file(MILLRACE_BINARY_DIR "/tests/hostile_loading/" + library, folder / library);
  setenv("MILLRACE_PLUGIN_PATH", folder.path().c_str(), 1);  // NOLINT(concurrency-mt-unsafe): one thread
  Outcome outcome = run_command(command, interruption);
  unsetenv("MILLRACE_PLUGIN_PATH");  // NOLINT(concurrency-mt-unsafe)
  return outcome;
}

TEST(HostileProgram, NamesThePluginThatEndsTheProcessWhileItIsLoaded) {
  const auto expect = [](const char* library, int code, const std::string& what) {
    for (const std::vector<std::string>& command : programs()) {
      const Outcome outcome = run_beside(library, limited(), command);
      const std::string name = command[0].substr(command[0].rfind('/') + 1);
      EXPECT_EQ(outcome.code, code) << library << ": " << outcome.err;
      EXPECT_NE(outcome.err.find(fmt::format("{}: {} while plugin '", name, what)), std::string::npos) << outcome.err;
      EXPECT_NE(outcome.err.find(fmt::format("{}' was loaded", library)), std::string::npos) << outcome.err;
    }
  };
  expect("exits.so", 1, "a plugin ended the process by exit()");
  expect("exits_at_once.so", 1, "a plugin ended the process by _exit()");
  expect("aborts.so", 128 + 6, "the process was aborted (signal 6)");
  expect("overflows.so", 128 + 11, "the process crashed (signal 11, segmentation fault)");
}

TEST(HostileProgram, NamesThePluginThatHangsWhileItIsLoaded) {
  for (const std::vector<std::string>& command : programs()) {
    Interruption term = limited();
    term.signal = SIGTERM;
    const TemporaryFolder folder;
    setenv("HOSTILE_HANGS", (folder / "hangs").c_str(), 1);  // NOLINT(concurrency-mt-unsafe): one thread
    term.once = [&] { return !read_file(folder / "hangs").empty(); };
    const Outcome outcome = run_beside("hangs.so", term, command);
    unsetenv("HOSTILE_HANGS");  // NOLINT(concurrency-mt-unsafe)
    EXPECT_EQ(outcome.code, 128 + SIGTERM) << command[0] << ": " << outcome.err;
    EXPECT_NE(outcome.err.find("stopped while plugin '"), std::string::npos) << outcome.err;
  }
}

TEST(HostileRun, RefusesWhatAStageMakesOfSamples) {
  expect_run("wrong_shape", 3, {"the image is 4 x 4 x 3, the batch holds 32 x 32 x 3"});
  expect_run("wrong_label", 3, {"1000"});
}

TEST(HostileRun, GuardNamesTheStageThatWritesOutsideItsSlot) {
  expect_run(
      "writes_behind", 1,
      {"stage 'train.writes_behind' (", "): sample '", "it wrote outside the slot of the image (32 x 32 x 3): 1 byte after it"},
      {"--guard"});
}

TEST(HostileRun, GuardChangesNothingOfAGoodRun) {
  const auto hash = [](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"--json", "--hash", "pixels"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = succeeded(run_with("harmless", words));
    const auto epochs = events(outcome, "epoch");
    return epochs.empty() ? nlohmann::json() : epochs.back();
  };
  const nlohmann::json plain = hash({}), guarded = hash({"--guard"});
  ASSERT_TRUE(plain.contains("stream_hash")) << plain;
  EXPECT_EQ(plain.at("stream_hash"), guarded.at("stream_hash"));
  EXPECT_EQ(plain.at("loss"), guarded.at("loss"));
}

}  // namespace
}  // namespace millrace::test
