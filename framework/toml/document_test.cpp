#include "toml/document.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "testkit/messages.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

class Document : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    before_ = fs::current_path();
    folder_ = fs::path(MILLRACE_BINARY_DIR) / "test-files" / (std::string(test->test_suite_name()) + "." + test->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    fs::current_path(folder_);  // keeps paths of this machine out of messages
  }
  void TearDown() override {
    fs::current_path(before_);
    fs::remove_all(folder_);
  }
  static void write(const std::string& name, const std::string& text) {
    if (fs::path(name).has_parent_path()) fs::create_directories(fs::path(name).parent_path());
    std::ofstream(name) << text;
  }
  // Reads, overrides and resolves; returns TOML, or the reported mistakes.
  static std::string load(const std::string& name, const std::vector<std::string>& overrides = {}) {
    Diagnostics errors;
    auto document = read_document(name, {}, errors);
    if (!document) return errors.text();
    for (const std::string& option : overrides) apply_override(option, *document, errors);
    std::set<std::string> referred;
    const Value resolved = resolve_document(*document, referred, errors);
    return errors.empty() ? to_toml(resolved) : errors.text();
  }

 private:
  fs::path before_, folder_;
};

TEST_F(Document, KeepsTheOrderOfTheFile) {
  write("a.toml", "zebra = 1\napple = 2\n[train]\nflow = []\n[data]\nroot = 'x'\n");
  EXPECT_EQ(load("a.toml"), "zebra = 1\napple = 2\n\n[train]\nflow = []\n\n[data]\nroot = \"x\"\n");
}

TEST_F(Document, UnsetTakesAnInheritedKeyAway) {
  write("a.toml", "x = 1\n[run]\nname = 'a'\nepochs = 2\n[run.deep]\ny = 1\nz = 2\n");
  write("b.toml", "extends = 'a.toml'\nx = 'unset'\n[run]\nepochs = 'unset'\ndeep = { y = 'unset' }\n");
  EXPECT_EQ(load("b.toml"), "[run]\nname = \"a\"\n\n[run.deep]\nz = 2\n");
  EXPECT_EQ(load("a.toml", {"run.deep=unset", "x=unset"}), "[run]\nname = \"a\"\nepochs = 2\n");
  write("c.toml", "extends = 'a.toml'\n[run]\nepoch = 'unset'\n");
  EXPECT_MESSAGE(load("c.toml"));
  EXPECT_MESSAGE(load("a.toml", {"run.seed=unset"}));
}

TEST_F(Document, ABaseFileIsFoundByItsNameAndAFileBesideComesFirst) {
  write("recipes/mine.toml", "x = 1\n");
  write("a.toml", "extends = 'mine'\ny = 2\n");
  EXPECT_EQ(load("a.toml"), "x = 1\ny = 2\n");
  write("mine", "x = 3\n");
  EXPECT_EQ(load("a.toml"), "x = 3\ny = 2\n");
  write("b.toml", "extends = 'mime'\n");
  EXPECT_MESSAGE(load("b.toml"));
}

TEST_F(Document, KnowsWhereEverythingIsWritten) {
  write("a.toml", "[train]\nflow = [\"a\",\n  \"b\"]\n");
  Diagnostics errors;
  const auto document = read_document("a.toml", {}, errors);
  ASSERT_TRUE(document);
  const Value* flow = document->find("train")->find("flow");
  EXPECT_EQ(to_string(document->find("train")->at()), "a.toml:1:1");
  EXPECT_EQ(to_string(document->find("train")->table()[0].at), "a.toml:2:1");
  EXPECT_EQ(to_string(flow->at()), "a.toml:2:8");
  EXPECT_EQ(to_string(flow->array()[1].at()), "a.toml:3:3");
}

TEST_F(Document, SyntaxErrorHasAPosition) {
  write("a.toml", "[run]\nepochs = = 2\n");
  EXPECT_EQ(load("a.toml").substr(0, 11), "a.toml:2:10");
}

// U+FE0F, which follows an emoji.
TEST_F(Document, RefusesCharactersThatAreNoSpace) {
  write("a.toml", "epochs = 1 \xef\xb8\x8f\n");
  EXPECT_EQ(load("a.toml").substr(0, 11), "a.toml:1:12");
}

TEST_F(Document, RefusesATableWithoutAName) {
  write("a.toml", "epochs = 1\n[=]\n");
  EXPECT_EQ(load("a.toml").substr(0, 10), "a.toml:2:2");
}

