#include "scaling.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <span>

#include "millrace/error.h"
#include "rank_group.h"
#include "testkit/files.h"

namespace millrace {
namespace {

TEST(Scaling, NamesTheDevicesOfABackend) {
  EXPECT_EQ(devices_text("cpu", 4), "cpu*4");
  EXPECT_EQ(devices_text("cuda", 3), "cuda:0,1,2");
}

void leave(int code) { ::_exit(code); }

TEST(RunApart, ReturnsWhatRankZeroSaysAndThrowsWhatItThrows) {
  const std::string said = run_apart(3, leave, [](Group* group) {
    const auto all = group->all_gather(Group::kFirstFree, std::as_bytes(std::span("a", 1)));
    return fmt::format("rank {} of {}", group->rank(), all.size());
  });
  EXPECT_EQ(said, "rank 0 of 3");
  const Error error = testkit::error_of(
      ErrorKind::data, [&] { run_apart(1, leave, [](Group*) -> std::string { fail(ErrorKind::data, "no images"); }); });
  EXPECT_EQ(error.message(), "no images");
  EXPECT_THROW(run_apart(1, leave, [](Group*) -> std::string { std::abort(); }), Error);
}

TEST(Scaling, SaysWhenEachRunHadTheAccuracyFirst) {
  Scaling scaling{
      .question = {.replicas = {1, 2}, .to_accuracy = 0.5}, .points = {}, .accuracies = {}, .bucket_bytes = {1 << 20}};
  for (const ScalingKind kind : {ScalingKind::strong, ScalingKind::weak}) {
    for (const int replicas : {1, 2}) {
      scaling.points.push_back({.kind = kind, .replicas = replicas, .batch = 64, .images_per_second = 100.0 * replicas});
    }
  }
  scaling.points.back().batch = 128;
  scaling.accuracies = {{ScalingKind::strong, 1, 64, 10, 1, 0.3},
                        {ScalingKind::strong, 1, 64, 20, 2, 0.6},
                        {ScalingKind::strong, 2, 64, 8, 1, 0.55},
                        {ScalingKind::weak, 2, 128, 5, 1, 0.2}};
  const std::string text = scaling_text(scaling);
  EXPECT_NE(text.find("time to 50 % accuracy\n"), std::string::npos) << text;
  EXPECT_NE(text.find("2.50\n"), std::string::npos) << "two replicas are so many times as fast: " << text;
  EXPECT_NE(text.find("not reached"), std::string::npos) << text;
  EXPECT_NE(text.find("sizes of buckets, in KiB\n      1024 to 2048"), std::string::npos) << text;
  EXPECT_EQ(accuracy_csv({scaling.accuracies.back()}), "scaling,replicas,batch,seconds,epoch,accuracy\nweak,2,128,5,1,0.2\n");
}

}  // namespace
}  // namespace millrace
