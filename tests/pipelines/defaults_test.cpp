// Options of pipeline-run that set a key of the file, or a value, with one word.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>

#include "command.h"
#include "running_program.h"

namespace millrace::test {
namespace {

namespace fs = std::filesystem;

Words quick(const std::string& folder, const Words& options) {
  return with({tool("pipeline-run"), pipeline("quickstart.toml"), "--json"}, {"data.path=" + shapes(), "run.folder=" + folder},
              options);
}

TEST(ShortOptions, ChangeTheKeysThatTheyStandFor) {
  const TemporaryFolder folder;
  const std::string runs = folder / "runs";
  const Outcome outcome =
      run_command(quick(runs, {"--epochs", "0.5", "--batch=80", "--lr", "0.02", "--name", "a \"b\"", "--quiet"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(events(outcome, "step").size(), 3U) << "half of 400 images in batches of 80";
  const std::string kept = read_file(find_file(std::filesystem::path(runs) / "a \"b\"", "pipeline.toml"));
  EXPECT_NE(kept.find("initial = 0.02, schedule = "), std::string::npos) << "the rest of the rate's table stays:\n" << kept;
}

TEST(ShortOptions, AreRefusedWhereTheyDoNotSayWhichKeyIsMeant) {
  const auto refusal = [](const Words& options) {
    const Outcome outcome = run_command(quick("", options));
    EXPECT_EQ(outcome.code, 2);
    return outcome.err;
  };
  EXPECT_EQ(refusal({"--graph", "validate", "--lr", "0.1"}),
            "pipeline-run: --lr: [validate] has no stage with a learning rate\n");
  EXPECT_EQ(refusal({"--lr", "fast"}), "pipeline-run: --lr: expected a number of at least 0, found 'fast'\n");
  EXPECT_EQ(refusal({"--seed-of-all", "3"}),
            "pipeline-run: unknown option '--seed-of-all'; a key of the file is changed by --set, as --set "
            "TABLE.seed_of_all=VALUE; see pipeline-run --help\n");
}

// Otherwise stopping and the best weights would use another loss than training.
TEST(Validation, MeasuresTheLossThatIsTrainedWith) {
  const auto measured = [](const std::string& trained, const std::string& validated) {
    Words options = {"--epochs", "0.5", "--lr", "0.0001", "--set", "train.forward_backward.loss=" + trained};
    if (!validated.empty()) options.insert(options.end(), {"--set", "validate.forward.loss=" + validated});
    const Outcome outcome = succeeded(run_command(quick("", options)));
    return events(outcome, "validate").at(0).at("loss");
  };
  const std::string focal = R"({ type = "focal", gamma = 2, reduction = "sum" })";
  EXPECT_EQ(measured(focal, ""), measured(focal, R"({ type = "focal", gamma = 2 })"));
  EXPECT_NE(measured(focal, ""), measured(focal, "cross_entropy"));
  const std::string smooth = R"({ type = "cross_entropy", label_smoothing = 0.2 })";
  EXPECT_EQ(measured(smooth, ""), measured(smooth, "cross_entropy")) << "it can be compared between recipes";
}

std::string newest_checkpoint(const fs::path& run) { return read_file(run / "checkpoints" / "latest"); }

TEST(RunFolder, HoldsTheNewestCheckpointWhereTheFileDoesNotSaySo) {
  const TemporaryFolder folder;
  const std::string runs = folder / "runs";
  const Outcome whole = succeeded(run_command(quick(runs, {"--epochs", "3"})));
  const fs::path first = newest_run(runs);
  EXPECT_EQ(newest_checkpoint(first), checkpoint_name(12) + "\n");
  EXPECT_FALSE(fs::exists(first / "checkpoints" / checkpoint_name(8))) << "one is kept";
  EXPECT_EQ(events(whole, "checkpoint").size(), 3U) << "one each epoch";
  EXPECT_EQ(whole.err.find("checkpoint after step"), std::string::npos) << "nobody asked for them:\n" << whole.err;

  const Outcome begun = succeeded(run_command(quick(runs, {"--set", "stop.max_steps=6", "--epochs", "3"})));
  const Outcome resumed = succeeded(run_command(quick(runs, {"--epochs", "3", "--resume", "--allow-change", "stop"})));
  EXPECT_TRUE(read_file(newest_run(runs) / "weights.safetensors") == read_file(first / "weights.safetensors"))
      << "a run that is stopped loses nothing";

  for (const std::string& none : {std::string("checkpoint.every=never"), std::string("run.folder=")}) {
    const Outcome without = succeeded(run_command(quick(folder / "others", {"--epochs", "0.5", "--set", none})));
    EXPECT_TRUE(events(without, "checkpoint").empty()) << none;
  }
}

TEST(RunFolder, LatestLeadsToTheNewestRunAndWeightsTakesItsBestOrLastOnes) {
  const TemporaryFolder folder;
  const std::string runs = folder / "runs", latest = folder / "runs/quickstart/latest";
  ASSERT_EQ(run_command(quick(runs, {"--epochs", "0.25"})).code, 0);
  const fs::path first = newest_run(runs);
  EXPECT_EQ(fs::canonical(latest), fs::canonical(first));
  const Words validate = {"--graph", "validate", "--weights", latest};
  const Outcome last = run_command(quick("", {"--graph", "validate", "--weights", latest, first}));  // for runs/quickstart/*
  EXPECT_EQ(last.code, 0) << last.err;
  EXPECT_EQ(last.err.find("--weights: '" + latest + "/weights.safetensors', after step 1\n"), 0U) << last.err;
  EXPECT_EQ(run_command(quick(runs, validate)).code, 0);
  EXPECT_EQ(fs::canonical(latest), fs::canonical(first)) << "what trains nothing has no weights";

  ASSERT_EQ(run_command(quick(runs, {"--epochs", "0.25", "--set", "run.best=validate.loss"})).code, 0);
  EXPECT_EQ(fs::canonical(latest), fs::canonical(newest_run(runs)));
  EXPECT_NE(newest_run(runs), first);
  const Outcome best = run_command(quick("", validate));
  EXPECT_EQ(best.err.find("--weights: '" + latest + "/best.safetensors', the best by validate.loss, after step 1\n"), 0U)
      << best.err;
  const Outcome none = run_command(quick("", {"--weights", runs}));
  EXPECT_EQ(none.code, 2);
  EXPECT_NE(none.err.find("holds neither best.safetensors nor weights.safetensors"), std::string::npos) << none.err;
}

// A run that is refused by a check or the trial of another graph has no weights.
TEST(Latest, LeadsToTheNewestRunThatTrains) {
  const TemporaryFolder folder;
  const fs::path runs = folder / "runs";
  ASSERT_EQ(run_command(quick(runs, {"--epochs", "0.25"})).code, 0);
  const fs::path first = fs::canonical(runs / "quickstart/latest");
  fs::copy(fs::path(shapes()) / "test", folder / "broken", fs::copy_options::recursive);
  for (const auto& entry : fs::recursive_directory_iterator(folder / "broken")) {
    if (entry.is_regular_file()) std::ofstream(entry.path()) << "no image";
  }
  const Outcome refused = run_command(quick(runs, {"--epochs", "0.25", "--set", "validate.read.path=" + (folder / "broken")}));
  EXPECT_EQ(refused.code, 3) << refused.err;
  EXPECT_NE(refused.err.find("before the first step, [validate] was tried: "), std::string::npos) << refused.err;
  EXPECT_EQ(fs::canonical(runs / "quickstart/latest"), first);
}

TEST(RunFolder, ALinkThatAUserMadeIsNoObstacle) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "runs/quickstart/latest");
  const Outcome outcome = succeeded(run_command(quick(folder / "runs", {"--epochs", "0.25"})));
  EXPECT_NE(outcome.err.find("warning: '" + (folder / "runs/quickstart/latest") + "' does not link to this run, '"),
            std::string::npos)
      << outcome.err;
  EXPECT_TRUE(fs::is_directory(fs::symlink_status(folder / "runs/quickstart/latest")));
}

// The rate of the second epoch is far too large.
TEST(ClosingEvaluation, IsOfTheBestWeightsAndChangesNoOthers) {
  const TemporaryFolder folder;
  const std::string last = R"(final={ every = "end", flow = ["read", "decode_image", "batch", "forward", "metrics"], )"
                           R"(read = { stage = "read_folder", path = "${data.path}/test" }, decode_image = { size = [32, 32] }, )"
                           R"(batch = { size = 250, last = "keep" } })";
  const auto run = [&](const std::string& runs, const Words& more) {
    Words words = {"--epochs", "2", "--set",
                   "train.optimizer.learning_rate={ initial = 0.02, schedule = \"piecewise\", drop_epochs "
                   "= 1, drop_factor = 100 }"};
    words.insert(words.end(), more.begin(), more.end());
    return run_command(quick(folder / runs, words));
  };
  ASSERT_EQ(run("plain", {}).code, 0);
  for (const Words& more : {Words{}, Words{"--set", "checkpoint.every=never"}, Words{"--devices", "cpu*2", "--processes", "2"}}) {
    const std::string runs = more.empty() ? "one" : more.back();
    Words words = {"--set", "run.best=validate.loss", "--set", last};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = succeeded(run(runs, words));
    const auto passes = events(outcome, "validate");
    ASSERT_EQ(passes.size(), 3U);
    ASSERT_EQ(passes.back().at("graph"), "final");
    EXPECT_EQ(passes.back().at("best_step"), 4) << outcome.out;
    const bool has_replicas = !more.empty() && more.front() == "--devices";  // files hold the mean of their statistics
    EXPECT_NEAR(passes.back().at("loss").get<double>(), passes.front().at("loss").get<double>(), has_replicas ? 0.01 : 0);
    EXPECT_NE(outcome.err.find("best weights: '"), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find(" of the best weights, after step 4\n"), std::string::npos) << outcome.err;
    if (has_replicas) continue;
    EXPECT_TRUE(read_file(find_file(folder.path() / runs, "weights.safetensors")) ==
                read_file(find_file(folder.path() / "plain", "weights.safetensors")))
        << "the last weights are those of a run without it";
  }
}

// Files of a validation at each epoch concern weights that are used later.
TEST(ClosingEvaluation, LeavesFilesAboutTheBestWeights) {
  const TemporaryFolder folder;
  const Words words = {"--epochs",
                       "2",
                       "--set",
                       "train.optimizer.learning_rate={ initial = 0.02, schedule = \"piecewise\", drop_epochs = 1, drop_factor = "
                       "100 }",
                       "--set",
                       R"(validate.flow=["read", "decode_image", "batch", "forward", "metrics", "write_evaluation"])"};
  for (const Words& more : {Words{"--set", "run.best=validate.loss"},
                            Words{"--set", "run.best=validate.loss", "--devices", "cpu*2", "--processes", "2"}, Words{}}) {
    const std::string runs = fmt::format("runs-{}", more.size());
    Words all = words;
    all.insert(all.end(), more.begin(), more.end());
    const Outcome outcome = succeeded(run_command(quick(folder / runs, all)));
    const auto passes = events(outcome, "validate");
    ASSERT_EQ(passes.size(), more.empty() ? 2U : 3U) << outcome.err;
    EXPECT_EQ(passes.back().contains("best_step"), !more.empty());
    const auto& kept = more.size() == 2 ? passes.front() : passes.back();
    const std::string figures = read_file(find_file(folder.path() / runs, "figures.csv"));
    EXPECT_NE(figures.find(fmt::format("\r\naccuracy,{}\r\n", kept.at("accuracy").get<double>())), std::string::npos) << figures;
  }
}

// With too large a rate the loss soon stops falling.
TEST(ClosingEvaluation, ComesWhereARunEndsEarlyToo) {
  const TemporaryFolder folder;
  const std::string last = R"(final={ every = "end", flow = ["read", "decode_image", "batch", "forward", "metrics"], )"
                           R"(read = { stage = "read_folder", path = "${data.path}/test" }, decode_image = { size = [32, 32] }, )"
                           R"(batch = { size = 250, last = "keep" } })";
  const auto run = [&](const std::string& runs, const Words& more) {
    Words words = {"--epochs", "5000", "--set", "train.optimizer.learning_rate=8", "--set", last};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = succeeded(run_command(quick(folder / runs, words)));
    EXPECT_EQ(events(outcome, "validate").back().at("graph"), "final") << outcome.out;
    EXPECT_LT(events(outcome, "end").at(0).at("step"), 20000) << outcome.out;
    return outcome;
  };
  const Words impatient = {"--set", "stop={ figure = \"validate.loss\", patience = 1 }"};
  for (const Words& more : {Words{}, Words{"--set", "run.best=validate.loss"}, Words{"--devices", "cpu*2", "--processes", "2"}}) {
    Words words = impatient;
    words.insert(words.end(), more.begin(), more.end());
    const std::string runs = more.empty() ? "plain" : more.back();
    const auto closing = events(run(runs, words), "validate").back();
    EXPECT_EQ(closing.contains("best_step"), runs == "run.best=validate.loss");
  }
  const Outcome again =
      run_command(quick(folder / "plain", {"--resume", "--epochs", "5000", "--set", "train.optimizer.learning_rate=8", "--set",
                                           last, "--set", impatient[1]}));
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_TRUE(events(again, "validate").empty()) << "its checkpoint says that this is done";
  EXPECT_TRUE(events(again, "step").empty());

  run("timed", {"--set", "stop.max_time=1 seconds"});
}

// Its predictions are not written then.
TEST(Validation, ThatWritesAnEvaluationIsTriedBeforeTheFirstStepAndSkipsBadSamples) {
  const TemporaryFolder folder;
  fs::copy(fs::path(shapes()) / "test", folder / "test", fs::copy_options::recursive);
  for (const auto& entry : fs::directory_iterator(fs::directory_iterator(folder / "test")->path())) {
    std::ofstream(entry.path()) << "no image";
  }
  const auto run = [&](const std::string& runs, const std::string& budget) {
    return run_command(quick(folder / runs, {"--epochs", "1", "--set", "validate.read.path=" + (folder / "test"), "--set",
                                             R"(validate.flow=["read", "decode_image", "batch", "forward", "metrics", )"
                                             R"("write_evaluation"])",
                                             "--set", "validate.batch.bad_sample_budget=" + budget}));
  };
  const Outcome refused = run("refused", "4");
  EXPECT_EQ(refused.code, 3);
  EXPECT_NE(refused.err.find("before the first step, [validate] was tried: "), std::string::npos) << refused.err;
  EXPECT_TRUE(find_file(folder.path() / "refused", "figures.csv").empty());

  const Outcome outcome = succeeded(run("done", "100"));
  EXPECT_EQ(events(outcome, "validate").at(0).at("samples"), 117) << "13 of 130 are bad, and no others are taken for them";
  EXPECT_NE(read_file(find_file(folder.path() / "done", "figures.csv")).find("images,117\r\n"), std::string::npos);
}

// 130 are two batches of 50, and 30 more.
TEST(Validation, CountsEachImageOnceWhateverTheBatch) {
  const TemporaryFolder folder;
  const Outcome outcome = succeeded(run_command(
      quick(folder / "runs", {"--epochs", "1", "--set", "validate.batch.size=50", "--set", "validate.batch.last=unset"})));
  EXPECT_EQ(events(outcome, "validate").at(0).at("samples"), 130);
  const std::string file = folder / "evaluate.toml", weights = find_file(folder.path() / "runs", "weights.safetensors");
  std::ofstream(file)
      << "[run]\nname = \"e\"\nepochs = 1\nfolder = \"\"\ndevices = \"cpu\"\n[network]\nuse = \"quickstart\"\n[evaluate]\n"
         "flow = [\"read\", \"decode_image\", \"batch\", \"forward\", \"metrics\"]\n[evaluate.read]\n"
         "stage = \"read_folder\"\npath = \""
      << shapes() << "/test\"\n[evaluate.decode_image]\nsize = [32, 32]\n[evaluate.batch]\nsize = 50\n";
  const Outcome measured = succeeded(run_command({tool("pipeline-run"), file, "--json", "--weights", weights}));
  EXPECT_EQ(events(measured, "validate").at(0).at("samples"), 130) << "of a run that trains nothing";
}

std::map<std::string, std::string> files_in(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) files[entry.path().filename()] = read_file(entry.path());
  return files;
}

TEST(Validation, WritesTheSameEvaluationWithSeveralProcesses) {
  const TemporaryFolder folder;
  const auto evaluation = [&](const char* processes) {
    const std::string runs = folder / processes;
    // Two sinks whose names once had the same hash: each gathers its own results.
    const Outcome outcome = succeeded(run_command(
        quick(runs, {"--devices", "cpu*3", "--processes", processes, "--epochs", "1", "--set",
                     R"(validate.flow=["read", "decode_image", "batch", "forward", "metrics", "sink_202", "sink_261"])", "--set",
                     R"(validate.sink_202={stage="write_evaluation", folder="first"})", "--set",
                     R"(validate.sink_261={stage="write_evaluation", folder="second", mistakes=0, predictions=0})", "--set",
                     "validate.batch.size=28"})));
    const fs::path run = newest_run(runs);
    return std::pair(files_in(run / "first"), files_in(run / "second"));
  };
  const auto alone = evaluation("1");
  EXPECT_EQ(alone.first.size(), 10U) << "tables and pictures";
  EXPECT_EQ(alone.second.size(), 7U) << "without sheets, and without the list of mistakes";
  EXPECT_EQ(evaluation("3"), alone);
}

TEST(Validation, WritesTheSameScoresOfLabelsWithSeveralProcesses) {
  const TemporaryFolder folder;
  {
    std::ofstream list(folder / "list.csv");
    list << "file_name,round,odd\n";
    int row = 0;
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(shapes()) / "test")) {
      if (!entry.is_regular_file()) continue;
      list << entry.path().string() << ',' << row % 2 << ',' << row / 2 % 2 << '\n';
      ++row;
    }
  }
  const auto evaluation = [&](const std::string& processes) {
    const std::string runs = folder / processes;
    succeeded(run_command(with(
        {tool("pipeline-run"), "labels", "--devices", "cpu*3", "--processes", processes, "--epochs", "1", "--quiet"},
        {"data.path=" + (folder / "list.csv"), R"(data.columns=["round", "odd"])", "data.held_out=0.5", "network.use=quickstart",
         "image.side=32", "run.precision=fp32", "train.batch.size=21", "validate.batch.size=13", "run.folder=" + runs})));
    return files_in(find_file(runs, "labels.csv").parent_path());
  };
  const auto alone = evaluation("1");
  EXPECT_EQ(alone.size(), 6U) << "tables and pictures";
  EXPECT_EQ(evaluation("3"), alone);
}