TEST_F(Document, SaysWhatIsMostOftenMeantByALineThatIsNoToml) {
  for (const auto& [line, hint] :
       {std::pair("path = \"photos", "; the closing quote is missing"),
        std::pair("path = photos  # mine", "; text needs quotes: \"photos\""),
        std::pair("path = \u201cphotos\u201d", "; '\u201c' is not a quote of TOML: write \""),
        std::pair("# caf\xe9", "; save the file as UTF-8"), std::pair("nesterov = True", "; true and false are lower case"),
        std::pair("rate = 0,1", "; numbers need a decimal point"),
        std::pair("path = \"C:\\Users\\me\"", "; a \\ in double quotes begins an escape: write single quotes")}) {
    write("a.toml", std::string("[data]\n") + line + "\n");
    EXPECT_NE(load("a.toml").find(hint), std::string::npos) << load("a.toml");
  }
}

TEST_F(Document, ABaseFileIsNamedByText) {
  for (const char* text : {"3", "['a', 'b']"}) {
    write("a.toml", std::string("extends = ") + text + "\n[data]\npath = 'x'\n");
    Diagnostics errors;
    EXPECT_FALSE(read_document("a.toml", {}, errors)) << "what it lacks would be said to be missing";
    EXPECT_EQ(errors.size(), 1U) << errors.text();
    EXPECT_EQ(errors.text().find("a.toml:1:11: 'extends' must be text, the name of a file, found "), 0U) << errors.text();
  }
}

TEST_F(Document, NamesAFileOfAnotherKind) {
  write("a.yaml", "data:\n  path: x\n");
  EXPECT_MESSAGE(load("a.yaml"));
}

TEST_F(Document, SaysThatDatesMeanNothing) {
  write("a.toml", "day = 2024-01-01\n");
  EXPECT_MESSAGE(load("a.toml"));
}

TEST_F(Document, MissingFileIsAnsweredWithTheNearest) {
  write("cifar10.toml", "");
  EXPECT_MESSAGE(load("cifar.toml"));
  fs::create_directory("runs");
  EXPECT_MESSAGE(load("runs"));
  EXPECT_MESSAGE(load("/dev/null"));
  fs::create_symlink("gone.toml", "link.toml");
  EXPECT_MESSAGE(load("link.toml"));
}

TEST_F(Document, ExtendsMergesTablesDeeply) {
  write("base/base.toml", "[run]\nepochs = 2\nseed = 1\n[train]\nflow = [\"a\", \"b\"]\n[train.b]\nsize = 1\n");
  write("a.toml", "extends = \"base/base.toml\"\n[run]\nepochs = 3\n[train]\nflow = [\"a\"]\n[train.b]\nlast = true\n");
  EXPECT_EQ(load("a.toml"), "[run]\nepochs = 3\nseed = 1\n\n[train]\nflow = [\"a\"]\n\n[train.b]\nsize = 1\nlast = true\n");
}

TEST_F(Document, ExtendsLooksBesideTheFileThatSaysIt) {
  write("sub/a.toml", "extends = \"../base/b.toml\"\n");
  write("base/b.toml", "extends = \"c.toml\"\n");
  write("base/c.toml", "x = 1\n");
  EXPECT_EQ(load("sub/a.toml"), "x = 1\n");
}

TEST_F(Document, ExtendsInACircleIsRefusedWithTheChain) {
  write("a.toml", "extends = \"b.toml\"\n");
  write("b.toml", "x = 1\nextends = \"a.toml\"\n");
  EXPECT_EQ(load("a.toml"), "b.toml:2:11: 'extends' forms a cycle: a.toml -> b.toml -> a.toml");
}

TEST_F(Document, ExtendsOfAMissingFileNamesTheLine) {
  write("a.toml", "extends = \"basse.toml\"\n");
  write("base.toml", "");
  EXPECT_MESSAGE(load("a.toml"));
  write("b.toml", "extends = \"classify\"\n");
  fs::create_symlink("gone", "classify");  // meant instead of the base file
  EXPECT_MESSAGE(load("b.toml"));
}

TEST_F(Document, SetTakesTomlAndBareWords) {
  write("a.toml", "[run]\nepochs = 1\n");
  EXPECT_EQ(load("a.toml", {"run.epochs=2.5", "run.name=cifar-10", "run.load=[1, 0.5]", "data.root=/data/x", "run.text=\"1\"",
                            "run.day=2024-01-01", "run.none="}),
            "[run]\nepochs = 2.5\nname = \"cifar-10\"\nload = [1, 0.5]\ntext = \"1\"\nday = \"2024-01-01\"\nnone = \"\"\n\n"
            "[data]\nroot = \"/data/x\"\n");
}

TEST_F(Document, BadSetIsRefused) {
  write("a.toml", "[run]\nepochs = 1\n");
  EXPECT_MESSAGE(load("a.toml", {"run.epochs"}));
  EXPECT_MESSAGE(load("a.toml", {"run..epochs=1"}));
  EXPECT_MESSAGE(load("a.toml", {"run.epochs.x=1"}));
  EXPECT_MESSAGE(load("a.toml", {"run.load=[1,"}).substr(0, 49));
}

