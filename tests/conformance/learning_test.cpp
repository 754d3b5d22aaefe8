// Frozen first layers: backward leaves them out, and everything else learns exactly as if it did not.
#include <gtest/gtest.h>

#include <cstring>

#include "replicas.h"
#include "testkit/optimizers.h"

namespace millrace::conformance {
namespace {

// Two layers in front, one of them frozen from the start except its bias, a residual block after them, and a branch around it.
constexpr const char* kLearningLayers = R"(
input  = { channels = 3, height = 12, width = 10 }
layers = [
  { name = "white", op = "conv", out = 16, kernel = 3, padding = 1, trainable = false, bias_initialiser = 0 },
  { op = "gelu" },
  { name = "stem", op = "conv", out = 20, kernel = 3, padding = 1, bias = false },
  { op = "max_pool", kernel = 2 },
  { name = "norm", op = "batch_norm" },
  { name = "stem_relu", op = "relu" },
  { name = "body", op = "conv", out = 20, kernel = 3, padding = 1, bias = false },
  { name = "body_norm", op = "batch_norm" },
  { name = "sum", op = "add", from = ["body_norm", "stem_relu"] },
  { op = "relu" },
  { op = "global_average_pool" },
  { name = "fc", op = "linear", out = 5 },
]
)";

using Bits = std::vector<std::vector<std::uint32_t>>;

struct Course {
  Bits values;               // all parameters and statistics
  std::vector<int> buckets;  // filled in each step
  std::vector<double> losses;
};

class Learning : public InPrecision<bool> {
 protected:
  // Trains one step per epoch; the last one has a sample less. `prunes`: otherwise all gradients are computed.
  Course train(bool prunes, std::uint64_t first = 0, std::uint32_t pieces = 1) {
    const auto& [backend, precision, recompute] = GetParam();
    CompileOptions options;
    options.train_batch = kBatch;
    options.bucket_bytes = 1;  // one parameter a bucket
    options.precision = precision;
    options.recompute = recompute;
    options.request.micro_batches = 2;
    options.request.update = testkit::sgd(*network_, 0.9, 1e-3);
    options.request.update.learns_until = until();
    options.request.reads_all_gradients = !prunes;
    const auto kind = with_simulation().backends().find(backend)->create();
    const auto device = kind->open(0, {});
    const auto replica = device->compile(*network_, options);
    replica->start();
    testkit::randomise(*network_, *replica, 1);
    Course course;
    for (std::uint64_t epoch = first; epoch < first + 5; ++epoch) step(*replica, epoch, pieces, course);
    for (std::size_t p = 0; p < network_->parameters.size(); ++p) {
      const std::vector<float> values = replica->read(kValue, static_cast<int>(p));
      std::memcpy(course.values.emplace_back(values.size()).data(), values.data(), values.size() * sizeof(float));
    }
    return course;
  }

 private:
  // "white" learns until epoch 1, the rest of the front until epoch 3.
  std::vector<double> until() const {
    std::vector<double> epochs;
    for (const Parameter& parameter : network_->parameters) {
      const std::string layer = parameter.name.substr(0, parameter.name.find('.'));
      epochs.push_back(layer == "white" ? 1 : layer == "stem" || layer == "norm" ? 2.5 : kToTheEnd);
    }
    return epochs;
  }

  void step(Replica& replica, std::uint64_t epoch, std::uint32_t pieces, Course& course) {
    const Ref<Batch> batch = batch_of(*network_);
    batch->epoch = epoch;
    const std::uint32_t count = epoch == 4 ? kBatch - 1 : kBatch, each = count / pieces;
    std::vector<StepSums> sums(pieces);
    std::vector<Ref<Event>> filled;
    for (std::uint32_t piece = 0; piece < pieces; ++piece) {
      filled.clear();
      replica.ingest(batch, piece * each, each);
      replica.forward(epoch);
      replica.loss(testkit::cross_entropy(), count, sums[piece]);
      if (piece > 0) replica.keep_gradients();
      replica.backward([&](int, Ref<Event> event) { filled.push_back(std::move(event)); });
      replica.finish();
    }
    std::vector<double> factors(network_->parameters.size(), 1.0);
    const std::vector<double> last = until();
    for (std::size_t p = 0; p < factors.size(); ++p) factors[p] = static_cast<double>(epoch) < last[p] ? 1 : 0;
    const UpdateStep update{{.learning_rate = 0.05}, epoch, factors};
    for (std::size_t b = 0; b < filled.size(); ++b) replica.update(static_cast<int>(b), update, filled[b]);
    replica.finish();
    course.buckets.push_back(static_cast<int>(filled.size()));
    course.losses.push_back(sums.front().loss());
  }

 protected:
  const std::shared_ptr<const Network> network_ = testkit::network_from_text(kLearningLayers, with_simulation());
};

TEST_P(Learning, AFrontThatStopsChangesNothingElse) {
  for (const std::uint32_t pieces : {1U, 2U}) {
    const Course pruned = train(true, 0, pieces), whole = train(false, 0, pieces);
    EXPECT_EQ(pruned.values, whole.values) << pieces;
    EXPECT_EQ(pruned.losses, whole.losses) << pieces;
    EXPECT_EQ(whole.buckets, (std::vector<int>(5, 9)));
    EXPECT_EQ(pruned.buckets, (std::vector<int>{9, 8, 8, 5, 5})) << pieces << ": epoch 2.5 lies in the third epoch";
  }
}

TEST_P(Learning, ARunMayBeginBehindTheEnd) {
  const Course pruned = train(true, 3), whole = train(false, 3);
  EXPECT_EQ(pruned.values, whole.values);
  EXPECT_EQ(pruned.buckets, (std::vector<int>(5, 5)));
}

INSTANTIATE_TEST_SUITE_P(Backends, Learning,
                         testing::Combine(testing::Values("cpu", "simulated"), testing::Values(Precision::fp32, Precision::bf16),
                                          testing::Bool()));

}  // namespace
}  // namespace millrace::conformance
