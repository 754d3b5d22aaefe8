#include <algorithm>

#include "millrace/observer.h"
#include "observer_fixture.h"

namespace millrace::observer_test {
namespace {

class LedgerObserverTest : public ObserverFixture {};

TEST_F(LedgerObserverTest, NamesEveryBadSample) {
  const auto observer = make("ledger");
  observer->start(start_event(), control_);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "quarantine.jsonl"));
  const std::string line =
      R"({"graph":"train","path":"a.tar","member":"b.jpg","offset":512,"stage":"decode_image","cause":"the file is empty",)"
      R"("action":"replaced","epoch":1,"position":7,"index":9,"attempt":0})"
      "\n";
  observer->bad_sample(bad_sample_event(1));
  EXPECT_EQ(text_of("quarantine.jsonl"), line);
  observer->bad_sample(bad_sample_event(2));
  EXPECT_EQ(text_of("quarantine.jsonl"), line + line);
}

TEST_F(LedgerObserverTest, ARunThatGoesOnKeepsItsLines) {
  for (const bool resumed : {false, true}) {
    RunStart start = start_event();
    start.resumed = resumed;
    const auto observer = make("ledger");
    observer->start(start, control_);
    observer->bad_sample(bad_sample_event(resumed ? 2 : 1));
  }
  const std::string text = text_of("quarantine.jsonl");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
}

// The checkpoint counts one bad sample. The run was killed after the third, in the middle of a line.
TEST_F(LedgerObserverTest, LinesOfStepsThatAreMadeAgainAreCutOff) {
  RunStart start = start_event();
  start.resumed = true;
  for (const bool comes_again : {true, false}) {
    std::ofstream(folder_ / "quarantine.jsonl", std::ios::trunc) << "{\"epoch\":1}\n{\"epoch\":2}\n{\"epo";
    const auto observer = make("ledger");
    observer->start(start, control_);
    if (comes_again) observer->bad_sample(bad_sample_event(2));
    RunEnd end;
    end.bad_samples = comes_again ? 2 : 1;
    observer->end(end);
    const std::string text = text_of("quarantine.jsonl");
    EXPECT_EQ(text.substr(0, 12), "{\"epoch\":1}\n") << text;
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), comes_again ? 2 : 1) << text;
    EXPECT_EQ(text.find("\"epoch\":2"), std::string::npos) << text;
  }
}

TEST_F(LedgerObserverTest, HasAPlaceOfItsOwnWhereItIsToldOne) {
  RunStart start = start_event();
  start.folder.clear();
  Value table;
  table.set("file", Value((folder_ / "here.jsonl").string()));
  const auto observer = make("ledger", table);
  observer->start(start, control_);
  observer->bad_sample(bad_sample_event(1));
  EXPECT_EQ(text_of("here.jsonl").substr(0, 16), "{\"graph\":\"train\"");
}

TEST_F(LedgerObserverTest, WritesNothingInARunWithoutAFolder) {
  RunStart start = start_event();
  start.folder.clear();
  const auto observer = make("ledger");
  observer->start(start, control_);
  observer->bad_sample(bad_sample_event(1));
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

}  // namespace
}  // namespace millrace::observer_test
