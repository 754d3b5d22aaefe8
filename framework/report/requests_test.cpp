#include "report/requests.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace millrace {
namespace {

// A step's reports may arrive some steps later, and still need its factor.
TEST(RateFactors, OfTheNewestStepsAreKeptAndOfTheOthersForgotten) {
  constexpr std::uint64_t kChanges = 10'000, kNewest = 64, kMaxKept = 1'000;
  const auto asked_at = [](std::uint64_t step) { return 2 + static_cast<double>(step) / 1000; };
  Requests requests{[](const ObserverEvent&) {}};
  for (std::uint64_t step = 1; step <= kChanges; ++step) {
    requests.set_factor(step, asked_at(step));
    for (std::uint64_t back = 0; back < std::min(step, kNewest); ++back) {
      ASSERT_EQ(requests.factor(step - back), asked_at(step - back)) << step;
    }
  }
  EXPECT_EQ(requests.factor(kChanges + 5), asked_at(kChanges)) << "until the next change";
  std::uint64_t kept = 0;
  for (std::uint64_t step = 1; step <= kChanges; ++step) kept += requests.factor(step) == 1 ? 0 : 1;
  EXPECT_LT(kept, kMaxKept);
}

TEST(Requests, ThatWaitAreGivenToTheRunFirst) {
  Requests requests{[](const ObserverEvent&) {}};
  RunControl& page = requests.control("observer page");
  std::vector<RequestKind> taken;
  page.save();
  requests.give_to([&](const RequestEvent& request, std::uint64_t from) {
    EXPECT_EQ(from, Requests::kAtOnce);
    taken.push_back(request.kind);
  });
  page.stop();
  requests.give_to(nullptr);
  page.validate();
  EXPECT_EQ(taken, (std::vector{RequestKind::save, RequestKind::stop}));
}

TEST(Requests, OfSeveralProcessesWaitOutside) {
  Requests requests{[](const ObserverEvent&) {}};
  RunControl& page = requests.control("observer page");
  std::vector<std::uint64_t> taken;
  requests.share();
  requests.give_to([&](const RequestEvent&, std::uint64_t from) { taken.push_back(from); });
  page.checkpoint();
  EXPECT_TRUE(taken.empty());
  for (RequestEvent& request : requests.take_outside()) requests.enter(std::move(request), 7);
  EXPECT_EQ(taken, std::vector<std::uint64_t>{7});
}

}  // namespace
}  // namespace millrace
