#include "observer_fixture.h"

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
  const auto observer = make("results");
  observer->start(resumed, control_);
  observer->epoch(epoch_event());
  EXPECT_EQ(text_of("results.csv"),
            "graph,epoch,step,images_per_second,seconds,loss,mean_iou,accuracy,top5\n"
            "\"a \"\"b\"\", c\",1,4,260,0.5,0.5,0.125,,\n"
            "train,1,4,100,2,0.25,,0.5,0.75\n");
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

}  // namespace
}  // namespace millrace::observer_test
