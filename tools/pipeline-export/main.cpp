// pipeline-export: a trained network as a file that other programs run.
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>

#include "common/arguments.h"
#include "common/last_words.h"
#include "int8_choice.h"
#include "millrace/error.h"
#include "millrace/util/load_plugins.h"
#include "millrace/util/standard_error.h"
#include "millrace/util/text.h"
#include "onnx_file.h"
#include "proof.h"
#include "send_samples.h"
#include "util/secrets.h"
#include "util/shell.h"
#include "weights/weights.h"

namespace {

using namespace millrace;
namespace fs = std::filesystem;

struct Options {
  std::vector<std::string> rest, sets;
  std::string onnx, weights, python = "python3", prove, calibrate = "500", max_drop = "0.5";
  bool int8 = false;
  OnnxOptions file;
};

// A folder next to `file`, removed with its contents.
class WorkFolder {
 public:
  explicit WorkFolder(const fs::path& file) : path_(fmt::format("{}.new-{}", file.string(), ::getpid())) {
    std::error_code error;
    fs::create_directories(path_ / "proof", error);
    if (error) fail(ErrorKind::storage, "cannot write '{}': {}", path_.string(), error.message());
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  ~WorkFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  fs::path file() const { return path_ / "model.onnx"; }
  fs::path weights() const { return path_ / "weights.safetensors"; }
  fs::path plain() const { return path_ / "plain.onnx"; }
  fs::path proof() const { return path_ / "proof"; }

 private:
  const fs::path path_;
};

void write_bytes(const fs::path& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  if (!file.flush()) fail(ErrorKind::storage, "cannot write '{}': the disk may be full", path.string());
}

void put(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) fail(ErrorKind::storage, "cannot write '{}': {}", to.string(), error.message());
}

// The value of an option that is a number from 0 to 100.
double points(std::string_view option, const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= 0 && value <= 100) return value;
  fail(ErrorKind::usage, "{}: expected a number from 0 to 100, found '{}'", option, text);
}

std::atomic<int> stop_signal = 0;  // a handler reaches nothing else

// Chooses the layers in int8, and describes them in the model's metadata. False if a signal stopped it.
bool add_int8(Model& model, const Options& options, const WorkFolder& work, const Registry& registry) {
  const std::optional<Int8Choice> chosen = choose_int8(model,
                                                       {.samples = integer("--calibrate", options.calibrate, 1, 1'000'000'000),
                                                        .max_drop = points("--max-accuracy-drop", options.max_drop),
                                                        .overrides = options.sets,
                                                        .weights = work.weights(),
                                                        .stop_signal = &stop_signal},
                                                       registry);
  if (!chosen) return false;
  print_to_stderr("{}\n", terminal_text(chosen->text));
  model.metadata[Int8Table::kKey] = chosen->table.text();
  return true;
}

// False if a signal stopped it.
bool write_onnx(const Model& model, const Options& options, const WorkFolder& work, const Registry& registry) {
  const fs::path onnx = options.onnx, proof = proof_of(onnx);
  const OnnxFile written = onnx_file(model, options.file, registry);
  if (written.unpools) print_to_stderr("note: TensorRT and OpenVINO have no MaxUnpool, which this network needs\n");
  write_bytes(work.file(), written.bytes);
  if (options.file.gives_results && !options.file.unproven) {
    OnnxOptions plain = options.file;
    plain.gives_results = false;
    write_bytes(work.plain(), onnx_file(model, plain, registry).bytes);
  }
  if (options.int8) save_weights_file(work.weights().string(), *model.network, model.weights);
  if (!options.file.unproven) {
    const std::optional<std::string> text = prove(model, options.file,
                                                  {.python = options.python,
                                                   .overrides = options.sets,
                                                   .onnx = work.file().string(),
                                                   .plain = options.file.gives_results ? work.plain().string() : "",
                                                   .written = &written,
                                                   .weights = options.int8 ? work.weights().string() : "",
                                                   .folder = work.proof().string(),
                                                   .stop_signal = &stop_signal},
                                                  registry);
    if (!text) return false;
    print_to_stderr("{}\n", *text);
  }
  std::error_code error;
  fs::remove_all(proof, error);  // that of an older file
  if (!options.file.unproven) put(work.proof(), proof);
  put(work.file(), onnx);
  print_to_stderr("{}: {} bytes{}\n", onnx.string(), written.bytes.size(),
                  options.file.unproven ? ", unproven" : fmt::format(", proof in '{}'", proof.string()));
  return true;
}

int export_model(const Options& options) {
  const LastWords last_words("pipeline-export");
  std::signal(SIGPIPE, SIG_IGN);
  for (const int signal : {SIGHUP, SIGINT, SIGTERM}) std::signal(signal, [](int number) { stop_signal = number; });
  Registry registry;
  load_plugins(registry);
  registry.add_stage<SendSamples>();
  register_calibration(registry);
  const std::string from = only_file(options.rest, "pipeline-export");
  std::error_code error;
  if (!options.onnx.empty()) {
    const fs::path onnx = options.onnx;
    if (onnx.extension() != ".onnx") fail(ErrorKind::usage, "--onnx: '{}' does not end in .onnx", onnx.string());
    require_proof_or_nothing(proof_of(onnx));
    if (fs::is_directory(onnx, error)) fail(ErrorKind::usage, "--onnx: '{}' is a folder", onnx.string());
  }
  if (!options.weights.empty() && fs::path(options.weights).extension() != ".safetensors")
    fail(ErrorKind::usage, "--weights: '{}' does not end in .safetensors", options.weights);
  if (!options.weights.empty()) {
    const fs::path folder = fs::absolute(options.weights).parent_path();
    if (!fs::is_directory(folder, error)) fail(ErrorKind::usage, "--weights: there is no folder '{}'", folder.string());
  }
  Model model = read_model(from, registry);
  model.metadata.erase(Int8Table::kKey);  // that of another choice
  if (!options.weights.empty() && fs::equivalent(options.weights, model.weights_file, error))
    fail(ErrorKind::usage, "--weights: '{}' is the file that is exported: choose another name", options.weights);
  add_provenance(model);
  const WorkFolder work(options.onnx.empty() ? options.weights : options.onnx);
  bool done = !options.int8 || add_int8(model, options, work, registry);
  if (done && !options.onnx.empty()) {
    const auto table = options.int8 ? int8_table_from(model.metadata, model.weights_file) : std::nullopt;
    done = write_onnx(table ? in_int8(model, *table) : model, options, work, registry);
  }
  if (!done) {
    print_to_stderr("interrupted: nothing was written\n");
    return 128 + stop_signal;
  }
  if (!options.weights.empty()) {
    save_weights_file(work.weights().string(), *model.network, model.weights, model.metadata);
    put(work.weights(), options.weights);
    print_to_stderr("{}: weights with int8 scales\n", options.weights);
  }
  return 0;
}

}  // namespace

