// `conformance_test --plugin=FILE.so` checks one plugin's types. Without any it fails.
#include <filesystem>
#include <iostream>
#include <span>
#include <string_view>

#include "discovered.h"
#include "millrace/util/load_plugins.h"

namespace millrace::conformance {
namespace {

namespace fs = std::filesystem;

// The filter of its tests; "" with a message if nothing is registered.
std::string filter_of(const fs::path& file) {
  for (const PluginInfo& plugin : loaded_plugins(with_simulation())) {
    std::error_code none;
    if (!fs::equivalent(plugin.path, file, none)) continue;
    std::string filter;
    for (const Subject& subject : registered_by(with_simulation(), plugin.name)) filter += ":*/" + subject.name;
    if (filter.empty()) std::cerr << "plugin '" << plugin.name << "' registers nothing that a test asks something of\n";
    return filter;
  }
  std::cerr << "the plugin " << file << " was not loaded: its folder stands in MILLRACE_PLUGIN_PATH\n";
  for (const std::string& reason : load_errors(with_simulation())) std::cerr << "  " << reason << "\n";
  return "";
}

int run_tests(int argc, char** argv) {
  constexpr std::string_view kPlugin = "--plugin=";
  for (const std::string_view word : std::span(argv, static_cast<std::size_t>(argc))) {
    if (!word.starts_with(kPlugin)) continue;
    const std::string filter = filter_of(word.substr(kPlugin.size()));
    if (filter.empty()) return 1;
    testing::GTEST_FLAG(filter) = filter;
  }
  const int result = RUN_ALL_TESTS();
  if (testing::UnitTest::GetInstance()->test_to_run_count() > 0 || testing::GTEST_FLAG(list_tests)) return result;
  std::cerr << "nothing was asked: no loaded plugin registers what the filter '" << testing::GTEST_FLAG(filter) << "' names\n";
  return 1;
}

}  // namespace
}  // namespace millrace::conformance

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  return millrace::conformance::run_tests(argc, argv);
}
