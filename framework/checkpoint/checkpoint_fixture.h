// Small checkpoints, and a folder for them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "testkit/files.h"
#include "testkit/small_files.h"

namespace millrace::checkpoint_test {

namespace fs = std::filesystem;

inline Checkpoint checkpoint_at(std::uint64_t step) {
  Checkpoint checkpoint;
  checkpoint.state.step = step;
  const auto value = static_cast<float>(step);
  checkpoint.tensors = {{"fc.weight/value", {2, 3}, std::vector<float>(6, value)},
                        {"fc.weight/momentum", {2, 3}, {0.1F, -0.0F, 1e-40F, 3e38F, value, 1}},
                        {"bn.running_mean/value/1", {2}, {value, -value}}};
  checkpoint.pipeline = "[run]\nseed = 1\n";
  return checkpoint;
}

inline std::string name_of(const std::optional<FoundCheckpoint>& found) {
  return found ? found->path.filename().string() : "none";
}

class CheckpointTest : public testing::Test {
 protected:
  void write(std::uint64_t step) const {
    write_checkpoint(folder_.path(), checkpoint_at(step));
    point_to(folder_.path(), "latest", checkpoint_name(step));
  }
  std::string newest() {
    warnings_.clear();
    return name_of(newest_checkpoint(folder_.path(), [this](std::string text) { warnings_ += text + "\n"; }));
  }
  std::vector<std::string> there() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_.path())) names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }

  const testkit::TestFolder folder_;
  std::string warnings_;
};

}  // namespace millrace::checkpoint_test
