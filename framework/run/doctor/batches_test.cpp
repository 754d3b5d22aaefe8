#include <gtest/gtest.h>

#include "millrace/error.h"
#include "network/language_fixture.h"
#include "run/doctor/doctor.h"

namespace millrace {
namespace {

class BatchStatistics : public language_test::NetworkLanguage {
 protected:
  // The error for such batches; "" if there is none.
  std::string said(const TrainedBatches& batches, const CompileRequest& request = {}) {
    return said(R"(layers = [ { op = "conv", out = 4, kernel = 3 }, { op = "batch_norm" }, { op = "global_average_pool" },
                              { name = "bn", op = "batch_norm" } ])",
                batches, request);
  }
  std::string said(const std::string& network, const TrainedBatches& batches, const CompileRequest& request) {
    try {
      require_variance(*good(network), request, batches);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      return error.message();
    }
    return "";
  }
};

constexpr const char* kSaid =
    "net.toml:3:31: layer 'bn': batch normalisation over one value per channel, whose variance is 0: its maps are 1 x 1, and ";

TEST_F(BatchStatistics, OfOneValueAreRefused) {
  EXPECT_EQ(said({.graph = "train", .size = 1}),
            std::string(kSaid) + "[train] computes a batch of one sample: take a larger batch");
  EXPECT_EQ(said({.graph = "train", .size = 2}), "");
  EXPECT_EQ(said(R"(layers = [ { op = "batch_norm" } ])", {.graph = "train", .size = 1}, {}), "") << "maps have 64 values";
}

TEST_F(BatchStatistics, AreThoseOfAMicroBatch) {
  CompileRequest request;
  request.micro_batches = 4;
  EXPECT_EQ(
      said({.graph = "train", .size = 7}, request),
      std::string(kSaid) + "[train] computes a micro-batch of one sample: take a larger batch, or fewer micro_batches than 4");
  EXPECT_EQ(said({.graph = "train", .size = 8}, request), "");
}

TEST_F(BatchStatistics, AreThoseOfAReplicasShare) {
  CompileRequest request;
  const std::vector<double> load = {3, 1, 0};
  EXPECT_EQ(said({.graph = "train", .size = 4, .replicas = 3, .load = load}, request),
            std::string(kSaid) +
                "[train] computes a replica's share of one sample: take a larger batch, fewer replicas, or "
                "sync_batch_norm = true");
  EXPECT_EQ(said({.graph = "train", .size = 8, .replicas = 3, .load = load}, request), "") << "the third has no share";
  request.sync_batch_norm = true;
  EXPECT_EQ(said({.graph = "train", .size = 1, .replicas = 3, .load = load}, request),
            std::string(kSaid) + "[train] computes a batch of one sample: take a larger batch");
  EXPECT_EQ(said({.graph = "train", .size = 4, .replicas = 3, .load = load}, request), "");
}

TEST_F(BatchStatistics, OfAnEpochsLastBatchCountToo) {
  EXPECT_EQ(said({.graph = "train", .size = 8, .last = 1}),
            std::string(kSaid) +
                "[train] computes one sample by itself in the last batch of an epoch, of 1: leave that batch out, "
                "last = \"drop\", or take another size");
  EXPECT_EQ(said({.graph = "train", .size = 8, .last = 2}), "");
}

TEST_F(BatchStatistics, OfLayersThatNoLossNeedsDoNotCount) {
  const char* const network = R"(layers = [ { name = "maps", op = "conv", out = 4, kernel = 3 },
    { op = "global_average_pool", from = "maps" }, { name = "side", op = "batch_norm", auxiliary = true },
    { op = "linear", out = 2, from = "maps" } ])";
  EXPECT_EQ(said(network, {.graph = "train", .size = 1}, {}), "");
}

}  // namespace
}  // namespace millrace
