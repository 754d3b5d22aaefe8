// Weights with a recipe for their use: predictions without a pipeline file, and files that differ from it.
#include <gtest/gtest.h>

#include <fstream>

#include "command.h"
#include "testkit/messages.h"
#include "weights/safetensors.h"

namespace millrace::test::inference_recipe_test {
namespace {

namespace fs = std::filesystem;

// quickstart.toml, trained for an epoch of four steps, once for all tests; its validation also writes classes.
class WeightsUsage : public testing::Test {
 protected:
  WeightsUsage() {
    static const TemporaryFolder trained;
    write_pipeline(folder_);
    if (!fs::exists(trained.path() / "runs")) {
      write_pipeline(trained);
      const Outcome outcome = succeeded(run_command({tool("pipeline-run"), trained / "q.toml", "--json"}));
    }
    fs::copy(trained / "runs", folder_ / "runs", fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    weights_ = find_file(folder_ / "runs", "weights.safetensors");
  }

  static void write_pipeline(const TemporaryFolder& folder) {
    std::ofstream(folder / "q.toml")
        << "extends = \"" << pipeline("quickstart.toml")
        << "\"\n[run]\nname = \"q\"\nprecision = \"fp32\"\nepochs = 1\nfolder = \"" << folder / "runs"
        << "\"\ndevices = \"cpu\"\n[data]\npath = \"" << shapes()
        << "\"\n[validate]\nflow = [\"read\", \"decode_image\", \"batch\", \"forward\", \"metrics\", "
        << "\"write_classes\"]\n[validate.batch]\nsize = 48\n[validate.write_classes]\ntop = 3\n";
  }

  Outcome predict(const std::string& out, const std::vector<std::string>& more = {}) const {
    return run_command(with({tool("pipeline-run"), "--predict", shapes() + "/test", "--weights", weights_, "--out", folder_ / out,
                             "--devices", "cpu"},
                            {}, more));
  }
  Outcome validate(const std::vector<std::string>& more) const {
    return run_command(with({tool("pipeline-run"), folder_ / "q.toml", "--graph", "validate", "--weights", weights_}, {}, more));
  }

  TemporaryFolder folder_;
  std::string weights_;
};

TEST_F(WeightsUsage, APipelineOfARelativeFolderRunsFromAnywhere) {
  const Outcome outcome =
      run_command({tool("pipeline-run"), "--predict", fs::relative(shapes() + "/test").string(), "--weights",
                   fs::relative(weights_).string(), "--out", fs::relative(folder_ / "o").string(), "--devices", "cpu"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::string csv = read_file(folder_ / "o/predictions.csv");
  fs::remove(folder_ / "o/predictions.csv");
  const Outcome again =
      run_command({"/usr/bin/env", "--chdir=/", tool("pipeline-run"), folder_ / "o/pipeline.toml", "--devices", "cpu"});
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(read_file(folder_ / "o/predictions.csv"), csv);
}

TEST_F(WeightsUsage, RefusesToPrepareImagesOtherwise) {
  const std::vector<std::pair<std::string, std::string>> changes = {{"decode_image.fit=exact", "has fit = \"exact\""},
                                                                    {"decode_image.exif=false", "has exif = false"},
                                                                    {"forward.test_time=flip", "has test_time = \"flip\""}};
  for (const auto& [change, said] : changes) {
    const Outcome predicted = predict("o", {"--check", "--set", "predict." + change});
    EXPECT_EQ(predicted.code, 2) << change;
    EXPECT_NE(predicted.err.find("--set predict." + change.substr(0, change.find('=')) + ": [predict."), std::string::npos)
        << predicted.err;
    EXPECT_NE(predicted.err.find(said), std::string::npos) << predicted.err;
    EXPECT_NE(predicted.err.find("--set network.preprocessing=mine"), std::string::npos) << predicted.err;
    EXPECT_EQ(predicted.err.find("pipeline.toml"), std::string::npos) << "a file that is not there: " << predicted.err;
    const Outcome validated = validate({"--check", "--set", "validate." + change});
    EXPECT_EQ(validated.code, 2) << change;
    EXPECT_NE(validated.err.find(said), std::string::npos) << validated.err;
    EXPECT_NE(validated.err.find("preprocessing = \"mine\" in [network]"), std::string::npos) << validated.err;
    const Outcome meant = succeeded(validate({"--check", "--set", "validate." + change, "--set", "network.preprocessing=mine"}));
  }
  std::ofstream(folder_ / "bf16.toml") << "extends = \"q.toml\"\n[run]\nprecision = \"bf16\"\n";
  const Outcome precision =
      run_command({tool("pipeline-run"), folder_ / "bf16.toml", "--graph", "validate", "--weights", weights_, "--check"});
  EXPECT_EQ(precision.code, 2);
  EXPECT_MESSAGE(precision.err);
  EXPECT_EQ(validate({"--check"}).code, 0);
}

// ONEDNN_MAX_CPU_ISA simulates an older processor.
TEST_F(WeightsUsage, OfBf16CanBeUsedWithoutIt) {
  std::string text = read_file(folder_ / "q.toml");
  text.replace(text.find("\"fp32\""), 6, "\"bf16\"");
  std::ofstream(folder_ / "q.toml") << text;
  const Outcome trained = run_command({tool("pipeline-run"), folder_ / "q.toml", "--quiet", "--set", "run.name=bf16"});
  if (lacks_bf16(trained)) GTEST_SKIP() << "this processor has no AVX-512";
  ASSERT_EQ(trained.code, 0) << trained.err;
  const auto without = [&](const std::vector<std::string>& more) {
    return run_command(
        with({"/usr/bin/env", "ONEDNN_MAX_CPU_ISA=AVX2", tool("pipeline-run"), "--predict", shapes() + "/test", "--weights",
              find_file(folder_ / "runs/bf16", "weights.safetensors").string(), "--out", folder_ / "o", "--devices", "cpu"},
             {}, more));
  };
  const Outcome refused = without({});
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("(--set run.precision=auto)"), std::string::npos) << refused.err;
  for (const char* precision : {"auto", "fp32"}) {
    const Outcome predicted = succeeded(without({"--set", std::string("run.precision=") + precision}));
  }
}

TEST_F(WeightsUsage, TrainingIsWarnedAndGoesOn) {
  const auto train = [&](const std::vector<std::string>& more) {
    return run_command(with({tool("pipeline-run"), folder_ / "q.toml", "--weights", weights_},
                            {"run.folder=", "run.epochs=0.25", "validate.write_classes.file=" + (folder_ / "p.csv")}, more));
  };
  const Outcome warned = succeeded(train({"--set", "validate.decode_image.exif=false"}));
  EXPECT_NE(warned.err.find("[validate.decode_image] has exif = false"), std::string::npos) << warned.err;
  const Outcome same = succeeded(train({}));
  EXPECT_EQ(same.err.find("were validated with"), std::string::npos) << same.err;
}

TEST_F(WeightsUsage, NothingIsSaidOfWeightsFromElsewhere) {
  const std::string foreign = folder_ / "foreign.safetensors";
  write_safetensors(foreign, read_safetensors(weights_).tensors);
  const Outcome checked = succeeded(run_command({tool("pipeline-run"), folder_ / "q.toml", "--graph", "validate", "--weights",
                                                 foreign, "--check", "--set", "validate.decode_image.exif=false"}));
  EXPECT_EQ(checked.err.find("were validated with"), std::string::npos) << checked.err;
  const Outcome predicted =
      run_command({tool("pipeline-run"), "--predict", shapes(), "--weights", foreign, "--out", folder_ / "o"});
  EXPECT_EQ(predicted.code, 2);
  EXPECT_MESSAGE(predicted.err);
  EXPECT_FALSE(fs::exists(folder_ / "o"));
}

TEST_F(WeightsUsage, InspectPrintsIt) {
  const Outcome outcome = succeeded(run_command({tool("pipeline-inspect"), weights_}));
  for (const char* text : {"  network  quickstart\n", "  classes  10: ", "prepare = [\"decode_image\"]",
                           "[stages.decode_image]\n", "size = [32, 32]", "deviation = [0.25, 0.25, 0.25]", "batch = 48\n"})
    EXPECT_NE(outcome.out.find(text), std::string::npos) << text << " in\n" << outcome.out;
}

}  // namespace
}  // namespace millrace::test::inference_recipe_test
