#include "toml/expression.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "testkit/messages.h"

namespace millrace {
namespace {

TableScope scope() {
  Value data, table;
  data.set("root", Value("/data"));
  data.set("count", Value(7));
  table.set("data", data);
  table.set("width", Value(64));
  table.set("rate", Value(0.5));
  table.set("name", Value("wide"));
  table.set("flag", Value(true));
  table.set("list", Value(Array{Value(1), Value(2)}));
  table.set("zero", Value(0));
  table.set("size", Value("auto"));
  table.set("huge", Value(std::int64_t{1} << 62));
  return TableScope(table);
}

// The result as TOML, which shows kinds; or the reported mistakes.
std::string result(const std::string& text) {
  Diagnostics errors;
  const Value value = evaluate(Value(text), scope(), errors);
  return errors.empty() ? to_toml(value) : errors.text();
}

TEST(Expression, ATextWithoutReferenceIsLeftAlone) {
  EXPECT_EQ(result("2 * 3"), "\"2 * 3\"");
  EXPECT_EQ(result("$${width}"), "\"${width}\"");
}

TEST(Expression, AWholeReferenceKeepsItsKind) {
  EXPECT_EQ(result("${width}"), "64");
  EXPECT_EQ(result("${rate}"), "0.5");
  EXPECT_EQ(result("${flag}"), "true");
  EXPECT_EQ(result("${list}"), "[1, 2]");
  EXPECT_EQ(result("${data.root}"), "\"/data\"");
}

TEST(Expression, Arithmetic) {
  EXPECT_EQ(result("${width} * 4"), "256");
  EXPECT_EQ(result("${width}*4+1"), "257");
  EXPECT_EQ(result("${width} + 2 * ${data.count}"), "78");
  EXPECT_EQ(result("(${width} + 2) * ${data.count}"), "462");
  EXPECT_EQ(result("${width} - ${data.count} - 1"), "56");
  EXPECT_EQ(result("-${width}"), "-64");
  EXPECT_EQ(result("2 * -${width}"), "-128");
  EXPECT_EQ(result("${rate} * 3"), "1.5");
  EXPECT_EQ(result("${rate} * 1e-2"), "0.005");
}

TEST(Expression, ADivisionIsWholeOnlyWhenItComesOutEven) {
  EXPECT_EQ(result("${width} / 4"), "16");
  EXPECT_EQ(result("${width} / 5"), "12.8");
  EXPECT_EQ(result("${width} // 5"), "12");
  EXPECT_EQ(result("-${width} // 5"), "-13");
  EXPECT_EQ(result("${width} * 8 // 7"), "73");
  EXPECT_EQ(result("${width}//5"), "\"64//5\"") << "a path";
  EXPECT_EQ(result("${width} // ${zero}"), "\"${width} // ${zero}\": division by zero");
}

TEST(Expression, PathsAndNamesStayText) {
  EXPECT_EQ(result("${data.root}/train"), "\"/data/train\"");
  EXPECT_EQ(result("${data.count}/7"), "\"7/7\"");
  EXPECT_EQ(result("${width}-1"), "\"64-1\"");
  EXPECT_EQ(result("${name} * 4"), "\"wide * 4\"");
  EXPECT_EQ(result("run-${width}x${width}"), "\"run-64x64\"");
  EXPECT_EQ(result("${width} ${width}"), "\"64 64\"");
  EXPECT_EQ(result("${flag}!"), "\"true!\"");
}

TEST(Expression, EnvironmentVariables) {
  setenv("MILLRACE_TEST_NUMBER", "12", 1);
  setenv("MILLRACE_TEST_TEXT", "/home/me", 1);
  unsetenv("MILLRACE_TEST_NONE");
  EXPECT_EQ(result("${env.MILLRACE_TEST_NUMBER}"), "12");
  EXPECT_EQ(result("${env.MILLRACE_TEST_NUMBER} * 2"), "24");
  EXPECT_EQ(result("${env.MILLRACE_TEST_TEXT}/data"), "\"/home/me/data\"");
  EXPECT_MESSAGE(result("${env.MILLRACE_TEST_NONE}"));
}

TEST(Expression, WrongReferences) {
  EXPECT_MESSAGE(result("${widht} * 2"));
  EXPECT_MESSAGE(result("${data.rot}/train"));
  EXPECT_EQ(result("${width"), "\"${width\" has a '${' without its '}'");
  EXPECT_MESSAGE(result("${list} and more"));
}

TEST(Expression, WrongArithmetic) {
  EXPECT_EQ(result("${width} / ${zero}"), "\"${width} / ${zero}\": division by zero");
  EXPECT_MESSAGE(result("${huge} * 4"));
}

TEST(Expression, AutoIsNoNumber) {
  EXPECT_MESSAGE(result("2e-6 * ${size}"));
  EXPECT_EQ(result("${size}"), "\"auto\"");
  EXPECT_EQ(result("${size} of ${width}"), "\"auto of 64\"");
}

TEST(Expression, WorksInsideListsAndTablesAndKeepsPositions) {
  const Position at{std::make_shared<const std::string>("net.toml"), 3, 9};
  Value layer;
  layer.set("out", Value("${width} * 2", at));
  Diagnostics errors;
  const Value value = evaluate(Value(Array{layer}), scope(), errors);
  const Value* out = value.array()[0].find("out");
  EXPECT_EQ(out->integer(), 128);
  EXPECT_EQ(to_string(out->at()), "net.toml:3:9");
}

}  // namespace
}  // namespace millrace
