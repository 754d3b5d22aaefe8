#include "report.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "millrace/error.h"
#include "testkit/files.h"
#include "testkit/messages.h"

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
  EXPECT_MESSAGE(testkit::error_of([&] { sort_runs(all, "acuracy"); }).what());
}

// "lossy" contains "loss", but its recall is not a loss. A metric of one class has a column on request.
TEST_F(Report, SortsByWhatTheRunSaysIsBetter) {
  const std::string kinds = R"("higher_is_better":["accuracy","recall.lossy"],"details":["recall.lossy"])";
  const auto line = [&](double recall) {
    return fmt::format("{{\"event\":\"validate\",\"graph\":\"validate\",\"step\":3,\"recall.lossy\":{},{}}}\n", recall, kinds) +
           done_;
  };
  write("a", "0.1", 0.75, line(0.25));
  write("b", "0.2", 0.25, line(0.5));
  std::vector<RunRecord> all = runs();
  EXPECT_EQ(runs_table(all).find("recall"), std::string::npos);
  sort_runs(all, "validate.recall.lossy");
  EXPECT_EQ(names(all), "b a ");
  EXPECT_NE(runs_table(all, "recall.lossy").find("validate.recall.lossy"), std::string::npos);
}

TEST_F(Report, ShowsAFigureThatIsNotFiniteAndPutsItLast) {
  write("a", "0.1", 0.25, R"({"event":"validate","graph":"validate","step":3,"loss":null,"accuracy":0.75})");
  write("b", "0.2", 0.5, "{\"event\":\"epoch\",\"step\":\"three\"}\n{\"event\":\"step\",\"step\":null}\n" + done_);
  std::vector<RunRecord> all = runs();
  EXPECT_TRUE(std::isnan(all[0].figures.at("validate.loss")));
  EXPECT_EQ(all[1].unread_lines, 2U);
  EXPECT_EQ(all[1].state, "done");
  sort_runs(all, "loss");
  EXPECT_EQ(names(all), "b a ");
  EXPECT_NE(runs_table(all).find("not finite"), std::string::npos) << runs_table(all);
}

TEST_F(Report, ForgetsWhatWasUndoneByAResume) {
  write("a", "0.1", 0.25,
        R"({"event":"validate","graph":"validate","step":5,"accuracy":0.75}
{"event":"validate","graph":"test","step":5,"accuracy":1}
{"event":"resume","step":3,"steps":9}
{"event":"validate","graph":"validate","step":3,"best_step":2,"accuracy":0.5})");
  const RunRecord run = runs()[0];
  EXPECT_EQ(run.step, 3U);
  EXPECT_FALSE(run.figures.contains("test.accuracy"));
  EXPECT_EQ(run.figures.at("validate.loss"), 1.5);
  EXPECT_EQ(run.figures.at("validate.accuracy"), 0.5);
  EXPECT_EQ(run.curves.at("validate.accuracy").json(), "[[3,0.25,0.25,0.25,0.25]]") << "the best weights stand where they were";
}

TEST_F(Report, CountsStepsAsTheNewestBatchesDo) {
  write("a", "0.1", 0.25,
        R"({"event":"validate","graph":"validate","step":20,"accuracy":0.5}
{"event":"validate","graph":"validate","step":30,"accuracy":1}
{"event":"resume","step":20,"first_step":9,"steps":12}
{"event":"validate","graph":"validate","step":12,"accuracy":0.75}
{"event":"resume","step":12,"first_step":13,"steps":12})");
  const RunRecord run = runs()[0];
  EXPECT_EQ(run.step, 12U);
  EXPECT_EQ(run.figures.at("validate.accuracy"), 0.75);
  EXPECT_EQ(run.curves.at("validate.accuracy").json(), "[[2,0.25,0.25,0.25,0.25],[8,0.5,0.5,0.5,0.5],[12,0.75,0.75,0.75,0.75]]");
}

TEST_F(Report, CallsAPassOfOneGraphAnEvaluation) {
  write("a", "0.1", 0.25, done_);
  std::ofstream(own_.path() / "a" / "metrics.jsonl") << R"({"event":"start","name":"n","epochs":1.0,"first_step":1,"steps":2}
{"event":"validate","graph":"validate","epoch":0,"step":0,"accuracy":0.225}
{"event":"end","epoch":0,"step":0,"bad_samples":0,"elapsed_seconds":3})";
  const std::string table = runs_table(runs());
  EXPECT_NE(table.find("evaluation"), std::string::npos) << table;
  EXPECT_EQ(table.find("0/2"), std::string::npos) << table;
}

TEST_F(Report, ListsARunOnceHoweverItIsNamed) {
  write("a", "0.1", 0.25, done_);
  const std::string all = own_.path().string(), one = (own_.path() / "a").string();
  EXPECT_EQ(run_folders({one, all}).size(), 1U);
  EXPECT_EQ(run_folders({all, one, all}).size(), 1U);
}

// "9 s" is shorter than "1 min 40 s", and the best of a mean absolute error is the least. The columns are run, state, steps,
// accuracy, loss and mae of validation, the loss of training, images per second and the time.
TEST_F(Report, GivesItsPageNumbersToSortBy) {
  write("a", "0.1", 0.25, R"({"event":"validate","graph":"validate","step":3,"mae":2}
{"event":"end","step":3,"elapsed_seconds":100})");
  const std::string page = comparison_page(runs());
  EXPECT_NE(page.find(R"("low_first":[true,true,false,false,true,true,true,false,true],)"
                      R"("numbers":[[null,null,3.0,0.25,1.5,2.0,2.0,100.0,100.0]])"),
            std::string::npos)
      << page.substr(page.find("\"headings\""), 400);
}

TEST_F(Report, NamesTheKeysThatDiffer) {
  write("a", "0.1", 0.25, done_);
  write("b", "0.2", 0.75, done_);
  const std::string table = differences_table(runs());
  EXPECT_NE(table.find("train.a.rate"), std::string::npos) << table;
  EXPECT_EQ(table.find("epochs"), std::string::npos) << table;
  EXPECT_EQ(table.find("run.name"), std::string::npos) << table;
}

TEST_F(Report, KeepsItsWidthWithManyRuns) {
  for (int i = 0; i < 30; ++i) write(fmt::format("run{:02}", i), fmt::format("{}", 0.25 * (30 - i)), 0.5, done_);
  const std::string table = differences_table(runs());
  EXPECT_LT(table.find('\n'), 80U) << table;
  EXPECT_NE(table.find("run29  0.25"), std::string::npos) << table;
  EXPECT_NE(comparison_page(runs()).find("[null,null,3.0,0.5,1.5,2.0,100.0,12.0,7.5]"), std::string::npos) << "sorts by the key";
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
