// The samples of an epoch: which, how often, and in which order.
#include "data/sample_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "millrace/error.h"
#include "millrace/sample.h"
#include "millrace/source.h"
#include "millrace/util/file_sizes.h"
#include "millrace/util/source_parts.h"
#include "testkit/files.h"
#include "testkit/messages.h"

namespace millrace {
namespace {

// A source with labels only.
class Labels : public Source, public MadeOfParts, public KnowsFileSizes {
 public:
  Labels(std::vector<std::int32_t> labels, SourceParams sampling, std::vector<SourcePart> parts = {})
      : Source(std::move(sampling)), labels_(std::move(labels)), parts_(std::move(parts)) {}

  void open() override {}
  std::uint64_t size() const override { return labels_.size(); }
  std::vector<std::string> classes() const override { return {"cat", "dog", "owl"}; }
  std::int32_t label(std::uint64_t index) const override { return labels_[index]; }
  std::size_t largest_encoded() const override { return 0; }
  std::vector<SourcePart> parts() const override { return parts_; }
  void read(Sample&) override {}
  bool place(std::uint64_t index, SampleOrigin& origin) const override {
    if (files.empty()) return false;
    origin.url = files[index];
    return true;
  }

  std::uint32_t file_bytes(std::uint64_t) const override { return files.empty() ? 0 : 1; }

  std::vector<std::string> files;  // by index; empty: unknown

