#include "toml/limits.h"

#include <gtest/gtest.h>

#include "testkit/messages.h"
#include "toml/document.h"
#include "toml/expression.h"

namespace millrace::limits_test {
namespace {

std::string repeated(const std::string& text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

std::string said_of(const std::string& toml) {
  Diagnostics errors;
  parse_toml(toml, "x.toml", errors);
  return errors.text();
}

TEST(Nesting, OfTextThatGoesTooDeepIsRefusedWithItsPlace) {
  const std::string much = repeated("a.", 20'000);
  const std::string said = "tables and lists are nested more than 100 deep";
  EXPECT_EQ(said_of("x = 1\n[" + much + "b]\nc = 1\n"), "x.toml:2:201: " + said);
  for (const std::string& text :
       {much + "b = 1", "a = { " + much + "b = 1 }", "a = " + repeated("[", 20'000), "a = " + repeated("{ b = ", 20'000),
        "[a]\nb = [" + repeated("{ " + repeated("a.", 90) + "b = ", 200), "[[" + much + "b]]", "\"a\".'b'." + much + "c = 1",
        "a = \"\"\"x\"\"\"\"\"\n" + much + "b = 1", "a = '''x\n'\n'''\n" + much + "b = 1", "# \"\n" + much + "b = 1"})
    EXPECT_NE(said_of(text).find(said), std::string::npos) << text.substr(0, 40) << ": " << said_of(text);
}

TEST(Nesting, OfOrdinaryTextIsNotMistaken) {
  for (const std::string& text : {"a = " + repeated("[", 90) + repeated("]", 90), "[" + repeated("a.", 90) + "b]\nc = 1",
                                  "a = [" + repeated("1.5, ", 5000) + "]", repeated("[[a]]\nb.c = { d = [1.5, 2.5] }\n", 3000),
                                  "a = \"" + repeated("[a.", 5000) + "\"", "a = '''\n" + repeated("[", 5000) + "'''",
                                  "a = 1 # " + repeated("[", 5000), "a = \"\\\"" + repeated("[", 500) + "\"",
                                  repeated("[a]\n", 1) + repeated("b", 3) + " = [\n  { c = 1 },\n  { c = 2 },\n]\n"})
    EXPECT_EQ(said_of(text), "") << text.substr(0, 40);
}

TEST(Nesting, OfParenthesesSignsAndReferencesIsRefused) {
  const auto evaluated = [](const std::string& text, const Value& variables) {
    Diagnostics errors;
    evaluate(Value(text), TableScope(variables), errors);
    return errors.text();
  };
  Value variables;
  variables.set("q", Value(1));
  EXPECT_EQ(evaluated(repeated("(", 90) + "${q}" + repeated(")", 90), variables), "");
  for (const std::string& text : {repeated("(", 20'000) + "${q}" + repeated(")", 20'000), repeated("-", 20'000) + "${q}"}) {
    const std::string said = evaluated(text, variables);
    EXPECT_NE(said.find("parentheses and signs are nested more than 100 deep"), std::string::npos) << said;
    EXPECT_LT(said.size(), 400U);
  }
  // A document with a chain of references.
  std::string chain = "k0 = 1\n";
  for (int i = 1; i < 20'000; ++i) chain += "k" + std::to_string(i) + " = \"${k" + std::to_string(i - 1) + "}\"\n";
  Diagnostics errors;
  const auto document = parse_toml("last = \"${k19999}\"\n" + chain, "x.toml", errors);
  std::set<std::string> referred;
  resolve_document(document.value(), referred, errors);
  EXPECT_MESSAGE(errors.text());
}

TEST(Nesting, AValueMayNotGrowByReferencesToItself) {
  Value variables;
  variables.set("a", Value(std::string(40'000, 'x')));
  Diagnostics errors;
  evaluate(Value("${a}${a}"), TableScope(variables), errors);
  EXPECT_MESSAGE(errors.text());
}

}  // namespace
}  // namespace millrace::limits_test
