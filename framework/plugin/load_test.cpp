// Tests which libraries are loaded, which are refused with what message, and that objects keep their code in memory.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "millrace/backend/backend.h"
#include "millrace/plugin.h"
#include "millrace/util/load_plugins.h"
#include "testkit/few_addresses.h"
#include "testkit/files.h"
#include "testkit/messages.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

std::string plugin(const std::string& name) { return fmt::format("{}/{}.so", TEST_PLUGIN_DIR, name); }

// load()'s error for a library, as a kind and a text.
std::string refusal(const std::string& path) {
  Registry registry;
  try {
    load_plugin(registry, path);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_TRUE(loaded_plugins(registry).empty());
    return error.what();
  }
  return "was loaded";
}

bool in_memory(const std::string& path) {
  void* handle = dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (!handle) return false;
  dlclose(handle);
  return true;
}

// Sets the search path for one test.
class PluginPath {
 public:
  explicit PluginPath(const std::string& path) { setenv("MILLRACE_PLUGIN_PATH", path.c_str(), 1); }
  ~PluginPath() { unsetenv("MILLRACE_PLUGIN_PATH"); }
};

bool mentions(const std::vector<std::string>& lines, const std::string& text) {
  for (const std::string& line : lines) {
    if (line.find(text) != std::string::npos) return true;
  }
  return false;
}

TEST(PluginLoad, RegistersWhatAPluginOffers) {
  Registry registry;
  load_plugin(registry, plugin("good"));
  ASSERT_EQ(loaded_plugins(registry).size(), 1U);
  EXPECT_EQ(loaded_plugins(registry)[0].name, "good");
  EXPECT_EQ(loaded_plugins(registry)[0].version, "1.2");
  EXPECT_EQ(loaded_plugins(registry)[0].path, plugin("good"));
  ASSERT_TRUE(registry.stages().find("add_to_label"));
  EXPECT_EQ(registry.stages().find("add_to_label")->plugin, "good");
  ASSERT_TRUE(registry.backends().find("no_devices"));
  EXPECT_EQ(registry.backends().find("no_devices")->plugin, "good");
  EXPECT_EQ(registry.backends().find("no_devices")->create()->unavailable_reason(), "it has none");
}

TEST(PluginLoad, RefusesAnotherAbiBeforeCallingIt) {
  const auto expected = [](const std::string& path, std::uint32_t major, std::uint32_t minor) {
    return fmt::format("plugin '{}' was built for ABI {}.{}, this program has ABI {}.{}: build it again", path, major, minor,
                       kAbiVersion, kAbiMinor);
  };
  EXPECT_EQ(refusal(plugin("other_abi")), expected(plugin("other_abi"), kAbiVersion + 1, kAbiMinor));
  EXPECT_EQ(refusal(plugin("newer_abi")), expected(plugin("newer_abi"), kAbiVersion, kAbiMinor + 1));
}

TEST(PluginLoad, RefusesAnotherToolchainBeforeCallingIt) {
  EXPECT_EQ(refusal(plugin("other_toolchain")),
            fmt::format("plugin '{}' was built with toolchain 'another-compiler', this program with '{}': build it again",
                        plugin("other_toolchain"), MILLRACE_TOOLCHAIN));
}

TEST(PluginLoad, RefusesALibraryThatIsNoPlugin) {
  for (const std::string& path : {plugin("no_descriptor"), plugin("wrong_magic")}) {
    EXPECT_EQ(refusal(path), fmt::format("'{}' is not a Millrace plugin: it exports no descriptor 'millrace_plugin'", path));
  }
}

TEST(PluginLoad, RefusesAFileThatIsNoLibrary) {
  const testkit::TestFolder own;
  const fs::path path = own.path() / "no_library.so";
  std::ofstream(path) << "not an ELF file";
  for (const std::string& file : {path.string(), std::string("/nowhere/at_all.so")}) {
    EXPECT_TRUE(refusal(file).starts_with(fmt::format("plugin '{}' cannot be opened", file))) << refusal(file);
  }
}

