#include "label.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

std::string text(const Label& label) {
  switch (label.kind) {
    case Label::Kind::none: return "none";
    case Label::Kind::unreadable: return "unreadable";
    case Label::Kind::number: return std::to_string(label.number);
    case Label::Kind::name: return "'" + label.name + "'";
  }
  return "";
}

std::span<const std::uint8_t> bytes(std::string_view json) {
  return {reinterpret_cast<const std::uint8_t*>(json.data()), json.size()};
}
std::string of_json(std::string_view json) { return text(label_of_json(bytes(json), "class")); }

TEST(Label, OfATextIsANumberOrAName) {
  EXPECT_EQ(text(label_of_text("7")), "7");
  EXPECT_EQ(text(label_of_text(" 42\n")), "42");
  EXPECT_EQ(text(label_of_text(" 042\n")), "'042'") << "a class may be called so";
  EXPECT_EQ(text(label_of_text("tabby cat\r\n")), "'tabby cat'");
  EXPECT_EQ(text(label_of_text("7a")), "'7a'");
  EXPECT_EQ(text(label_of_text("\xef\xbb\xbf"
                               "7\n")),
            "7");
}

TEST(Label, OfATextThatNamesNoClassIsUnreadable) {
  EXPECT_EQ(text(label_of_text("")), "unreadable");
  EXPECT_EQ(text(label_of_text(" \n")), "unreadable");
  EXPECT_EQ(text(label_of_text("-1")), "unreadable");
  EXPECT_EQ(text(label_of_text("1000000")), "unreadable");
  EXPECT_EQ(text(label_of_text("99999999999999999999")), "unreadable");
  EXPECT_EQ(text(label_of_text(std::string_view("a\0b", 3))), "unreadable");
  EXPECT_EQ(text(label_of_text(std::string(201, 'x'))), "unreadable");
}

TEST(Label, OfJsonIsAFieldOfTheObject) {
  EXPECT_EQ(of_json(R"({"class": 3, "other": 4})"), "3");
  EXPECT_EQ(of_json(R"({"class": "dog"})"), "'dog'");
  EXPECT_EQ(of_json(R"({"class": "12"})"), "12");
  EXPECT_EQ(of_json(R"({"class": 2.0})"), "2");
}

TEST(Label, OfJsonWithoutSuchAFieldIsUnreadable) {
  for (const char* json :
       {"", "{", "[]", "3", "{}", R"({"class": null})", R"({"class": -1})", R"({"class": 1.5})",
        R"({"class": 99999999999999999999})", R"({"class": 4294967296})", R"({"class": [1]})", "{\"class\": \"\xff\"}"}) {
    EXPECT_EQ(of_json(json), "unreadable") << json;
  }
}

TEST(Label, NumbersAreOneOrAList) {
  const auto numbers = [](std::string_view json) { return numbers_of_json(bytes(json), "y"); };
  EXPECT_EQ(numbers(R"({"y": 2})"), (std::vector<float>{2}));
  EXPECT_EQ(numbers(R"({"y": [1.5, -2]})"), (std::vector<float>{1.5F, -2}));
  for (const char* json :
       {"", "{}", R"({"y": "3"})", R"({"y": [1, null]})", R"({"y": []})", R"({"y": 1e39})", R"({"y": [[1]]})"}) {
    EXPECT_TRUE(numbers(json).empty()) << json;
  }
}

}  // namespace
}  // namespace millrace
