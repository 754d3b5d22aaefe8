#include "millrace/util/output_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "millrace/error.h"
#include "millrace/util/csv_head.h"
#include "millrace/util/text.h"
#include "testkit/files.h"
#include "testkit/harness.h"
#include "testkit/messages.h"
#include "util/characters.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

std::string content(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

TEST(OutputFile, TakesThePlaceOfTheOldOneWhenItIsWhole) {
  const testkit::TestFolder folder;
  const fs::path path = folder.path() / "a.bin";
  folder.write("a.bin", "old");
  OutputFile file(path.string());
  const std::string large(600'000, 'x');
  file.write("0123456789");
  file.write(large);
  file.write("end");
  file.write_at(2, "ab");
  EXPECT_EQ(content(path), "old");
  file.commit();
  EXPECT_EQ(content(path), "01ab456789" + large + "end");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
}

TEST(OutputFile, MakesItsFolder) {
  const testkit::TestFolder folder;
  const fs::path path = folder.path() / "a/b/c.bin";
  OutputFile file(path.string());
  file.write("x");
  file.commit();
  EXPECT_EQ(content(path), "x");
}

TEST(OutputFile, IsRemovedUnlessItIsCommittedOrKept) {
  const testkit::TestFolder folder;
  const std::string path = (folder.path() / "a.bin").string();
  { OutputFile(path).write("x"); }
  EXPECT_TRUE(fs::is_empty(folder.path()));
  OutputFile file(path);
  file.write("half");
  const std::string kept = file.keep();
  EXPECT_TRUE(kept.starts_with(path + ".new-"));
  EXPECT_EQ(content(kept), "half");
}

TEST(OutputFiles, TakeTheirPlacesTogether) {
  const testkit::TestFolder folder;
  const fs::path first = folder.path() / "a.csv", second = folder.path() / "no/b.csv";
  folder.write("a.csv", "old");
  folder.write("no", "a file where a folder would have to be");
  testkit::RecordedRun run;
  StageSite site;
  site.run = &run;
  OutputFiles files(site);
  files.add(first.string(), "new");
  EXPECT_THROW(files.add(second.string(), "new"), Error);
  EXPECT_EQ(content(first), "old");
  files.commit();
  EXPECT_EQ(content(first), "new");
}

// A full disk must not end a simultaneous training.
TEST(OutputFiles, EndNoTraining) {
  const testkit::TestFolder folder;
  folder.write("a.csv", "old");
  folder.write("no", "a file where a folder would have to be");
  testkit::RecordedRun run;
  StageSite site;
  site.graph = "validate";
  site.is_during_training = true;
  site.run = &run;
  OutputFiles files(site);
  files.add((folder.path() / "a.csv").string(), "new");
  files.add((folder.path() / "no/b.csv").string(), "new");
  files.commit();
  EXPECT_EQ(content(folder.path() / "a.csv"), "old");
  ASSERT_EQ(run.warnings().size(), 1U);
  EXPECT_MESSAGE(run.warnings()[0]);
  files.add((folder.path() / "a.csv").string(), "newer");
  files.commit();
  EXPECT_EQ(content(folder.path() / "a.csv"), "newer");
}

TEST(OutputFile, SyncedLaterHasItsNameAtOnce) {
  const testkit::TestFolder folder;
  const fs::path path = folder.path() / "1.png";
  OutputFile file(path.string(), OutputFile::Sync::later);
  file.write("bytes");
  file.commit();
  sync_files(folder.path().string());
  EXPECT_EQ(content(path), "bytes");
  EXPECT_THROW(sync_files((folder.path() / "nowhere").string()), Error);
}

TEST(OutputFile, NamesAFileThatCannotBeMade) {
  const testkit::TestFolder folder;
  folder.write("no", "no folder");
  const std::string path = (folder.path() / "no/a.bin").string();
  const Error error = testkit::error_of(ErrorKind::storage, [&] { OutputFile file(path); });
  EXPECT_NE(std::string(error.what()).find("cannot create '" + path), std::string::npos) << error.what();
}

// The cause used to be that of the file, "No such file or directory", instead of that of its folder.
TEST(OutputFile, SaysWhyItsFolderCannotBeMade) {
  EXPECT_MESSAGE(testkit::error_of(ErrorKind::storage, [&] { OutputFile file("/proc/self/no/a.bin"); }).what());
}

// Permissions alone would let root write there.
TEST(OutputPath, RefusesAFolderThatTakesNothing) {
  const testkit::TestFolder folder;
  const StepContext context;
  const std::string good = folder / "new/figures.csv";
  EXPECT_EQ(output_path(context, "file", good), good);
  EXPECT_TRUE(fs::is_empty(folder.path()));
  const Error error = testkit::error_of([&] { output_path(context, "file", "/proc/nope/figures.csv"); });
  EXPECT_MESSAGE(error.message());
}

TEST(OutputPath, IsAPathOfThisMachine) {
  const testkit::TestFolder folder;
  EXPECT_EQ(output_path({}, "file", "file://" + folder.path().string() + "/a%20b.csv"), folder / "a b.csv");
  EXPECT_MESSAGE(testkit::error_of(ErrorKind::usage, [&] { output_path({}, "file", "s3://bucket/figures.csv"); }).message());
}

// Leftovers of a run that was killed in its evaluation, including those outside its own folder.
TEST(OutputFolder, IsClearedOfWhatKilledProgramsDidNotFinishAndOfNothingElse) {
  const testkit::TestFolder folder;
  const StageSite context;
  const std::string mine = std::to_string(getpid());
  const std::vector<std::string> stay = {
      "evaluation/figures.csv", "evaluation/a.csv.new-" + mine,       "evaluation/notes.new-999999999",
      "evaluation/a.csv.new-x", "evaluation/young.csv.new-999999999", "elsewhere/b.csv.new-999999999"};
  const std::vector<std::string> go = {"evaluation/figures.csv.new-999999999", "evaluation/day/1.png.new-999999999",
                                       "evaluation/confusion.svg.new-999999999"};
  for (const auto* files : {&stay, &go}) {
    for (const std::string& file : *files) {
      folder.write(file, "x");
      if (file.find("young") == std::string::npos)
        fs::last_write_time(folder / file, fs::file_time_type::clock::now() - std::chrono::hours(2));
    }
  }
  fs::create_directory_symlink(folder.path() / "elsewhere", folder.path() / "evaluation/link");
  EXPECT_EQ(output_folder(context, "folder", folder / "evaluation", "figures.csv"), folder / "evaluation");
  for (const std::string& file : stay) EXPECT_TRUE(fs::exists(folder / file)) << file;
  for (const std::string& file : go) EXPECT_FALSE(fs::exists(folder / file)) << file;
}

TEST(Csv, IsQuotedWhereRfc4180AsksForIt) {
  const auto field = [](std::string_view text) {
    std::string line;
    append_csv(line, text);
    return line;
  };
  EXPECT_EQ(field("plain text; 'quoted'"), "plain text; 'quoted'");
  EXPECT_EQ(field(""), "");
  EXPECT_EQ(field("a,b"), "\"a,b\"");
  EXPECT_EQ(field("say \"a\""), "\"say \"\"a\"\"\"");
  EXPECT_EQ(field("two\nlines"), "two\\x0alines") << "a row is a line";
}

// Names are untrusted bytes, and tables are opened in spreadsheets.
TEST(Csv, NoNameIsAFormulaOrControlsATerminalAndEachCanBeHadBack) {
  const auto field = [](std::string_view text) {
    std::string line;
    append_csv(line, text);
    return line;
  };
  EXPECT_EQ(field("=1+1"), "\\x3d1+1");
  EXPECT_EQ(field("@eaDir/1.jpg"), "\\x40eaDir/1.jpg");
  EXPECT_EQ(field("-1"), "-1") << "a number is none";
  EXPECT_EQ(field("+0.5e-3"), "+0.5e-3");
  EXPECT_EQ(field("-1+cmd|' /C calc'!A0"), "\\x2d1+cmd|' /C calc'!A0");
  EXPECT_EQ(field("\t=1"), "\\x09=1");
  EXPECT_EQ(field("a;=1"), "a;\\x3d1") << "a semicolon separates cells in some countries";
  EXPECT_EQ(field("\xef\xbc\x9d"
                  "1"),
            "\\xef\\xbc\\x9d1");
  EXPECT_EQ(field("a=b-c@d"), "a=b-c@d");
  EXPECT_EQ(field("\x1b[2J"), "\\x1b[2J");
  EXPECT_EQ(field("K\xc3\xa4uzchen"), "K\xc3\xa4uzchen");
  for (const std::string_view name :
       {"=a", "=\\x41", "\xff\\x41=", "a\n\x7f", ";;@", "-", "\\=\\x3d;=", "\\xff", "\\x0a", "\xff", "\n", "C:\\data"}) {
    const std::string cell = field(name_text(name));
    EXPECT_EQ(bytes_of(cell.starts_with('"') ? cell.substr(1, cell.size() - 2) : cell), name);
    EXPECT_EQ(field(cell), cell) << "what has been escaped stays";
  }
}

TEST(Csv, EachColumnHasANameOfItsOwn) {
  EXPECT_EQ(csv_head({"path", "label", "cat", "a,b"}), "path,label,cat,\"a,b\"\r\n");
  EXPECT_EQ(csv_head({"path", "label", "label", "x"}), "path,label,label_2,x\r\n");
  EXPECT_EQ(csv_head({"path", "path", "path_2", "path"}), "path,path_3,path_2,path_4\r\n") << "path_2 keeps its own";
  EXPECT_EQ(csv_head({"a", "a_predicted", "a_predicted", "a_predicted_predicted"}),
            "a,a_predicted,a_predicted_2,a_predicted_predicted\r\n");
  EXPECT_EQ(csv_head({"=a", "\\x3da"}), "\\x3da,\\x3da_2\r\n") << "as they are written";
}

// Compares with the library that the framework uses to read JSON.
TEST(Json, IsReadAsTheSameTextAndControlsNoTerminal) {
  std::vector<std::string> texts = {"",
                                    "plain",
                                    "a \"b\" \\ c/d",
                                    "K\xc3\xa4uzchen \xe2\x82\xac \xf0\x9f\xa6\x89",
                                    "\x01\x1f\x7f",
                                    "\xed\xa0\x80",
                                    "\xc0\xaf",
                                    "\xf4\x90\x80\x80",
                                    "cut \xe2\x82",
                                    "\xff\xfe"};
  for (int first = 0; first < 256; ++first) texts.push_back({static_cast<char>(first), '\x80', '\xa0', 'x'});
  for (const std::string& text : texts) {
    std::string line;
    append_json(line, text);
    const auto read = nlohmann::json::parse(line, nullptr, false);
    ASSERT_TRUE(read.is_string()) << line;
    EXPECT_EQ(read.get<std::string>(), utf8_text(text));
    EXPECT_EQ(terminal_text(line), line);
  }
}

}  // namespace
}  // namespace millrace
