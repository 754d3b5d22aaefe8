#include "walls.h"

#include <algorithm>
#include <regex>
#include <set>

#include "needed.h"
#include "source_file.h"

namespace millrace::architecture {

namespace fs = std::filesystem;

namespace {

std::set<std::string> names_below(const fs::path& folder) {
  std::set<std::string> names;
  if (!fs::exists(folder)) return names;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) names.insert(fs::relative(entry.path(), folder).string());
  }
  return names;
}

}  // namespace

Findings check_exits(const fs::path& root) {
  static const std::regex call(R"((^|[^\w.>])(std::)?(exit|_exit|_Exit|quick_exit|abort|terminate)\s*\()");
  Findings findings;
  for (const char* part : {"framework", "plugins", "tools"}) {
    for (const fs::path& file : cpp_files(root / part)) {
      const bool is_main = std::string_view(part) == "tools" && file.filename() == "main.cpp";
      if (is_main || is_test(file)) continue;
      const std::vector<std::string> code = code_of(file);
      for (std::size_t i = 0; i < code.size(); ++i) {
        if (!std::regex_search(code[i], call) || code[i].starts_with("extern ")) continue;  // it defines one
        findings.push_back(fs::relative(file, root).string() + ":" + std::to_string(i + 1) +
                           ": ends the process; throw Error instead");
      }
    }
  }
  return findings;
}

Findings check_streams(const fs::path& root) {
  static const std::regex any(
      R"((^|[^\w.>])(std::|millrace::)?(stderr|cerr|clog|perror|STDERR_FILENO|(print|write)_to_stderr)\b)");
  static const std::regex may_throw(R"((^|[^\w.>])(std::)?(stderr|cerr|clog|perror)\b)");
  const std::string home = "standard_error.";
  const std::set<std::string> speak = {"framework/compute/backend.cpp", "plugins/observers/console/console.cpp",
                                       "plugins/observers/page/page.cpp",  // prints its address when the run begins
                                       "plugins/observers/top/top.cpp"};   // draws its screen
  Findings findings;
  for (const char* part : {"framework", "plugins", "tools"}) {
    for (const fs::path& file : cpp_files(root / part)) {
      const std::string name = fs::relative(file, root).string();
      if (is_test(file) || file.filename().string().starts_with(home) || name.starts_with("tools/bench/")) continue;
      const bool speaks = speak.contains(name) || name.starts_with("tools/");
      const std::vector<std::string> code = code_of(file);
      for (std::size_t i = 0; i < code.size(); ++i) {
        if (!std::regex_search(code[i], speaks ? may_throw : any)) continue;
        findings.push_back(name + ":" + std::to_string(i + 1) +
                           (speaks ? ": standard error may be gone; use millrace/util/standard_error.h"
                                   : ": writes to standard error; warn through the run instead"));
      }
    }
  }
  return findings;
}

Findings check_link_lines(const fs::path& framework_library, const fs::path& plugins) {
  static const std::regex device(R"(^lib(dnnl|mkl|gomp|cu|nccl|nv|jpeg|turbojpeg|png|webp|tiff|curl|ssl|aws|mpi).*)");
  Findings findings;
  for (const std::string& library : needed_libraries(framework_library)) {
    if (std::regex_match(library, device)) findings.push_back(framework_library.filename().string() + ": needs " + library);
  }
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(plugins)) names.insert(entry.path().filename().string());
  for (const std::string& name : names) {
    const std::vector<std::string> needed = needed_libraries(plugins / name);
    for (const std::string& library : needed) {
      if (names.contains(library)) findings.push_back(name + ": needs the plugin " + library);
    }
    const auto is_framework = [](const std::string& library) { return library.starts_with("libmillrace.so"); };
    if (std::none_of(needed.begin(), needed.end(), is_framework)) findings.push_back(name + ": does not need libmillrace.so");
  }
  return findings;
}

Findings check_installed_headers(const fs::path& root, const fs::path& prefix) {
  std::set<std::string> here = names_below(root / "framework/include");
  const std::set<std::string> there = names_below(prefix / "include");
  if (fs::exists(root / "plugins")) {
    for (const auto& entry : fs::recursive_directory_iterator(root / "plugins")) {
      if (entry.path().filename() == "include") here.merge(names_below(entry.path()));
    }
  }
  Findings findings;
  for (const std::string& name : there) {
    if (!here.contains(name)) findings.push_back(name + ": is installed and no public header");
  }
  for (const std::string& name : here) {
    if (!there.contains(name)) findings.push_back(name + ": is a public header and not installed");
  }
  return findings;
}

}  // namespace millrace::architecture
