#include "network/table.h"

#include <gtest/gtest.h>

#include "config/document.h"
#include "network/load.h"

namespace millrace {
namespace {

TEST(NetworkTable, HasALineForEachLayerAndTheSums) {
  Diagnostics errors;
  const auto document = parse_toml(R"(
input  = { height = 8, width = 8 }
layers = [
  { name = "conv1", op = "conv", out = 16, kernel = 3, stride = 2, padding = 1, trainable = false },
  { op = "relu" },
  { op = "max_pool", kernel = 2 },
  { name = "fc", op = "linear", out = 10, bias = false },
]
)",
                                   "test.toml", errors);
  ASSERT_TRUE(document) << errors.text();
  const auto network = build_network(*document, "test", Value(), Registry(), errors);
  ASSERT_TRUE(network) << errors.text();
  EXPECT_EQ(network_table(*network), R"(layer      op                             output  parameters  multiply-adds
input                                      3x8x8
conv1      conv 3x3, stride 2, padding 1  16x4x4         448          6,912
relu1      relu                           16x4x4
max_pool1  max_pool 2x2, stride 2         16x2x2
fc         linear                             10         640            640
total                                                  1,088          7,552
432 of the parameters are not trained
)");
}

}  // namespace
}  // namespace millrace
