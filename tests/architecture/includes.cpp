// Checks includes.
#include <algorithm>
#include <array>
#include <string_view>

#include "source_file.h"
#include "walls.h"

namespace millrace::architecture {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 19> kDeviceLibraries = {
    "dnnl",      "oneapi/dnnl", "mkl",    "omp.h", "cuda", "cudnn", "cublas", "nccl", "nvjpeg", "driver_types.h",
    "jpeglib.h", "turbojpeg",   "jerror", "png",   "webp", "tiff",  "curl",   "aws",  "mpi.h"};

// All folders of the framework with sources. Each may include the earlier ones, so there is no circle.
constexpr std::array<std::string_view, 16> kRooms = {"util",  "toml",       "data",   "weights", "network", "plugin",  "graph", "config",
                                                     "compute", "ranks", "checkpoint", "report", "prepare", "predict", "run",   "testkit"};

bool starts_with_any(std::string_view name, const auto& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(), [&](std::string_view prefix) { return name.starts_with(prefix); });
}

bool is_tbb(std::string_view name) { return name.starts_with("tbb/") || name.starts_with("oneapi/tbb"); }
bool is_openssl(std::string_view name) { return name.starts_with("openssl/"); }
bool is_toml(std::string_view name) { return name.starts_with("toml++") || name.starts_with("toml.h"); }

class IncludeCheck {
 public:
  explicit IncludeCheck(const fs::path& root) : root_(fs::weakly_canonical(root)) {}

  Findings run() {
    for (const fs::path& file : cpp_files(root_ / "framework")) framework(file);
    for (const fs::path& file : cpp_files(root_ / "plugins")) plugin(file);
    for (const fs::path& file : cpp_files(root_ / "tools")) tool(file);
    return std::move(findings_);
  }

 private:
  void framework(const fs::path& file) {
    const bool is_public = below(file, root_ / "framework/include");
    const bool for_nvcc = file.extension() == ".cuh";  // only plugins' kernels include these; the library does not
    for (const Include& include : includes_of(file)) {
      if (!for_nvcc && include.name.ends_with(".cuh")) note(file, include, "what nvcc compiles belongs to plugins");
      if (starts_with_any(include.name, kDeviceLibraries) && !(for_nvcc && include.name == "cuda_runtime.h"))
        note(file, include, "the framework knows no device and no file format");
      if (is_tbb(include.name) && !below(file, root_ / "framework/graph")) note(file, include, "oneTBB stays in framework/graph");
      if (is_toml(include.name) && !below(file, root_ / "framework/toml"))
        note(file, include, "toml++ stays in framework/toml");
      if (is_openssl(include.name) && file != root_ / "framework/util/sha256.cpp")
        note(file, include, "OpenSSL stays in framework/util/sha256.cpp");
      if (!include.quoted) continue;
      note_room(file, include);
      if (is_public && !include.name.starts_with("millrace/"))
        note(file, include, "a public header includes public headers only");
      if (below(file, root_ / "framework/include/millrace/detail") && !include.name.starts_with("millrace/detail/"))
        note(file, include, "the other headers stand on millrace/detail, which includes only its own");
      if (!in_framework(include.name)) note(file, include, "the framework includes its own files only");
    }
  }

  // Public headers include none of the folders, see above.
  void note_room(const fs::path& file, const Include& include) {
    if (is_test(file)) return;
    const auto room_of = [](const fs::path& path) {
      return std::ranges::find(kRooms, path.begin()->string()) - kRooms.begin();  // the number of rooms: another folder
    };
    const auto own = room_of(fs::relative(file, root_ / "framework")), other = room_of(include.name);
    if (other == static_cast<std::ptrdiff_t>(kRooms.size()) || other <= own) return;
    note(file, include, std::string(kRooms[static_cast<std::size_t>(other)]) + " stands on this folder, which does not see it");
  }

  void plugin(const fs::path& file) {
    const fs::path own = own_folder(file);
    for (const Include& include : includes_of(file)) {
      if (is_tbb(include.name) || is_toml(include.name))
        note(file, include, "a plugin sees the framework, not what it is made of");
      if (include.name.starts_with("millrace/detail/") || include.name.starts_with("millrace/templates/"))
        note(file, include, "it comes with the header that it is a part of");
      if (include.name.starts_with("millrace/")) continue;
      if (is_test(file) && (include.name.starts_with("testkit/") || is_of_tests(include.name))) continue;
      if (!include.quoted) {
        if (fs::exists(root_ / "framework" / include.name)) note(file, include, "a plugin includes millrace/*.h only");
        continue;
      }
      if (!found_within(own, file, include.name)) note(file, include, "a plugin includes millrace/*.h and its own files only");
    }
  }

  void tool(const fs::path& file) {
    if (is_test(file)) return;  // a benchmark may include internals that it measures
    for (const Include& include : includes_of(file)) {
      if (!include.quoted) continue;
      const bool own = found_within(root_ / "tools", file, include.name);
      if (!own && !in_framework(include.name)) note(file, include, "a tool reaches stages by name");
    }
  }

  // plugins/KIND/NAME; for shared parts of a kind, and for tests, plugins/KIND.
  fs::path own_folder(const fs::path& file) const {
    const fs::path relative = fs::relative(file.parent_path(), root_ / "plugins");
    const fs::path kind = *relative.begin();
    return root_ / "plugins" / (is_test(file) || relative == kind ? kind : kind / *std::next(relative.begin()));
  }

  // A simulated GPU and fake libraries, which tests of backend `cuda` share.
  bool is_of_tests(const std::string& name) const {
    const fs::path tests = root_ / "tests/gpu";
    return fs::exists(tests / name) || fs::exists(tests / "fakes" / name) || fs::exists(tests / "simulation" / name);
  }

  static bool below(const fs::path& file, const fs::path& folder) {
    const auto relative = fs::relative(file, folder);
    return !relative.empty() && *relative.begin() != "..";
  }

  bool in_framework(const std::string& name) const {
    const auto has = [&](const fs::path& folder) {
      return fs::exists(folder / name) && below(fs::weakly_canonical(folder / name), root_ / "framework");
    };
    return has(root_ / "framework/include") || has(root_ / "framework");
  }

  // Relative to the file or to a folder between it and `own`; not outside `own`.
  static bool found_within(const fs::path& own, const fs::path& file, const std::string& name) {
    for (fs::path folder = file.parent_path(); below(folder, own) || folder == own; folder = folder.parent_path()) {
      const fs::path target = fs::weakly_canonical(folder / name);
      if (fs::exists(target) && below(target, own)) return true;
    }
    return false;
  }

  void note(const fs::path& file, const Include& include, const std::string& why) {
    findings_.push_back(fs::relative(file, root_).string() + ":" + std::to_string(include.line) + ": includes " + include.name +
                        ": " + why);
  }

  fs::path root_;
  Findings findings_;
};

}  // namespace

Findings check_includes(const fs::path& root) { return IncludeCheck(root).run(); }

}  // namespace millrace::architecture