TEST_F(Document, ReferencesMayLeadAnywhereInTheFile) {
  write("a.toml",
        "[train]\npath = \"${data.root}/train\"\nwidth = \"${sizes.base} * 2\"\ncopy = \"${alias.root}\"\n"
        "[data]\nroot = \"${home}/data\"\n[sizes]\nbase = \"${n} + 1\"\n");
  EXPECT_EQ(load("a.toml", {"home=/me", "n=31", "alias=${data}"}).substr(0, 107),
            "home = \"/me\"\nn = 31\n\n[train]\npath = \"/me/data/train\"\nwidth = 64\ncopy = \"/me/data\"\n\n"
            "[data]\nroot = \"/me/data\"");
}

TEST_F(Document, CyclicReferencesAreRefusedWithTheChain) {
  write("a.toml", "a = \"${b} + 1\"\nb = \"${a}\"\n");
  EXPECT_EQ(load("a.toml"), "a.toml:1:5: '${b}' refers to itself: b -> a -> b");
  write("a.toml", "a = \"${a.x} ${a.y} ${a.z}\"\n");
  EXPECT_EQ(load("a.toml"),
            "a.toml:1:5: '${a.x}' refers to itself: a.x -> a.x\na.toml:1:5: '${a.y}' refers to itself: a.x -> a.y -> a.x\n"
            "a.toml:1:5: '${a.z}' refers to itself: a.x -> a.z -> a.x");
}

// Each node is evaluated once, however often and by whatever path it is referred to; and the result is bounded. Found by fuzzing:
// 4 kB that took a quarter of a minute.
TEST_F(Document, ReferencesThatMultiplyEndSoon) {
  std::string doubling = "a0 = \"xxxxxxxx\"\n", chain = "a0 = 1\n", circles = "a = \"";
  for (int i = 1; i < 64; ++i) {
    doubling += fmt::format("a{} = \"${{a{}}}${{a{}}}\"\n", i, i - 1, i - 1);
    chain += fmt::format("a{} = \"${{a{}}} + ${{a{}}} - ${{a{}}}\"\n", i, i - 1, i - 1, i - 1);
    circles += fmt::format("${{a.{}}}", i);
  }
  write("doubling.toml", doubling);
  const std::string said = load("doubling.toml");
  EXPECT_MESSAGE(said.substr(said.find(':')));
  write("chain.toml", chain);
  EXPECT_NE(load("chain.toml").find("a63 = 1\n"), std::string::npos);
  write("circles.toml", circles + "\"\n");
  EXPECT_NE(load("circles.toml").find("refers to itself"), std::string::npos);
}

TEST_F(Document, UnknownReferenceIsReportedOnceWhereItIsWritten) {
  write("a.toml", "[data]\nroot = \"${haus}\"\n[train]\npath = \"${data.root}/train\"\n[x]\nhouse = 1\n");
  EXPECT_MESSAGE(load("a.toml"));
}

TEST_F(Document, WhatIsKeptHoldsNoTextOfTheEnvironment) {
  setenv("MILLRACE_TEST_PASSWORD", "pa55", 1);
  setenv("MILLRACE_TEST_COUNT", "12", 1);
  write("a.toml",
        "url = 'https://me:${env.MILLRACE_TEST_PASSWORD}@host'\ncopy = '${url}/x'\nalone = '${env.MILLRACE_TEST_PASSWORD}'\n"
        "list = ['${alone}', 'b']\nnumber = '${env.MILLRACE_TEST_COUNT}'\nother = '${number} * 2'\n");
  Diagnostics errors;
  const auto document = read_document("a.toml", {}, errors);
  ASSERT_TRUE(document);
  std::set<std::string> referred;
  const Value resolved = resolve_document(*document, referred, errors);
  EXPECT_NE(to_toml(resolved).find("pa55"), std::string::npos);
  const Value kept = with_environment_kept(resolved, *document);
  EXPECT_EQ(
      to_toml(kept),
      "url = \"https://me:${env.MILLRACE_TEST_PASSWORD}@host\"\ncopy = \"https://me:${env.MILLRACE_TEST_PASSWORD}@host/x\"\n"
      "alone = \"${env.MILLRACE_TEST_PASSWORD}\"\nlist = [\"${env.MILLRACE_TEST_PASSWORD}\", \"b\"]\nnumber = 12\nother = 24\n");
  EXPECT_EQ(to_toml(with_environment(kept)), to_toml(resolved));
  EXPECT_NE(to_toml(with_environment_kept(resolved, *document, {"pa55"})).find("alone = \"pa55\"\n"), std::string::npos)
      << "a word that is no secret stays, where it is the whole text";
}

}  // namespace
}  // namespace millrace
