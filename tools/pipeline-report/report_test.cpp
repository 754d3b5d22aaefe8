#include "report.h"

#include <gtest/gtest.h>

#include <fstream>

#include "millrace/error.h"
#include "testkit/files.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

class Report : public testing::Test {
 protected:
  // A run of three steps with one validation.
  void write(const std::string& name, const std::string& rate, double accuracy, const std::string& last) const {
    const fs::path folder = own_.path() / name;
    fs::create_directories(folder);
    std::ofstream(folder / "pipeline.toml") << "[run]\nname = \"" << name
                                            << "\"\nepochs = 1\n\n[train]\nflow = [\"a\"]\n\n[train.a]\nrate = " << rate << '\n';
    std::ofstream lines(folder / "metrics.jsonl");
    lines << R"({"event":"start","name":"n","epochs":1.0,"first_step":1,"steps":3,"elapsed_seconds":0})" << '\n';
    for (int step = 1; step <= 3; ++step) {
      lines << R"({"event":"step","epoch":1,"step":)" << step << R"(,"loss":)" << 4 - step << ",\"images_per_second\":100}\n";
    }
    lines << R"({"event":"epoch","epoch":1,"step":3,"loss":2,"images_per_second":100,"seconds":1})" << '\n';
    lines << R"({"event":"validate","graph":"validate","step":3,"loss":1.5,"accuracy":)" << accuracy << "}\n" << last;
  }
  std::vector<RunRecord> runs() const {
    std::vector<RunRecord> read;
    for (const fs::path& folder : run_folders({own_.path().string()})) read.push_back(read_run(folder));
    return read;
  }
  static std::string names(const std::vector<RunRecord>& runs) {
    std::string text;
    for (const RunRecord& run : runs) text += run.folder.filename().string() + " ";
    return text;
  }
  const testkit::TestFolder own_;
  const std::string done_ = R"({"event":"end","step":3,"elapsed_seconds":12})";
};

TEST_F(Report, PutsTheBestFirst) {
  write("a", "0.1", 0.25, done_);
  write("b", "0.2", 0.75, done_);
  write("c", "0.2", 0.5, "{\"event\":\"st");  // killed
  std::vector<RunRecord> all = runs();
  EXPECT_EQ(names(all), "a b c ");
  sort_runs(all, "accuracy");
  EXPECT_EQ(names(all), "b c a ");
  EXPECT_EQ(all[0].state, "done");
  EXPECT_EQ(all[1].state, "no end");
  EXPECT_EQ(all[1].unread_lines, 1U);
  EXPECT_NE(runs_table(all).find("0.75"), std::string::npos);
  try {
    sort_runs(all, "acuracy");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "--sort acuracy: no run has this figure; there are name, seconds, step, images_per_second, train.loss, "
                 "validate.accuracy, validate.loss");
  }
}

TEST_F(Report, NamesTheKeysThatDiffer) {
  write("a", "0.1", 0.25, done_);
  write("b", "0.2", 0.75, done_);
  const std::string table = differences_table(runs());
  EXPECT_NE(table.find("train.a.rate"), std::string::npos) << table;
  EXPECT_EQ(table.find("epochs"), std::string::npos) << table;
  EXPECT_EQ(table.find("run.name"), std::string::npos) << table;
}

TEST_F(Report, LetsNoNameEndTheDataOfItsPage) {
  write("<script>alert(1)", "0.1", 0.25, done_);
  const std::string page = comparison_page(runs());
  EXPECT_EQ(page.find("<script>alert"), std::string::npos);
  EXPECT_NE(page.find("\\u003cscript>alert(1)"), std::string::npos);
}

TEST_F(Report, SaysThatAFolderHasNoRun) { EXPECT_THROW(run_folders({own_.path().string()}), Error); }

}  // namespace
}  // namespace millrace
