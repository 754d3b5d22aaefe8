// A small network with images for it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "pipelines/command.h"

namespace millrace::test {

// An epoch of quickstart.toml.
struct Trained {
  Trained() {
    const Outcome outcome = run_command({tool("pipeline-run"), pipeline("quickstart.toml"), "--quiet", "--devices", "cpu",
                                         "--set", "data.path=" + shapes(), "--set", "run.folder=" + folder.path().string(),
                                         "--set", "run.epochs=1", "--set", "run.precision=fp32"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    weights = find_file(folder.path(), "weights.safetensors").string();
    run = std::filesystem::path(weights).parent_path().string();
    for (const auto& entry : std::filesystem::recursive_directory_iterator(shapes() + "/test")) {
      if (entry.is_regular_file()) images.push_back(entry.path().string());
    }
    std::ranges::sort(images);
  }
  TemporaryFolder folder;
  std::string weights, run;
  std::vector<std::string> images;
};
inline const Trained& trained() {
  static const Trained one;
  return one;
}

}  // namespace millrace::test
