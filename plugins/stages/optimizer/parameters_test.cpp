// What the stage's parameters refuse before there is a stage.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "optimizer.h"
#include "testkit/harness.h"

namespace millrace {
namespace {

using testkit::table;

std::string said(const char* key, const Value& written) {
  Diagnostics errors;
  StageTypeAccess::make<Optimizer>().check(table({{key, written}}), "[train.optimizer]", errors);
  return errors.text();
}

// An empty one would say nothing and do nothing.
TEST(OptimizerParameters, TablesNeedWhatTheyAreAbout) {
  for (const auto& [key, needed, other] :
       {std::tuple{"scale_with_batch", "reference", table({{"scaling", Value(std::string("square_root"))}})},
        std::tuple{"ema", "decay", table({{"every", Value(std::int64_t{2})}})},
        std::tuple{"lookahead", "every", table({{"decay", Value(0.5)}})}}) {
    const std::string expected = fmt::format("'{}' needs '{}': ", key, needed);
    EXPECT_EQ(said(key, table({})).find(expected), 0U) << said(key, table({}));
    EXPECT_EQ(said(key, other).find(expected), 0U) << said(key, other);
  }
  EXPECT_EQ(said("scale_with_batch", table({{"reference", Value(256.0)}})), "");
}

}  // namespace
}  // namespace millrace
