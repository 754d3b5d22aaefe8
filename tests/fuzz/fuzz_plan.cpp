// Pipeline files: TOML, expressions, networks, plans. Only files that they extend or use are opened.
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include "config/plan.h"
#include "fuzz.h"
#include "millrace/error.h"
#include "testkit/stages.h"

namespace millrace::fuzz {

namespace {

std::string content(const char* name) {
  std::ifstream file(std::string(MILLRACE_SOURCE_DIR "/pipelines/") + name);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string dotted(int keys) {
  std::string path = "a";
  for (int i = 1; i < keys; ++i) path += ".a";
  return path;
}

// In memory, not on a disk.
std::string file_name() { return "/dev/shm/millrace_fuzz_" + std::to_string(getpid()) + ".toml"; }

}  // namespace

std::vector<std::string> seeds() {
  return {content("quickstart.toml"),
          content("cifar10_airbench.toml"),
          content("networks/resnet50.toml"),
          "[train]\nflow = [\"counting_source\", \"paint\", \"counting_batcher\", \"batch_log\"]\n[train.counting_source]\nsize "
          "= 7\n",
          "a = \"${b} * 2\"\nb = \"${a} + (1 - 2) / 3\"\n[g]\nflow = []\n",
          "[" + dotted(3000) + "]\nb = 1\n",
          "[run]\nepochs = \"" + std::string(3000, '(') + "${x.y}" + std::string(3000, ')') + "\"\n[x]\ny = 1\n",
          "[run]\nepochs = \"${x.y} * 2\"\n[x]\ny = 1.5\n[network]\nlayers = [{ op = \"conv\" }]\n"};
}

}  // namespace millrace::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace millrace;
  static const Registry* const registry = [] {
    auto* made = new Registry;
    testkit::add_stages(*made);
    return made;
  }();
  const std::string path = fuzz::file_name();
  if (std::FILE* file = std::fopen(path.c_str(), "wb")) {
    std::fwrite(data, 1, size, file);
    std::fclose(file);
  }
  try {
    load_pipeline(path, {}, *registry);
  } catch (const Error& error) {
    fuzz::require(error.kind() == ErrorKind::usage, "what is wrong with a file is an error of its author");
    fuzz::require(error.message().find(path) != std::string::npos, ("the file is named: " + error.message()).c_str());
  }
  std::remove(path.c_str());
  return 0;
}
