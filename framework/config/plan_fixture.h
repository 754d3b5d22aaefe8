// A folder with a network, stages that are described and never run, and pipelines read from text: for tests of the plan.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "config/plan.h"
#include "millrace/batch.h"
#include "millrace/error.h"
#include "millrace/util/batcher.h"

namespace millrace::plan_test {

namespace fs = std::filesystem;

// ---- stages that are described and never run ----

struct NoParams {};

class Read : public Source {
 public:
  struct Params : SourceParams {
    std::string path;
  };
  static void describe(StageDescription<Params>& d) {
    d.name("read_folder").text("Reads files.");
    d.params.add("path", &Params::path).required().text("folder of the images");
    SourceParams::describe(d.params);
  }
  Read(const Params& params, const StageSite&) : Source(params) {}
  void open() override {}
  std::uint64_t size() const override { return 0; }
  std::size_t largest_encoded() const override { return 0; }
  void read(Sample&) override {}
};

class Decode : public SampleTransform {
 public:
  using Params = NoParams;
  static void describe(StageDescription<Params>& d) { d.name("decode_image").input(payload::kSampleChunk); }
  Decode(const Params&, const StageSite&) {}
  void process(Sample&, Draw&) override {}
};

class Augment : public SampleTransform {
 public:
  struct Params {
    double flip_x = 0;
    std::string border = "reflect";
  };
  static void describe(StageDescription<Params>& d) {
    d.name("augment").text("Flips.");
    d.params.add("flip_x", &Params::flip_x).range(0, 1).text("chance of mirroring");
    d.params.add("border", &Params::border).choices({"reflect", "constant"});
  }
  Augment(const Params&, const StageSite&) {}
  void process(Sample&, Draw&) override {}
};

class Collect : public Batcher {
 public:
  struct Params {
    std::int64_t size = 0;
  };
  static void describe(StageDescription<Params>& d) {
    d.name("batch").input(payload::kImageChunk).output(payload::kBatch);
    d.params.add("size", &Params::size).range(1).required();
  }
  Collect(const Params&, const StageSite&) {}
  BatchSpec spec() const override { return {}; }
  void process(int, Packet, Output&) override {}
};

class Plain : public Stage {
 public:
  using Params = NoParams;
  Plain(const Params&, const StageSite&) {}
  void process(int, Packet, Output&) override {}
};

class Step : public Plain {
 public:
  using Plain::Plain;
  static void describe(StageDescription<Params>& d) {
    d.name("forward_backward").input(payload::kBatch).output(payload::kGradientBucket, "gradients");
    d.output(payload::kStepResult, "result").per_replica();
  }
};

class Look : public Plain {
 public:
  using Plain::Plain;
  static void describe(StageDescription<Params>& d) { d.name("look").input(payload::kImageChunk); }
};

class Update : public Plain {
 public:
  using Plain::Plain;
  static void describe(StageDescription<Params>& d) { d.name("optimizer").input(payload::kGradientBucket); }
};

class Report : public Plain {
 public:
  using Plain::Plain;
  static void describe(StageDescription<Params>& d) { d.name("metrics").input(payload::kStepResult); }
};

// ---- files of one test ----

class PlanFixture : public ::testing::Test {
 protected:
  void SetUp() override {
    before_ = fs::current_path();
    folder_ = fs::path(MILLRACE_BINARY_DIR) / "test-files" /
              ("Plan." + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "networks");
    fs::current_path(folder_);
    registry_.add_stage<Read>();
    registry_.add_stage<Decode>();
    registry_.add_stage<Augment>();
    registry_.add_stage<Collect>();
    registry_.add_stage<Step>();
    registry_.add_stage<Update>();
    registry_.add_stage<Report>();
    write("networks/small.toml",
          "input = { channels = 3, height = 8, width = 8, mean = [0.5, 0.5, 0.5], deviation = [0.25, 0.25, 0.25] }\n"
          "layers = [ { op = \"global_average_pool\" }, { name = \"fc\", op = \"linear\", out = \"${classes}\" } ]\n");
  }
  void TearDown() override {
    fs::current_path(before_);
    fs::remove_all(folder_);
  }

  static void write(const std::string& name, const std::string& text) { std::ofstream(name) << text; }
  Pipeline load(const std::string& text, const std::vector<std::string>& overrides = {}) {
    write("p.toml", text);
    return load_pipeline("p.toml", overrides, registry_);
  }
  std::string mistakes(const std::string& text, const std::vector<std::string>& overrides = {}) {
    try {
      load(text, overrides);
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      return error.message();
    }
  }

  Registry registry_;

 private:
  fs::path before_, folder_;
};

inline constexpr const char* kTrain =
    "[train]\n"                                                                                                        // 1
    "flow = [\"read\", \"decode_image\", \"augment\", \"batch\", \"forward_backward\", \"optimizer\", \"metrics\"]\n"  // 2
    "[train.read]\n"                                                                                                   // 3
    "stage = \"read_folder\"\n"                                                                                        // 4
    "path = \"x\"\n"                                                                                                   // 5
    "[train.batch]\n"                                                                                                  // 6
    "size = 4\n";                                                                                                      // 7

inline std::string train(const std::string& more = "") { return kTrain + more; }

}  // namespace millrace::plan_test
