// Tests the architecture's rules, and that the checks detect violations: each check also runs on a small tree with one planted.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "needed.h"
#include "walls.h"

namespace millrace::architecture {
namespace {

namespace fs = std::filesystem;

const fs::path kRoot = MILLRACE_SOURCE_DIR;
const fs::path kLibraries = fs::path(MILLRACE_BINARY_DIR) / MILLRACE_LIBDIR;

std::string text(const Findings& findings) {
  std::string all;
  for (const std::string& finding : findings) all += finding + "\n";
  return all;
}

// A temporary tree.
class PlantedTree {
 public:
  PlantedTree()
      : root_(fs::path(testing::TempDir()) /
              (testing::UnitTest::GetInstance()->current_test_info()->name() + std::to_string(::getpid()))) {
    fs::remove_all(root_);
    write("framework/include/millrace/stage.h", "#include <vector>\n");
    write("framework/toml/document.h", "#include \"millrace/stage.h\"\n#include <toml++/toml.h>\n");
    write("framework/config/plan.h", "#include \"toml/document.h\"\n");
    write("framework/graph/graph.cpp", "#include <oneapi/tbb/flow_graph.h>\n#include \"toml/document.h\"\n");
    write("plugins/stages/crop/crop.h", "#include \"millrace/stage.h\"\n");
    write("plugins/stages/crop/crop.cpp", "#include \"crop.h\"\n#include <jpeglib.h>\n");
    write("plugins/stages/crop/kernels/fast.cpp", "#include \"kernels/fast.h\"\n#include \"crop.h\"\n");
    write("plugins/stages/crop/kernels/fast.h", "");
    write("tools/pipeline-run/main.cpp", "#include \"config/plan.h\"\nint main() { _exit(1); }\n");
  }
  ~PlantedTree() { fs::remove_all(root_); }

  void write(const std::string& name, const std::string& content) {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << content;
  }
  const fs::path& root() const { return root_; }