 private:
  std::vector<std::int32_t> labels_;
  std::vector<SourcePart> parts_;
};

// cat, dog, owl, cat, dog, ...
std::vector<std::int32_t> in_turns(std::size_t samples) {
  std::vector<std::int32_t> labels(samples);
  for (std::size_t i = 0; i < samples; ++i) labels[i] = static_cast<std::int32_t>(i % 3);
  return labels;
}

std::vector<std::int32_t> counted(std::size_t cats, std::size_t dogs, std::size_t owls) {
  std::vector<std::int32_t> labels(cats, 0);
  labels.insert(labels.end(), dogs, 1);
  labels.insert(labels.end(), owls, 2);
  return labels;
}

using Indices = std::vector<std::uint64_t>;

Indices epoch(const SampleOrder& order, std::uint64_t number) {
  Indices indices;
  for (std::uint64_t position = 0; position < order.size(); ++position) indices.push_back(order.index(number, position));
  return indices;
}

Indices sorted(Indices indices) {
  std::sort(indices.begin(), indices.end());
  return indices;
}

Indices up_to(std::uint64_t end) {
  Indices indices(end);
  std::iota(indices.begin(), indices.end(), 0U);
  return indices;
}

Indices listed(const SampleOrder& order) {
  Indices indices;
  for (std::uint64_t at = 0; at < order.listed(); ++at) indices.push_back(order.listed(at));
  return indices;
}

SourceParams shuffled(const std::string& how = "every-epoch") {
  SourceParams sampling;
  sampling.shuffle = how;
  return sampling;
}

SourceParams part(double low, double high, std::int64_t seed = 0) {
  SourceParams sampling;
  sampling.part = {low, high};
  sampling.part_seed = seed;
  return sampling;
}

// Occurrences of each label in an epoch.
std::map<std::int32_t, int> shares(const SampleOrder& order, const Source& source, std::uint64_t number = 0) {
  std::map<std::int32_t, int> counts;
  for (const std::uint64_t index : epoch(order, number)) ++counts[source.label(index)];
  return counts;
}

std::string refusal(const Source& source, ErrorKind kind = ErrorKind::usage) {
  return testkit::error_of(kind, [&] { const SampleOrder order(source, 1); }).message();
}

TEST(SampleOrder, IsTheListingWhenNothingIsAskedFor) {
  for (const std::size_t size : {1U, 2U, 1000U}) {
    const Labels source(in_turns(size), {});
    const SampleOrder order(source, 7);
    EXPECT_EQ(epoch(order, 3), up_to(size));
    EXPECT_EQ(listed(order), up_to(size));
    EXPECT_EQ(order.classes(), source.classes());
    EXPECT_EQ(order.label(2), 2);
    EXPECT_EQ(order.label(-1), -1);
  }
}

TEST(SampleOrder, HasEverySampleOnceInEachShuffledEpoch) {
  for (const std::size_t size : {1U, 2U, 1000U}) {
    const Labels source(in_turns(size), shuffled());
    const SampleOrder order(source, 7);
    for (std::uint64_t number = 0; number < 4; ++number) EXPECT_EQ(sorted(epoch(order, number)), up_to(size));
  }
}

TEST(SampleOrder, ShufflesAnewEachEpochOrOnceForAll) {
  const Labels anew(in_turns(1000), shuffled()), once(in_turns(1000), shuffled("once"));
  EXPECT_NE(epoch(SampleOrder(anew, 7), 0), up_to(1000));
  EXPECT_NE(epoch(SampleOrder(anew, 7), 0), epoch(SampleOrder(anew, 7), 1));
  EXPECT_NE(epoch(SampleOrder(once, 7), 0), up_to(1000));
  EXPECT_EQ(epoch(SampleOrder(once, 7), 0), epoch(SampleOrder(once, 7), 1));
}

TEST(SampleOrder, IsAFunctionOfTheSeed) {
  const Labels source(in_turns(1000), shuffled());
  EXPECT_EQ(epoch(SampleOrder(source, 7), 5), epoch(SampleOrder(source, 7), 5));
  EXPECT_NE(epoch(SampleOrder(source, 7), 5), epoch(SampleOrder(source, 8), 5));
}

TEST(SampleOrder, KeepsOnlyTheClassesAskedForAndNumbersThemInThatOrder) {
  SourceParams sampling;
  sampling.only = {"owl", "cat"};
  const Labels source(in_turns(9), sampling);
  const SampleOrder order(source, 7);
  EXPECT_EQ(epoch(order, 0), (Indices{0, 2, 3, 5, 6, 8}));
  EXPECT_EQ(order.classes(), (std::vector<std::string>{"owl", "cat"}));
  EXPECT_EQ(order.label(2), 0);
  EXPECT_EQ(order.label(0), 1);
  EXPECT_EQ(order.label(1), -1);
  EXPECT_EQ(order.label(-1), -1);
}

TEST(SampleOrder, RefusesClassesThatAreNoneOrStandThereTwice) {
  SourceParams sampling;
  sampling.only = {"cat", "dogg"};
  EXPECT_MESSAGE(refusal(Labels(in_turns(9), sampling)));
  sampling.only = {"cat", "dog", "cat"};
  EXPECT_MESSAGE(refusal(Labels(in_turns(9), sampling)));
}

TEST(SampleOrder, RefusesAChoiceByClassWhereLabelsAreNotKnown) {
  SourceParams sampling;
  sampling.only = {"cat"};
  EXPECT_MESSAGE(refusal(Labels({-1, -1}, sampling)));
}

TEST(SampleOrder, PartsShareNoSampleAndLeaveNoneOut) {
  for (const std::size_t size : {1U, 2U, 1000U}) {
    Indices both;
    for (const auto& [low, high] : {std::pair{0.0, 0.9}, std::pair{0.9, 1.0}}) {
      const Labels source(in_turns(size), part(low, high));
      try {
        const Indices one = listed(SampleOrder(source, 7));
        EXPECT_TRUE(std::is_sorted(one.begin(), one.end()));
        both.insert(both.end(), one.begin(), one.end());
      } catch (const Error& error) {  // too few samples: a part is empty
        EXPECT_LT(size, 1000U) << error.what();
      }
    }
    EXPECT_EQ(sorted(both), up_to(size));
  }
}

TEST(SampleOrder, APartHasEveryClassInProportion) {
  const Labels source(counted(600, 300, 100), part(0.9, 1));
  EXPECT_EQ(shares(SampleOrder(source, 7), source), (std::map<std::int32_t, int>{{0, 60}, {1, 30}, {2, 10}}));
}

TEST(SampleOrder, EachEndOfADivisionHasOneOfEveryClassOfTwo) {
  const auto shares_of = [](double low, double high) {
    const Labels source(counted(60, 4, 2), part(low, high));
    return shares(SampleOrder(source, 7), source);
  };
  using Shares = std::map<std::int32_t, int>;
  EXPECT_EQ(shares_of(0, 0.9), (Shares{{0, 54}, {1, 3}, {2, 1}}));
  EXPECT_EQ(shares_of(0.9, 1), (Shares{{0, 6}, {1, 1}, {2, 1}}));
  EXPECT_EQ(shares_of(0, 0.05), (Shares{{0, 3}, {1, 1}, {2, 1}}));
}

TEST(SampleOrder, WhoBelongsToAPartDependsOnItsOwnSeedAlone) {
  const Labels source(in_turns(1000), part(0, 0.5)), other(in_turns(1000), part(0, 0.5, 1));
  EXPECT_EQ(listed(SampleOrder(source, 7)), listed(SampleOrder(source, 8)));
  EXPECT_NE(listed(SampleOrder(source, 7)), listed(SampleOrder(other, 7)));
  SourceParams sampling = part(0, 0.5);
  sampling.only = {"dog"};
  const Labels dogs(in_turns(1000), sampling);
  Indices expected = listed(SampleOrder(source, 7));
  std::erase_if(expected, [&](std::uint64_t index) { return source.label(index) != 1; });
  EXPECT_EQ(listed(SampleOrder(dogs, 7)), expected);
}

TEST(SampleOrder, RefusesPartsThatAreNone) {
  EXPECT_MESSAGE(refusal(Labels(in_turns(9), part(0.5, 0.5))));
  EXPECT_MESSAGE(refusal(Labels(in_turns(9), part(0, 1.5))));
  EXPECT_MESSAGE(refusal(Labels(in_turns(9), part(-0.5, 1))));
}

TEST(SampleOrder, ALimitIsSpreadEvenlyOverTheListing) {
  SourceParams sampling;
  sampling.limit = 4;
  EXPECT_EQ(listed(SampleOrder(Labels(in_turns(10), sampling), 7)), (Indices{0, 2, 5, 7}));
  sampling.limit = 10;
  EXPECT_EQ(listed(SampleOrder(Labels(in_turns(10), sampling), 7)), up_to(10));
  sampling.limit = 11;
  EXPECT_EQ(listed(SampleOrder(Labels(in_turns(10), sampling), 7)), up_to(10));
  sampling.limit = 1;
  EXPECT_EQ(listed(SampleOrder(Labels(in_turns(1000), sampling), 7)), (Indices{0}));
}

TEST(SampleOrder, ClassesPartAndLimitComeInThisOrder) {
  SourceParams sampling = part(0, 0.5);
  sampling.only = {"dog"};
  const Labels half(in_turns(600), sampling);
  sampling.limit = 10;
  const Labels limited(in_turns(600), sampling);
  const Indices all = listed(SampleOrder(half, 7));
  ASSERT_EQ(all.size(), 100U);
  Indices expected;
  for (std::size_t i = 0; i < 10; ++i) expected.push_back(all[10 * i]);
  EXPECT_EQ(listed(SampleOrder(limited, 7)), expected);
}

TEST(SampleOrder, SaysWhenNothingIsLeft) {
  EXPECT_MESSAGE(refusal(Labels(counted(2, 0, 0), part(0.45, 0.55)), ErrorKind::data));
  EXPECT_MESSAGE(refusal(Labels(in_turns(3), part(0, 0.1)), ErrorKind::data));
}

TEST(SampleOrder, BalanceHasEveryClassEquallyOftenInAnEpochOfTheSameLength) {
  SourceParams sampling = shuffled();
  sampling.balance = true;
  const Labels source(counted(700, 250, 50), sampling);
  const SampleOrder order(source, 7);
  EXPECT_EQ(order.size(), 1000U);
  for (std::uint64_t number = 0; number < 3; ++number) {
    EXPECT_EQ(shares(order, source, number), (std::map<std::int32_t, int>{{0, 334}, {1, 333}, {2, 333}}));
  }
  EXPECT_EQ(listed(order), up_to(1000));
}

TEST(SampleOrder, NoSampleOfAGroupComesTwiceMoreThanAnother) {
  for (const char* shuffle : {"never", "once", "every-epoch"}) {
    SourceParams sampling = shuffled(shuffle);
    sampling.balance = true;
    const Labels source(counted(700, 250, 50), sampling);
    std::map<std::uint64_t, int> times;
    for (const std::uint64_t index : epoch(SampleOrder(source, 7), 2)) ++times[index];
    for (std::uint64_t index = 0; index < 1000; ++index) {
      const int least = source.label(index) == 0 ? 0 : source.label(index) == 1 ? 1 : 6;  // 333 of 250; 333 of 50
      EXPECT_TRUE(times[index] == least || times[index] == least + 1) << index << " comes " << times[index] << " times";
    }
  }
}

TEST(SampleOrder, ALargeClassShowsOtherSamplesInAnotherEpoch) {
  SourceParams sampling = shuffled();
  sampling.balance = true;
  const Labels source(counted(700, 250, 50), sampling);
  const SampleOrder order(source, 7);
  std::set<std::uint64_t> seen;
  for (std::uint64_t number = 0; number < 30; ++number) {
    for (const std::uint64_t index : epoch(order, number)) seen.insert(index);
  }
  EXPECT_EQ(seen.size(), 1000U);
}

TEST(SampleOrder, ClassWeightsAreSharedOutByLargestRemainders) {
  SourceParams sampling = shuffled();
  sampling.class_weights = {1, 2, 4};
  const Labels source(in_turns(10), sampling);  // 10/7, 20/7 and 40/7: 1, 2 and 5, and two more for the dogs and the owls' .71
  EXPECT_EQ(shares(SampleOrder(source, 7), source), (std::map<std::int32_t, int>{{0, 1}, {1, 3}, {2, 6}}));
}

TEST(SampleOrder, AClassOfWeightZeroNeverComes) {
  SourceParams sampling = shuffled();
  sampling.class_weights = {0, 1, 0};
  for (const std::size_t size : {3U, 1000U}) {
    const Labels source(in_turns(size), sampling);
    EXPECT_EQ(shares(SampleOrder(source, 7), source), (std::map<std::int32_t, int>{{1, static_cast<int>(size)}}));
  }
}

TEST(SampleOrder, AClassOfWeightZeroStandsInForNoBadSample) {
  SourceParams sampling = shuffled();
  sampling.class_weights = {0, 1, 3};
  const Labels source(in_turns(300), sampling);
  const SampleOrder order(source, 7);
  std::map<std::int32_t, int> found;
  for (std::uint64_t drawn = 0; drawn < order.size(); ++drawn) ++found[source.label(order.replacement(2, drawn))];
  EXPECT_EQ(found, (std::map<std::int32_t, int>{{1, 75}, {2, 225}}));
}

TEST(SampleOrder, ClassesWithoutSamplesTakeNoShare) {
  SourceParams sampling = shuffled();
  sampling.class_weights = {1, 5, 1};
  const Labels source(counted(4, 0, 2), sampling);
  EXPECT_EQ(shares(SampleOrder(source, 7), source), (std::map<std::int32_t, int>{{0, 3}, {2, 3}}));
}

TEST(SampleOrder, WeightsFollowTheNumbersThatOnlyGives) {
  SourceParams sampling = shuffled();
  sampling.only = {"owl", "cat"};
  sampling.class_weights = {3, 1};
  const Labels source(in_turns(12), sampling);
  EXPECT_EQ(shares(SampleOrder(source, 7), source), (std::map<std::int32_t, int>{{2, 6}, {0, 2}}));
}

TEST(SampleOrder, RefusesWeightsThatFitNoClass) {
  SourceParams sampling;
  sampling.class_weights = {1, 2};
  EXPECT_MESSAGE(refusal(Labels(in_turns(9), sampling)));
  sampling.class_weights = {1, 2, -1};
  EXPECT_EQ(refusal(Labels(in_turns(9), sampling)), "class_weights: all must be >= 0, and at least one > 0");
  sampling.class_weights = {0, 0, 0};
  EXPECT_EQ(refusal(Labels(in_turns(9), sampling)), "class_weights: all must be >= 0, and at least one > 0");
  sampling.class_weights = {1, std::numeric_limits<double>::infinity(), 0};
  EXPECT_EQ(refusal(Labels(in_turns(9), sampling)), "class_weights: all must be >= 0, and at least one > 0");
  sampling.class_weights = {1, 1, 1};
  sampling.balance = true;
  EXPECT_MESSAGE(refusal(Labels(in_turns(9), sampling)));
}

TEST(SampleOrder, RefusesBalanceWhereLabelsAreNotKnown) {
  SourceParams sampling;
  sampling.balance = true;
  EXPECT_MESSAGE(refusal(Labels({0, 1, -1}, sampling)));
}

TEST(SampleOrder, PartsOfAMixtureComeAsOftenAsTheirWeightsSay) {
  const std::vector<SourcePart> parts = {{900, 1}, {0, 5}, {100, 3}};
  for (const char* shuffle : {"never", "once", "every-epoch"}) {
    const Labels source(in_turns(1000), shuffled(shuffle), parts);
    const SampleOrder order(source, 7);
    const Indices indices = epoch(order, 1);
    EXPECT_EQ(indices.size(), 1000U);
    EXPECT_EQ(std::count_if(indices.begin(), indices.end(), [](std::uint64_t index) { return index < 900; }), 250);
    EXPECT_EQ(std::set<std::uint64_t>(indices.begin(), indices.end()).size(), 350U);
  }
}

TEST(SampleOrder, PartsOfAMixtureAreKnownAfterAChoice) {
  SourceParams sampling = shuffled();
  sampling.only = {"dog"};
  const Labels source(counted(100, 40, 60), sampling, {{120, 1}, {80, 1}});  // 20 dogs each
  const SampleOrder order(source, 7);
  EXPECT_EQ(order.size(), 40U);
  EXPECT_EQ(sorted(epoch(order, 0)), sorted(listed(order)));
}

TEST(SampleOrder, AMixtureTakesNoOtherWeights) {
  SourceParams sampling;
  sampling.balance = true;
  EXPECT_MESSAGE(refusal(Labels(in_turns(9), sampling, {{5, 1}, {4, 1}})));
}

TEST(SampleOrder, AnyPositionOfAnyEpochIsFoundAlone) {
  SourceParams sampling = shuffled();
  sampling.balance = true;
  const Labels source(counted(700, 250, 50), sampling);
  const Indices whole = epoch(SampleOrder(source, 7), 9);
  for (const std::uint64_t position : {999U, 0U, 500U}) EXPECT_EQ(SampleOrder(source, 7).index(9, position), whole[position]);
}

// Lines of a list that repeat a file, also with another label, and in another spelling.
TEST(SampleOrder, SamplesOfOneFileAreInOnePart) {
  SourceParams sampling;
  const auto files_of = [&](double low, double high) {
    sampling.part = {low, high};
    Labels source(in_turns(90), sampling);
    for (int i = 0; i < 90; ++i) source.files.push_back((i < 40 ? "a/" : "a/./") + std::to_string(i % 40) + ".jpg");
    const SampleOrder order(source, 1);
    std::map<std::string, int> files;
    for (std::uint64_t at = 0; at < order.listed(); ++at) ++files[std::to_string(order.listed(at) % 40)];
    return files;
  };
  const auto train = files_of(0, 0.5), test = files_of(0.5, 1);
  EXPECT_EQ(train.size() + test.size(), 40U);
  EXPECT_NEAR(static_cast<double>(train.size()), 20, 2);
  int lines = 0;
  for (const auto* part : {&train, &test}) {
    for (const auto& [file, count] : *part) {
      EXPECT_EQ(count, std::stoi(file) < 10 ? 3 : 2) << file;
      lines += count;
    }
  }
  EXPECT_EQ(lines, 90);
}

}  // namespace
}  // namespace millrace
