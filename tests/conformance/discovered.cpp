#include "discovered.h"

#include <filesystem>

#include "millrace/util/load_plugins.h"

namespace millrace::conformance {

namespace fs = std::filesystem;

const Registry& registry() {
  static const Registry loaded = [] {
    Registry made;
    load_all_plugins(made);
    return made;
  }();
  return loaded;
}

const Registry& with_simulation() {
  static const Registry loaded = [] {
    Registry made;
    load_all_plugins(made);
    const fs::path built = MILLRACE_BINARY_DIR "/tests/simulated/simulated.so";  // elsewhere it is in the search path
    if (made.backends().find("simulated") == nullptr && fs::exists(built)) load_plugin(made, built);
    return made;
  }();
  return loaded;
}

std::vector<std::string> stage_names() {
  std::vector<std::string> names;
  for (const auto& [name, type] : registry().stages()) names.push_back(name);
  return names;
}

std::vector<std::string> stage_names(StageType::Role role) {
  std::vector<std::string> names = stage_names();
  std::erase_if(names, [role](const std::string& name) { return registry().stages().find(name)->role != role; });
  return names;
}

std::vector<std::string> backend_names() {
  std::vector<std::string> names;
  for (const auto& [name, type] : with_simulation().backends()) names.push_back(name);
  return names;
}

void expect_passes(std::string_view kind, std::string_view check, const std::string& name) {
  const Report report = ask(with_simulation(), kind, check, name);
  if (report.verdict() == Verdict::not_applicable) GTEST_SKIP() << report.text();
  EXPECT_EQ(report.text(), "");
}

}  // namespace millrace::conformance
