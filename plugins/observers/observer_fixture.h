// An observer of the plugin and a folder for its files, for tests.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "millrace/observer.h"
#include "millrace/plugin.h"
#include "millrace/util/load_plugins.h"
#include "testkit/files.h"

namespace millrace::observer_test {

// The observer's run control; only receives warnings.
class Warnings final : public RunControl {
 public:
  void stop() override { ADD_FAILURE() << "stop"; }
  void save() override { ADD_FAILURE() << "save"; }
  void validate() override { ADD_FAILURE() << "validate"; }
  void rate_factor(double) override { ADD_FAILURE() << "rate_factor"; }
  void warn(std::string_view message) override { texts.emplace_back(message); }
  void checkpoint() override { ADD_FAILURE() << "checkpoint"; }
  std::vector<std::string> texts;
};

inline const Registry& registry() {
  static const Registry one = [] {
    Registry made;
    load_plugin(made, MILLRACE_PLUGINS "/observers.so");
    return made;
  }();
  return one;
}

class ObserverFixture : public testing::Test {
 protected:
  static std::filesystem::path made(const std::filesystem::path& folder) {
    std::filesystem::create_directories(folder);
    return folder;
  }
  std::shared_ptr<RunObserver> make(const std::string& name, const Value& table = {}) const {
    Diagnostics errors;
    auto observer = registry().observers().find(name)->create(table, "[observe." + name + "]", errors);
    EXPECT_EQ(errors.text(), "");
    return observer;
  }
  RunStart start_event() const {
    RunStart event;
    event.name = "quickstart";
    event.file = "quickstart.toml";
    event.folder = folder_;
    event.graph = "train";
    event.seed = 1;
    event.epochs = 2;
    event.steps = 8;
    event.steps_per_epoch = 4;
    event.replicas = 1;
    event.elapsed_seconds = 0.5;
    return event;
  }
  std::string text_of(const std::string& name) const {
    std::ifstream file(folder_ / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const testkit::TestFolder own_;
  const std::filesystem::path folder_ = made(own_.path() / "2026-01-01T00-00-00");  // the run's folder
  Warnings control_;
};

inline StepEvent step_event() {
  StepEvent event;
  event.graph = "train";
  event.epoch = 1;
  event.step = 3;
  event.reported = true;
  event.figures = {{"loss", 0.25, false, false}, {"accuracy", 0.5, true, true}};
  event.scalars = {{"learning_rate", 0.1}};
  event.images_per_second = 100;
  event.elapsed_seconds = 1.5;
  return event;
}
inline EpochEvent epoch_event() {
  EpochEvent event;
  event.graph = "train";
  event.epoch = 1;
  event.step = 4;
  event.epochs = 2;
  event.reported = true;
  event.figures = {{"loss", 0.25, false, false}, {"accuracy", 0.5, true, true}, {"top5", 0.75, true, true}};
  event.images_per_second = 100;
  event.seconds = 2;
  event.stream_hash = 0xabc;
  event.resident_bytes = 1024;
  event.elapsed_seconds = 2.5;
  return event;
}
inline PassEvent pass_event() {
  PassEvent event;
  event.graph = "validate";
  event.epoch = 1;
  event.step = 4;
  event.samples = 130;
  event.reported = true;
  event.figures = {{"loss", 0.5, false, false}, {"mean_iou", 0.125, true, true}};
  event.images_per_second = 260;
  event.seconds = 0.5;
  event.stream_hash = 0xdef;
  event.elapsed_seconds = 3;
  return event;
}
inline BadSampleEvent bad_sample_event(std::uint64_t count) {
  BadSampleEvent event;
  event.graph = "train";
  event.place = "a.tar (b.jpg)";
  event.path = "a.tar";
  event.member = "b.jpg";
  event.offset = 512;
  event.stage = "decode_image";
  event.cause = "the file is empty";
  event.action = "replaced";
  event.epoch = 1;
  event.position = 7;
  event.index = 9;
  event.count = count;
  return event;
}

}  // namespace millrace::observer_test
