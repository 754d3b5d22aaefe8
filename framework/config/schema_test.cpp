#include "config/schema.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "millrace/optimizer.h"

namespace millrace::schema_test {
namespace {

class Blur : public SampleTransform {
 public:
  struct Params {
    double chance = 0.25;
    std::string border = "reflect";
    std::int64_t radius = 0;
    std::vector<std::string> only;
  };
  static void describe(StageDescription<Params>& d) {
    d.name("blur").text("Blurs.");
    d.params.add("chance", &Params::chance).range(0, 1).text("for each image");
    d.params.add("border", &Params::border).choices({"reflect", "constant"});
    d.params.add("radius", &Params::radius).required().unit("pixels");
    d.params.add("only", &Params::only);
  }
  Blur(const Params&, const StageSite&) {}
  void process(Sample&, Draw&) override {}
};

TEST(Schema, SaysWhatTheDeclarationSays) {
  Registry registry;
  registry.add_stage<Blur>();
  const auto schema = nlohmann::json::parse(json_schema(registry));
  const auto& blur = schema["definitions"]["stage-blur"];
  EXPECT_EQ(blur["additionalProperties"], false);
  EXPECT_FALSE(blur.contains("required"));  // optional in a file that extends another
  const auto& complete = schema["definitions"]["complete-graph"]["properties"]["blur"]["else"];
  EXPECT_EQ(complete["required"], nlohmann::json::array({"radius"}));
  const auto& chance = blur["properties"]["chance"];
  EXPECT_EQ(chance["anyOf"][0], nlohmann::json::parse(R"({"type": "number", "minimum": 0.0, "maximum": 1.0})"));
  EXPECT_EQ(chance["anyOf"][1]["$ref"], "#/definitions/reference");
  EXPECT_EQ(chance["default"], 0.25);
  EXPECT_EQ(chance["description"], "for each image");
  EXPECT_EQ(blur["properties"]["border"]["anyOf"][0]["enum"], nlohmann::json::array({"reflect", "constant"}));
  EXPECT_EQ(blur["properties"]["radius"]["description"], "in pixels");
  EXPECT_FALSE(blur["properties"]["radius"].contains("default"));
  EXPECT_EQ(blur["properties"]["only"]["anyOf"][0]["items"]["type"], "string");
  EXPECT_EQ(schema["properties"]["run"]["properties"]["epochs"]["default"], 1.0);
  const auto& network = schema["properties"]["network"];
  EXPECT_EQ(schema["else"]["properties"]["network"]["required"], nlohmann::json::array({"use"}));
  EXPECT_EQ(network["properties"]["freeze"]["anyOf"][0]["items"]["type"], "string");
  EXPECT_EQ(network["properties"]["rename"]["anyOf"][0]["items"]["required"], nlohmann::json::array({"from", "to"}));
  EXPECT_FALSE(network.contains("additionalProperties"));  // variables of the network
  EXPECT_EQ(schema["if"]["required"], nlohmann::json::array({"extends"}));
  EXPECT_EQ(schema["additionalProperties"]["if"]["required"], nlohmann::json::array({"flow"}));
  EXPECT_EQ(schema["definitions"]["graph"]["properties"]["blur"]["else"]["else"]["$ref"], "#/definitions/stage-blur");
}

struct StillKernel {
  static constexpr int kStates = 0;
  MILLRACE_KERNEL void operator()(const UpdateNumbers&, float, float&) const {}
};

class Still {
 public:
  struct Params {
    double share = 0.5;
  };
  static void describe(OptimizerDescription<Params>& d) {
    d.name("still").text("Changes nothing.");
    d.params.add("share", &Params::share).range(0, 1).text("of nothing");
  }
  explicit Still(const Params&) {}
  StillKernel kernel(const UpdateTime&) const { return {}; }
};

class Update : public Stage {
 public:
  struct Part {
    std::vector<std::string> names = {};
    std::optional<std::string> optimizer = {};
    Value optimizer_table = {};
  };
  struct Params : OptimizerParams {
    std::vector<Part> parts;
  };
  static void describe(StageDescription<Params>& d) {
    d.name("update").text("Updates.");
    OptimizerParams::describe(d.params);
    const auto describe_part = [](ParamSet<Part>& part) {
      part.add("names", &Part::names).or_one();
      part.add("type", &Part::optimizer);
    };
    d.params.add_list("parts", &Params::parts, describe_part, &Part::optimizer_table);
  }
  Update(const Params&, const StageSite&) {}
  void process(int, Packet, Output&) override {}
};

TEST(Schema, AStageWithAnOptimizerTakesTheKeysOfAllOptimizers) {
  Registry registry;
  registry.add_optimizer<Still>();
  registry.add_stage<Update>();
  const auto schema = nlohmann::json::parse(json_schema(registry));
  const auto& update = schema["definitions"]["stage-update"]["properties"];
  EXPECT_EQ(update["type"]["anyOf"][0]["enum"], nlohmann::json::array({"still"}));
  EXPECT_EQ(update["share"]["anyOf"][0]["maximum"], 1.0);
  EXPECT_EQ(update["share"]["description"], "optimizer still: of nothing");
  const auto& part = update["parts"]["anyOf"][0]["items"]["properties"];
  EXPECT_EQ(part["type"]["anyOf"][0]["enum"], nlohmann::json::array({"still"}));
  EXPECT_EQ(part["share"]["description"], "optimizer still: of nothing");
  EXPECT_EQ(part["names"]["anyOf"][0]["anyOf"][0]["type"], "array");
  EXPECT_EQ(part["names"]["anyOf"][0]["anyOf"][1]["type"], "string");
}

}  // namespace
}  // namespace millrace::schema_test
