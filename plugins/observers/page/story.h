// A run's history so far, for the page.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/observer.h"
#include "millrace/util/course.h"
#include "millrace/util/earlier_events.h"
#include "millrace/util/recent_rates.h"

namespace millrace::page {

// A picture in the run's folder.
struct Picture {
  std::string name;  // relative to the folder, with '/'
  std::uint64_t bytes = 0;
  std::int64_t version = 0;  // changes when the file is rewritten
  bool operator==(const Picture&) const = default;
};

// Memory and the length of snapshot() do not grow with the run: curves have levels of detail, and only the newest messages and
// bad samples are kept. Not thread-safe.
//
// snapshot() returns everything; changes() returns the news since its last call, as members of the same object. Their common
// parts agree: after a snapshot, a reader may receive any changes from before or after it, in order. changes() has a curve's
// points from `from` on, and messages by their number.
class Story {
 public:
  void begin(const RunStart& start);
  // Loads the history of a resumed run, up to the steps that still count, from its metrics.jsonl.
  void recall(const std::filesystem::path& metrics, const ResumedAt& at);
  void add(const StepEvent& event);
  void add(const EpochEvent& event);
  void add(const PassEvent& event);
  void add(const CheckpointEvent& event);
  void add(const BadSampleEvent& event);
  void add(const WarningEvent& event);
  void add(const RequestEvent& event);
  void add(const TickEvent& event);
  void add(const TelemetryEvent& event);
  bool show(std::vector<Picture> pictures);  // true if they changed
  void end(const RunEnd& end);

  std::string snapshot() const;
  std::string changes();                                   // "{}" if nothing is new
  const std::string& graph() const { return run_.graph; }  // the main one
  const std::vector<Picture>& pictures() const { return pictures_; }
  std::string metrics() const;  // in Prometheus' text format

 private:
  enum Part : unsigned { kRun = 1, kTick = 2, kTelemetry = 4, kPasses = 8, kBad = 16, kPictures = 32, kEnd = 64 };
  struct Message {
    std::uint64_t number = 0;
    double seconds = 0;
    std::string kind, text;
  };
  struct Curve {
    Course course;
    std::string graph, figure;
    bool percent = false, higher_is_better = false;
    double memory = 0;  // smoothing length in steps
  };
  void plot(const std::string& graph, std::uint64_t step, const Figure& figure, bool smooth);
  void plot_pass(const PassEvent& pass, const Figure& figure);
  void say(std::string kind, std::string text, double seconds);
  std::string parts(unsigned which) const;
  std::string curve(const std::string& name, const Curve& curve, std::size_t from) const;
  std::string message(const Message& message) const;
  std::string telemetry() const;

  static constexpr std::size_t kMaxCurves = 64, kMaxMessages = 200, kMaxBadSamples = 50;

  RunStart run_;
  std::string settings_ = "[]";  // the pipeline file's settings as JSON
  double began_ = 0;             // system clock, in seconds
  TickEvent tick_;
  RecentRates rates_{2};
  std::map<std::string, std::int64_t> most_waited_;  // the highest fill of each edge
  std::map<std::string, Curve> curves_;              // by "graph.metric"
  std::map<std::string, PassEvent> passes_;          // the newest one per graph
  std::deque<Message> log_;
  std::deque<BadSampleEvent> bad_samples_;
  std::vector<Picture> pictures_;
  std::optional<RunEnd> end_;
  unsigned changed_ = 0;  // Parts
  std::uint64_t messages_ = 0, sent_messages_ = 0;
};

}  // namespace millrace::page
