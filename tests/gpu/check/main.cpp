// gpu-check: proves and measures the GPU backend on this machine, in parts that fit a short loan of it.
#include <fmt/format.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "check.h"
#include "millrace/error.h"

namespace millrace::gpu {
namespace {

namespace fs = std::filesystem;

struct Part {
  const char* text;
  Json (*run)(const Setting&);
};

constexpr Part kParts[] = {
    {"every test that needs a device", &tests_part},
    {"the short ones under compute-sanitizer", &sanitizer_part},
    {"ResNet-50 on synthetic data beside PyTorch", &synthetic_part},
    {"ResNet-50 from JPEG files", &files_part},
    {"airbench on CIFAR-10 beside PyTorch", &airbench_part},
};
constexpr int kPartCount = static_cast<int>(std::size(kParts));

std::string help() {
  std::string text =
      "usage: gpu-check [--part N]... [--out FOLDER] [--data FOLDER] [--python PROGRAM] [--backend NAME] [--limit SECONDS]\n"
      "                 [--threads N] [--accuracy SHARE] [--bench WORD]...\n\n"
      "Proves and measures the GPU backend. Without --part all parts run, one after the other:\n";
  for (int i = 0; i < kPartCount; ++i) text += fmt::format("  {}  {}\n", i + 1, kParts[i].text);
  return text +
         "\n  --out FOLDER      where results.json and logs go (gpu-check-results); parts run later are added to what is there\n"
         "  --data FOLDER     CIFAR-10 as JPEG files: train/<class>/*.jpg, test/<class>/*.jpg (or MILLRACE_DATA)\n"
         "  --python PROGRAM  an interpreter that has torch (python3)\n"
         "  --backend NAME    what is checked (cuda); cpu tries gpu-check itself\n"
         "  --limit SECONDS   for each part (300)\n"
         "  --threads N       of the stages that prepare data (all)\n"
         "  --accuracy SHARE  that part 5's trainings must reach for their times to be compared (0.9, which airbench does on\n"
         "                    CIFAR-10 as JPEG files; 0.94 on the original pixels)\n"
         "  --bench WORD      one more argument for gpu_step_bench, such as --bench=--no-graphs\n\n"
         "Exit status: 0 done, 1 a test failed, 2 the command line is wrong, 4 there is no device.\n";
}

std::string environment(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : otherwise;
}

// From where this program lies: the tests' folder of a bundle, or of a build tree.
Setting make_setting() {
  Setting setting;
  const std::string bundle = environment("MILLRACE_BUNDLE", "");  // set by a bundle's launcher
  setting.tests = bundle.empty() ? fs::read_symlink("/proc/self/exe").parent_path() : fs::path(bundle) / "tests";
  setting.programs = setting.tests.parent_path() / "bin";
  setting.own = fs::exists(setting.tests / "peers") ? setting.tests : fs::path(MILLRACE_SOURCE_DIR "/tests/gpu");
  setting.pipelines = environment("MILLRACE_PIPELINES", MILLRACE_SOURCE_DIR "/pipelines");
  setting.data = environment("MILLRACE_DATA", "");
  setting.out = "gpu-check-results";
  return setting;
}

int number(const std::string& option, const std::string& text, int low, int high) {
  char* end = nullptr;
  const long value = std::strtol(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || value < low || value > high) {
    fail(ErrorKind::usage, "{} must be a whole number from {} to {}, found '{}'", option, low, high, text);
  }
  return static_cast<int>(value);
}

double share(const std::string& option, const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !(value > 0 && value < 1)) {
    fail(ErrorKind::usage, "{} must be between 0 and 1, found '{}'", option, text);
  }
  return value;
}

// Returns the parts to run; none when help was asked for.
std::vector<int> read_arguments(int count, char** words, Setting& setting) {
  std::vector<int> parts;
  for (int i = 1; i < count; ++i) {
    std::string word = words[i], value;
    if (word == "--help" || word == "-h") return {};
    const std::size_t equals = word.find('=');
    if (equals != std::string::npos) {
      value = word.substr(equals + 1);
      word.resize(equals);
    } else if (i + 1 < count) {
      value = words[++i];
    } else {
      fail(ErrorKind::usage, "{} needs a value; see gpu-check --help", word);
    }
    if (word == "--part")
      parts.push_back(number(word, value, 1, kPartCount));
    else if (word == "--out")
      setting.out = value;
    else if (word == "--data")
      setting.data = value;
    else if (word == "--python")
      setting.python = value;
    else if (word == "--backend")
      setting.backend = value;
    else if (word == "--limit")
      setting.limit = number(word, value, 10, 86400);
    else if (word == "--threads")
      setting.threads = number(word, value, 1, 4096);
    else if (word == "--accuracy")
      setting.accuracy = share(word, value);
    else if (word == "--bench")
      setting.bench.push_back(value);
    else
      fail(ErrorKind::usage, "there is no option '{}'; see gpu-check --help", word);
  }
  for (int part = 1; parts.empty() && part <= kPartCount; ++part) parts.push_back(part);
  return parts;
}

Json read_results(const fs::path& file) {
  std::ifstream stream(file);
  Json results = Json::parse(stream, nullptr, false);
  return results.is_object() ? results : Json::object();
}

// Written after each part, so that a machine taken away leaves what it has shown.
void write_results(const fs::path& file, const Json& results) {
  const fs::path part = file.string() + ".part";
  std::ofstream(part) << results.dump(2) << "\n";
  fs::rename(part, file);
}

int check(int count, char** words) {
  Setting setting = make_setting();
  const std::vector<int> parts = read_arguments(count, words, setting);
  if (parts.empty()) {
    fmt::print("{}", help());
    return 0;
  }
  fs::create_directories(setting.out);
  setting.out = fs::canonical(setting.out);
  const fs::path file = setting.out / "results.json";
  Json results = read_results(file);
  results["machine"] = machine(setting);
  if (setting.trial()) fmt::print("a trial on the CPU, with few images and steps: its figures say nothing of speed\n");
  bool failed = false, anything = false;
  for (const int number_of_part : parts) {
    const Part& part = kParts[number_of_part - 1];
    fmt::print("part {}: {}\n", number_of_part, part.text);
    const Budget clock(0);
    Json result = part.run(setting);
    if (setting.trial()) result["trial"] = "on a CPU, a few images and steps: these figures say nothing but that gpu-check works";
    result["seconds"] = -clock.left();
    failed = failed || result["outcome"] == "failed";
    anything = anything || result["outcome"] != "skipped";
    row("part " + std::to_string(number_of_part), result["outcome"], fmt::format("{:.0f} s", result["seconds"].get<double>()));
    results["parts"][std::to_string(number_of_part)] = std::move(result);
    write_results(file, results);
  }
  fmt::print("results: {}\n", file.string());
  return failed ? 1 : anything ? 0 : exit_code(ErrorKind::device);
}

}  // namespace
}  // namespace millrace::gpu

int main(int count, char** words) {
  std::signal(SIGPIPE, SIG_IGN);  // a program that measures may end early; asking it then is an error like others
  try {
    return millrace::gpu::check(count, words);
  } catch (const millrace::Error& error) {
    fmt::print(stderr, "gpu-check: {}\n", error.what());
    return millrace::exit_code(error.kind());
  } catch (const std::exception& error) {
    fmt::print(stderr, "gpu-check: {}\n", error.what());
    return 1;
  }
}
