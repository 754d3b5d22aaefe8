#include "fault_runner.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

namespace millrace::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kNetwork = R"(input  = { channels = 3, height = 32, width = 32 }
layers = [ { op = "conv", out = 8, kernel = 3, stride = 2 }, { op = "batch_norm" }, { op = "relu" },
           { op = "dropout", probability = 0.3 }, { op = "conv", out = 8, kernel = 3, stride = 2 },
           { op = "global_average_pool" }, { op = "linear", out = 10 } ]
)";

// No layer depends on a replica's part of the batch, and none draws: over replicas only the order of sums differs.
constexpr const char* kPlain = R"(input  = { channels = 3, height = 32, width = 32 }
layers = [ { op = "conv", out = 8, kernel = 3, stride = 2 }, { op = "relu" }, { op = "conv", out = 8, kernel = 3, stride = 2 },
           { op = "global_average_pool" }, { op = "linear", out = 10 } ]
)";

constexpr const char* kPipeline = R"([run]
name   = "fault"
epochs = 2
seed   = 7
best   = "validate.loss"
[data]
path = "shapes"
[network]
use = "network.toml"
[train]
flow = ["read", "decode_image", "augment", "batch", "forward_backward", "allreduce", "optimizer", "metrics"]
[train.read]
stage   = "read_folder"
path    = "${data.path}/train"
shuffle = "every-epoch"
limit   = 120
[train.decode_image]
size = [32, 32]
[train.augment]
flip_x    = 0.5
translate = { x = [-2, 2], y = [-2, 2] }
[train.batch]
size = 24
[train.forward_backward]
micro_batches = 2
[train.optimizer]
momentum      = 0.9
nesterov      = true
weight_decay  = 5e-4
learning_rate = { initial = 0.2, schedule = "cosine" }
ema           = { decay = 0.5, every = 2 }
lookahead     = { every = 3 }
[validate]
every = "3 steps"
flow  = ["read", "decode_image", "batch", "forward", "metrics"]
[validate.read]
stage = "read_folder"
path  = "${data.path}/test"
limit = 60
[validate.decode_image]
size = [32, 32]
[validate.batch]
size = 24
last = "keep"
[plateau]
figure   = "validate.loss"
patience = 1
factor   = 0.5
[stop]
figure   = "validate.accuracy"
patience = 1000000
[checkpoint]
every  = "2 steps"
keep   = 2
best   = "validate.loss"
resume = "auto"
)";

std::string state_without_times(const fs::path& file) {
  json state = json::parse(read_file(file), nullptr, false);
  if (!state.is_object()) return "no state";
  state.erase("seconds");
  if (state.contains("epoch_so_far")) state["epoch_so_far"].erase("seconds");
  if (state.value("backend", std::string()) != "cpu") state.erase("metadata");  // engine plans, chosen by timing
  return state.dump(1);
}

}  // namespace

Words lines_that_count(const fs::path& metrics) {
  std::vector<json> kept;
  std::istringstream lines(read_file(metrics));
  for (std::string line; std::getline(lines, line);) {
    json event = json::parse(line, nullptr, false);
    if (event.is_discarded()) {
      ADD_FAILURE() << metrics << " has a line that is no JSON: " << line;
      continue;
    }
    const std::string kind = event.at("event");
    if (kind == "resume") {
      const std::uint64_t step = event.at("step");
      std::erase_if(kept, [&](const json& each) { return each.at("step").get<std::uint64_t>() > step; });
    }
    if (kind != "step" && kind != "epoch" && kind != "validate" && kind != "request") continue;
    if (kind == "request" && event.at("request") == "stop") continue;
    for (const char* key : {"elapsed_seconds", "images_per_second", "seconds", "resident_bytes", "waits_for"}) event.erase(key);
    for (const char* key : {"percent", "higher_is_better", "details"}) event.erase(key);  // logged once per process
    if (kind == "request" && event.at("request") == "save") event.erase("text");          // the file, in the run's own folder
    kept.push_back(std::move(event));
  }
  Words texts;
  for (const json& event : kept) texts.push_back(event.dump());
  return texts;
}

