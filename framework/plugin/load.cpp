// Finds and opens plugins.
#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>

#include "base/out_of_memory.h"
#include "millrace/util/load_plugins.h"
#include "plugin/loading.h"
#include "plugin/registry_content.h"
#include "plugin/trust.h"

namespace millrace {
namespace {

template <class T>
bool read_at(std::ifstream& file, std::uint64_t offset, T& value) {
  char bytes[sizeof(T)];
  file.seekg(static_cast<std::streamoff>(offset));
  if (!file.read(bytes, sizeof bytes)) return false;
  std::memcpy(&value, bytes, sizeof bytes);
  return true;
}

// The missing part of a truncated library, for example after a failed copy. Opening such a file ends the process (SIGBUS). "" if
// the file is complete, or not a library at all.
std::string missing_part(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  Elf64_Ehdr header{};
  if (!read_at(file, 0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return {};
  std::error_code ignored;
  const std::uint64_t size = std::filesystem::file_size(path, ignored);
  std::uint64_t needed = header.e_phoff + std::uint64_t{header.e_phnum} * sizeof(Elf64_Phdr);
  for (std::uint64_t i = 0; i < header.e_phnum && needed <= size; ++i) {
    Elf64_Phdr part{};
    if (!read_at(file, header.e_phoff + i * sizeof part, part)) break;
    if (part.p_type == PT_LOAD) needed = std::max<std::uint64_t>(needed, part.p_offset + part.p_filesz);
  }
  if (needed <= size) return {};
  return fmt::format("the file has {} bytes, but the library in it at least {}: build or copy it again", size, needed);
}

namespace fs = std::filesystem;

std::atomic<const char*> under_way{nullptr};  // result of loading_plugin()

class Loading {
 public:
  explicit Loading(const std::string& path) : before_(under_way.exchange(path.c_str())) {}
  Loading(const Loading&) = delete;
  Loading& operator=(const Loading&) = delete;
  ~Loading() { under_way = before_; }

 private:
  const char* const before_;
};

// The loader gives no error code. It maps nothing of a disk that is mounted without the right to execute, either.
bool lacks_addresses(std::string_view reason, const std::string& path) {
  if (reason.find(std::generic_category().message(ENOMEM)) != reason.npos) return true;
  struct statvfs disk {};
  const bool may_execute = ::statvfs(path.c_str(), &disk) == 0 && (disk.f_flag & ST_NOEXEC) == 0;
  return may_execute && reason.find("failed to map segment") != reason.npos;
}

std::shared_ptr<void> open_library(const std::string& path) {
  if (const std::string reason = distrust(path); !reason.empty()) fail(ErrorKind::usage, "plugin {}", reason);
  if (const std::string part = missing_part(path); !part.empty()) {
    fail(ErrorKind::usage, "plugin '{}' cannot be opened: {}", path, part);
  }
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const std::string reason = dlerror();
    if (lacks_addresses(reason, path)) throw Error(ErrorKind::run, kOutOfMemory).in(fmt::format("plugin '{}'", path));
    fail(ErrorKind::usage, "plugin '{}' cannot be opened (if it was built for another version, build it again): {}", path,
         reason);
  }
  return {handle, [](void* library) { dlclose(library); }};
}

// Compares everything that must match before any code of the plugin may run.
const PluginDescriptor& checked_descriptor(void* library, const std::string& path) {
  const auto* descriptor = static_cast<const PluginDescriptor*>(dlsym(library, "millrace_plugin"));
  if (!descriptor || descriptor->magic != kPluginMagic) {
    fail(ErrorKind::usage, "'{}' is not a Millrace plugin: it exports no descriptor 'millrace_plugin'", path);
  }
  const std::uint32_t major = descriptor->abi & 0xffff, minor = descriptor->abi >> 16;
  if (major != kAbiVersion || minor > kAbiMinor) {
    fail(ErrorKind::usage, "plugin '{}' was built for ABI {}.{}, this program has ABI {}.{}: build it again", path, major, minor,
         kAbiVersion, kAbiMinor);
  }
  if (std::string_view(descriptor->toolchain) != MILLRACE_TOOLCHAIN) {
    fail(ErrorKind::usage, "plugin '{}' was built with toolchain '{}', this program with '{}': build it again", path,
         descriptor->toolchain, MILLRACE_TOOLCHAIN);
  }
  return *descriptor;
}

// Folders in MILLRACE_PLUGIN_PATH.
std::vector<fs::path> named_folders() {
  std::vector<fs::path> folders;
  if (const char* variable = std::getenv("MILLRACE_PLUGIN_PATH")) {
    std::string_view rest = variable;
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find(':'), rest.size());
      if (end > 0) folders.emplace_back(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  return folders;
}

constexpr const char* kFolder = "the folder of plugins ";  // a folder that is not trusted

// The libraries in a folder, sorted, so that every machine loads them in the same order.
std::vector<std::string> libraries_in(const fs::path& folder, std::error_code& error) {
  std::vector<std::string> files;
  for (auto entry = fs::directory_iterator(folder, error); !error && entry != fs::directory_iterator(); entry.increment(error)) {
    if (entry->path().extension() == ".so") files.push_back(entry->path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string library_name(const std::string& path) { return fs::path(path).filename().string(); }

struct FoundLibraries {
  std::vector<std::string> files;
  std::string reason;  // why its libraries are not used; empty: the folder is trusted
};

FoundLibraries find_libraries(const fs::path& folder, std::error_code& error) {
  std::vector<std::string> files = libraries_in(folder, error);
  if (const std::string reason = distrust(folder); !files.empty() && !reason.empty()) return {{}, kFolder + reason};
  return {std::move(files), {}};
}

// The message for a named folder without libraries; most often its parent was named.
std::string without_plugins(const fs::path& folder) {
  std::string message = fmt::format("MILLRACE_PLUGIN_PATH: '{}' holds no plugin, a library *.so", folder.string());
  std::vector<fs::path> inner = {folder / "lib" / "millrace" / "plugins"};
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.is_directory(ignored)) inner.push_back(entry.path());
  }
  std::sort(inner.begin() + 1, inner.end());
  const auto found = std::find_if(inner.begin(), inner.end(), [](const fs::path& each) {
    std::error_code unreadable;
    return !libraries_in(each, unreadable).empty();
  });
  return found == inner.end() ? message : fmt::format("{}; '{}' holds some: did you mean that?", message, found->string());
}

}  // namespace

const char* loading_plugin() noexcept { return under_way; }

void load_plugin(Registry& registry, const std::string& path) {
  const Loading loading(path);
  // OpenMP threads must not spin while data stages run; libgomp reads this once, when a backend loads it.
  setenv("OMP_WAIT_POLICY", "passive", 0);

  const std::shared_ptr<void> library = open_library(path);
  const PluginDescriptor& descriptor = checked_descriptor(library.get(), path);
  RegistryContent& content = RegistryContent::of(registry);
  for (const PluginInfo& loaded : content.plugins) {
    if (loaded.name == descriptor.name) {
      fail(ErrorKind::usage, "plugin '{}' from '{}' is loaded already from '{}'", loaded.name, path, loaded.path);
    }
  }
  content.loading = descriptor.name;
  try {
    descriptor.register_types(registry);
  } catch (...) {
    Error error = current_error();
    content.remove_those_of(std::exchange(content.loading, {}));  // a plugin registers everything or nothing
    throw error.in(fmt::format("plugin '{}' ({})", descriptor.name, path));
  }
  content.loading.clear();
  // From here on the library stays loaded: its objects and exceptions may outlive the registry.
  if (void* pinned = dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE)) dlclose(pinned);
  content.plugins.push_back({descriptor.name, descriptor.version, descriptor.text, path});
}

// A user's library replaces our library of the same file name. Our others are loaded first, so that on a name conflict the user's
// plugin is refused.
void load_all_plugins(Registry& registry) {
  RegistryContent& content = RegistryContent::of(registry);
  const auto load_each = [&](const std::vector<std::string>& files) {
    for (const std::string& file : files) {
      const auto same_name = [&](const PluginInfo& plugin) { return library_name(plugin.path) == library_name(file); };
      if (std::ranges::any_of(content.plugins, same_name)) continue;  // an earlier folder has it
      try {
        load_plugin(registry, file);
      } catch (const Error& problem) {
        if (lacks_memory(problem)) throw;  // the next one would lack it too
        content.load_errors.emplace_back(problem.what());
      }
    }
  };
  std::vector<std::string> named, unusable;
  for (const fs::path& folder : named_folders()) {
    std::error_code error;
    const FoundLibraries found = find_libraries(folder, error);
    named.insert(named.end(), found.files.begin(), found.files.end());
    if (!found.reason.empty()) unusable.push_back(found.reason);
    if (error) {
      unusable.push_back(fmt::format("MILLRACE_PLUGIN_PATH: '{}' cannot be read: {}", folder.string(), error.message()));
    } else if (found.files.empty() && found.reason.empty()) {
      unusable.push_back(without_plugins(folder));
    }
  }
  std::error_code error;
  FoundLibraries own = find_libraries(own_plugin_folder(), error);
  const auto replaced = std::stable_partition(own.files.begin(), own.files.end(), [&](const std::string& file) {
    return std::none_of(named.begin(), named.end(),
                        [&](const std::string& other) { return library_name(other) == library_name(file); });
  });
  content.load_errors.insert(content.load_errors.end(), unusable.begin(), unusable.end());
  load_each({own.files.begin(), replaced});
  load_each(named);
  load_each({replaced, own.files.end()});
  if (!own.reason.empty()) content.load_errors.push_back(own.reason);
  if (!error || error == std::errc::no_such_file_or_directory) return;  // an install tree may have no plugins
  content.load_errors.push_back(fmt::format("{}'{}' cannot be read: {}", kFolder, own_plugin_folder().string(), error.message()));
}

const std::vector<PluginInfo>& loaded_plugins(const Registry& registry) { return RegistryContent::of(registry).plugins; }
const std::vector<std::string>& load_errors(const Registry& registry) { return RegistryContent::of(registry).load_errors; }

std::string skipped_clause(const Registry& registry, std::string_view name) {
  std::string clause;
  for (const std::string& reason : load_errors(registry)) {
    if (reason.starts_with("MILLRACE_PLUGIN_PATH") || reason.starts_with(kFolder) || reason.find(name) != std::string::npos)
      clause += "; skipped: " + reason;
  }
  return clause;
}

}  // namespace millrace
