// Lists of weights files.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "inspect.h"
#include "weights/safetensors.h"

namespace millrace {
namespace {

TEST(InspectWeights, ListsTheTensorsOfAFile) {
  const std::string file = testing::TempDir() + "inspect_weights_" + std::to_string(::getpid()) + ".safetensors";
  write_safetensors(file, {{"fc.weight", {2, 3}, {1, 2, 3, 4, 5, 6}}, {"fc.\x1b", {1}, {7}}});
  EXPECT_EQ(list_tensors(file),
            "{\"name\":\"fc.weight\",\"type\":\"F32\",\"shape\":[2,3]}\n"
            "{\"name\":\"fc.\\u001b\",\"type\":\"F32\",\"shape\":[1]}\n");
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace millrace
