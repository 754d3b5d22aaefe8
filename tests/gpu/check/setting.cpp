#include "setting.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <functional>

#include "millrace/error.h"

namespace millrace::gpu {
namespace {

namespace fs = std::filesystem;

std::string from_environment(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : otherwise;
}

// From where this program lies: the tests' folder of a bundle, or of a build tree.
Setting make_setting() {
  Setting setting;
  setting.self = fs::read_symlink("/proc/self/exe");
  const std::string bundle = from_environment("MILLRACE_BUNDLE", "");  // set by a bundle's launcher
  setting.tests = bundle.empty() ? setting.self.parent_path() : fs::path(bundle) / "tests";
  setting.programs = setting.tests.parent_path() / "bin";
  setting.own = fs::exists(setting.tests / "peers") ? setting.tests : fs::path(MILLRACE_SOURCE_DIR "/tests/gpu");
  setting.pipelines = from_environment("MILLRACE_PIPELINES", MILLRACE_SOURCE_DIR "/pipelines");
  setting.data = from_environment("MILLRACE_DATA", "");
  setting.cuda_libraries = from_environment("MILLRACE_CUDA_LIBRARIES", "");
  setting.out = "gpu-check-results";
  setting.state = fmt::format("/tmp/millrace-gpu-check-{}", getuid());
  return setting;
}

double number(const std::string& option, const std::string& text, double low, double high) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !(value >= low && value <= high)) {
    fail(ErrorKind::usage, "{} must be from {} to {}, found '{}'", option, low, high, text);
  }
  return value;
}

std::string part_name(const std::string& text) {
  const auto& parts = all_parts();
  if (std::none_of(parts.begin(), parts.end(), [&](const PartTime& part) { return part.name == text; })) {
    fail(ErrorKind::usage, "there is no part '{}'; see gpu-check --help", text);
  }
  return text;
}

// What each option with a value does with it.
std::map<std::string, std::function<void(const std::string&)>> options_of(Setting& s) {
  const auto folder = [](const std::string& text) { return fs::absolute(text).lexically_normal(); };
  return {
      {"--part", [&s](const auto& text) { s.parts.push_back(part_name(text)); }},
      {"--out", [&s](const auto& text) { s.out = text; }},
      {"--state", [&s](const auto& text) { s.state = text; }},
      {"--data", [&s](const auto& text) { s.data = text; }},
      {"--plans", [&s, folder](const auto& text) { s.plans = folder(text); }},
      {"--tests", [&s, folder](const auto& text) { s.more_tests = folder(text); }},
      {"--python", [&s](const auto& text) { s.python = text; }},
      {"--backend", [&s](const auto& text) { s.backend = text; }},
      {"--filter", [&s](const auto& text) { s.filter = text; }},
      {"--minutes", [&s](const auto& text) { s.minutes = number("--minutes", text, 0.1, 1440); }},
      {"--watch-minutes", [&s](const auto& text) { s.watch_minutes = number("--watch-minutes", text, 0.01, 1440); }},
      {"--test-limit", [&s](const auto& text) { s.test_limit = number("--test-limit", text, 1, 3600); }},
      {"--threads", [&s](const auto& text) { s.threads = static_cast<int>(number("--threads", text, 1, 4096)); }},
      {"--accuracy", [&s](const auto& text) { s.accuracy = number("--accuracy", text, 0.01, 0.99); }},
      {"--bench", [&s](const auto& text) { s.bench.push_back(text); }},
  };
}

}  // namespace

const std::vector<PartTime>& all_parts() {
  static const std::vector<PartTime> parts = {
      {"questions", 60, 5}, {"agreement", 260, 15}, {"throughput", 300, 60}, {"accuracy", 260, 60},
      {"files", 180, 45},   {"rest", 200, 15},      {"sanitizer", 180, 30},
  };
  return parts;
}

std::vector<PartTime> chosen_parts(const Setting& setting) {
  std::vector<PartTime> chosen = all_parts();
  std::erase_if(chosen, [&](const PartTime& part) {
    return !setting.parts.empty() && std::find(setting.parts.begin(), setting.parts.end(), part.name) == setting.parts.end();
  });
  if (setting.trial()) {
    for (PartTime& part : chosen) part.least = 1;
  }
  return chosen;
}