// The dynamic loader does not detect this: it ends the process.
TEST(PluginLoad, RefusesALibraryThatIsCutOff) {
  const testkit::TestFolder own;
  const fs::path path = own.path() / "cut_off.so";
  const std::uintmax_t size = fs::file_size(plugin("good"));
  for (const std::uintmax_t left : {std::uintmax_t{100}, std::uintmax_t{3000}, size / 4}) {
    fs::copy_file(plugin("good"), path, fs::copy_options::overwrite_existing);
    fs::resize_file(path, left);
    const std::string said = refusal(path.string());
    EXPECT_TRUE(said.starts_with(fmt::format("plugin '{}' cannot be opened: the file has {} bytes, but", path.string(), left)))
        << said;
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // whose own memory knows no such limit
TEST(PluginLoad, SaysThatMemoryHasRunOutWhereALibraryCannotBeMapped) {
  const testkit::TestFolder own;
  const std::string path = own.path() / "not_loaded_yet.so";
  fs::copy_file(plugin("good"), path);
  Registry registry;
  const testkit::FewAddresses few(rlim_t{32} << 10);
  const Error error = testkit::error_of([&] { load_plugin(registry, path); });
  EXPECT_EQ(error.message(), "out of memory");
  EXPECT_EQ(error.kind(), ErrorKind::run);
}
#endif

TEST(PluginLoad, RefusesANameThatIsTaken) {
  Registry registry;
  load_plugin(registry, plugin("good"));
  EXPECT_MESSAGE(testkit::error_of([&] { load_plugin(registry, plugin("good")); }).what());
}

TEST(PluginLoad, TakesBackAPluginThatFailsHalfWay) {
  Registry registry;
  EXPECT_MESSAGE(testkit::error_of([&] { load_plugin(registry, plugin("half_registered")); }).what());
  EXPECT_EQ(registry.stages().find("twice"), nullptr);
  EXPECT_TRUE(loaded_plugins(registry).empty());
  load_plugin(registry, plugin("good"));
  EXPECT_EQ(registry.stages().find("add_to_label")->plugin, "good");
}

TEST(PluginLoadAll, SkipsWhatItCannotLoadAndKeepsTheReasons) {
  const PluginPath path(TEST_PLUGIN_DIR);
  Registry registry;
  load_all_plugins(registry);
  EXPECT_TRUE(registry.stages().find("add_to_label"));
  EXPECT_TRUE(mentions(load_errors(registry), "was built for ABI"));
  EXPECT_TRUE(mentions(load_errors(registry), "was built with toolchain 'another-compiler'"));
  EXPECT_TRUE(mentions(load_errors(registry), "no_descriptor.so' is not a Millrace plugin"));
  EXPECT_TRUE(mentions(load_errors(registry), "the stage 'twice' is registered already"));
}

TEST(PluginLoadAll, SaysWhichFolderOfTheSearchPathIsMissing) {
  const PluginPath path("/no/such/folder::" TEST_PLUGIN_DIR);
  Registry registry;
  load_all_plugins(registry);
  EXPECT_TRUE(
      mentions(load_errors(registry), "MILLRACE_PLUGIN_PATH: '/no/such/folder' cannot be read: No such file or directory"));
  EXPECT_TRUE(registry.stages().find("add_to_label"));
}

TEST(PluginLoadAll, SaysWhichFolderOfTheSearchPathHoldsNoPlugin) {
  const testkit::TestFolder own;
  const fs::path above = own.path() / "above_plugins", empty = above / "empty", inner = above / "inner";
  fs::create_directories(empty);
  fs::create_directories(inner);
  fs::copy_file(plugin("good"), inner / "good.so", fs::copy_options::overwrite_existing);
  const PluginPath path(above.string() + ":" + empty.string());
  Registry registry;
  load_all_plugins(registry);
  const std::string text = "MILLRACE_PLUGIN_PATH: '{}' holds no plugin, a library *.so";
  const std::string of_above =
      fmt::format(fmt::runtime(text + "; '{}' holds some: did you mean that?"), above.string(), inner.string());
  const std::string of_empty = fmt::format(fmt::runtime(text), empty.string());
  EXPECT_EQ(load_errors(registry), (std::vector<std::string>{of_above, of_empty}));
  EXPECT_EQ(skipped_clause(registry, "sepia"), "; skipped: " + of_above + "; skipped: " + of_empty);
}

TEST(PluginLoadAll, NamesTheReasonsThatMayLieBehindAMissingName) {
  const PluginPath path(TEST_PLUGIN_DIR);
  Registry registry;
  load_all_plugins(registry);
  EXPECT_EQ(skipped_clause(registry, "other_abi"), "; skipped: " + refusal(plugin("other_abi")));
  EXPECT_EQ(skipped_clause(registry, "sepia"), "");
}

TEST(PluginLoadAll, PrefersTheEarlierFolder) {
  const testkit::TestFolder own;
  const fs::path folder = own.path() / "earlier_plugins";
  fs::create_directories(folder);
  fs::copy_file(plugin("good"), folder / "good.so", fs::copy_options::overwrite_existing);
  const PluginPath path(folder.string() + ":" TEST_PLUGIN_DIR);
  Registry registry;
  load_all_plugins(registry);
  EXPECT_FALSE(mentions(load_errors(registry), "is loaded already"));
  const auto good = std::find_if(loaded_plugins(registry).begin(), loaded_plugins(registry).end(),
                                 [](const PluginInfo& info) { return info.name == "good"; });
  ASSERT_NE(good, loaded_plugins(registry).end());
  EXPECT_EQ(good->path, (folder / "good.so").string());
}

TEST(PluginLifetime, AStageKeepsItsLibraryLoaded) {
  const testkit::TestFolder own;
  const fs::path copy = own.path() / "kept_by_a_stage.so";  // no other test has this file open
  fs::copy_file(plugin("good"), copy, fs::copy_options::overwrite_existing);
  std::shared_ptr<Stage> stage;
  {
    Registry registry;
    load_plugin(registry, copy.string());
    Diagnostics errors;
    stage = registry.stages().find("add_to_label")->create(Value(), StepContext{}, errors);
    ASSERT_TRUE(stage) << errors.text();
  }
  EXPECT_TRUE(in_memory(copy.string()));
  Sample sample;
  sample.label = 4;
  Draw draw(1, {}, 0);
  dynamic_cast<SampleTransform&>(*stage).process(sample, draw);
  EXPECT_EQ(sample.label, 5);
  stage.reset();
}

TEST(PluginLifetime, ABackendKeepsItsLibraryLoaded) {
  const testkit::TestFolder own;
  const fs::path copy = own.path() / "kept_by_a_backend.so";
  fs::copy_file(plugin("good"), copy, fs::copy_options::overwrite_existing);
  std::shared_ptr<Backend> backend;
  {
    Registry registry;
    load_plugin(registry, copy.string());
    backend = registry.backends().find("no_devices")->create();
  }
  EXPECT_EQ(backend->unavailable_reason(), "it has none");
  backend.reset();
}

// An exception's type and destructor are in the library that threw it.
TEST(PluginLifetime, AnErrorOutlivesItsPlugin) {
  const testkit::TestFolder own;
  const fs::path copy = own.path() / "throws.so";
  fs::copy_file(plugin("good"), copy, fs::copy_options::overwrite_existing);
  std::exception_ptr thrown;
  {
    Registry registry;
    load_plugin(registry, copy.string());
    try {
      registry.backends().find("no_devices")->create()->open(0, {});
    } catch (...) {
      thrown = std::current_exception();
    }
  }
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "there is no device");
  }
}

TEST(PluginLifetime, ARefusedLibraryIsClosed) {
  refusal(plugin("other_abi"));
  refusal(plugin("half_registered"));
  EXPECT_FALSE(in_memory(plugin("other_abi")));
  EXPECT_FALSE(in_memory(plugin("half_registered")));
}

}  // namespace
}  // namespace millrace
