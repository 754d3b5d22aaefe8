// Types of parameter fields other than numbers and texts: narrow integers, floats, arrays, enums and structs.
#include <gtest/gtest.h>

#include <algorithm>

#include "millrace/params.h"
#include "testkit/messages.h"

namespace millrace::field_types {
namespace {

enum class Mode { fast, exact };
const std::initializer_list<std::pair<std::string_view, Mode>> kModes = {{"fast", Mode::fast}, {"exact", Mode::exact}};

struct Point {
  float x = 0;
  std::int64_t weight = 1;
  static void describe(ParamSet<Point>& set) {
    set.add("x", &Point::x).required();
    set.add("weight", &Point::weight).range(1);
  }
};

struct Fields {
  float rate = 0.1F;
  int shift = -3;
  std::uint32_t count = 2;
  std::uint64_t seed = 7;
  std::array<float, 3> mean = {0.5F, 0.25F, 0.125F};
  std::optional<std::array<double, 2>> window;
  std::vector<float> scales = {0.1F};
  std::vector<int> sizes;
  Mode mode = Mode::exact;
  std::optional<Mode> then;
  std::vector<Mode> modes = {Mode::fast};
  Point centre;
  std::optional<Point> corner;
  std::vector<Point> points;
};

const ParamSet<Fields>& declared() {
  static const ParamSet<Fields> set = [] {
    ParamSet<Fields> made;
    made.add("rate", &Fields::rate).range(0, 1);
    made.add("shift", &Fields::shift);
    made.add("count", &Fields::count);
    made.add("seed", &Fields::seed);
    made.add("mean", &Fields::mean).or_one();
    made.add("window", &Fields::window);
    made.add("scales", &Fields::scales);
    made.add("sizes", &Fields::sizes).range(1);
    made.add("mode", &Fields::mode, kModes);
    made.add("then", &Fields::then, kModes);
    made.add("modes", &Fields::modes, kModes);
    made.add("centre", &Fields::centre);
    made.add("corner", &Fields::corner);
    made.add("points", &Fields::points);
    return made;
  }();
  return set;
}

Value list(std::initializer_list<double> numbers) {
  Array values;
  for (const double number : numbers) values.emplace_back(number);
  return Value(std::move(values));
}

Fields read(const char* key, Value value, std::string* mistakes = nullptr) {
  Value table;
  table.set(key, std::move(value));
  Diagnostics errors;
  Fields fields = read_struct(declared(), table, "[a.b]", errors);
  if (mistakes == nullptr) {
    EXPECT_EQ(errors.text(), "");
  } else {
    *mistakes = errors.text();
  }
  return fields;
}

std::string mistake(const char* key, Value value) {
  std::string said;
  read(key, std::move(value), &said);
  return said;
}

Value point(double x) {
  Value table;
  table.set("x", Value(x));
  return table;
}

TEST(FieldTypes, AreRead) {
  EXPECT_EQ(read("rate", Value(0.25)).rate, 0.25F);
  EXPECT_EQ(read("shift", Value(-70000)).shift, -70000);
  EXPECT_EQ(read("count", Value(std::int64_t{4294967295})).count, 4294967295U);
  EXPECT_EQ(read("seed", Value(9)).seed, 9U);
  EXPECT_EQ(read("mean", list({1, 2, 3})).mean, (std::array<float, 3>{1, 2, 3}));
  EXPECT_EQ(read("mean", Value(2.0)).mean, (std::array<float, 3>{2, 2, 2}));
  EXPECT_EQ(read("window", list({1, 2})).window, (std::array<double, 2>{1, 2}));
  EXPECT_EQ(read("scales", list({0.5, 2})).scales, (std::vector<float>{0.5F, 2}));
  EXPECT_EQ(read("sizes", Value(Array{Value(4)})).sizes, std::vector<int>{4});
  EXPECT_EQ(read("mode", Value("fast")).mode, Mode::fast);
  EXPECT_EQ(read("then", Value("exact")).then, Mode::exact);
  EXPECT_EQ(read("modes", Value(Array{Value("exact"), Value("fast")})).modes, (std::vector<Mode>{Mode::exact, Mode::fast}));
  EXPECT_EQ(read("centre", point(0.5)).centre.x, 0.5F);
  EXPECT_EQ(read("corner", point(2)).corner->x, 2);
  const Fields fields = read("points", Value(Array{point(1), point(3)}));
  ASSERT_EQ(fields.points.size(), 2U);
  EXPECT_EQ(fields.points[1].x, 3);
  EXPECT_EQ(fields.points[1].weight, 1);
}

TEST(FieldTypes, AreRefusedByNameAndReason) {
  EXPECT_MESSAGE(mistake("rate", Value(2)));
  EXPECT_MESSAGE(mistake("shift", Value(std::int64_t{3000000000})));
  EXPECT_MESSAGE(mistake("count", Value(-1)));
  EXPECT_MESSAGE(mistake("seed", Value(-1)));
  EXPECT_MESSAGE(mistake("mean", list({1, 2})));
  EXPECT_MESSAGE(mistake("sizes", list({1})));
  EXPECT_MESSAGE(mistake("mode", Value("exat")));
  EXPECT_MESSAGE(mistake("modes", Value(Array{Value("slow")})));
  EXPECT_EQ(mistake("corner", Value(Table{})), "'corner' needs 'x'");
  EXPECT_EQ(mistake("points", Value(Array{point(1), Value(Table{})})), "'points' needs 'x'");
}

// Their form in documentation and the schema.
TEST(FieldTypes, AreWrittenAsTheyAreRead) {
  const Fields defaults;
  const Value written = write_params(declared().infos(), &defaults);
  EXPECT_EQ(to_toml(*written.find("rate")), "0.1");
  EXPECT_EQ(to_toml(*written.find("mean")), "[0.5, 0.25, 0.125]");
  EXPECT_EQ(to_toml(*written.find("scales")), "[0.1]");
  EXPECT_EQ(to_toml(*written.find("shift")), "-3");
  EXPECT_EQ(to_toml(*written.find("mode")), "\"exact\"");
  EXPECT_EQ(to_toml(*written.find("modes")), "[\"fast\"]");
  EXPECT_EQ(written.find("then"), nullptr);
  EXPECT_EQ(written.find("window"), nullptr);
  const auto info = [](std::string_view name) {
    const std::vector<ParamInfo>& all = declared().infos();
    return *std::find_if(all.begin(), all.end(), [&](const ParamInfo& each) { return each.name == name; });
  };
  EXPECT_EQ(info("mean").length, 3U);
  EXPECT_EQ(info("mode").choices, (std::vector<std::string>{"fast", "exact"}));
  EXPECT_EQ(info("points").type, "list of tables");
}

}  // namespace
}  // namespace millrace::field_types
