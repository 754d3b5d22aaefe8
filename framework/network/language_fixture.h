// Builds networks from text.
#pragma once

#include <gtest/gtest.h>

#include "millrace/backend/network.h"
#include "network/load.h"
#include "toml/document.h"

namespace millrace::language_test {

inline constexpr const char* kInput = "input = { channels = 3, height = 8, width = 8 }\n";

class NetworkLanguage : public testing::Test {
 protected:
  std::shared_ptr<const Network> build(const std::string& toml, const Value& variables = Value()) {
    errors_ = {};
    const auto document = parse_toml(kInput + toml, "net.toml", errors_);
    if (!document) return nullptr;
    return build_network(*document, "net", variables, registry_, errors_);
  }

  std::shared_ptr<const Network> good(const std::string& toml, const Value& variables = Value()) {
    auto network = build(toml, variables);
    EXPECT_TRUE(network && errors_.empty()) << errors_.text();
    return network ? network : std::make_shared<const Network>();
  }

  // All messages about a document, which must be refused. Line 1 is the input's.
  std::string mistakes(const std::string& toml, const Value& variables = Value()) {
    EXPECT_EQ(build(toml, variables), nullptr);
    return errors_.text();
  }

  static std::vector<std::string> names(const Network& network) {
    std::vector<std::string> result;
    for (const Layer& layer : network.layers) result.push_back(layer.name);
    return result;
  }

  static Value table(std::initializer_list<std::pair<std::string, Value>> members) {
    Value result;
    for (const auto& [key, value] : members) result.set(key, value);
    return result;
  }

  Registry registry_;
  Diagnostics errors_;
};

using Names = std::vector<std::string>;

}  // namespace millrace::language_test
