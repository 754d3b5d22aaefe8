#include "story.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "access.h"
#include "testkit/files.h"

namespace millrace::page {
namespace {

using Json = nlohmann::json;

// Applies changes like a browser (page.js).
void take(Json& state, const Json& changes) {
  for (const auto& [name, value] : changes.items()) {
    if (name != "curves" && name != "log") state[name] = value;
  }
  for (const Json& message : changes.value("log", Json::array())) {
    if (state["log"].empty() || message["number"] > state["log"].back()["number"]) state["log"].push_back(message);
  }
  for (const Json& curve : changes.value("curves", Json::array())) {
    auto known = std::ranges::find_if(state["curves"], [&](const Json& each) { return each["name"] == curve["name"]; });
    if (known == state["curves"].end()) known = state["curves"].insert(known, curve);
    Json points = Json::array();
    for (std::size_t i = 0; i < curve["from"]; ++i) points.push_back((*known)["points"][i]);
    for (const Json& point : curve["points"]) points.push_back(point);
    (*known)["points"] = points;
    (*known)["stride"] = curve["stride"];
  }
}

TEST(Story, ChangesLeadToTheSamePageAsASnapshot) {
  Story story;
  RunStart start;
  start.graph = "train";
  start.steps = 3000;
  story.begin(start);
  Json early = Json::parse(story.snapshot());
  for (std::uint64_t step = 1; step <= 3000; ++step) {  // beyond the first merging of points
    StepEvent event;
    event.graph = "train";
    event.step = step;
    event.figures = {{"loss", 1 / static_cast<double>(step), false, false}};
    event.scalars = {{"learning_rate", 0.1}};
    story.add(event);
    if (step % 1000 == 0) story.add(WarningEvent{"thousand"});
    if (step == 1500) take(early, Json::parse(story.snapshot()));  // it lost the connection, and reconnects
    if (step % 7 == 0) take(early, Json::parse(story.changes()));
  }
  take(early, Json::parse(story.changes()));
  EXPECT_EQ(story.changes(), "{}");
  const Json late = Json::parse(story.snapshot());
  EXPECT_EQ(early["log"], late["log"]);
  ASSERT_EQ(early["curves"].size(), late["curves"].size());
  for (std::size_t i = 0; i < late["curves"].size(); ++i) EXPECT_EQ(early["curves"][i]["points"], late["curves"][i]["points"]);
}

TEST(Story, BeginsWithWhatAResumedRunHasToldBefore) {
  const testkit::TestFolder own;
  std::ofstream(own.path() / "metrics.jsonl") << R"({"event":"start","step":0}
{"event":"step","step":1,"loss":4,"learning_rate":0.1,"images_per_second":5}
{"event":"step","step":2,"loss":9}
{"event":"resume","step":1}
{"event":"step","step":2,"loss":3}
{"event":"validate","graph":"validate","step":2,"loss":2.5,"accuracy":0.5,"percent":["accuracy"]}
{"event":"validate","graph":"validate","step":2,"best_step":1,"accuracy":0.75}
{"event":"validate","graph":"test","step":2,"best_step":1,"accuracy":0.25}
{"event":"step","step":3,"loss":1}
{"event":"st)";
  Story story;
  RunStart start;
  start.graph = "train";
  story.begin(start);
  story.recall(own / "metrics.jsonl", {2, 2});
  const Json page = Json::parse(story.snapshot()), &curves = page["curves"];
  const auto points = [&](const char* name) {
    std::string text;
    for (const Json& curve : curves) {
      for (const Json& point : curve["name"] == name ? curve["points"] : Json::array()) {
        text += fmt::format("{}:{} ", point[0].get<int>(), point[1].get<double>());
      }
    }
    return text;
  };
  EXPECT_EQ(points("train.loss"), "1:4 2:3 ");
  EXPECT_EQ(points("train.learning_rate"), "1:0.1 ");
  EXPECT_EQ(points("validate.accuracy"), "2:0.5 ") << "where the best weights stand already";
  EXPECT_EQ(points("test.accuracy"), "1:0.25 ");
  EXPECT_NE(page["log"].dump().find("accuracy 50.00 %"), std::string::npos) << "a share stays one";
}

TEST(Story, TellsEverySettingOfTheRunAndNoneAtLength) {
  const testkit::TestFolder own;
  std::string name = "a";
  for (int i = 0; i < 500; ++i) name += "\u6570";
  std::ofstream(own.path() / "pipeline.toml")
      << fmt::format("[train.batch]\nsize = 50\n[data]\npath = \"\u6570\"\nname = \"{}\"\n", name);
  Story story;
  RunStart start;
  start.folder = own.path();
  story.begin(start);
  const Json settings = Json::parse(story.snapshot())["run"]["settings"];
  ASSERT_EQ(settings.size(), 3U);
  EXPECT_EQ(settings[0], Json::parse(R"(["train.batch.size","50"])"));
  EXPECT_EQ(settings[1], Json::parse(R"(["data.path","\u6570"])"));
  const std::string longest = settings[2][1];
  EXPECT_LT(longest.size(), 220U);
  EXPECT_TRUE(longest.ends_with("\u6570\u2026")) << longest;
}

TEST(Story, TellsOfThreeHundredRanksAsBrieflyAsOfThree) {
  const auto bytes_of = [](int ranks) {
    Story story;
    story.begin({});
    TelemetryEvent event;
    event.graph = "train";
    event.edges = {{.from = "batch", .to = "forward_backward"}};
    for (int rank = 0; rank < ranks; ++rank) {
      for (const char* name : {"forward_backward", "allreduce", "optimizer"}) {
        StageTelemetry& stage = event.stages.emplace_back();
        stage.name = name;
        stage.replica = rank;
      }
      event.devices.push_back({.name = "cuda:0", .replica = rank, .rank = rank});
    }
    story.add(event);
    return story.changes().size();
  };
  EXPECT_LT(bytes_of(300), 2 * bytes_of(3));
}

TEST(Story, TellsADevicesOwnRatesInWhateverOrderRanksReport) {
  const auto event_at = [](double seconds, std::vector<DeviceTelemetry> devices) {
    TelemetryEvent event;
    event.graph = "train";
    event.seconds = seconds;
    event.devices = std::move(devices);
    return event;
  };
  Story story;
  story.begin({});
  const auto device = [](int rank, double seconds) {
    return DeviceTelemetry{.name = "cuda:0", .replica = rank, .rank = rank, .compute_seconds = seconds};
  };
  story.add(event_at(100, {device(0, 80), device(2, 20)}));
  story.add(event_at(200, {device(2, 50), device(0, 170)}));
  const Json devices = Json::parse(story.changes())["telemetry"]["devices"];
  ASSERT_EQ(devices.size(), 2U) << devices.dump();
  EXPECT_NEAR(devices[0]["compute"].get<double>(), 0.3, 1e-9);
  EXPECT_NEAR(devices[1]["compute"].get<double>(), 0.9, 1e-9);
}

TEST(Story, KeepsNoMoreThanTheNewestMessages) {
  Story story;
  story.begin({});
  for (int i = 0; i < 5000; ++i) {
    story.add(WarningEvent{"something"});
    story.add(BadSampleEvent{});
  }
  EXPECT_LT(story.snapshot().size(), 40'000U);
}

TEST(Access, WantsATokenForLookingFromOtherMachines) {
  const Access far({.loopback = false, .names = {"train.example"}, .token = "0123456789abcdef"});
  EXPECT_NE(far.refusal({.host = "10.0.0.1:80", .origin = {}, .token = {}}, false), "");
  EXPECT_NE(far.refusal({.host = "10.0.0.1:80", .origin = {}, .token = "0123456789abcdee"}, false), "");
  EXPECT_EQ(far.refusal({.host = "10.0.0.1:80", .origin = {}, .token = "0123456789abcdef"}, false), "");
  EXPECT_EQ(far.refusal({.host = "train.example", .origin = {}, .token = "0123456789abcdef"}, false), "");
  EXPECT_NE(far.refusal({.host = "other.example", .origin = {}, .token = "0123456789abcdef"}, false), "");
  EXPECT_EQ(Access({.loopback = true, .names = {"Train.Example"}, .token = {}})
                .refusal({.host = "train.example", .origin = {}, .token = {}}, false),
            "");
  EXPECT_NE(random_token(), random_token());
}

}  // namespace
}  // namespace millrace::page