LeftByRun left_by(const fs::path& run) {
  LeftByRun left;
  std::string newest = read_file(run / "checkpoints" / "latest");
  while (newest.ends_with('\n')) newest.pop_back();
  left.weights = read_file(run / "weights.safetensors");
  left.best = read_file(run / "best.safetensors");
  left.tensors = read_file(run / "checkpoints" / newest / "state.safetensors");
  left.state = state_without_times(run / "checkpoints" / newest / "state.json");
  left.metrics = lines_that_count(run / "metrics.jsonl");
  std::error_code ignored;
  for (const fs::path& folder : {run, run / "checkpoints"}) {
    for (const auto& entry : fs::directory_iterator(folder, ignored)) {
      const std::string name = entry.path().filename().string();
      if (!name.starts_with("step-")) left.files.insert(name);
    }
  }
  return left;
}

void expect_the_same(const LeftByRun& whole, const LeftByRun& other, const std::string& what) {
  ASSERT_FALSE(whole.weights.empty()) << what;
  ASSERT_FALSE(whole.best.empty()) << what;
  ASSERT_FALSE(whole.tensors.empty()) << what;
  EXPECT_TRUE(whole.weights == other.weights) << what << ": the weights differ";
  EXPECT_TRUE(whole.best == other.best) << what << ": the best weights differ";
  EXPECT_TRUE(whole.tensors == other.tensors) << what << ": states or statistics differ";
  EXPECT_EQ(whole.state, other.state) << what;
  EXPECT_EQ(whole.metrics, other.metrics) << what;
  EXPECT_EQ(whole.files, other.files) << what;
}

void PrintTo(const Place& place, std::ostream* out) { *out << place.name; }

const std::vector<Place>& places() {
  static const std::vector<Place> all = {{"cpu", {"--devices", "cpu"}},
                                         {"two_replicas", {"--devices", "cpu*2"}},
                                         {"two_processes", {"--devices", "cpu*2", "--processes", "2"}},
                                         {"simulated", {"--devices", "simulated:0"}}};
  return all;
}

Hogs::Hogs() {
  const unsigned count = 2 * std::max(1U, std::thread::hardware_concurrency());
  for (unsigned i = 0; i < count; ++i) {
    programs_.push_back(std::make_unique<RunningProgram>(Words{"/bin/sh", "-c", "while :; do :; done"}));
  }
}

std::uint64_t environment_number(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

RunTest::RunTest() {
  std::ofstream(folder_ / "network.toml") << kNetwork;
  std::ofstream(folder_ / "plain.toml") << kPlain;
  std::ofstream(folder_ / "pipeline.toml") << kPipeline;
}

Words RunTest::command(const std::string& runs, const Words& set, const Words& options) const {
  Words words = with(with({tool("pipeline-run"), folder_ / "pipeline.toml", "--json", "--quiet"},
                          {"data.path=" + shapes(), "run.folder=" + (folder_ / runs)}),
                     set, options);
  if (std::find(options.begin(), options.end(), "--devices") == options.end()) words.insert(words.end(), {"--devices", "cpu"});
  return words;
}

Outcome RunTest::run(const std::string& runs, const Words& set, const Words& options) const {
  Interruption patience;
  patience.limit = 240;  // for busy machines
  return run_command(command(runs, set, options), patience);
}

std::optional<Words> RunTest::fault_environment(const std::string& watched, const Words& faults) const {
  const fs::path library = fs::path(MILLRACE_BINARY_DIR) / "tests/fault/fault_files.so";
  if (!fs::exists(library)) return std::nullopt;
  fs::create_directories(folder_.path() / watched);
  Words environment = {"LD_PRELOAD=" + library.string(),
                       "FAULT_FILES_FOLDER=" + fs::canonical(folder_.path() / watched).string()};
  environment.insert(environment.end(), faults.begin(), faults.end());
  return environment;
}

std::optional<Outcome> RunTest::run_with_faults(const std::string& watched, const Words& faults, const std::string& runs,
                                                const Words& set) const {
  const std::optional<Words> environment = fault_environment(watched, faults);
  if (!environment) return std::nullopt;
  RunningProgram program(command(runs, set), *environment);
  Outcome outcome;
  if (program.ends(240)) outcome.code = program.code();
  outcome.out = program.out();
  outcome.err = program.err();
  return outcome;
}

fs::path RunTest::run_in(const std::string& runs) const { return newest_run(folder_.path() / runs); }

fs::path RunTest::checkpoint_in(const std::string& runs, std::uint64_t step) const {
  return run_in(runs) / "checkpoints" / checkpoint_name(step);
}

void RunTest::copy_back_to(std::uint64_t step, const std::string& from, const std::string& to) const {
  test::copy_back_to(step, folder_.path() / from, folder_.path() / to);
}

}  // namespace millrace::test
