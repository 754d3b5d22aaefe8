// What every observer has to say about itself, and how it answers wrong parameters.
#include <gtest/gtest.h>

#include "config/document.h"
#include "synthetic.h"

namespace millrace::conformance {
namespace {

std::vector<std::string> observer_names() {
  std::vector<std::string> names;
  for (const auto& [name, type] : registry().observers()) names.push_back(name);
  return names;
}

class EveryObserver : public testing::TestWithParam<std::string> {
 protected:
  const ObserverType& type() const { return *registry().observer(GetParam()); }
  Value required() const {
    Value table;
    for (const ParamInfo& param : type().params) {
      if (param.required) table.set(param.name, plausible(param));
    }
    return table;
  }
  std::string answer(const Value& table) const {
    Diagnostics errors;
    type().check(table, "[observe." + GetParam() + "]", errors);
    return errors.text();
  }
};

TEST_P(EveryObserver, DescribesItself) {
  EXPECT_EQ(type().name, GetParam());
  EXPECT_FALSE(type().text.empty());
  EXPECT_FALSE(type().plugin.empty());
  for (const ParamInfo& param : type().params) EXPECT_FALSE(param.text.empty()) << param.name << " has no text";
  const std::string text = to_toml(type().defaults);
  Diagnostics errors;
  const std::optional<Value> read = parse_toml(text, "defaults.toml", errors);
  ASSERT_TRUE(read) << errors.text();
  EXPECT_EQ(to_toml(*read), text);
}

TEST_P(EveryObserver, AcceptsItsDefaultsAndNamesAnUnknownKey) {
  Value table = required();
  EXPECT_EQ(answer(table), "");
  table.set("no_such_key_at_all", Value(true));
  const std::string said = answer(table);
  EXPECT_NE(said.find("[observe." + GetParam() + "] has no key 'no_such_key_at_all'"), std::string::npos) << said;
}

TEST_P(EveryObserver, IsMadeOfWhatItRequires) {
  Diagnostics errors;
  EXPECT_NE(type().create(required(), "[observe." + GetParam() + "]", errors), nullptr) << errors.text();
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(EveryObserver);
INSTANTIATE_TEST_SUITE_P(Discovered, EveryObserver, testing::ValuesIn(observer_names()), by_name);

}  // namespace
}  // namespace millrace::conformance
