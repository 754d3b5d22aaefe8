#include "report/requests.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace millrace {
namespace {

// A step's reports may arrive some steps later, and still need its factor.
TEST(RateFactors, OfTheNewestStepsAreKeptAndOfTheOthersForgotten) {
  constexpr std::uint64_t kChanges = 10'000, kNewest = 64, kMostKept = 1'000;
  const auto asked_at = [](std::uint64_t step) { return 2 + static_cast<double>(step) / 1000; };
  Requests requests{[](const ObserverEvent&) {}};
  RunControl& page = requests.control("observer page");
  for (std::uint64_t step = 1; step <= kChanges; ++step) {
    page.rate_factor(asked_at(step));
    requests.complete_factors(step);
    for (std::uint64_t back = 0; back < std::min(step, kNewest); ++back) {
      ASSERT_EQ(requests.factor(step - back), asked_at(step - back)) << step;
    }
  }
  EXPECT_EQ(requests.factor(kChanges + 5), asked_at(kChanges)) << "until the next change";
  std::uint64_t kept = 0;
  for (std::uint64_t step = 1; step <= kChanges; ++step) kept += requests.factor(step) == 1 ? 0 : 1;
  EXPECT_LT(kept, kMostKept);
}

// The page may request twice while a training batch is late: once before that batch is agreed on, once in validation.
TEST(RateFactors, AreTheSameInAllProcessesInWhateverOrderTheirGraphsAgree) {
  std::vector<double> factors;
  for (const bool trains_first : {true, false}) {
    Requests requests{[](const ObserverEvent&) {}};
    const auto enter = [&](double factor, std::uint64_t from) {
      requests.enter({.kind = RequestKind::rate_factor, .by = "observer page", .factor = factor, .text = {}}, from);
    };
    if (trains_first) enter(0.5, 9);
    enter(0.25, Requests::kAtOnce);
    if (!trains_first) enter(0.5, 9);
    requests.complete_factors(9);
    factors.push_back(requests.factor(9));
  }
  EXPECT_EQ(factors[0], factors[1]);
}

}  // namespace
}  // namespace millrace
