#include "preparation.h"

#include <fmt/format.h>

#include <fstream>

#include "millrace/error.h"

namespace millrace::gpu {
namespace {

namespace fs = std::filesystem;

constexpr int kDrawn = 640;  // images that are drawn ...
constexpr int kLinks = 20;   // ... and how often each lies in the folder: decoding costs the same again each time
constexpr const char* kSize = "400";

constexpr const char* kUnpackInPython =
    "import sys, tarfile\n"
    "with tarfile.open(sys.argv[1]) as archive:\n"
    "    archive.extractall(sys.argv[2], **({'filter': 'data'} if hasattr(tarfile, 'data_filter') else {}))\n";

bool has_images(const fs::path& folder) { return fs::is_directory(folder / "train") && fs::is_directory(folder / "test"); }

// Every file of `from` many times in `to`, by links.
void link_many_times(const fs::path& from, const fs::path& to) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(from)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  for (const fs::path& file : files) {
    const fs::path place = to / file.parent_path().filename();
    fs::create_directories(place);
    for (int i = 0; i < kLinks; ++i) fs::create_hard_link(file, place / fmt::format("{}_{}.jpg", file.stem().string(), i));
  }
}

}  // namespace

// An archive may have one folder around them.
fs::path find_images(const Setting& setting) {
  for (const fs::path& folder : {fs::path(setting.data), setting.images()}) {
    std::error_code none;
    if (folder.empty() || !fs::is_directory(folder, none)) continue;
    if (has_images(folder)) return folder;
    for (const auto& entry : fs::directory_iterator(folder, none)) {
      if (entry.is_directory() && has_images(entry.path())) return entry.path();
    }
  }
  return {};
}

bool make_photographs(const Setting& setting, double limit) {
  const fs::path folder = setting.photographs();
  if (fs::exists(folder)) return true;
  const fs::path part = folder.string() + ".part";
  fs::remove_all(part);
  const int count = setting.trial() ? 20 : kDrawn;
  const Finished drawn = run({.words = {(setting.programs / "pipeline-data").string(), "shapes", (part / "drawn").string(),
                                        "--size", kSize, "--count", std::to_string(count), "--validation", "10"},
                              .environment = setting.environment(),
                              .log = setting.log("shapes")},
                             limit);
  if (drawn.status != 0) return false;
  link_many_times(part / "drawn/train", part / "train");
  fs::rename(part, folder);
  return true;
}

std::string unpack(const Setting& setting, const fs::path& archive, const fs::path& folder, double limit) {
  const fs::path part = folder.string() + ".part";
  const std::string log = setting.log("unpack");
  const std::vector<std::vector<std::string>> ways = {
      {"tar", "--extract", "--file", archive.string(), "--directory", part.string()},
      {setting.python, "-c", kUnpackInPython, archive.string(), part.string()},
      {"python3", "-c", kUnpackInPython, archive.string(), part.string()},
  };
  const Budget budget(limit);
  for (const auto& words : ways) {
    if (!find_program(words.front()) || budget.left() <= 0) continue;
    fs::remove_all(part);
    fs::create_directories(part);
    if (run({.words = words, .environment = setting.environment(), .log = log, .of_machine = true}, budget.left()).status != 0)
      continue;
    fs::rename(part, folder);
    return {};
  }
  return fmt::format("'{}' was not unpacked: {}", archive.string(), tail(log, 1));
}

Command airbench_peer(const Setting& setting, const std::vector<std::string>& more) {
  Command peer{.words = {setting.python, (setting.own / "peers/airbench.py").string(), "--data", find_images(setting).string()},
               .environment = setting.peer_environment(),
               .log = setting.log("torch_airbench"),
               .of_machine = true};
  peer.words.insert(peer.words.end(), more.begin(), more.end());
  if (setting.trial()) {
    peer.words.insert(peer.words.end(),
                      {"--device", "cpu", "--no-compile", "--dtype", "fp32", "--epochs", "0.03", "--test", "500"});
  }
  return peer;
}

Preparation::Preparation(const Setting& setting, Report report, std::vector<int> cores, double limit)
    : setting_(setting),
      report_(std::move(report)),
      cores_(std::move(cores)),
      budget_(limit),
      done_(std::async(std::launch::async, [this] { run(); })) {}

void Preparation::run() {
  if (!setting_.data.empty() && find_images(setting_).empty()) {
    step("data", [&] { return unpack(setting_, setting_.data, setting_.images(), budget_.left()); });
  }
  step("photographs", [&] { return make_photographs(setting_, budget_.left()) ? "" : tail(setting_.log("shapes")); });
  if (setting_.trial()) return;  // the peers then run without a compiler
  Command resnet{.words = {setting_.python, (setting_.own / "peers/resnet50.py").string(), "--batch", "256", "--warm-up", "2",
                           "--warm-only"},
                 .environment = setting_.peer_environment(),
                 .log = setting_.log("torch_resnet50"),
                 .of_machine = true};
  step("PyTorch's compiler, ResNet-50", [&] { return compile(std::move(resnet)); });
  if (find_images(setting_).empty()) return;
  step("PyTorch's compiler, airbench", [&] { return compile(airbench_peer(setting_, {"--warm-only"})); });
}

void Preparation::step(const std::string& what, const std::function<std::string()>& make) {
  const Budget clock(0);
  std::string trouble;
  try {
    trouble = make();
  } catch (const std::exception& error) {
    trouble = error.what();
  }
  report_.row("prepared: " + what, trouble.empty() ? fmt::format("{:.0f} s", clock.spent()) : "failed", trouble);
}

std::string Preparation::compile(const Command& command) {
  Command there = command;
  there.cores = cores_;
  const Finished finished = gpu::run(there, budget_.left());
  if (finished.timed_out) return "did not end in time";
  return finished.status == 0 ? "" : tail(command.log);
}

}  // namespace millrace::gpu
