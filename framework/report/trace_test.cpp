#include "report/trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "graph/line_fixture.h"
#include "millrace/util/telemetry.h"

namespace millrace {
namespace {

using Json = nlohmann::json;
using namespace graph_test;

struct Span {
  double begin, end;
  Json event;
};

// The slices by track. Fails if two overlap without nesting, which viewers cannot show.
std::map<int, std::vector<Span>> slices_of(const Json& trace) {
  std::map<int, std::vector<Span>> tracks;
  double last = 0;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == "M") continue;
    EXPECT_GE(event["ts"].get<double>(), last) << "events are in the order of time";
    last = event["ts"];
    if (event["ph"] != "X") continue;
    const double begin = event["ts"], end = begin + event["dur"].get<double>();
    std::vector<Span>& track = tracks[event["tid"]];
    for (const Span& other : track) {
      const bool apart = other.end <= begin + 0.001, inside = end <= other.end + 0.001;  // times have three decimals
      EXPECT_TRUE(apart || inside) << other.event << " overlaps " << event;
    }
    track.push_back({begin, end, event});
  }
  return tracks;
}

// The innermost open slice on a track.
const Json* slice_at(const std::map<int, std::vector<Span>>& tracks, int track, double at) {
  const Json* found = nullptr;
  for (const Span& span : tracks.at(track)) {
    if (span.begin <= at && at <= span.end) found = &span.event;
  }
  return found;
}

Json traced(Line& line, TraceSteps steps) {
  Trace trace(steps);
  line.test.run({.threads = 2, .epochs = 1, .chunk = 2});
  trace.stop();
  EXPECT_EQ(trace.lost(), 0U);
  return Json::parse(trace_json(trace.tracks(), 3));
}

TEST(Trace, HasEachStageOfTheStepsThatWereAskedFor) {
  Line line(shuffled(64), table({{"size", number(8)}}));
  const Json trace = traced(line, {.first = 2, .last = 4});
  std::map<std::string, std::set<int>> steps;
  std::set<std::string> tracks;
  for (const auto& [track, spans] : slices_of(trace)) {
    for (const Span& span : spans) steps[span.event["name"]].insert(span.event["args"]["step"].get<int>());
  }
  for (const Json& event : trace["traceEvents"]) {
    EXPECT_EQ(event["pid"], 3);
    if (event["name"] == "thread_name") tracks.insert(event["args"]["name"]);
  }
  ASSERT_GE(steps.size(), 3U);
  for (const auto& [stage, seen] : steps) EXPECT_EQ(seen, (std::set<int>{3, 4, 5})) << stage;
  EXPECT_TRUE(tracks.contains("io 1")) << trace;
  EXPECT_TRUE(tracks.contains("worker 1")) << trace;
}

TEST(Trace, FollowsSamplesFromTheirFileToTheirStep) {
  Line line(shuffled(64), table({{"size", number(8)}}));
  const Json trace = traced(line, {});
  const auto tracks = slices_of(trace);
  std::map<int, std::vector<Json>> flows;
  for (const Json& event : trace["traceEvents"]) {
    if (event.value("cat", "") == "flow") flows[event["id"].get<int>()].push_back(event);
  }
  int samples = 0;
  for (const auto& [id, flow] : flows) {
    ASSERT_GE(flow.size(), 2U);
    std::set<int> steps;
    std::vector<std::string> through;
    for (std::size_t i = 0; i < flow.size(); ++i) {
      EXPECT_EQ(flow[i]["ph"], i == 0 ? "s" : i + 1 == flow.size() ? "f" : "t");
      const Json* slice = slice_at(tracks, flow[i]["tid"], flow[i]["ts"]);
      ASSERT_NE(slice, nullptr) << "an arrow is bound to a slice: " << flow[i];
      steps.insert((*slice)["args"]["step"].get<int>());
      through.push_back((*slice)["name"]);
      EXPECT_EQ((*slice)["args"].contains("file"), i == 0 && flow[0]["name"] == "samples") << *slice;
    }
    EXPECT_EQ(steps.size(), 1U);
    if (flow[0]["name"] != "samples") continue;
    ++samples;
    EXPECT_EQ(through.front(), "read");
    EXPECT_EQ(through.back(), "log");
  }
  EXPECT_EQ(samples, 32) << "64 samples, two in a chunk";
}

// A device begins early and works long: its middle is later than that of a stage that began after it.
TEST(Trace, LeadsNoArrowBackInTime) {
  const auto slice = [](const char* name, std::int64_t begin, std::int64_t end) {
    return TracedSlice{.graph = "train", .name = name, .from = "batch", .file = {}, .begin = begin, .end = end};
  };
  const std::vector<TraceTrack> tracks = {{"replica 0", {slice("compute", 10, 1000)}},
                                          {"worker 1", {slice("forward_backward", 0, 10), slice("allreduce", 20, 30)}}};
  std::map<double, std::string> phases;
  const Json trace = Json::parse(trace_json(tracks, 0));
  for (const Json& event : trace["traceEvents"]) {
    if (event.value("cat", "") == "flow") phases[event["ts"]] = event["ph"];
  }
  std::string in_time;
  for (const auto& [at, phase] : phases) in_time += phase;
  EXPECT_EQ(in_time, "stf");
}

TEST(Trace, CountsThePacketsOnEachEdge) {
  Line line(shuffled(64), table({{"size", number(8)}}));
  const Json trace = traced(line, {});
  std::map<std::string, int> levels;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] != "C") continue;
    levels[event["name"]] = event["args"]["packets"];
    EXPECT_GE(levels[event["name"]], 0) << event;
  }
  ASSERT_FALSE(levels.empty());
  for (const auto& [edge, level] : levels) EXPECT_EQ(level, 0) << edge << ": all have been received";
}

TEST(Trace, KeepsTheNewestSlicesInBoundedMemory) {
  Trace kept({}, 8);
  for (std::uint64_t step = 0; step < 100; ++step)
    trace({.name = "work", .begin = now_ticks(), .end = now_ticks(), .step = step});
  kept.stop();
  ASSERT_EQ(kept.tracks().size(), 1U);
  const std::vector<TracedSlice> slices = kept.tracks()[0].slices;
  ASSERT_EQ(slices.size(), 8U);
  for (const TracedSlice& slice : slices) EXPECT_GE(slice.step, 92U);
  EXPECT_EQ(kept.lost(), 92U);
}

TEST(Trace, EndsWhileThreadsStillWork) {
  std::atomic<bool> done{false};
  std::thread worker([&] {
    while (!done) {
      if (is_traced()) trace({.name = "work", .begin = now_ticks(), .end = now_ticks()});
    }
  });
  for (int times = 0; times < 20; ++times) {
    Trace kept({}, 4);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    kept.stop();
    for (const TraceTrack& track : kept.tracks()) EXPECT_LE(track.slices.size(), 4U);
  }
  done = true;
  worker.join();
  const Trace after;
  EXPECT_TRUE(after.tracks().empty()) << "what was told between two traces is dropped";
}

}  // namespace
}  // namespace millrace
