// Types of plugins that the framework names.
#include <algorithm>
#include <array>
#include <regex>
#include <set>

#include "source_file.h"
#include "walls.h"

namespace millrace::architecture {
namespace {

namespace fs = std::filesystem;

constexpr std::array kKnown = {
    // [data] chooses the source by the contents of its path.
    KnownName{"framework/config/data_layout.cpp", "read_annotations"},
    KnownName{"framework/config/data_layout.cpp", "read_folder"},
    KnownName{"framework/config/data_layout.cpp", "read_list"},
    KnownName{"framework/config/data_layout.cpp", "read_pairs"},
    KnownName{"framework/config/data_layout.cpp", "read_tar"},
    // The sink whose columns get the names of a list's numbers.
    KnownName{"framework/prepare/inference_recipe.cpp", "write_features"},
    // The default loss of a stage's table.
    KnownName{"framework/plugin/loss_params.h", "cross_entropy"},
    // A layer for which a backend may have its own operation.
    KnownName{"framework/network/fusion.cpp", "softmax"},
    // The sink whose pictures it makes, and whose results are scores already.
    KnownName{"framework/predict/predictor.cpp", "write_images"},
    KnownName{"framework/predict/predictor.cpp", "softmax"},
    // A key of recipes: the batch size.
    KnownName{"framework/prepare/inference_recipe.cpp", "batch"},
    KnownName{"framework/prepare/inference_recipe_read.cpp", "batch"},
    KnownName{"framework/prepare/inference_recipe_check.cpp", "batch"},
    // The kind of plugin; one stage has the same name.
    KnownName{"framework/config/schema.cpp", "optimizer"},
    KnownName{"framework/plugin/registry_content.h", "optimizer"},
    // A folder's name, and sides of an image.
    KnownName{"framework/config/data_layout.cpp", "pictures"},
    KnownName{"framework/run/doctor/class_names.cpp", "top"},
};

// The texts that the pattern finds before a comment.
std::vector<std::string> texts_in(const std::regex& pattern, const std::string& line) {
  const std::string code = line.substr(0, line.find("//"));
  std::vector<std::string> found;
  for (auto match = std::sregex_iterator(code.begin(), code.end(), pattern); match != std::sregex_iterator(); ++match) {
    found.push_back((*match)[1]);
  }
  return found;
}

std::set<std::string> types_of_plugins(const fs::path& root) {
  static const std::regex pattern(R"re(\bname\("([a-z0-9_]+)"\))re");
  std::set<std::string> names;
  for (const fs::path& file : cpp_files(root / "plugins")) {
    if (is_test(file)) continue;
    for (const std::string& line : read_lines(file)) {
      for (std::string& name : texts_in(pattern, line)) names.insert(std::move(name));
    }
  }
  return names;
}

}  // namespace

std::span<const KnownName> known_names() { return kKnown; }

Findings check_names(const fs::path& root, std::span<const KnownName> known) {
  static const std::regex pattern(R"re("([a-z0-9_]+)")re");
  const std::set<std::string> types = types_of_plugins(root);
  std::set<std::pair<std::string, std::string>> unused;
  for (const KnownName& each : known) unused.emplace(each.file, each.name);
  Findings findings;
  for (const fs::path& file : cpp_files(root / "framework")) {
    if (is_test(file)) continue;
    const std::string name = fs::relative(file, root).string();
    int number = 0;
    for (const std::string& line : read_lines(file)) {
      ++number;
      for (const std::string& text : texts_in(pattern, line)) {
        if (!types.contains(text)) continue;
        unused.erase({name, text});
        const auto is_it = [&](const KnownName& each) { return name == each.file && text == each.name; };
        if (std::ranges::any_of(known, is_it)) continue;
        findings.push_back(name + ":" + std::to_string(number) + ": knows '" + text +
                           "', which a plugin registers: have its type declare what is asked here");
      }
    }
  }
  for (const auto& [file, name] : unused) findings.push_back(file + ": does not name '" + name + "', as type_names.cpp says");
  return findings;
}

Findings check_host_backend(const fs::path& root) {
  static const std::regex name(R"re((=\s*"cpu"))re");  // compared with, or assigned
  Findings findings;
  for (const char* part : {"framework", "tools"}) {
    for (const fs::path& file : cpp_files(root / part)) {
      const std::string path = fs::relative(file, root).string();
      if (is_test(file) || path == "framework/prepare/devices.h") continue;
      int number = 0;
      for (const std::string& line : read_lines(file)) {
        ++number;
        if (texts_in(name, line).empty()) continue;
        findings.push_back(path + ":" + std::to_string(number) +
                           ": names the host's backend: write kHostBackend (prepare/devices.h)");
      }
    }
  }
  return findings;
}

}  // namespace millrace::architecture
