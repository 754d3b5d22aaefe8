#include "proof.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "assets.h"
#include "base/json.h"
#include "config/plan.h"
#include "millrace/error.h"
#include "millrace/util/bytes.h"
#include "millrace/util/sha256.h"
#include "run/runner.h"
#include "send_samples.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

constexpr double kBound = 1e-4;  // |difference| <= kBound * (1 + the largest |output| of the batch)
constexpr int kNoRuntime = 3;    // verify.py's exit code

// verify.py as a child: what is written to `input` is its standard input.
class Verifier {
 public:
  Verifier(const std::string& python, std::vector<std::string> arguments) : python_(python) {
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) fail(ErrorKind::run, "no pipe: {}", std::strerror(errno));
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    arguments.insert(arguments.begin(), python);
    std::vector<char*> words;
    for (std::string& argument : arguments) words.push_back(argument.data());
    words.push_back(nullptr);
    const int error = posix_spawnp(&child_, python.c_str(), &actions, nullptr, words.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    ::close(in[0]);
    ::close(out[1]);
    input_ = in[1];
    output_ = out[0];
    if (error == 0) return;
    child_ = 0;
    fail(ErrorKind::usage, "cannot start '{}': {}; --python names another one, and --unproven does without", python,
         std::strerror(error));
  }
  Verifier(const Verifier&) = delete;
  Verifier& operator=(const Verifier&) = delete;
  ~Verifier() {
    close_input();
    ::close(output_);
    if (child_ == 0) return;
    ::kill(child_, SIGKILL);
    wait();
  }

  int input() const { return input_; }

  // What it has printed, once it has ended. Throws Error where it has not compared, or found a difference.
  Json finish() {
    close_input();
    std::string text;
    char buffer[4096];
    for (ssize_t got = 0; (got = ::read(output_, buffer, sizeof buffer)) != 0;) {
      if (got > 0) text.append(buffer, static_cast<std::size_t>(got));
      if (got < 0 && errno != EINTR) break;
    }
    const int status = wait();
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (code == kNoRuntime) {
      fail(ErrorKind::usage,
           "'{}' lacks numpy, or has none of onnxruntime, openvino and opencv-python, so the file cannot be compared: install one, name another "
           "one by --python, or export with --unproven",
           python_);
    }
    const Json report = Json::parse(text, nullptr, false);
    if (code > 1 || code < 0 || !report.is_object()) fail(ErrorKind::run, "verify.py has not compared the file; see above");
    return report;
  }

 private:
  void close_input() {
    if (input_ >= 0) ::close(std::exchange(input_, -1));
  }
  int wait() {
    int status = 0;
    while (waitpid(child_, &status, 0) < 0 && errno == EINTR) {
    }
    child_ = 0;
    return status;
  }

  const std::string python_;
  pid_t child_ = 0;
  int input_ = -1, output_ = -1;
};

Json facts_of(const Model& model, const OnnxOptions& options) {
  Json facts;
  facts["bound"] = kBound;
  facts["takes_images"] = options.takes_images;
  facts["output"] = options.layer.empty() ? model.recipe.output : "features";
  facts["results"] = !options.gives_results ? "" : model.recipe.output == "map" ? "labels" : "probabilities";
  facts["mean"] = model.network->mean;
  facts["deviation"] = model.network->deviation;
  return facts;
}