TEST(Validation, CountsResultsThatAreNotFiniteOfAllProcesses) {
  const TemporaryFolder folder;
  ASSERT_EQ(run_command(quick(folder / "runs", {"--epochs", "0.25"})).code, 0);
  std::string weights = read_file(find_file(folder.path() / "runs", "weights.safetensors"));
  weights.replace(weights.size() - 4, 4, "\xff\xff\xff\x7f");  // the last number, which affects every result
  const std::string nan = folder / "nan.safetensors";
  std::ofstream(nan, std::ios::binary) << weights;
  const auto evaluation = [&](const char* processes) {
    const Outcome outcome = run_command(quick(
        folder / processes, {"--graph", "validate", "--weights", nan, "--devices", "cpu*2", "--processes", processes, "--set",
                             R"(validate.flow=["read", "decode_image", "batch", "forward", "metrics", "write_evaluation"])"}));
    EXPECT_EQ(outcome.code, 1) << outcome.err;
    EXPECT_NE(outcome.err.find("[validate]: loss is nan: the weights are not finite either"), std::string::npos) << outcome.err;
    return files_in(find_file(folder / processes, "figures.csv").parent_path());
  };
  const auto alone = evaluation("1");
  EXPECT_NE(alone.at("figures.csv").find("images,130\r\nnot_finite,130\r\naccuracy,0\r\n"), std::string::npos)
      << alone.at("figures.csv");
  EXPECT_EQ(evaluation("2"), alone);
}

// Others would write only one process's results.
TEST(Validation, RefusesSinksOfOneProcessWhereThereAreSeveral) {
  for (const Words& more : {Words{}, Words{"--check"}}) {
    Words words = {"--devices",   "cpu*2",
                   "--processes", "2",
                   "--set",       R"(validate.flow=["read", "decode_image", "batch", "forward", "metrics", "write_classes"])"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = run_command(quick("", words));
    EXPECT_EQ(outcome.code, 2);
    EXPECT_NE(outcome.err.find("[validate.write_classes]: it writes the predictions of one process: give [validate] every = "
                               "\"never\", and run --graph validate afterwards with one process"),
              std::string::npos)
        << outcome.err;
  }
}

}  // namespace
}  // namespace millrace::test
