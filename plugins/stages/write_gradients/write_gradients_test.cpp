#include "write_gradients.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "millrace/util/tensor_values.h"
#include "testkit/harness.h"
#include "testkit/plain.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using testkit::table;

class WriteGradientsTest : public testing::Test {
 protected:
  WriteGradientsTest() : network_(testkit::small_network({2, 2, 1}, 3, 2)), device_(testkit::make_plain_backend()->open(0, {})) {
    CompileOptions options;
    options.bucket_bytes = 1;  // a bucket for each parameter
    replica_ = device_->compile(network_, options);
    replica_->start();
    context_.graph = "train";
    context_.network = &network_;
    context_.replicas = {replica_.get()};
    context_.devices = {device_.get()};
    context_.replica = 0;
  }

  std::map<std::string, std::vector<float>> written(const fs::path& file) const {
    std::map<std::string, std::vector<float>> found;
    if (!fs::exists(file)) return found;
    for_each_tensor(file.string(), [&](const std::string& name, std::span<const float> values) {
      found[name].assign(values.begin(), values.end());
    });
    return found;
  }

  Network network_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Replica> replica_;
  StepContext context_;
};

TEST_F(WriteGradientsTest, WritesThoseOfEverySecondStepAsTheUpdateSeesThem) {
  testkit::Harness harness(StageTypeAccess::make<WriteGradients>(), table({{"every", Value(std::int64_t{2})}}), context_);
  const fs::path folder = fs::path(testing::TempDir()) / "write_gradients", file = folder / "gradients.safetensors";
  fs::remove_all(folder);
  harness.run().set_folder(folder);
  harness.stage().open();
  const std::vector<Bucket>& buckets = replica_->buckets();
  const float half = 0.5F;
  for (std::uint64_t step = 0; step < 2; ++step) {
    EXPECT_TRUE(written(file).empty()) << "before the second step is done";
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      std::fill_n(buckets[b].gradients, buckets[b].elements, static_cast<float>(b + 1));
      Ref<GradientBucket> bucket = make_ref<GradientBucket>();
      bucket->step = step;
      bucket->bucket = static_cast<int>(b);
      bucket->buckets = static_cast<int>(buckets.size());
      bucket->data = buckets[b].gradients;
      bucket->elements = buckets[b].elements;
      bucket->scale = &half;
      harness.feed(testkit::packet(std::move(bucket), step));
    }
    EXPECT_EQ(harness.take().size(), buckets.size());
  }
  harness.output().wait_until_free();
  const auto found = written(file);
  std::size_t parameters = 0;
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    for (const int index : buckets[b].parameters) {
      const Parameter& parameter = network_.parameters[static_cast<std::size_t>(index)];
      const auto values = found.find(parameter.name + "/gradient");
      ASSERT_NE(values, found.end()) << parameter.name;
      EXPECT_EQ(values->second,
                std::vector<float>(static_cast<std::size_t>(parameter.shape.elements()), half * static_cast<float>(b + 1)));
      ++parameters;
    }
  }
  EXPECT_EQ(found.size(), parameters);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace millrace
