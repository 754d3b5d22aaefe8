// What every stage type has to say about itself, and how it answers wrong parameters.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "config/document.h"
#include "plugin/rule_params.h"
#include "synthetic.h"

namespace millrace::conformance {
namespace {

// Names in pipeline files: lower case, digits, underscores.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string::npos;
}

// Whether a message quotes the key, or an element of its list.
bool names(const std::string& message, const std::string& key) { return message.find("'" + key) != std::string::npos; }

void expect_texts(const std::vector<ParamInfo>& params, const std::string& owner) {
  for (const ParamInfo& param : params) {
    EXPECT_TRUE(is_plain_name(param.name)) << owner << "." << param.name;
    EXPECT_FALSE(param.type.empty()) << owner << "." << param.name;
    EXPECT_FALSE(param.text.empty()) << owner << "." << param.name << " has no text";
    EXPECT_NO_THROW(nlohmann::json(param.text + param.unit).dump()) << owner << "." << param.name;
    expect_texts(param.members, owner + "." + param.name);
  }
}

class EveryDescription : public testing::TestWithParam<std::string> {
 protected:
  const StageType& type() const { return *registry().stage(GetParam()); }

  // What the stage says about its required parameters and one more; "" when it accepts them.
  std::string answer(const std::string& key, Value value) const {
    Value table;
    for (const ParamInfo& param : type().params) {
      if (param.required) table.set(param.name, plausible(param));
    }
    table.set(key, std::move(value));
    Diagnostics errors;
    const std::string owner = "[test." + GetParam() + "]";
    type().check(table, owner, errors);
    if (type().takes_rule) check_rule(type(), table, registry(), owner, errors);
    return errors.text();
  }
};

TEST_P(EveryDescription, DescribesItself) {
  EXPECT_EQ(type().name, GetParam());
  EXPECT_TRUE(is_plain_name(type().name));
  EXPECT_FALSE(type().text.empty());
  EXPECT_FALSE(type().plugin.empty());
  EXPECT_FALSE(type().inputs.empty() && type().outputs.empty());
  for (const std::vector<Port>& ports : {type().inputs, type().outputs}) {
    for (const Port& port : ports) {
      EXPECT_FALSE(port.name.empty());
      EXPECT_FALSE(port.payload.empty());
    }
  }
  EXPECT_NO_THROW(nlohmann::json(type().text).dump());
  expect_texts(type().params, GetParam());
}

TEST_P(EveryDescription, AcceptsItsOwnDefaults) {
  Value table;
  for (const ParamInfo& param : type().params) {
    if (param.required) {
      table.set(param.name, plausible(param));
    } else if (const Value* value = type().defaults.find(param.name)) {
      table.set(param.name, *value);
    }
  }
  Diagnostics errors;
  type().check(table, "[test." + GetParam() + "]", errors);
  EXPECT_EQ(errors.text(), "");
}

TEST_P(EveryDescription, KeepsItsDefaultsThroughToml) {
  const std::string text = to_toml(type().defaults);
  Diagnostics errors;
  const std::optional<Value> read = parse_toml(text, "defaults.toml", errors);
  ASSERT_TRUE(read) << errors.text() << "\n" << text;
  EXPECT_EQ(to_toml(*read), text);
}

TEST_P(EveryDescription, NamesAnUnknownKey) {
  const std::string said = answer("no_such_key_at_all", Value(true));
  EXPECT_NE(said.find("[test." + GetParam() + "]"), std::string::npos) << said;
  EXPECT_NE(said.find("'no_such_key_at_all'"), std::string::npos) << said;
}

TEST_P(EveryDescription, NamesAParameterOfTheWrongType) {
  for (const ParamInfo& param : type().params) {
    if (param.type == "any") continue;
    // A date is what no parameter takes; here a list of a list of a table comes nearest.
    const std::string said =
        answer(param.name, Value(Array{Value(Array{Value()}), Value(Array{Value()}), Value(Array{Value()})}));
    bool named = names(said, param.name);
    for (const ParamInfo& member : param.members) named = named || names(said, member.name);
    EXPECT_TRUE(named) << param.name << ": " << said;
  }
}

TEST_P(EveryDescription, NamesAChoiceThatDoesNotExist) {
  for (const ParamInfo& param : type().params) {
    if (param.choices.empty()) continue;
    const Value wrong(std::string("no such choice"));
    const std::string said = answer(param.name, param.type.starts_with("list") ? Value(Array{wrong}) : wrong);
    EXPECT_TRUE(names(said, param.name)) << said;
    EXPECT_NE(said.find(param.choices.front()), std::string::npos) << "the choices are not named: " << said;
  }
}

TEST_P(EveryDescription, NamesAParameterOutOfItsRange) {
  for (const ParamInfo& param : type().params) {
    const bool integers = param.type.find("integer") != std::string::npos || param.type == "[height, width]";
    const auto outside = [&](double value) {
      const Value one = integers ? Value(static_cast<std::int64_t>(value)) : Value(value);
      return answer(param.name, param.type.starts_with("list") ? Value(Array{one}) : one);
    };
    if (param.low) {
      EXPECT_TRUE(names(outside(*param.low - 1), param.name)) << param.name;
    }
    if (param.high) {
      EXPECT_TRUE(names(outside(*param.high + 1), param.name)) << param.name;
    }
  }
}

TEST_P(EveryDescription, NamesEachRequiredParameterThatIsMissing) {
  Diagnostics errors;
  type().check(Value(), "[test." + GetParam() + "]", errors);
  for (const ParamInfo& param : type().params) {
    if (!param.required) continue;
    EXPECT_TRUE(names(errors.text(), param.name)) << errors.text();
  }
}

INSTANTIATE_TEST_SUITE_P(Discovered, EveryDescription, testing::ValuesIn(stage_names()), by_name);

TEST(EveryPlugin, IsLoadedWithoutComplaint) {
  EXPECT_FALSE(registry().plugins().empty());
  for (const std::string& reason : registry().why_not()) ADD_FAILURE() << reason;
  for (const PluginInfo& plugin : registry().plugins()) {
    EXPECT_TRUE(is_plain_name(plugin.name)) << plugin.path;
    EXPECT_FALSE(plugin.version.empty()) << plugin.path;
    EXPECT_FALSE(plugin.text.empty()) << plugin.path;
  }
}

TEST(EveryPlugin, OffersSomething) {
  for (const PluginInfo& plugin : registry().plugins()) {
    const auto belongs = [&](const auto& entry) { return entry.second.plugin == plugin.name; };
    EXPECT_TRUE(std::any_of(registry().stages().begin(), registry().stages().end(), belongs) ||
                std::any_of(registry().backends().begin(), registry().backends().end(), belongs) ||
                std::any_of(registry().observers().begin(), registry().observers().end(), belongs) ||
                !registry().communicators().empty())
        << plugin.name;
  }
}

}  // namespace
}  // namespace millrace::conformance
