#include "report/observers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "millrace/error.h"
#include "report/requests.h"
#include "testkit/files.h"
#include "testkit/messages.h"

namespace millrace {
namespace {

using namespace std::chrono_literals;

// Records its events, and can be blocked, or fail. Thread-safe.
class Notes : public RunObserver {
 public:
  void start(const RunStart& e, RunControl& control) override {
    note("start " + e.name);
    if (e.name == "asks") control.warn("started");
    started_ = true;
  }
  void step(const StepEvent& e) override { note("step " + std::to_string(e.step)); }
  void epoch(const EpochEvent& e) override { note("epoch " + std::to_string(e.epoch)); }
  void warning(const WarningEvent& e) override { note("warning " + e.text); }
  void request(const RequestEvent& e) override {
    static constexpr const char* kStates[] = {"asked", "completed", "refused"};
    note(std::string(kStates[static_cast<int>(e.state)]) + " " + to_string(e.kind) + " by " + e.by + " " + e.text);
  }
  void tick(const TickEvent& e) override { note("tick " + std::to_string(e.step)); }
  void telemetry(const TelemetryEvent& e) override { note("telemetry " + std::to_string(e.step)); }
  void end(const RunEnd& e) override {
    dropped_ = e.dropped;
    note("end");
  }
  void flush() override { note("flush"); }

  std::vector<std::string> notes() const {
    const std::lock_guard lock(mutex_);
    return notes_;
  }
  std::uint64_t dropped() const { return dropped_; }
  bool started() const { return started_; }
  std::thread::id thread() const { return thread_; }
  void hold() {
    const std::lock_guard lock(mutex_);
    held_ = true;
  }
  void release() {
    const std::lock_guard lock(mutex_);
    held_ = false;
    changed_.notify_all();
  }
  void fail_at(std::string what) { fail_at_ = std::move(what); }

 private:
  void note(const std::string& what) {
    std::unique_lock lock(mutex_);
    thread_ = std::this_thread::get_id();
    changed_.wait(lock, [this] { return !held_; });
    notes_.push_back(what);
    if (what == fail_at_) fail(ErrorKind::run, "the pencil broke");
  }
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> notes_;
  bool held_ = false;
  std::string fail_at_;
  std::atomic<std::uint64_t> dropped_{0};
  std::atomic<bool> started_{false};
  std::thread::id thread_;
};

using Lines = std::vector<std::string>;

StepEvent step(std::uint64_t number) {
  StepEvent event;
  event.step = number;
  return event;
}
TickEvent tick(std::uint64_t number) {
  TickEvent event;
  event.step = number;
  return event;
}
EpochEvent epoch(std::uint64_t number) {
  EpochEvent event;
  event.epoch = number;
  return event;
}
RunStart start(const std::string& name) {
  RunStart event;
  event.name = name;
  return event;
}

class ObserversTest : public testing::Test {
 protected:
  std::shared_ptr<Notes> add(const std::string& name, Delivery delivery) {
    auto notes = std::make_shared<Notes>();
    observers_->add(name, delivery, notes, requests_.control("observer " + name));
    return notes;
  }
  void end() { observers_->end({}, {}); }

