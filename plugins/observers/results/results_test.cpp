#include <fmt/format.h>

#include "millrace/observer.h"
#include "observer_fixture.h"
#include "testkit/small_files.h"

namespace millrace::observer_test {
namespace {

class ResultsObserverTest : public ObserverFixture {};

TEST_F(ResultsObserverTest, HasARowForEachEpochAndPass) {
  const auto observer = make("results");
  observer->start(start_event(), control_);
  observer->epoch(epoch_event());
  EXPECT_EQ(text_of("results.csv"),
            "graph,epoch,step,images_per_second,seconds,loss,accuracy,top5\ntrain,1,4,100,2,0.25,0.5,0.75\n");
  observer->epoch(epoch_event());
  EXPECT_EQ(text_of("results.csv"),
            "graph,epoch,step,images_per_second,seconds,loss,accuracy,top5\ntrain,1,4,100,2,0.25,0.5,0.75\n"
            "train,1,4,100,2,0.25,0.5,0.75\n");
}

TEST_F(ResultsObserverTest, ANewFigureIsANewColumn) {
  const auto observer = make("results");
  observer->start(start_event(), control_);
  observer->epoch(epoch_event());
  observer->pass(pass_event());
  EXPECT_EQ(text_of("results.csv"),
            "graph,epoch,step,images_per_second,seconds,loss,accuracy,top5,mean_iou\ntrain,1,4,100,2,0.25,0.5,0.75,\n"
            "validate,1,4,260,0.5,0.5,,,0.125\n");
}

TEST_F(ResultsObserverTest, SaysOfWhichStepTheBestWeightsAre) {
  const auto observer = make("results");
  observer->start(start_event(), control_);
  PassEvent pass = pass_event();
  observer->pass(pass);
  pass.best_step = 3;
  observer->pass(pass);
  EXPECT_EQ(text_of("results.csv"),
            "graph,epoch,step,images_per_second,seconds,loss,mean_iou,best_step\nvalidate,1,4,260,0.5,0.5,0.125,\n"
            "validate,1,4,260,0.5,0.5,0.125,3\n");
}

TEST_F(ResultsObserverTest, ARunThatGoesOnKeepsTheRowsBeforeIt) {
  PassEvent pass = pass_event();
  pass.graph = "a \"b\", c";
  {
    const auto observer = make("results");
    observer->start(start_event(), control_);
    observer->pass(pass);  // at step 4
    pass.step = 8;
    observer->pass(pass);
  }
  RunStart resumed = start_event();
  resumed.resumed = true;
  resumed.first_step = 5;
  resumed.checkpoint_step = 4;
  const auto observer = make("results");
  observer->start(resumed, control_);
  observer->epoch(epoch_event());
  EXPECT_EQ(text_of("results.csv"),
            "graph,epoch,step,images_per_second,seconds,loss,mean_iou,accuracy,top5\n"
            "\"a \"\"b\"\", c\",1,4,260,0.5,0.5,0.125,,\n"
            "train,1,4,100,2,0.25,,0.5,0.75\n");
}

TEST_F(ResultsObserverTest, CountsStepsAnewWhereBatchesHaveGrown) {
  {
    const auto observer = make("results");
    observer->start(start_event(), control_);
    for (const std::uint64_t step : {5, 10, 15, 20}) {
      PassEvent pass = pass_event();
      pass.figures = {{"loss", 0.5, false, false}};
      pass.step = step;
      pass.best_step = step == 15 ? 10 : 0;
      observer->pass(pass);
    }
  }
  RunStart resumed = start_event();
  resumed.resumed = true;
  resumed.checkpoint_step = 15;
  resumed.first_step = 7;
  const auto observer = make("results");
  observer->start(resumed, control_);
  PassEvent pass = pass_event();
  pass.figures = {{"loss", 0.25, false, false}};
  pass.step = 8;
  observer->pass(pass);
  EXPECT_EQ(text_of("results.csv"),
            "graph,epoch,step,images_per_second,seconds,loss,best_step\n"
            "validate,1,2,260,0.5,0.5,\nvalidate,1,4,260,0.5,0.5,\nvalidate,1,6,260,0.5,0.5,4\nvalidate,1,8,260,0.5,0.25,\n");
}

TEST_F(ResultsObserverTest, KeepsItsRowsOverAFullDiskAndWritesThemWholeLater) {
  const auto observer = make("results");
  observer->start(start_event(), control_);
  observer->epoch(epoch_event());
  const std::string before = text_of("results.csv");
  PassEvent pass = pass_event();
  pass.class_matrix = {6, 2, 0, 2};
  {
    const testkit::SmallFiles full(10);
    for (int i = 0; i < 2; ++i) observer->pass(pass);  // with a new column
    EXPECT_EQ(text_of("results.csv"), before);
  }
  ASSERT_EQ(control_.texts.size(), 3U);
  EXPECT_NE(control_.texts[0].find("results.csv keeps its old content until it can be written: cannot write '"),
            std::string::npos)
      << control_.texts[0];
  observer->pass(pass);
  observer->sync();
  const std::string row = "validate,1,4,260,0.5,0.5,,,0.125\n";
  EXPECT_EQ(text_of("results.csv"),
            "graph,epoch,step,images_per_second,seconds,loss,accuracy,top5,mean_iou\ntrain,1,4,100,2,0.25,0.5,0.75,\n" + row +
                row + row);
  EXPECT_NE(text_of("confusion.csv"), "");
  EXPECT_EQ(control_.texts.size(), 3U) << "each file is named once";
}

// Rows partly in the file and partly waiting for the disk when a new column comes.
TEST_F(ResultsObserverTest, ANewColumnKeepsRowsThatWait) {
  const auto observer = make("results");
  observer->start(start_event(), control_);
  EpochEvent epoch = epoch_event();
  for (epoch.step = 1; epoch.step <= 2; ++epoch.step) observer->epoch(epoch);
  {
    const testkit::SmallFiles full(10);
    for (; epoch.step <= 4; ++epoch.step) observer->epoch(epoch);
    observer->pass(pass_event());
  }
  observer->epoch(epoch);
  std::string rows;
  for (int step = 1; step <= 4; ++step) rows += fmt::format("train,1,{},100,2,0.25,0.5,0.75,\n", step);
  EXPECT_EQ(text_of("results.csv"), "graph,epoch,step,images_per_second,seconds,loss,accuracy,top5,mean_iou\n" + rows +
                                        "validate,1,4,260,0.5,0.5,,,0.125\ntrain,1,5,100,2,0.25,0.5,0.75,\n");
}

TEST_F(ResultsObserverTest, AFileThatWasRemovedIsMadeAgain) {
  const auto observer = make("results");
  observer->start(start_event(), control_);
  observer->epoch(epoch_event());
  std::filesystem::remove(folder_ / "results.csv");
  observer->pass(pass_event());  // with a new column
  EXPECT_EQ(text_of("results.csv"),
            "graph,epoch,step,images_per_second,seconds,loss,accuracy,top5,mean_iou\n"
            "validate,1,4,260,0.5,0.5,,,0.125\n");
}

TEST_F(ResultsObserverTest, AFileThatWasMovedAwayIsBegunAnewAndThatIsSaidOnce) {
  const auto observer = make("results");
  observer->start(start_event(), control_);
  observer->epoch(epoch_event());
  observer->sync();
  EXPECT_EQ(control_.texts, std::vector<std::string>{});
  const std::filesystem::path path = folder_ / "results.csv";
  std::filesystem::rename(path, folder_ / "results.csv.1");
  observer->sync();
  observer->epoch(epoch_event());
  observer->end({});
  EXPECT_EQ(text_of("results.csv"), text_of("results.csv.1")) << "a header and one row each";
  EXPECT_EQ(control_.texts, std::vector<std::string>{"'" + path.string() +
                                                     "' was moved or removed: rows from here on are in a new file of this name"});
}

TEST_F(ResultsObserverTest, QuotesNamesThatNeedIt) {
  const auto observer = make("results");
  observer->start(start_event(), control_);
  PassEvent pass = pass_event();
  pass.graph = "a \"b\", c";
  pass.figures = {{"loss", std::numeric_limits<double>::quiet_NaN(), false, false}};
  observer->pass(pass);
  EXPECT_EQ(text_of("results.csv"), "graph,epoch,step,images_per_second,seconds,loss\n\"a \"\"b\"\", c\",1,4,260,0.5,\n");
}

TEST_F(ResultsObserverTest, TellsWhatEachClassWasPredictedAsInTheNewestPass) {
  const auto observer = make("results");
  observer->start(start_event(), control_);
  PassEvent pass = pass_event();
  pass.classes = {"road", "a, b"};
  pass.class_matrix = {100, 1, 1, 1};
  observer->pass(pass);
  pass.epoch = 2;
  pass.class_matrix = {6, 2, 0, 2};
  observer->pass(pass);
  pass.graph = "test";
  pass.classes.clear();
  pass.class_matrix = {3};
  observer->pass(pass);
  EXPECT_EQ(text_of("confusion.csv"),
            "graph,epoch,class,predicted,count,share\r\ntest,2,0,0,3,1\r\nvalidate,2,road,road,6,0.75\r\n"
            "validate,2,road,\"a, b\",2,0.25\r\nvalidate,2,\"a, b\",road,0,0\r\nvalidate,2,\"a, b\",\"a, b\",2,1\r\n");
  EXPECT_EQ(text_of("classes.csv"),
            "graph,epoch,class,count,accuracy,precision,f1,iou\r\ntest,2,0,3,1,1,1,1\r\n"
            "validate,2,road,8,0.75,1,0.8571428571428571,0.75\r\n"
            "validate,2,\"a, b\",2,1,0.5,0.6666666666666666,0.5\r\n");
}

TEST_F(ResultsObserverTest, WritesNoClassesWhereTheLossCountsNone) {
  const auto observer = make("results");
  observer->start(start_event(), control_);
  observer->pass(pass_event());
  for (const char* file : {"confusion.csv", "classes.csv"}) EXPECT_FALSE(std::filesystem::exists(folder_ / file)) << file;
  const std::string& text = registry().observers().find("results")->text;
  EXPECT_NE(text.find("Pixel class losses add two files about the newest pass: confusion.csv "), std::string::npos)
      << text;
}

}  // namespace
}  // namespace millrace::observer_test
