#include "millrace/util/course.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "millrace/util/html.h"

namespace millrace {
namespace {

using Points = nlohmann::json;

TEST(Course, KeepsEverySpikeInMemoryThatDoesNotGrow) {
  Course course(100);
  for (std::uint64_t step = 1; step <= 100'000; ++step) course.add(step, step == 54'321 ? 50 : 1);
  const Points points = Points::parse(course.json());
  ASSERT_LE(points.size(), Course::kMax);
  ASSERT_GE(points.size(), Course::kMax / 2 - 1);
  double greatest = 0;
  for (const Points& point : points) greatest = std::max(greatest, point[3].get<double>());
  EXPECT_EQ(greatest, 50);
  EXPECT_EQ(points.back()[0], 100'000);
  EXPECT_NEAR(points.back()[4].get<double>(), 1, 1e-3);
}

TEST(Course, SmoothsALateCurveAsAnEarlyOne) {
  Course whole(20), joined(20);
  double last = 0;
  for (std::uint64_t step = 1; step <= 5000; ++step) {
    last = std::sin(static_cast<double>(step));
    joined.add(step, last);
    if (step > 4000) whole.add(step, last);  // after 50 times its memory the mean has lost the rest
  }
  EXPECT_NEAR(Points::parse(joined.json()).back()[4].get<double>(), Points::parse(whole.json()).back()[4].get<double>(), 1e-5);
}

TEST(Course, LeavesAGapWhereALossIsNoNumber) {
  Course course;
  course.add(1, 2);
  course.add(2, std::numeric_limits<double>::quiet_NaN());
  course.add(3, 4);
  EXPECT_EQ(course.json(), "[[1,2,2,2,2],[2,null,null,null,null],[3,4,4,4,4]]");
}

TEST(Html, LetsNoTextEndItsElement) {
  EXPECT_EQ(html_text("a<b title='\"&'>"), "a&lt;b title=&#39;&quot;&amp;&#39;&gt;");
  EXPECT_EQ(json_in_html("{\"name\":\"</script><!--\"}"), "{\"name\":\"\\u003c/script>\\u003c!--\"}");
}

}  // namespace
}  // namespace millrace