  Requests requests_{[this](ObserverEvent event) { observers_->send(std::move(event)); }};
  std::unique_ptr<Observers> observers_ = std::make_unique<Observers>();
};

TEST_F(ObserversTest, AllIsToldInOrderOnOneThread) {
  const auto notes = add("metrics", Delivery::all);
  observers_->warn("early");
  observers_->start(start("r"), {});
  for (std::uint64_t s = 1; s <= 3; ++s) observers_->send(step(s));
  observers_->send(epoch(1));
  observers_->flush({});
  EXPECT_EQ(notes->notes(), (Lines{"warning early", "start r", "step 1", "step 2", "step 3", "epoch 1", "flush"}));
  EXPECT_NE(notes->thread(), std::this_thread::get_id());
  end();
  EXPECT_EQ(notes->notes().back(), "end");
  EXPECT_EQ(notes->dropped(), 0U);
}

TEST_F(ObserversTest, LatestLosesStepsAndTicksAndCountsThem) {
  const auto notes = add("page", Delivery::latest);
  notes->hold();
  observers_->start(start("r"), {});  // not waited for
  for (std::uint64_t s = 1; s <= 1000; ++s) {
    observers_->send(step(s));
    observers_->send(tick(s));
  }
  observers_->send(epoch(1));
  notes->release();
  while (notes->notes().empty() || notes->notes().back() != "tick 1000") std::this_thread::sleep_for(1ms);
  end();
  const Lines told = notes->notes();
  ASSERT_EQ(told.size(), 1 + Observers::kMaxKept + 3);
  EXPECT_EQ(told[0], "start r");
  EXPECT_EQ(told[1], "step " + std::to_string(1001 - Observers::kMaxKept));
  EXPECT_EQ(told[Observers::kMaxKept], "step 1000");
  EXPECT_EQ(told[Observers::kMaxKept + 1], "epoch 1");
  EXPECT_EQ(notes->dropped(), 1000 - Observers::kMaxKept + 999);
}

TEST_F(ObserversTest, TheRunLearnsWhoIsBehind) {
  const auto notes = add("metrics", Delivery::all), page = add("page", Delivery::latest);
  notes->hold();
  page->hold();
  observers_->send(step(1));
  while (!observers_->behind(1).empty()) std::this_thread::sleep_for(1ms);  // until it is inside the call
  for (std::uint64_t s = 1; s < Observers::kMaxBehind; ++s) observers_->send(step(s));
  EXPECT_EQ(observers_->behind(Observers::kMaxBehind), "");
  observers_->send(step(0));
  EXPECT_EQ(observers_->behind(Observers::kMaxBehind), "metrics");
  notes->release();
  while (!observers_->behind(1).empty()) std::this_thread::sleep_for(1ms);
  observers_->flush({});
  EXPECT_EQ(notes->notes().size(), Observers::kMaxBehind + 2);
  page->release();
}

TEST_F(ObserversTest, AFlushNamesWhomItWaitsFor) {
  const auto notes = add("metrics", Delivery::all);
  notes->hold();
  observers_->send(step(1));
  Lines waited;
  observers_->flush([&](const std::string& observer) {
    waited.push_back(observer);
    notes->release();
  });
  ASSERT_FALSE(waited.empty());
  EXPECT_EQ(waited[0], "metrics");
  EXPECT_EQ(notes->notes(), (Lines{"step 1", "flush"}));
}

TEST_F(ObserversTest, OneThatFailsIsNamedAndToldNothingMore) {
  for (const Delivery delivery : {Delivery::all, Delivery::latest}) {
    observers_ = std::make_unique<Observers>();
    const auto broken = add("broken", delivery), whole = add("whole", Delivery::all);
    broken->fail_at("step 2");
    observers_->start(start("r"), {});
    for (std::uint64_t s = 1; s <= 3; ++s) observers_->send(step(s));
    while (whole->notes().size() < 5) std::this_thread::sleep_for(1ms);
    observers_->send(step(4));
    end();
    EXPECT_EQ(broken->notes().back(), "step 2");
    const Lines told = whole->notes();
    EXPECT_EQ(std::count(told.begin(), told.end(),
                         "warning observer 'broken' failed, and receives no further events: the pencil broke"),
              1);
    EXPECT_EQ(told.back(), "end");
  }
}

TEST_F(ObserversTest, OneThatCannotStartEndsTheRunWhereNothingMayBeLost) {
  const auto notes = add("metrics", Delivery::all);
  notes->fail_at("start r");
  EXPECT_MESSAGE(testkit::error_of([&] { observers_->start(start("r"), {}); }).what());
}

TEST_F(ObserversTest, OneThatFailsAtItsEndFailsTheRunWhereNothingMayBeLost) {
  const auto whole = add("whole", Delivery::all), page = add("page", Delivery::latest), metrics = add("metrics", Delivery::all);
  page->fail_at("end");
  metrics->fail_at("end");
  observers_->start(start("r"), {});
  EXPECT_MESSAGE(testkit::error_of([this] { end(); }).what());
  observers_.reset();
  const Lines told = whole->notes();
  EXPECT_EQ(
      std::count(told.begin(), told.end(), "warning observer 'page' failed, and receives no further events: the pencil broke"),
      1);
  EXPECT_EQ(std::count_if(told.begin(), told.end(), [](const auto& line) { return line.starts_with("warning"); }), 1);
}

// The page continues after the patience of the end, when called about 20 times a second.
TEST_F(ObserversTest, TheEndDoesNotWaitForAllThatASlowPageHasMissed) {
  observers_ = std::make_unique<Observers>(Observers::Patience{.catch_up = 0.1, .call = 100});
  const auto notes = add("page", Delivery::latest);
  notes->hold();
  observers_->start(start("r"), {});
  for (std::uint64_t e = 1; e <= 100; ++e) observers_->send(epoch(e));
  int calls = 0;
  observers_->end({}, [&](const std::string&) {
    if (++calls > 4) notes->release();
  });
  EXPECT_EQ(notes->notes(), (Lines{"start r", "end"}));
  EXPECT_EQ(notes->dropped(), 100U);
}

// Like a write to a pipe whose reader has stopped. It returns after the run, and then uses its control.
TEST_F(ObserversTest, TheEndLeavesOneAloneWhoseCallDoesNotReturn) {
  observers_ = std::make_unique<Observers>(Observers::Patience{.catch_up = 0.05, .call = 0.1});
  const auto stuck = add("page", Delivery::latest), whole = add("metrics", Delivery::all);
  stuck->hold();
  observers_->start(start("asks"), {});
  end();
  observers_.reset();
  const Lines told = whole->notes();
  EXPECT_MESSAGE(told.back());
  stuck->release();
  while (!stuck->started()) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(stuck->notes(), Lines{"start asks"});
}

TEST_F(ObserversTest, TheEndComesBehindTheLastTelemetry) {
  const auto notes = add("page", Delivery::latest), other = add("top", Delivery::latest);
  observers_->start(start("r"), {});
  while (notes->notes().empty()) std::this_thread::sleep_for(1ms);
  notes->hold();
  observers_->send(epoch(1));
  TelemetryEvent telemetry;
  telemetry.step = 5;
  observers_->send(telemetry);
  std::thread releases([&] {
    while (other->notes().empty() || other->notes().back() != "end") std::this_thread::sleep_for(1ms);
    notes->release();
  });
  end();
  releases.join();
  EXPECT_EQ(notes->notes(), (Lines{"start r", "epoch 1", "telemetry 5", "end"}));
}

TEST_F(ObserversTest, WhatWasToldIsDeliveredEvenIfTheRunNeverBegan) {
  const auto notes = add("console", Delivery::latest);
  observers_->warn("no device");
  observers_->warn("no device");
  end();
  observers_.reset();
  EXPECT_EQ(notes->notes(), Lines{"warning no device"}) << "the same warning is said once";
}

TEST_F(ObserversTest, RequestsAreToldWhenTheyAreAskedAndWhatBecameOfThem) {
  const auto notes = add("metrics", Delivery::all);
  RunControl& control = requests_.control("observer page");
  control.save();
  control.stop();
  std::vector<RequestEvent> taken;
  requests_.give_to([&](RequestEvent request, std::uint64_t) { taken.push_back(std::move(request)); });
  ASSERT_EQ(taken.size(), 2U);
  requests_.complete(taken[0], 12, "a.safetensors");
  requests_.refuse(taken[1], "the run was over");
  control.warn("careful");
  observers_->flush({});
  EXPECT_EQ(notes->notes(), (Lines{"asked save by observer page ", "asked stop by observer page ",
                                   "completed save by observer page a.safetensors",
                                   "refused stop by observer page the run was over", "warning careful", "flush"}));
}

TEST_F(ObserversTest, AFactorHoldsFromItsStepOnUntilTheNext) {
  const auto notes = add("metrics", Delivery::all);
  RunControl& control = requests_.control("observer page");
  EXPECT_EQ(requests_.factor(5), 1);
  control.rate_factor(0.5);
  EXPECT_EQ(requests_.factor(5), 1);
  requests_.set_factor(10, 0.5);
  for (const double slip : {-1.0, 0.0, 1e300, std::nan("")}) control.rate_factor(slip);
  requests_.set_factor(20, 0.1);
  for (const auto& [at, factor] : std::vector<std::pair<std::uint64_t, double>>{{9, 1}, {10, 0.5}, {19, 0.5}, {20, 0.1}}) {
    EXPECT_EQ(requests_.factor(at), factor) << "step " << at;
  }
  observers_->flush({});
  const Lines told = notes->notes();
  for (const char* slip : {"-1", "0", "1e+300", "nan"}) {
    EXPECT_EQ(
        std::count(told.begin(), told.end(),
                   fmt::format("refused rate_factor by observer page the factor must be from 0.001 to 1000, found {}", slip)),
        1)
        << slip;
  }
}

}  // namespace
}  // namespace millrace
