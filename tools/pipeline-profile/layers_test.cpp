#include "layers.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

// A convolution of 3x3 from 2 to 4 channels on 8x8, and a ReLU that is not fused.
Network network() {
  Network network;
  Layer conv;
  conv.name = "conv1";
  conv.op = "conv";
  conv.inputs = {LayerPort(Network::kInput)};
  conv.input_shapes = {{2, 8, 8}};
  conv.output = {4, 8, 8};
  conv.multiply_adds = 2 * 4 * 9 * 64;
  conv.parameters = {0};
  Parameter weight;
  weight.shape = {4, 2, 3, 3};
  network.parameters = {weight};
  Layer relu;
  relu.name = "relu1";
  relu.inputs = {LayerPort(0)};
  relu.input_shapes = {{4, 8, 8}};
  relu.output = {4, 8, 8};
  network.layers = {conv, relu};
  return network;
}

TEST(Layers, CostWhatTheirShapesSay) {
  const Network net = network();
  const LayerCost conv = cost_of(net, net.layers[0], 4);
  EXPECT_EQ(conv.operations, 9216);
  EXPECT_EQ(conv.back_operations, 9216);  // the gradient of the images is not needed
  EXPECT_EQ(conv.bytes, 4 * (128 + 256 + 72));
  const LayerCost relu = cost_of(net, net.layers[1], 2);
  EXPECT_EQ(relu.operations, 0);
  EXPECT_EQ(relu.bytes, 2 * 512);
  EXPECT_EQ(relu.back_bytes, 2 * 768);
}

TEST(Layers, ReachAShareOfTheRoofThatTheirOperationsAndBytesAllow) {
  const std::vector<LayerTime> times = {{"conv1", "direct", 2, 4, 2}, {"relu1", "", 1, 1, 2}};
  const std::vector<LayerRow> rows = rows_of(times, network(), 10, 4, {.operations = 1e6, .bytes = 1e5});
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_DOUBLE_EQ(rows[0].share, 0.75);
  EXPECT_DOUBLE_EQ(rows[0].operations, 10 * 2 * 9216 / 3.0);
  EXPECT_NEAR(rows[0].roof, 10 * 2 * 9216 / 3.0 / 1e6, 0.05);
  EXPECT_NEAR(rows[1].roof, 10 * 4 * (512 + 768) / 1.0 / 1e5, 1e-9);
  const std::string table = layer_table(rows, 1);
  EXPECT_NE(table.find("conv1"), std::string::npos) << table;
  EXPECT_EQ(table.find("relu1"), std::string::npos) << table;
  EXPECT_NE(table.find("direct"), std::string::npos) << table;
  EXPECT_EQ(table.find("disturbed"), std::string::npos) << table;
}

TEST(Layers, AboveTheRoofWereMeasuredAmongOthers) {
  LayerRow row;
  row.name = "conv1";
  row.roof = 1.5;
  EXPECT_NE(layer_table({row}, 1).find("150 %"), std::string::npos);
  EXPECT_NE(layer_table({row}, 1).find("other programs disturbed the measurement"), std::string::npos);
}

}  // namespace
}  // namespace millrace
