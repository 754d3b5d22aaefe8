#include "prepare/contents.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "testkit/harness.h"
#include "testkit/stages.h"

namespace millrace {
namespace {

constexpr std::uint64_t kSamples = 4000, kRare = 2345, kClasses = 200;

// Sample 2345 alone is of class 1; the last samples are one of each further class.
class FewOfAClass : public testkit::CountingSource {
 public:
  using CountingSource::CountingSource;
  std::int32_t label(std::uint64_t index) const override {
    const std::uint64_t left = kSamples - index;
    return index == kRare ? 1 : left <= kClasses ? static_cast<std::int32_t>(1 + left) : 0;
  }
};

class Contents : public testing::Test {
 protected:
  SavedState::Contents seen(std::int64_t samples, std::uint64_t salt) {
    plan_.name = "train";
    plan_.stages = {{"read", &source_, testkit::table({{"size", Value(samples)}}), {}, {}}};
    DataContext context;
    context.registry = &registry_;
    build_ = std::make_unique<GraphBuild>(plan_, context);
    build_->data().source->open();
    return look_into(*build_, salt);
  }
  Registry registry_;
  StageType source_ = StageTypeAccess::make<FewOfAClass>();
  GraphPlan plan_;
  std::unique_ptr<GraphBuild> build_;
};

TEST_F(Contents, OneSampleOfEachClassIsReadBesideThoseOfTheListing) {
  for (const std::uint64_t salt : {1, 2, 3}) {
    const SavedState::Contents then = seen(kSamples - kClasses, salt);
    ASSERT_TRUE(then.samples.contains(kRare));
    EXPECT_LE(then.samples.size(), 65U);
    SavedState::Contents now = then;
    now.samples[kRare] = 0;
    const std::string said = difference_of_contents(*build_, then, now);
    EXPECT_EQ(said, fmt::format("1 of {} samples that were compared holds other bytes, such as 'sample/{}'", then.samples.size(),
                                kRare));
  }
}

TEST_F(Contents, AtMost192SamplesAreRead) {
  const SavedState::Contents all = seen(kSamples, 1);
  EXPECT_EQ(all.samples.size(), 192U);
  EXPECT_EQ(look_into(*build_, 7, &all).samples, all.samples) << "the same ones again";
}

}  // namespace
}  // namespace millrace