// The graph that validated the weights, which also sends what it computes, and writes nothing.
Pipeline sending_pipeline(const Model& model, const OnnxOptions& options, std::vector<std::string> overrides, int descriptor,
                          const Registry& registry) {
  const std::string file = (fs::path(model.run) / "pipeline.toml").string();
  LoadOptions load;
  load.other_weights = true;
  const Pipeline as_written = load_pipeline(file, overrides, registry, load);
  const std::string& name = model.recipe.graph;
  const GraphPlan* const graph = as_written.graph(name);
  if (graph == nullptr || model.recipe.predict.empty()) {
    fail(ErrorKind::usage,
         "'{}' has no graph that validates, so there is nothing to compare with: export with --unproven", file);
  }
  std::vector<std::string> flow;
  bool is_computed = false;
  for (const StagePlan& stage : graph->stages) {
    if (stage.type->recipe_effect == RecipeEffect::spoils) continue;  // noise that a device adds is in no image that is sent
    if (!is_computed || stage.type->name == "metrics") flow.push_back(stage.name);
    is_computed = is_computed || stage.name == model.recipe.predict.back().name;
  }
  flow.emplace_back("send_samples");
  overrides.push_back(fmt::format("{}.flow=[\"{}\"]", name, fmt::join(flow, "\", \"")));
  overrides.push_back(fmt::format("{}.send_samples.descriptor={}", name, descriptor));
  if (!options.layer.empty()) overrides.push_back(fmt::format("{}.send_samples.layer=\"{}\"", name, options.layer));
  overrides.emplace_back("run.precision=\"fp32\"");
  overrides.emplace_back("run.folder=\"\"");
  overrides.emplace_back("network.preprocessing=\"mine\"");  // images come without the noise of the validation
  Pipeline pipeline = load_pipeline(file, overrides, registry, load);
  pipeline.observers.clear();
  return pipeline;
}

std::string in_words(const Json& report) {
  std::string text = fmt::format("{}: {} samples, largest difference {:.2g} ({:.0f} % of the bound), {} with another first class",
                                 report.value("runtime", ""), report.value("samples", 0), report.value("largest", 0.0),
                                 100 * report.value("share_of_bound", 0.0), report.value("other_first_class", 0));
  if (report.value("outside_bound", 0) > 0) text += fmt::format(", {} values outside it", report.value("outside_bound", 0));
  if (report.contains("accuracy"))
    text += fmt::format(", accuracy {:.4f} here and {:.4f} there", report.value("accuracy", 0.0),
                        report.value("accuracy_there", 0.0));
  return text;
}

void write_file(const fs::path& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (!file.flush()) fail(ErrorKind::storage, "cannot write '{}': {}", path.string(), std::strerror(errno));
}

std::string sum_of(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
  std::string text;
  for (const std::uint8_t byte : sha256(bytes)) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace

std::string prove(const Model& model, const OnnxOptions& options, const ProofRequest& request, const Registry& registry) {
  if (model.run.empty()) {
    fail(ErrorKind::usage,
         "'{}' does not lie in the folder of its run, whose validation the exported file is compared with: name the folder, or "
         "export with --unproven",
         model.weights_file);
  }
  const fs::path folder = request.folder, script = folder / "verify.py";
  write_file(script, page::kVerifyPy);
  Json facts = facts_of(model, options);
  Verifier verifier(request.python, {script.string(), request.onnx, "--stream", facts.dump(), folder.string()});
  RunOptions run;
  run.graph = model.recipe.graph;
  run.weights = model.weights_file;
  Json report;
  try {
    run_with_rollbacks(sending_pipeline(model, options, request.overrides, verifier.input(), registry), registry, run);
    report = verifier.finish();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::run) throw;
    report = verifier.finish();  // it knows better why the pipe has broken
  }
  if (!report.value("equal", false)) {
    fail(ErrorKind::data, "the exported network does not compute what '{}' computes, so nothing was written. {}",
         model.weights_file, in_words(report));
  }
  facts["sha256"] = sum_of(request.onnx);
  facts["network"] = model.network->name;
  facts["classes"] = model.classes;
  facts["weights_sha256"] = sum_of(model.weights_file);
  facts["millrace"] = MILLRACE_VERSION;
  facts["validation"] = report;
  write_file(folder / "proof.json", facts.dump(1) + "\n");
  return in_words(report);
}

std::string repeat_proof(const std::string& onnx, const std::string& python) {
  const fs::path folder = fs::path(onnx).replace_extension(".proof"), script = folder / "verify.py";
  std::error_code error;
  if (!fs::is_regular_file(script, error)) fail(ErrorKind::usage, "'{}' has no proof: there is no '{}'", onnx, folder.string());
  // The script of this version: a proof from elsewhere runs nothing of its own.
  Verifier verifier(python, {"-c", std::string(page::kVerifyPy), onnx, folder.string()});
  const Json report = verifier.finish();
  if (!report.value("equal", false)) fail(ErrorKind::data, "'{}' does not compute what its proof says. {}", onnx, in_words(report));
  return in_words(report);
}

}  // namespace millrace
