#include "library.h"

#include <fmt/format.h>

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "millrace/error.h"

namespace millrace::cuda {
namespace {

constexpr const char* kVariable = "MILLRACE_CUDA_LIBRARIES";
constexpr const char* kUsualFolders[] = {"/usr/local/cuda/lib64", "/usr/local/cuda/targets/x86_64-linux/lib"};

std::vector<std::string> split(const std::string& folders) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin < folders.size();) {
    const std::size_t end = std::min(folders.find(':', begin), folders.size());
    if (end > begin) parts.push_back(folders.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::string folders_of_environment() {
  const char* folders = std::getenv(kVariable);
  return folders == nullptr ? std::string() : std::string(folders);
}

std::string path_of(void* handle, const std::string& otherwise) {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr && map->l_name[0] != '\0') return map->l_name;
  return otherwise;
}

}  // namespace

std::vector<std::string> library_candidates(const std::vector<std::string>& names, const std::string& folders) {
  std::vector<std::string> candidates;
  const auto add = [&](const std::string& folder) {
    for (const std::string& name : names) candidates.push_back(folder.empty() ? name : folder + "/" + name);
  };
  for (const std::string& folder : split(folders)) add(folder);
  add({});
  for (const char* folder : kUsualFolders) add(folder);
  return candidates;
}

Library::Library(const std::vector<std::string>& names) {
  const std::string folders = folders_of_environment();
  for (const std::string& folder : split(folders)) {
    std::error_code ignored;
    if (!std::filesystem::is_directory(folder, ignored)) fail(ErrorKind::usage, "{}: there is no folder '{}'", kVariable, folder);
  }
  std::string complaints;
  for (const std::string& candidate : library_candidates(names, folders)) {
    const bool by_loader = candidate.find('/') == std::string::npos;
    if (!by_loader && access(candidate.c_str(), F_OK) != 0) continue;
    handle_ = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle_ != nullptr) {
      path_ = path_of(handle_, candidate);
      return;
    }
    const char* reason = dlerror();  // for an existing file: usually a missing dependency
    if (!by_loader) complaints += fmt::format("; {}", reason == nullptr ? candidate : std::string(reason));
  }
  fail(ErrorKind::device, "{} was not found: looked in {} ({}), the loader's own folders, {} and {}{}", fmt::join(names, " or "),
       kVariable, folders.empty() ? "not set" : folders, kUsualFolders[0], kUsualFolders[1], complaints);
}

void* Library::find(const char* name) const {
  dlerror();
  void* address = dlsym(handle_, name);
  if (address == nullptr)
    fail(ErrorKind::device, "{} has no function '{}': it is another version than this program needs", path_, name);
  return address;
}

}  // namespace millrace::cuda