int main(int count, char** words) {
  return run_tool("pipeline-export", [&] {
    Options options;
    Arguments arguments(
        "pipeline-export", "RUN_FOLDER | WEIGHTS.safetensors --onnx FILE.onnx [options]",
        "Writes a trained network as an ONNX file (opset 17), after comparing it: onnxruntime, OpenVINO or OpenCV\n"
        "runs the run's whole validation. A file with different results is not written. The folder FILE.proof next\n"
        "to FILE.onnx has a dozen samples and a script to repeat the comparison.");
    arguments.option("--onnx", "FILE.onnx", "the file to write", options.onnx)
        .flag("--preparation", "the file takes uint8 images, channels last, and normalises them", options.file.takes_images)
        .flag("--results", "the file returns probabilities, each pixel's class, or the restored image",
              options.file.gives_results)
        .flag("--dynamic", "the file takes images of any size that the network can process", options.file.has_free_size)
        .option("--output", "LAYER", "this layer's output instead of the network's, as an embedding", options.file.layer)
        .flag("--int8", "compute in 8-bit integers as many layers as keep to --max-accuracy-drop", options.int8)
        .option("--calibrate", "N", "images of the validation that int8 scales are chosen by (500)", options.calibrate)
        .option("--max-accuracy-drop", "POINTS", "percentage points of accuracy that int8 may lose (0.5)", options.max_drop)
        .option("--weights", "FILE.safetensors", "with --int8: weights for predictions of Millrace in int8", options.weights)
        .option("--python", "PROGRAM", "Python with onnxruntime, openvino or opencv-python (python3)", options.python)
        .repeated("--set", "KEY=VALUE", "set a key of the run's pipeline for the comparison, such as validate.read.path",
                  options.sets)
        .flag("--unproven", "write the file without a comparison, and mark it", options.file.unproven)
        .option("--prove", "FILE.onnx", "repeat a file's comparison with the samples of its proof", options.prove);
    arguments
        .exclude({"--prove"},
                 {"--onnx", "--preparation", "--results", "--output", "--dynamic", "--set", "--unproven", "--int8", "--weights"})
        .exclude({"--int8"}, {"--output", "--dynamic"})
        .exclude({"--output"}, {"--results"})
        .exclude({"--unproven"}, {"--python"});
    if (!arguments.read(count, words, options.rest)) return 0;
    if (!options.prove.empty()) {
      if (!options.rest.empty()) fail(ErrorKind::usage, "--prove compares one file: remove '{}'", options.rest[0]);
      fmt::print("{}\n", terminal_text(repeat_proof(options.prove, options.python)));
      return 0;
    }
    if (!options.int8 && !options.weights.empty()) fail(ErrorKind::usage, "--weights FILE.safetensors is for --int8 alone");
    if (options.onnx.empty() && options.weights.empty())
      fail(ErrorKind::usage, "--onnx FILE.onnx is missing: it names the file to write");
    options.file.command = without_secrets(shell_text({words, words + count}));
    return export_model(options);
  });
}