std::map<std::string, std::string> Setting::environment() const {
  return {{"MILLRACE_PIPELINES", pipelines.string()},
          {"MILLRACE_CACHE", (state / "cache").string()},
          {"MILLRACE_GPU_TEST_BACKEND", backend},
          {"MILLRACE_TEST_RECORDS", "1"},
          {"MILLRACE_GPU_CHECK", state.string()}};  // supervisor.cpp finds a dead run's processes by it
}

std::map<std::string, std::string> Setting::peer_environment() const {
  auto variables = environment();
  variables["TORCHINDUCTOR_CACHE_DIR"] = (state / "torch/inductor").string();
  variables["TRITON_CACHE_DIR"] = (state / "torch/triton").string();
  return variables;
}

Setting read_arguments(int count, char** words) {
  Setting setting = make_setting();
  const auto options = options_of(setting);
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i], name = word.substr(0, word.find('='));
    const auto option = options.find(name);
    if (word == "--help" || word == "-h") {
      setting.action = Action::help;
    } else if (word == "--stop") {
      setting.action = Action::stop;
    } else if (word == "--machine") {
      setting.action = Action::machine;
    } else if (word == "--fresh") {
      setting.fresh = true;
    } else if (option == options.end()) {
      fail(ErrorKind::usage, "there is no option '{}'; see gpu-check --help", name);
    } else if (name != word) {
      option->second(word.substr(name.size() + 1));
    } else if (i + 1 < count) {
      option->second(words[++i]);
    } else {
      fail(ErrorKind::usage, "{} needs a value; see gpu-check --help", word);
    }
  }
  setting.out = fs::absolute(setting.out).lexically_normal();
  setting.state = fs::absolute(setting.state).lexically_normal();
  if (!setting.data.empty()) setting.data = fs::absolute(setting.data).lexically_normal();
  return setting;
}

std::string help() {
  return "usage: gpu-check [--out FOLDER] [--data ARCHIVE|FOLDER] [--minutes N] [option]...   or   gpu-check --stop\n\n"
         "Proves and measures the GPU backend. The run goes on in the background when this command ends or is killed. The same\n"
         "command watches it again: it prints what is new, and copies what is finished into --out. Parts, in this order:\n"
         "  questions   what the device's libraries can do (gpu_questions)\n"
         "  agreement   operators, and training steps of every network, beside backend cpu\n"
         "  throughput  ResNet-50 on synthetic data beside PyTorch\n"
         "  accuracy    airbench on CIFAR-10 beside PyTorch: seconds to an accuracy\n"
         "  files       ResNet-50 from JPEG files, and a trace\n"
         "  rest        every other test that needs a device\n"
         "  sanitizer   our kernels under compute-sanitizer\n\n"
         "  --out FOLDER          takes results.json and results.tar.gz (gpu-check-results)\n"
         "  --state FOLDER        where the run lives (/tmp/millrace-gpu-check-UID); each has one run\n"
         "  --data PATH           CIFAR-10 as JPEG files, train/<class>/*.jpg and test/<class>/*.jpg: a folder, or a tar "
         "archive\n"
         "                        of it (or MILLRACE_DATA)\n"
         "  --plans PATH          engine plans of an earlier visit: results.tar.gz, a folder or a file\n"
         "  --part NAME           only this part; may be repeated\n"
         "  --minutes N           for the whole run (24); what does not fit any more is named\n"
         "  --watch-minutes N     for this command (9.5); it ends with status 75 when the run goes on\n"
         "  --test-limit SECONDS  after which a test counts as hung (120)\n"
         "  --filter PATTERN      only these tests, as --gtest_filter takes it\n"
         "  --tests FOLDER        more programs gpu_*_test, and a gpu_questions that replaces ours\n"
         "  --python PROGRAM      an interpreter that has torch (python3)\n"
         "  --backend NAME        what is checked (cuda); others try gpu-check itself\n"
         "  --threads N           of the stages that prepare data (all)\n"
         "  --accuracy SHARE      that trainings must reach for their times to be compared (0.9, which airbench does on "
         "CIFAR-10\n"
         "                        as JPEG files; 0.94 on the original pixels)\n"
         "  --bench WORD          one more argument for gpu_step_bench, such as --bench=--no-graphs\n"
         "  --fresh               forgets what an earlier run found; engine plans and unpacked data stay\n"
         "  --stop                ends the run; the same command without it goes on with what is not done\n\n"
         "Exit status: 0 done, 1 a test or a part failed or the run died, 2 the command line is wrong, 4 there is no device,\n"
         "75 the run goes on.\n";
}

}  // namespace millrace::gpu
