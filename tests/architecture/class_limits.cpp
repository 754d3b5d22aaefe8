// Maximum sizes of classes in the framework and backends.
#include <algorithm>
#include <array>
#include <iterator>
#include <set>

#include "class_sizes.h"
#include "source_file.h"
#include "walls.h"

namespace millrace::architecture {
namespace {

namespace fs = std::filesystem;

// Larger classes, with their sizes, and the reason not to split them. Public headers first.
constexpr std::array kLarge = {
    // One call per request of a run to a device: split parts would still be implemented by one class.
    ClassLimit{.name = "Replica", .public_functions = 25},
    // Its steps plan one set of tensors in turn: split parts would pass all of it on.
    ClassLimit{.name = "ExecutablePlan", .public_functions = 20},
    // All metrics computed from one table of classes.
    ClassLimit{.name = "ClassTotals", .public_functions = 17},
    // The properties of a parameter.
    ClassLimit{.name = "ParamInfo", .fields = 21},
    // One type of six kinds, each with a constructor, a query and a setter.
    ClassLimit{.name = "Value", .public_functions = 30},
    // One call per measurement, and one to report it.
    ClassLimit{.name = "RunMeter", .public_functions = 16},
    // The calls of a graph and of its source.
    ClassLimit{.name = "Gate", .public_functions = 16},
    // Everything that the rules of a run read, one call per event, and one per action.
    ClassLimit{.name = "RunState", .fields = 37},
    ClassLimit{.name = "Decider", .public_functions = 19, .private_functions = 38},
    ClassLimit{.name = "Runner", .private_functions = 54, .fields = 32},
    // One call per kind of report from a stage to its run.
    ClassLimit{.name = "RunLog", .public_functions = 16},
    // All decisions before a run, and all its options.
    ClassLimit{.name = "PreparedRun", .public_functions = 16},
    ClassLimit{.name = "RunOptions", .fields = 21},
    // One mutex guards everything that one delivery needs.
    ClassLimit{.name = "Observers::Queue", .fields = 22},
    // The keys of [run].
    ClassLimit{.name = "RunParams", .fields = 21},
    // The keys of a checkpoint's state.
    ClassLimit{.name = "SavedState", .fields = 21},
    // The interface of Replica.
    ClassLimit{.name = "CpuReplica", .public_functions = 24},
    ClassLimit{.name = "GpuReplica", .public_functions = 25},
    // A GPU as seen by the backend, so that it can be simulated on the host: memory, queues, libraries, checks.
    ClassLimit{.name = "Machine", .public_functions = 21},
    ClassLimit{.name = "CudaMachine", .public_functions = 17},
    // A planned tensor has two fields: its number, and its position.
    ClassLimit{.name = "Normalisation", .folder = "plugins/backends/cpu", .fields = 32},
    ClassLimit{.name = "Normalisation", .folder = "plugins/backends/cuda", .fields = 35},
    // The facts by which libraries choose an engine.
    ClassLimit{.name = "ConvolutionShape", .fields = 24},
};

std::string numbers(std::size_t public_functions, std::size_t private_functions, std::size_t fields) {
  return std::to_string(public_functions) + " public and " + std::to_string(private_functions) + " private functions and " +
         std::to_string(fields) + " fields";
}

bool fits(const ClassSize& size, const ClassLimit& limit) {
  return size.public_functions <= limit.public_functions && size.private_functions <= limit.private_functions &&
         size.fields <= limit.fields;
}

// Whether a class is smaller than its entry, above the general limits.
bool has_shrunk(const ClassSize& size, const ClassLimit& entry) {
  const ClassLimit usual;
  return std::max(size.public_functions, usual.public_functions) < entry.public_functions ||
         std::max(size.private_functions, usual.private_functions) < entry.private_functions ||
         std::max(size.fields, usual.fields) < entry.fields;
}

}  // namespace

std::span<const ClassLimit> large_classes() { return kLarge; }

Findings check_classes(const fs::path& root, std::span<const ClassLimit> large) {
  const ClassLimit usual;
  std::set<const ClassLimit*> used;
  Findings findings;
  std::vector<fs::path> files = cpp_files(root / "framework");
  std::ranges::copy(cpp_files(root / "plugins/backends"), std::back_inserter(files));
  for (const fs::path& file : files) {
    if (is_test(file)) continue;
    for (const ClassSize& size : classes_in(file)) {
      const std::string at = fs::relative(file, root).string(), name = at + ": " + size.name;
      const auto entry = std::ranges::find_if(
          large, [&](const ClassLimit& limit) { return limit.name == size.name && at.starts_with(limit.folder); });
      const ClassLimit limit = entry == large.end() ? usual : *entry;
      if (!fits(size, limit)) {
        findings.push_back(name + " has " + numbers(size.public_functions, size.private_functions, size.fields) + "; " +
                           std::to_string(limit.public_functions) + ", " + std::to_string(limit.private_functions) + " and " +
                           std::to_string(limit.fields) + " are allowed");
      } else if (!fits(size, usual) && has_shrunk(size, limit)) {
        findings.push_back(name + " is smaller than class_limits.cpp says: list what it has");
      }
      if (entry != large.end() && !fits(size, usual)) used.insert(&*entry);
    }
  }
  for (const ClassLimit& limit : large) {
    if (!used.contains(&limit)) {
      findings.push_back(std::string(limit.name) + " is listed in class_limits.cpp, and is small or not there");
    }
  }
  return findings;
}

}  // namespace millrace::architecture
