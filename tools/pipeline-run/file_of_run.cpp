#include "file_of_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "checkpoint/run_folder.h"
#include "millrace/detail/value.h"
#include "millrace/error.h"
#include "millrace/util/paths.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPipeline = "pipeline.toml";

// The option that names a run's folder, and the folder.
struct NamedRun {
  std::string option, folder;
};
NamedRun named_run(const CommandLine& line) {
  const std::string resumed = line.options.resume.run.value_or("");
  if (!resumed.empty()) return {"--resume", resumed};
  if (!line.explain.empty()) return {"--explain-nan", line.explain};
  std::error_code ignored;
  const bool measures = !line.options.graph.empty() && fs::is_directory(line.options.weights, ignored);
  return measures ? NamedRun{"--weights", line.options.weights} : NamedRun{};
}

// Runs are in runs/NAME/TIME; a checkpoint in RUN/checkpoints/step-..., or elsewhere in NAME/TIME/step-... "" if they were moved.
std::string name_of_run(const fs::path& folder) {
  std::error_code ignored;
  for (fs::path each = fs::canonical(folder, ignored); each.has_relative_path(); each = each.parent_path()) {
    if (read_run_name(each.filename().string())) return each.parent_path().filename().string();
  }
  return {};
}

}  // namespace

bool take_file_of_run(CommandLine& line) {
  const auto [option, folder] = named_run(line);
  if (folder.empty()) return false;
  if (!is_readable_file(fs::path(folder) / kPipeline)) {
    fail(ErrorKind::usage,
         "{}: '{}' holds no {}, which the folder of a run has: name the pipeline's file too, or the folder of a run, such as "
         "runs/NAME/latest",
         option, folder, kPipeline);
  }
  line.file = (fs::path(folder) / kPipeline).string();
  line.says_file = option;
  const bool is_named = !line.shorts.name.empty() || std::ranges::any_of(line.overrides, [](const std::string& each) {
    return each.starts_with("run.name=");
  });
  if (const std::string name = name_of_run(folder); !is_named && !name.empty()) {
    line.overrides.push_back("run.name=" + to_toml(Value(name)));
  }
  return true;
}

std::string advice_for_folder(const std::string& argument) {
  if (!is_readable_file(fs::path(argument) / kPipeline)) return {};
  return fmt::format(
      "'{0}' is the folder of a run: --resume {0} resumes it, --graph validate --weights {0} measures it, and --predict IMAGES "
      "--weights {0} predicts with it",
      argument);
}

}  // namespace millrace
