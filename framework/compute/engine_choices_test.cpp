#include "millrace/backend/engine_choices.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "testkit/files.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

class EngineChoicesTest : public testing::Test {
 protected:
  // What another process would find in a file with these bytes.
  EngineChoices read(const std::string& bytes) const { return EngineChoices(folder_.write("bytes", bytes)); }

  const testkit::TestFolder folder_;
  const fs::path file_ = folder_ / "deeper/device";
};

TEST_F(EngineChoicesTest, KeepAnyBytesForTheNextProcess) {
  const std::string bytes("{\"engine\":1}\n\0\xff end", 18);
  {
    EngineChoices choices(file_);
    EXPECT_EQ(choices.find("a"), std::nullopt);
    choices.put("a", bytes);
    choices.put("key with\nlines", "");
    choices.put("a", bytes + "2");
    EXPECT_EQ(choices.find_or("c", [] { return "asked"; }), "asked");
  }
  EngineChoices again(file_);
  EXPECT_EQ(again.find("a"), bytes + "2");
  EXPECT_EQ(again.find("key with\nlines"), "");
  EXPECT_EQ(again.find("b"), std::nullopt);
  EXPECT_EQ(again.find_or("c", [] { return "asked again"; }), "asked");
}

TEST_F(EngineChoicesTest, WithoutAFileLastAsLongAsTheProcess) {
  EngineChoices choices;
  choices.put("a", "1");
  EXPECT_EQ(choices.find("a"), "1");
  int warned = 0;
  for (int i = 0; i < 2; ++i) choices.warn_once("a", "text", [&](std::string_view) { ++warned; });
  EXPECT_EQ(warned, 1);
}

TEST_F(EngineChoicesTest, SkipAnEntryThatWasCutShort) {
  const std::string first = encode_choice("first", "one"), second = encode_choice("second", "two\nlines"),
                    third = encode_choice("third", "");
  for (std::size_t end = 0; end + 1 < second.size(); ++end) {  // without its last line end the next read would find it complete
    const std::string cut = '\n' + first + '\n' + second.substr(0, end);
    for (const bool followed : {false, true}) {  // by another process's entry
      const EngineChoices choices = read(followed ? cut + '\n' + third : cut);
      EXPECT_EQ(choices.find("first"), "one") << end;
      EXPECT_EQ(choices.find("second"), std::nullopt) << end;
      EXPECT_EQ(choices.find("third").has_value(), followed) << end;
    }
  }
}

TEST_F(EngineChoicesTest, ReadNoDamage) {
  const std::string whole = encode_choice("first", "one") + encode_choice("second", "two");
  for (std::size_t i = 0; i + 1 < whole.size(); ++i) {
    std::string changed = whole;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    const EngineChoices choices = read(changed);
    EXPECT_EQ(choices.find("first").value_or("one"), "one") << i;
    EXPECT_EQ(choices.find("second").value_or("two"), "two") << i;
    EXPECT_FALSE(choices.find("first") && choices.find("second")) << i;
  }
  EXPECT_EQ(read("18446744073709551615 1 0\nab\n").find("a"), std::nullopt);
}

TEST_F(EngineChoicesTest, TheLastOfEqualKeysCounts) {
  {
    EngineChoices one(file_), two(file_);
    one.put("a", "1");
    two.put("a", "2");
    one.put("a", "3");
  }
  EXPECT_EQ(EngineChoices(file_).find("a"), "3");
}

TEST_F(EngineChoicesTest, WriteWhatIsNewAndNothingElse) {
  EngineChoices choices(file_);
  choices.put("a", "1");
  const auto size = fs::file_size(file_);
  choices.put("a", "1");
  EXPECT_EQ(fs::file_size(file_), size);
  choices.put("b", "2");
  EXPECT_EQ(fs::file_size(file_), size + 1 + encode_choice("b", "2").size());
}

// Such as a file of an earlier version.
TEST_F(EngineChoicesTest, AreAddedToAFileOfSomethingElse) {
  folder_.write("deeper/device", "0123456789abcdef\ta\tit is wrong\nno end");
  {
    EngineChoices choices(file_);
    EXPECT_EQ(choices.find("a"), std::nullopt);
    choices.put("a", "1");
  }
  EXPECT_EQ(EngineChoices(file_).find("a"), "1");
}

TEST_F(EngineChoicesTest, AFolderThatCannotBeWrittenCostsOneWarning) {
  folder_.write("deeper", "a file where the folder should be");
  std::vector<std::string> warnings;
  const auto warn = [&](std::string_view message) { warnings.emplace_back(message); };
  EngineChoices choices(file_);
  choices.put("a", "1", warn);
  choices.put("b", "2", warn);
  EXPECT_EQ(choices.find("a"), "1");
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find(file_.string()), std::string::npos);
}

TEST_F(EngineChoicesTest, AFolderInPlaceOfTheFileCostsOneWarning) {
  fs::create_directories(file_);
  std::vector<std::string> warnings;
  const auto warn = [&](std::string_view message) { warnings.emplace_back(message); };
  EngineChoices choices(file_);
  EXPECT_EQ(choices.find("a"), std::nullopt);
  choices.put("a", "1", warn);
  EXPECT_EQ(choices.find("a"), "1");
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find(file_.string()), std::string::npos);
}

// Entries of very different sizes, so that partial or mixed ones would be detected.
TEST_F(EngineChoicesTest, WritersInSeveralProcessesLoseNothing) {
  constexpr int kWriters = 3, kRounds = 40;
  const auto text = [](int w, int i) { return std::string(static_cast<std::size_t>(20000 * w + i), '\n'); };
  std::vector<pid_t> writers;
  for (int w = 0; w < kWriters; ++w) {
    const pid_t writer = fork();
    if (writer == 0) {
      EngineChoices choices(file_);
      for (int i = 0; i < kRounds; ++i) choices.put(std::to_string(w) + " " + std::to_string(i), text(w, i));
      _exit(0);
    }
    writers.push_back(writer);
  }
  for (int i = 0; i < kRounds; ++i) EngineChoices reader(file_);  // concurrent reads see no damage
  for (const pid_t writer : writers) {
    int status = 0;
    waitpid(writer, &status, 0);
    EXPECT_EQ(status, 0);
  }
  const EngineChoices all(file_);
  for (int w = 0; w < kWriters; ++w) {
    for (int i = 0; i < kRounds; ++i) EXPECT_EQ(all.find(std::to_string(w) + " " + std::to_string(i)), text(w, i));
  }
}

TEST(EngineChoicesFile, DependsOnDeviceAndVersions) {
  const fs::path file = engine_choices_file("NVIDIA H100 80GB HBM3", "cuDNN 9.19.0");
  EXPECT_EQ(file, engine_choices_file("NVIDIA H100 80GB HBM3", "cuDNN 9.19.0"));
  EXPECT_NE(file, engine_choices_file("NVIDIA H100 80GB HBM3", "cuDNN 9.20.0"));
  EXPECT_TRUE(file.filename().string().starts_with("NVIDIA_H100_80GB_HBM3-")) << file;
  EXPECT_LT(engine_choices_file(std::string(1000, 'x'), std::string(1000, '/')).filename().string().size(), 200U);
}

}  // namespace
}  // namespace millrace