 private:
  fs::path root_;
};

// Findings of the include check for one file in the planted tree; "" if there are none.
std::string includes_with(const std::string& name, const std::string& content) {
  PlantedTree tree;
  tree.write(name, content);
  return text(check_includes(tree.root()));
}

TEST(Walls, StandInTheIncludes) { EXPECT_EQ(text(check_includes(kRoot)), ""); }
TEST(Walls, StandInTheLinkLines) {
  EXPECT_EQ(text(check_link_lines(kLibraries / "libmillrace.so", kLibraries / "millrace/plugins")), "");
}
TEST(Walls, TheFrameworkNamesNoTypeOfAPlugin) { EXPECT_EQ(text(check_names(kRoot)), ""); }
TEST(Walls, OneFileNamesTheHostsBackend) { EXPECT_EQ(text(check_host_backend(kRoot)), ""); }
TEST(Walls, OnlyMainExits) { EXPECT_EQ(text(check_exits(kRoot)), ""); }
TEST(Walls, WarningsGoThroughTheRun) { EXPECT_EQ(text(check_streams(kRoot)), ""); }
TEST(Messages, BelongToTests) { EXPECT_EQ(text(check_messages(kRoot)), ""); }

TEST(MessagesCheck, SeesAnEntryWithoutItsTest) {
  PlantedTree tree;
  tree.write("plugins/stages/crop/crop_test.cpp",
             "TEST_F(Crop, Cuts) {}\nTEST(Crop,\n     Pads) {}\nTEST_P(Crop, Of) { \"odd\"; }\n");
  tree.write("plugins/stages/crop/messages.txt",
             "[Crop.Cuts]\n- [Crop.Text]: a\n\n[Crop.Pads]\n- b\n\n[Crop.Gone]\n- c\n[Crop.Of/odd]\n- d\n"
             "[Crop.Of/even]\n- e\n");
  EXPECT_EQ(text(check_messages(tree.root())),
            "plugins/stages/crop/messages.txt:7: this folder has no test Crop.Gone\n"
            "plugins/stages/crop/messages.txt:11: this folder has no test Crop.Of/even\n");
}

TEST(WallsCheck, LeavesAGoodTreeAlone) {
  const PlantedTree tree;
  EXPECT_EQ(text(check_includes(tree.root())), "");
  EXPECT_EQ(text(check_exits(tree.root())), "");
  EXPECT_EQ(text(check_streams(tree.root())), "");
}

TEST(WallsCheck, SeesADeviceInTheFramework) {
  EXPECT_EQ(includes_with("framework/run/a.cpp", "\n#include <oneapi/dnnl/dnnl.hpp>\n"),
            "framework/run/a.cpp:2: includes oneapi/dnnl/dnnl.hpp: the framework knows no device and no file format\n");
  EXPECT_NE(includes_with("framework/graph/a.cpp", "#include <cuda_runtime.h>\n"), "");
  EXPECT_NE(includes_with("framework/util/a.cpp", "# include <jpeglib.h>\n"), "");
}

TEST(WallsCheck, SeesALibraryOutsideItsFolder) {
  EXPECT_EQ(includes_with("framework/run/a.h", "#include <oneapi/tbb/task_arena.h>\n"),
            "framework/run/a.h:1: includes oneapi/tbb/task_arena.h: oneTBB stays in framework/graph\n");
  EXPECT_EQ(includes_with("framework/run/a.h", "#include <openssl/evp.h>\n"),
            "framework/run/a.h:1: includes openssl/evp.h: OpenSSL stays in framework/util/sha256.cpp\n");
  EXPECT_EQ(includes_with("framework/run/a.h", "#include <toml++/toml.h>\n"),
            "framework/run/a.h:1: includes toml++/toml.h: toml++ stays in framework/toml\n");
  EXPECT_NE(includes_with("plugins/stages/crop/crop.h", "#include <tbb/parallel_for.h>\n"), "");
}

TEST(WallsCheck, SeesAFolderThatLooksUp) {
  const std::string said = "framework/checkpoint/a.cpp:1: includes run/a.h: run stands on this folder, which does not see it\n";
  EXPECT_EQ(includes_with("framework/checkpoint/a.cpp", "#include \"run/a.h\"\n").find(said), 0U);
  EXPECT_NE(includes_with("framework/graph/a.h", "#include \"prepare/graph_build.h\"\n").find("prepare stands on"),
            std::string::npos);
  EXPECT_EQ(includes_with("framework/run/a.cpp", "#include \"weights/a.h\"\n").find("stands on"), std::string::npos);
}

TEST(WallsCheck, SeesAPublicHeaderThatIncludesAnInternalOne) {
  EXPECT_EQ(includes_with("framework/include/millrace/a.h", "#include \"config/plan.h\"\n"),
            "framework/include/millrace/a.h:1: includes config/plan.h: a public header includes public headers only\n");
}

TEST(WallsCheck, SeesAPartThatIncludesAHeaderAboveIt) {
  EXPECT_EQ(includes_with("framework/include/millrace/detail/a.h", "#include \"millrace/stage.h\"\n"),
            "framework/include/millrace/detail/a.h:1: includes millrace/stage.h: the other headers stand on millrace/detail, which "
            "includes only its own\n");
  EXPECT_EQ(includes_with("framework/include/millrace/detail/a.h", "#include \"millrace/detail/a.h\"\n"), "");
}

TEST(WallsCheck, SeesAPluginThatLooksIntoAnother) {
  const std::string wall = ": a plugin includes millrace/*.h and its own files only\n";
  EXPECT_EQ(includes_with("plugins/stages/resize/a.cpp", "#include \"../crop/crop.h\"\n"),
            "plugins/stages/resize/a.cpp:1: includes ../crop/crop.h" + wall);
  EXPECT_EQ(includes_with("plugins/stages/resize/a.cpp", "#include \"crop/crop.h\"\n"),
            "plugins/stages/resize/a.cpp:1: includes crop/crop.h" + wall);
  EXPECT_NE(includes_with("plugins/stages/resize/kernels/a.cpp", "#include \"../../crop/crop.h\"\n"), "");
}

TEST(WallsCheck, SeesAPluginThatLooksIntoTheFramework) {
  EXPECT_NE(includes_with("plugins/stages/resize/a.cpp", "#include \"config/plan.h\"\n"), "");
  EXPECT_NE(includes_with("plugins/stages/resize/a.cpp", "#include <config/plan.h>\n"), "");
  EXPECT_NE(includes_with("plugins/stages/resize/a.cpp", "#include \"testkit/harness.h\"\n"), "");
  EXPECT_EQ(includes_with("plugins/stages/resize/a_test.cpp", "#include \"testkit/harness.h\"\n"), "");
}

TEST(WallsCheck, SeesAPluginThatIncludesAPartOfAPublicHeader) {
  EXPECT_EQ(includes_with("plugins/stages/resize/a.cpp", "#include \"millrace/detail/tensor.h\"\n"),
            "plugins/stages/resize/a.cpp:1: includes millrace/detail/tensor.h: it comes with the header that it is a part of\n");
}

TEST(WallsCheck, SeesAToolOrTheFrameworkThatLooksIntoAPlugin) {
  EXPECT_NE(includes_with("tools/pipeline-run/a.cpp", "#include \"../../plugins/stages/crop/crop.h\"\n"), "");
  EXPECT_NE(includes_with("framework/run/a.cpp", "#include \"../plugins/stages/crop/crop.h\"\n"), "");
}

TEST(WallsCheck, SeesATypeOfAPluginThatTheFrameworkNames) {
  PlantedTree tree;
  tree.write("plugins/stages/crop/crop.cpp", "d.name(\"crop\").text(\"Cuts.\");\n");
  tree.write("framework/run/a.cpp", "// no \"crop\"\nif (type.name == \"crop\") cut(\"crops\");\n");
  const KnownName known[] = {{"framework/run/a.cpp", "crop"}};
  EXPECT_EQ(text(check_names(tree.root(), known)), "");
  EXPECT_EQ(text(check_names(tree.root(), {})),
            "framework/run/a.cpp:2: knows 'crop', which a plugin registers: have its type declare what is asked here\n");
  tree.write("framework/run/a.cpp", "");
  EXPECT_EQ(text(check_names(tree.root(), known)), "framework/run/a.cpp: does not name 'crop', as type_names.cpp says\n");
}

TEST(WallsCheck, SeesASecondPlaceThatNamesTheHostsBackend) {
  PlantedTree tree;
  tree.write("framework/prepare/devices.h", "constexpr const char* kHostBackend = \"cpu\";\n");
  tree.write("tools/pipeline-run/a.cpp", "line.starts_with(\"cpu\");  // == \"cpu\"\n");
  EXPECT_EQ(text(check_host_backend(tree.root())), "");
  tree.write("tools/pipeline-run/a.cpp", "\nif (info.backend == \"cpu\") {}\n");
  EXPECT_EQ(text(check_host_backend(tree.root())),
            "tools/pipeline-run/a.cpp:2: names the host's backend: write kHostBackend (prepare/devices.h)\n");
}

TEST(WallsCheck, SeesALibraryThatEndsTheProcess) {
  for (const std::string call : {"exit(1);", "  std::abort();", "if (a) ::_exit(2);", "std::terminate();"}) {
    PlantedTree tree;
    tree.write("plugins/stages/crop/crop.cpp",
               "// exit(0) is not called\nconst char* text = \"exit(1)\"; at_exit(1); /* abort() */\n" + call);
    EXPECT_EQ(text(check_exits(tree.root())), "plugins/stages/crop/crop.cpp:3: ends the process; throw Error instead\n") << call;
  }
}

TEST(WallsCheck, SeesAPluginThatWritesToStandardError) {
  for (const std::string call : {"fmt::print(stderr, 1);", "  std::cerr << 1;", "perror(0);", "print_to_stderr(1);"}) {
    PlantedTree tree;
    tree.write("plugins/stages/crop/crop.cpp", "// not to stderr\nconst char* text = \"stderr\";\n" + call);
    tree.write("plugins/stages/crop/crop_test.cpp", call);
    EXPECT_EQ(text(check_streams(tree.root())),
              "plugins/stages/crop/crop.cpp:3: writes to standard error; warn through the run instead\n")
        << call;
  }
}

TEST(WallsCheck, SeesAToolThatEndsWhereStandardErrorIsGone) {
  PlantedTree tree;
  tree.write("tools/pipeline-run/a.cpp", "print_to_stderr(1);\nisatty(STDERR_FILENO);\nfmt::print(stderr, 1);");
  EXPECT_EQ(text(check_streams(tree.root())),
            "tools/pipeline-run/a.cpp:3: standard error may be gone; use millrace/util/standard_error.h\n");
}

TEST(WallsCheck, ReadsWhatALibraryNeeds) {
  const std::vector<std::string> needed = needed_libraries(kLibraries / "libmillrace.so");
  EXPECT_NE(std::find(needed.begin(), needed.end(), "libc.so.6"), needed.end());
  EXPECT_NE(std::find_if(needed.begin(), needed.end(), [](const std::string& name) { return name.starts_with("libtbb.so"); }),
            needed.end());
  EXPECT_THROW(needed_libraries(kRoot / "CMakeLists.txt"), std::runtime_error);
}

TEST(WallsCheck, SeesAPluginThatNeedsAnother) {
  const fs::path planted = fs::path(MILLRACE_BINARY_DIR) / "tests/planted_plugins";
  const std::string found = text(check_link_lines(kLibraries / "libmillrace.so", planted));
  EXPECT_NE(found.find("leaning.so: needs the plugin leaned_on.so"), std::string::npos) << found;
  EXPECT_NE(found.find("leaned_on.so: does not need libmillrace.so"), std::string::npos) << found;
}

TEST(WallsCheck, SeesADeviceLibraryThatTheFrameworkNeeds) {
  const fs::path planted = fs::path(MILLRACE_BINARY_DIR) / "tests/planted_framework";
  const std::string found = text(check_link_lines(planted / "libmillrace.so", planted / "plugins"));
  EXPECT_EQ(found, "libmillrace.so: needs libcudart_planted.so\n");
}

TEST(WallsCheck, SeesAHeaderThatIsInstalledByMistakeOrForgotten) {
  PlantedTree tree;
  tree.write("prefix/include/config/plan.h", "");
  tree.write("plugins/stages/crop/include/millrace/crop/native.h", "");  // a plugin's public headers are public too
  EXPECT_EQ(text(check_installed_headers(tree.root(), tree.root() / "prefix")),
            "config/plan.h: is installed and no public header\nmillrace/crop/native.h: is a public header and not installed\n"
            "millrace/stage.h: is a public header and not installed\n");
}

}  // namespace
}  // namespace millrace::architecture
