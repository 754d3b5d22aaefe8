#include <algorithm>

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
    observer->bad_sample(bad_sample_event(1));
  }
  const std::string text = text_of("quarantine.jsonl");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
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
