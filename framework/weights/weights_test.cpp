#include "weights/weights.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "millrace/error.h"
#include "network/transfer.h"
#include "testkit/files.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

DeviceInfo device(const std::string& backend, const std::string& name) {
  DeviceInfo info;
  info.backend = backend;
  info.name = name;
  return info;
}

TEST(WeightedMean, IsThatOfTheReplicasThatHaveSeenImages) {
  const std::vector<std::vector<float>> copies = {{1, 0.1F}, {4, 0.7F}, {9, 0.3F}};
  EXPECT_EQ(weighted_mean({{1, 2}, {4, 6}}, {}), (std::vector<float>{2.5F, 4}));
  EXPECT_EQ(weighted_mean({{1, 2}, {4, 6}}, std::vector<double>{3, 1}), (std::vector<float>{1.75F, 3}));
  EXPECT_EQ(weighted_mean(copies, std::vector<double>{0, 3, 0}), copies[1]);  // exactly equal
  EXPECT_EQ(weighted_mean({copies[1], copies[1], copies[1]}, {}), copies[1]);
}

class WeightsFileTest : public testing::Test {
 protected:
  WeightsFileTest() {
    network_.name = "two";
    for (const char* name : {"a.weight", "b.weight"}) {
      Parameter& parameter = network_.parameters.emplace_back();
      parameter.name = name;
      parameter.shape = {2};
    }
    fs::create_directories(folder_);
  }
  ~WeightsFileTest() override { fs::remove_all(folder_); }

  WeightsFile file() {
    return {network_, [this](int p) { return values_[static_cast<std::size_t>(fetched_ = p)]; }, {{"classes", "[]"}}};
  }
  std::string path() const { return (folder_ / "w.safetensors").string(); }

  Network network_;
  Weights values_ = {{1, 2}, {3, 4}};
  int fetched_ = -1;
  const fs::path folder_ = fs::path(testing::TempDir()) / ("weights_" + std::to_string(::getpid()) + "_" +
                                                           testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(WeightsFileTest, HasTheValuesAsTheyAreWhenItIsWrittenOrKept) {
  WeightsFile weights = file();
  EXPECT_EQ(fetched_, -1) << "nothing is copied before it is written";
  values_[1] = {5, 6};
  weights.write(path());
  const TensorFile read = read_tensors(path());
  ASSERT_EQ(read.tensors.size(), 2U);
  EXPECT_EQ(read.tensors[0].values, (std::vector<float>{1, 2}));
  EXPECT_EQ(read.tensors[1].values, (std::vector<float>{5, 6}));
  EXPECT_EQ(read.metadata.at("network"), "two");
  EXPECT_EQ(read.metadata.at("classes"), "[]");

  weights.keep(path());
  values_ = {{7, 7}, {7, 7}};
  weights.write(path());
  EXPECT_EQ(read_tensors(path()).tensors[1].values, (std::vector<float>{5, 6}));
}

// PyTorch's load_state_dict() is strict about names and shapes.
TEST_F(WeightsFileTest, GoesBackToPyTorchAndComesAgain) {
  Layer& scale = network_.layers.emplace_back();
  scale.name = "a";
  scale.parameters = {0};
  network_.parameters[0].stored_name = "a";
  network_.parameters[0].stored_shape = {2, 1, 1};
  network_.parameters[1].shape = {1, 2, 1, 1};
  network_.parameters[1].stored_shape = {1, 2};
  file().write(path());
  const TensorFile read = read_tensors(path());
  ASSERT_EQ(read.tensors.size(), 2U);
  EXPECT_EQ(read.tensors[0].name, "a");
  EXPECT_EQ(read.tensors[0].shape, (Shape{2, 1, 1}));
  EXPECT_EQ(read.tensors[1].name, "b.weight");
  EXPECT_EQ(read.tensors[1].shape, (Shape{1, 2}));
  EXPECT_EQ(load_weights({.file = path(), .fresh = {}, .rename = {}}, network_), values_);
}

TEST_F(WeightsFileTest, IsNotWrittenWithValuesThatAreNotFinite) {
  file().write(path());
  values_[1][0] = std::nanf("");
  for (const bool keeps : {false, true}) {
    const Error error = testkit::error_of(ErrorKind::run, [&] {
      WeightsFile weights = file();
      keeps ? weights.keep(path()) : weights.write(path());
    });
    EXPECT_EQ(error.message(), "'b.weight' has values that are not finite: '" + path() + "' is not written");
  }
  EXPECT_EQ(read_tensors(path()).tensors[1].values, (std::vector<float>{3, 4})) << "the old file is still there";
}

TEST(Plans, AreThoseOfTheReplicaElseOfItsModelElseOfItsBackend) {
  const std::map<std::string, std::string> metadata = {{"format", "pt"},
                                                       {"plans of cuda: H100, replica 0", "first"},
                                                       {"plans of cuda: H100, replica 1", "second"},
                                                       {"plans of cuda: L4, replica 2", "third"}};
  EXPECT_EQ(plans_for(device("cuda", "H100"), 1, metadata), "second");
  EXPECT_EQ(plans_for(device("cuda", "H100"), 3, metadata), "first");
  EXPECT_EQ(plans_for(device("cuda", "L4"), 0, metadata), "third");
  EXPECT_EQ(plans_for(device("cuda", "A100"), 0, metadata), "first");  // the backend will report that it belongs to another
  EXPECT_EQ(plans_for(device("rocm", "MI300"), 0, metadata), "");
  EXPECT_EQ(plans_for(device("cuda", "H100"), 0, {}), "");
}

TEST(Classes, GoThroughTheMetadataOfWeights) {
  const std::vector<std::string> names = {"cat", "a \"quoted\" owl", "Käuzchen"};
  EXPECT_EQ(classes_from(metadata_of(names)), names);
  EXPECT_TRUE(metadata_of(std::vector<std::string>{}).empty());
  EXPECT_TRUE(classes_from({{"format", "pt"}}).empty());
  for (const char* others : {"", "cat, dog", "{\"0\": \"cat\"}", "[1, 2]"})
    EXPECT_TRUE(classes_from({{"classes", others}}).empty());
}

}  // namespace
}  // namespace millrace
