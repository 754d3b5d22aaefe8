// Tasks as new users describe them: only the location of the data. Each is run as one command, and trains and validates.
// Long because each kind of data that users have is a test.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <ranges>
#include <set>
#include <sstream>

#include "pairs_fixture.h"
#include "testkit/messages.h"

namespace millrace::test::short_files_test {
namespace {

namespace fs = std::filesystem;

class ShortFiles : public testing::Test {
 protected:
  using Words = std::vector<std::string>;

  Outcome run(const std::string& file, const Words& set, const Words& options = {"--quiet"}) const {
    return run_command(with(with({tool("pipeline-run"), file, "--json", "--devices", "cpu"}, set),
                            {"run.epochs=1", "run.precision=fp32", "train.batch.size=16", "run.folder=" + runs()}, options));
  }
  // Trains a small network on photographs of shapes.
  Outcome classify(const std::string& path, Words more = {}, const Words& options = {"--quiet"}) const {
    more.insert(more.end(), {"data.path=" + path, "network.use=quickstart", "image.side=32", "image.short=40",
                             "train.read.limit=48", "validate.read.limit=40"});
    return run("classify", more, options);
  }
  // Names classes by their values, in a file, since a list of tables is too long for a command.
  std::string segment(const std::string& path, const std::string& more = "") const {
    const std::string file = folder_ / "segment.toml";
    std::ofstream(file) << fmt::format(
        "extends = \"segment\"\n[data]\npath = \"{}\"\nclasses = [{{ name = \"a\" }}, {{ name = \"b\" }}, {{ name = \"c\" }}]\n"
        "[image]\nheight = 16\nwidth = 24\n[network]\nfilters = 4\n{}",
        path, more);
    return file;
  }
  std::string runs() const { return folder_ / "runs"; }
  // FOLDER with `count` classes of drawn shapes, a folder each.
  std::string few_classes(std::size_t count) const {
    const fs::path to = folder_.path() / fmt::format("classes-{}", count);
    fs::create_directories(to);
    std::set<fs::path> all;  // in the same order on every disk
    for (const auto& entry : fs::directory_iterator(fs::path(shapes()) / "train")) all.insert(entry.path());
    for (const fs::path& each : all | std::views::take(count)) fs::copy(each, to / each.filename(), fs::copy_options::recursive);
    return to.string();
  }
  std::string list(const std::string& columns, bool with_class) const {
    const std::string path = folder_ / "list.csv";
    std::ofstream out(path);
    out << "file_name," << columns << "\n";
    int row = 0;
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(shapes()) / "train")) {
      if (!entry.is_regular_file() || ++row > 60) continue;
      out << entry.path().string() << ','
          << (with_class ? entry.path().parent_path().filename().string() : fmt::format("{},{}", row % 2, row / 2 % 2)) << '\n';
    }
    return path;
  }
  void expect_trained(const Outcome& outcome, double samples) const {
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    EXPECT_FALSE(events(outcome, "step").empty());
    ASSERT_EQ(events(outcome, "validate").size(), 1U);
    EXPECT_EQ(events(outcome, "validate")[0].at("samples"), samples);
    EXPECT_FALSE(find_file(runs(), "best.safetensors").empty());
  }

  // The files of validation.
  void expect_written(const Words& files) const {
    for (const std::string& file : files) EXPECT_FALSE(find_file(runs(), file).empty()) << file;
  }

  TemporaryFolder folder_;
};

TEST_F(ShortFiles, ClassifyAFolderOfWhichSomeIsHeldOut) {
  const Outcome outcome =
      classify(shapes() + "/train", {"data.held_out=0.25", "validate.read.limit=unset", "train.read.limit=unset"});
  EXPECT_NE(outcome.err.find("'validate.read.limit=unset' unsets a key that is not set"), std::string::npos) << outcome.err;
  EXPECT_TRUE(events(classify(shapes()), "validate").at(0).contains("top5"));
  fs::remove_all(runs());
  const std::string folder = few_classes(3);
  const Outcome three = succeeded(classify(folder, {"data.held_out=0.5"}));
  const std::string kept = read_file(find_file(runs(), "pipeline.toml"));
  EXPECT_NE(kept.find("classes = 3"), std::string::npos) << "the whole file is kept: " << kept;
  EXPECT_EQ((three.out + read_file(find_file(runs(), "metrics.jsonl"))).find("top5"), std::string::npos) << "it is always 1";
  EXPECT_NE(kept.find("part = [0.5, 1.0]"), std::string::npos) << kept;
  EXPECT_NE(kept.find("stage = \"read_folder\""), std::string::npos) << kept;
}

TEST_F(ShortFiles, LeaveOutTopFiveBelowSixClasses) {
  const Outcome best = classify(few_classes(3), {"data.held_out=0.5", "run.best=validate.top5"});
  EXPECT_NE(best.err.find("[validate] has no figure 'top5'; it reports loss, accuracy"), std::string::npos) << best.err;
}

// With 20 of 28 images "ok", weights that always predict "ok" have the best accuracy. All images are identical here, so no
// weights can distinguish them.
TEST_F(ShortFiles, ClassifyKeepsTheBestMeanAccuracyAndWarnsWhereOneClassIsPredicted) {
  const fs::path image = *fs::directory_iterator(*fs::directory_iterator(few_classes(1)));
  const std::string data = folder_ / "screws";
  for (const auto& [name, count] : {std::pair("ok", 20), std::pair("scratch", 8)}) {
    for (const std::string part : {"train", "val"}) {
      fs::create_directories(fs::path(data) / part / name);
      for (int i = 0; i < count; ++i) fs::copy_file(image, fs::path(data) / part / name / fmt::format("{}.jpg", i));
    }
  }
  const Outcome outcome =
      succeeded(classify(data, {"train.decode_image.random_resized_crop=unset", "train.augment.flip_x=0"}, {}));
  const auto pass = events(outcome, "validate").at(0);
  EXPECT_EQ(pass.at("mean_accuracy"), 0.5);
  const std::string only = pass.at("only_class");
  EXPECT_EQ(pass.at("recall." + only), 1);
  EXPECT_EQ(pass.at("recall." + std::string(only == "ok" ? "scratch" : "ok")), 0);
  EXPECT_NE(outcome.err.find("mean accuracy 50.00 %  all as '" + only + "'"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find(fmt::format("warning: [validate]: everything is predicted as '{}', though other classes occur, also "
                                         "by the best weights so far, those of step 1 by validate.mean_accuracy",
                                         only)),
            std::string::npos)
      << outcome.err;
}

// Metrics in an evaluation's files can be named wherever a run uses a metric.
TEST_F(ShortFiles, NameEachFigureThatAnEvaluationWrites) {
  const std::string three = few_classes(3), pairs = folder_ / "pairs", numbers = list("round,odd", false);
  const std::string first = fs::directory_iterator(three)->path().filename();
  const auto check = [&](const std::string& file, Words set, const std::string& figure) {
    set.push_back("run.best=validate." + figure);
    return run(file, set, {"--quiet", "--check"});
  };
  const Words classes = {"data.path=" + three, "data.held_out=0.5", "network.use=quickstart", "image.side=32", "image.short=40"};
  for (const std::string figure : {"mean_accuracy", "mean_precision", "mean_f1", "calibration_error"}) {
    EXPECT_EQ(check("classify", classes, figure).code, 0) << figure;
  }
  for (const std::string figure : {"recall.", "precision.", "f1.", "iou."})
    EXPECT_EQ(check("classify", classes, figure + first).code, 0);
  const std::string wrong = check("classify", classes, "recall.nothing").err;
  EXPECT_NE(
      wrong.find("it reports loss, accuracy, mean_accuracy, mean_precision, mean_f1, calibration_error, and recall, precision, "
                 "f1 and iou of a class, as 'recall."),
      std::string::npos)
      << wrong;
  draw_pairs(pairs, 20, 48, 48, 3);
  for (const std::string figure : {"psnr", "ssim", "mean_psnr"}) {
    EXPECT_EQ(check("restore", {"data.path=" + pairs + "/images", "network.depth=4"}, figure).code, 0) << figure;
  }
  const Words columns = {"data.path=" + numbers, R"(data.columns=["round", "odd"])", "data.held_out=0.5",
                         "network.use=quickstart", "image.side=32"};
  for (const std::string figure : {"mae.odd", "r2.round", "mean_r2"})
    EXPECT_EQ(check("regress", columns, figure).code, 0) << figure;
  for (const std::string figure : {"f1.odd", "average_precision.round", "exact_match", "mean_average_precision"}) {
    EXPECT_EQ(check("labels", columns, figure).code, 0) << figure;
  }
}

TEST_F(ShortFiles, TakeWeightsOfClassesByNameAndBalanced) {
  const fs::path data = few_classes(3);
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(data)) names.push_back(entry.path().filename());
  std::ranges::sort(names);
  for (int removed = 0; removed < 20; ++removed) fs::remove(*fs::directory_iterator(data / names[1]));
  const auto trained = [&](const std::string& written) {
    fs::remove_all(runs());
    return run("classify",
               {"data.path=" + data.string(), "network.use=quickstart", "image.side=32", "image.short=40", "data.held_out=0.25",
                "train.forward_backward.loss={ type = \"cross_entropy\", class_weights = " + written + " }"});
  };
  const auto losses = [&](const std::string& written) {
    const Outcome outcome = succeeded(trained(written));
    std::vector<double> found;
    for (const auto& step : events(outcome, "step")) found.push_back(step.at("loss"));
    return found;
  };
  EXPECT_EQ(losses("{ " + names[1] + " = 5 }"), losses("[1, 5, 1]"));
  EXPECT_NE(losses("[1, 5, 1]"), losses("[1, 1, 1]"));
  losses("\"balanced\"");
  const std::vector<double> balanced = numbers_behind(read_file(find_file(runs(), "pipeline.toml")), "class_weights");
  ASSERT_EQ(balanced.size(), 3U);
  EXPECT_DOUBLE_EQ(balanced[0], balanced[2]);
  EXPECT_GT(balanced[1], balanced[0]);
  EXPECT_NEAR(2 / balanced[0] + 1 / balanced[1], 3, 1e-9) << "of n / (3 n[c])";
  const Outcome wrong = trained("{ nothing = 5 }"), text = trained("{ " + names[0] + " = \"much\" }");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_MESSAGE(wrong.err);
  EXPECT_NE(text.err.find("'class_weights." + names[0] + "' must be a number"), std::string::npos) << text.err;
}

// Validation images named next to the path replace those that are found or held out.
TEST_F(ShortFiles, ValidateOnWhatIsNamedBesideThePath) {
  const Outcome nowhere = classify(shapes(), {"data.validate=nowhere"});
  EXPECT_EQ(nowhere.code, 3);
  EXPECT_NE(nowhere.err.find("--set data.validate, used in "), std::string::npos) << nowhere.err;
  EXPECT_NE(nowhere.err.find("[validate.read]: path: 'nowhere' does not exist"), std::string::npos) << nowhere.err;
  const std::string other = few_classes(10);
  for (const std::string& path : {shapes(), shapes() + "/train"}) {
    const Outcome outcome = succeeded(classify(path, {"data.validate=" + other}));
    const std::string kept = read_file(find_file(runs(), "pipeline.toml"));
    EXPECT_NE(kept.find("path = \"" + other + "\""), std::string::npos) << kept;
    EXPECT_EQ(kept.find("part = "), std::string::npos) << kept;
    fs::remove_all(runs());
  }
}

TEST_F(ShortFiles, ClassifyAFolderThatIsDividedAlready) {
  expect_trained(classify(shapes()), 40);
  expect_written({"confusion.svg", "confusion.csv", "classes.png", "mistakes.png", "predictions.png", "figures.csv"});
}

TEST_F(ShortFiles, ClassifyTheFilesOfAList) { expect_trained(classify(list("label", true), {"data.held_out=0.5"}), 30); }

TEST_F(ShortFiles, ClassifyShards) {
  const std::string file = pipeline("quickstart.toml");
  for (const std::string part : {"train", "validate"}) {
    const Outcome packed =
        succeeded(run_command({tool("pipeline-data"), "pack", file, "--graph", part, "--set", "data.path=" + shapes(), "--out",
                               folder_ / ("shards/" + std::string(part == "train" ? "train" : "val"))}));
  }
  expect_trained(classify(folder_ / "shards"), 40);
  fs::create_directories(folder_ / "together");
  for (const auto& entry : fs::recursive_directory_iterator(folder_ / "shards")) {
    const fs::path part = entry.path().parent_path().filename();
    if (entry.path().extension() == ".tar")
      fs::copy(entry.path(), fs::path(folder_ / "together") / (part.string() + "-" + entry.path().filename().string()));
  }
  const std::string together = folder_ / "together";
  fs::copy(folder_ / "shards/train/classes.txt", together);
  EXPECT_EQ(classify(together, {}, {"--quiet", "--check"}).code, 0);
  const auto validated = [](const std::string& path) {
    return run_command({tool("pipeline-data"), "count", "classify", "--graph", "validate", "--set", "data.path=" + path}).out;
  };
  EXPECT_EQ(validated(together), validated(folder_ / "shards"));
  std::ofstream(fs::path(together) / "extra-000.tar") << "x";
  const Outcome mixed = classify(together, {}, {"--quiet", "--check"});
  EXPECT_NE(mixed.err.find("/train-shard-[0-9]*.tar"), std::string::npos) << mixed.err;
}

// Bus, car, train; and an archive next to the folders.
TEST_F(ShortFiles, ClassifyAFolderOfWhichOneClassIsCalledTrain) {
  const std::string folder = few_classes(3);
  fs::rename(fs::directory_iterator(folder)->path(), fs::path(folder) / "train");
  std::ofstream(fs::path(folder) / "backup.tar") << "x";
  const Outcome outcome = succeeded(classify(folder, {"data.held_out=0.5"}));
  EXPECT_NE(read_file(find_file(runs(), "pipeline.toml")).find("classes = 3"), std::string::npos);
}

TEST_F(ShortFiles, ClassifyWhatAUrlNames) { expect_trained(classify("file://" + few_classes(2), {"data.held_out=0.5"}), 40); }

TEST_F(ShortFiles, StartFromWeightsOfOtherClasses) {
  expect_trained(classify(shapes()), 40);
  const std::string weights = folder_ / "ten.safetensors";
  fs::copy_file(find_file(runs(), "best.safetensors"), weights);
  const std::string few = few_classes(3);
  const Outcome three = succeeded(classify(few, {"data.held_out=0.5"}, {"--quiet", "--weights", weights}));
  const std::string said = "are of other classes: layer 'fc' begins with new values";
  EXPECT_NE(three.err.find(said), std::string::npos) << three.err;
  EXPECT_MESSAGE(refused(classify(few, {"data.held_out=0.5", "network.new=[]"}, {"--check", "--weights", weights})));
  const std::string others = few_classes(10);  // as many, one with another name
  fs::rename(fs::directory_iterator(others)->path(), fs::path(others) / "another");
  const Outcome ten = succeeded(classify(others, {}, {"--quiet", "--weights", weights}));
  EXPECT_NE(ten.err.find(said), std::string::npos) << ten.err;
}

TEST_F(ShortFiles, ClassifyOnTwoDevices) {
  const Outcome outcome = classify(shapes(), {}, {"--quiet", "--devices", "cpu*2"});
  expect_trained(outcome, 40);
}

TEST_F(ShortFiles, SegmentInTheUsualLayouts) {
  const fs::path images = folder_.path() / "side";
  draw_pairs(images.string(), 20, 16, 24, 3);
  fs::rename(images / "labels", images / "masks");
  expect_trained(run(segment(images.string()), {}), 2);
  expect_written({"worst.png", "predictions.png", "confusion.svg", "classes.png"});

  const fs::path one = folder_.path() / "one";  // x.png and x_mask.png
  fs::create_directories(one);
  for (const auto& entry : fs::directory_iterator(images / "images")) fs::copy(entry.path(), one / entry.path().filename());
  for (const auto& entry : fs::directory_iterator(images / "masks"))
    fs::copy(entry.path(), one / (entry.path().stem().string() + "_mask.png"));
  expect_trained(run(segment(one.string()), {}), 2);

  const fs::path camvid = folder_.path() / "camvid";  // train/images, train/labels
  draw_pairs((camvid / "train").string(), 16, 16, 24, 3);
  draw_pairs((camvid / "val").string(), 4, 16, 24, 3, 16);
  expect_trained(run(segment(camvid.string()), {}), 4);

  const fs::path ade = folder_.path() / "ade";  // images/training, annotations/training
  for (const char* part : {"training", "validation"}) {
    const fs::path from = camvid / (std::string(part) == "training" ? "train" : "val");
    fs::create_directories(ade / "images");
    fs::create_directories(ade / "annotations");
    fs::copy(from / "images", ade / "images" / part, fs::copy_options::recursive);
    fs::copy(from / "labels", ade / "annotations" / part, fs::copy_options::recursive);
  }
  expect_trained(run(segment(ade.string()), {}), 4);

  const fs::path segnet = folder_.path() / "segnet";  // train, trainannot
  for (const char* part : {"train", "val"}) {
    fs::create_directories(segnet);
    fs::copy(camvid / part / "images", segnet / part, fs::copy_options::recursive);
    fs::copy(camvid / part / "labels", segnet / (std::string(part) + "annot"), fs::copy_options::recursive);
  }
  expect_trained(run(segment(segnet.string()), {}), 4);

  const fs::path streets = folder_.path() / "cityscapes";
  for (const char* part : {"train", "val"}) {
    for (const char* kind : {"leftImg8bit", "gtFine"}) {
      const bool is_image = std::string(kind) == "leftImg8bit";
      fs::create_directories(streets / kind / part / "ulm");
      for (const auto& entry : fs::directory_iterator(camvid / part / (is_image ? "images" : "labels")))
        fs::copy(entry.path(), streets / kind / part / "ulm" /
                                   (entry.path().stem().string() + (is_image ? "_leftImg8bit.png" : "_gtFine_labelIds.png")));
    }
  }
  expect_trained(run(segment(streets.string()), {}), 4);
}

// VOC: folders of all images, including those without masks, and lists for each part.
TEST_F(ShortFiles, SegmentPartsThatListsName) {
  const fs::path voc = folder_.path() / "voc", drawn = folder_.path() / "drawn", lists = voc / "ImageSets/Segmentation";
  draw_pairs(drawn.string(), 24, 16, 24, 3);
  fs::create_directories(lists);
  fs::copy(drawn / "images", voc / "JPEGImages", fs::copy_options::recursive);
  fs::copy(drawn / "labels", voc / "SegmentationClass", fs::copy_options::recursive);
  std::vector<fs::path> images;
  for (const auto& entry : fs::directory_iterator(voc / "JPEGImages")) images.push_back(entry.path());
  std::ranges::sort(images);
  std::ofstream train(lists / "train.txt"), val(lists / "val.txt"), all(lists / "trainval.txt");
  for (std::size_t i = 0; i < images.size(); ++i) {
    const std::string name = images[i].stem().string();
    if (i < 20) (i < 16 ? train : val) << name << '\n', all << name << '\n';
    if (i >= 20) fs::remove(voc / "SegmentationClass" / (name + ".png"));
  }
  for (std::ofstream* const list : {&train, &val, &all}) list->close();
  expect_trained(run(segment(voc.string()), {}), 4);
  fs::remove_all(lists);
  const Outcome unlisted = run(segment(voc.string()), {}, {"--check"});
  EXPECT_NE(unlisted.err.find("--set data.unpaired=skip does so in all parts"), std::string::npos) << unlisted.err;
  EXPECT_EQ(run(segment(voc.string()), {"data.unpaired=skip"}, {"--check"}).code, 0);
}

TEST_F(ShortFiles, SegmentPartsOfAnyName) {
  const fs::path drawn = folder_.path() / "drawn", coco = folder_.path() / "coco";  // images/train2017, masks/train2017
  draw_pairs((drawn / "train2017").string(), 16, 16, 24, 3);
  draw_pairs((drawn / "val2017").string(), 4, 16, 24, 3, 16);
  for (const auto& [from, to] : {std::pair("images", "images"), std::pair("labels", "masks")}) {
    fs::create_directories(coco / to);
    for (const char* part : {"train2017", "val2017"}) fs::rename(drawn / part / from, coco / to / part);
  }
  expect_trained(run(segment(coco.string()), {}), 4);

  for (const char* kind : {"images", "masks"})
    fs::copy(coco / kind / "train2017", coco / kind / "train2014", fs::copy_options::recursive);
  EXPECT_MESSAGE(refused(run(segment(coco.string()), {})));
}

TEST_F(ShortFiles, RestoreAFolderOfPhotographs) {
  const std::string file = folder_ / "images";
  draw_pairs(file, 20, 48, 48, 3);
  expect_trained(run("restore", {"data.path=" + file + "/images", "network.depth=4", "validate.every=epoch"}), 2);
  expect_written({"images.csv", "predictions.png"});
}

TEST_F(ShortFiles, LearnSeveralLabelsAndNumbers) {
  const std::string path = list("round,odd", false);
  for (const char* base : {"labels", "regress"}) {
    SCOPED_TRACE(base);
    fs::remove_all(runs());  // both draw pictures of the same names
    const Outcome outcome = run(base, {"data.path=" + path, R"(data.columns=["round", "odd"])", "data.held_out=0.5",
                                       "network.use=quickstart", "image.side=32"});
    expect_trained(outcome, 30);
    const bool numbers = std::string(base) == "regress";
    EXPECT_EQ(events(outcome, "validate")[0].contains("psnr"), false) << "which images have";
    expect_written(
        {numbers ? "scatter.svg" : "labels.png", numbers ? "numbers.csv" : "labels.csv", "predictions.png", "mistakes.png"});
    const std::string kept = read_file(find_file(fs::path(runs()) / base, "pipeline.toml"));
    EXPECT_NE(kept.find("classes = 2"), std::string::npos) << "an output for each column: " << kept;
    EXPECT_EQ(kept.find("crop"), std::string::npos) << "what is labelled may be at the edge: " << kept;
    EXPECT_EQ(kept.find("flip_x = 0.5") == std::string::npos, numbers) << "a number may be a place or an angle: " << kept;

    const fs::path out = folder_ / (std::string("out-") + base);
    const Outcome predicted =
        succeeded(run_command({tool("pipeline-run"), "--predict", shapes() + "/test", "--weights",
                               find_file(fs::path(runs()) / base, "best.safetensors"), "--out", out, "--quiet"}));
    std::istringstream rows(read_file(out / "features.csv"));
    std::string row;
    std::getline(rows, row);
    EXPECT_EQ(row, "path,label,round,odd,error\r") << "a column for each number, under its name";
    while (std::getline(rows, row) && std::string(base) == "labels") {
      const double probability = std::stod(row.substr(row.rfind(',', row.rfind(',') - 1) + 1));
      EXPECT_TRUE(probability > 0 && probability < 1) << row;
    }
  }
}

// Measures the validation images again from the weights alone.
TEST_F(ShortFiles, MeasureLabelsAndNumbersOfAListAsTheirValidationDid) {
  const std::string path = list("round,odd", false);
  std::istringstream rows(read_file(path));
  std::string text[2], row;
  for (int i = 0; std::getline(rows, row); ++i) {
    for (const int part : {0, 1}) {
      if (i == 0 || (i - 1) / 2 % 2 == part) text[part] += row + "\n";
    }
  }
  std::ofstream(folder_ / "train.csv") << text[0];
  std::ofstream(folder_ / "val.csv") << text[1];
  for (const char* base : {"labels", "regress"}) {
    SCOPED_TRACE(base);
    expect_trained(run(base, {"data.train=" + (folder_ / "train.csv"), "data.validate=" + (folder_ / "val.csv"),
                              R"(data.columns=["round", "odd"])", "network.use=quickstart", "image.side=32"}),
                   30);
    const fs::path evaluation = find_file(fs::path(runs()) / base, "figures.csv").parent_path(), out = folder_.path() / "out";
    const auto measure = [&](const Words& more) {
      return run_command(with({tool("pipeline-run"), "--predict", folder_ / "val.csv", "--quiet", "--out", out.string(),
                               "--devices", "cpu", "--weights", evaluation.parent_path().string(), "--labels"},
                              {}, more));
    };
    const Outcome measured = succeeded(measure({"column"}));
    std::size_t files = 0;
    for (const auto& entry : fs::directory_iterator(evaluation)) {
      if (entry.path().extension() != ".csv") continue;
      EXPECT_EQ(read_file(out / "evaluation" / entry.path().filename()), read_file(entry.path())) << entry.path();
      ++files;
    }
    EXPECT_EQ(files, std::string(base) == "labels" ? 3U : 2U);
    EXPECT_TRUE(fs::exists(out / "features.csv"));
    EXPECT_NE(measure({"path"}).err.find("--labels: the numbers of images are columns of a list"), std::string::npos);
  }
}

TEST_F(ShortFiles, TakeImagesThatAreNoSquares) {
  const Words set = {"data.path=" + shapes(), "network.use=quickstart", "image.height=24", "image.width=32"};
  const Outcome outcome = succeeded(run("classify", set, {"--check"}));
  EXPECT_NE(outcome.err.find(" samples of 24 x 32 x 3, "), std::string::npos) << outcome.err;
  const Outcome both = run("classify", {set[0], set[1], "image.side=[24, 32]"}, {"--check"});
  EXPECT_EQ(both.code, 2);
  EXPECT_NE(both.err.find("image.height"), std::string::npos) << both.err;
}

// Kaggle's test set, whose labels are secret.
TEST_F(ShortFiles, ValidateOnNoImagesWithoutLabels) {
  const fs::path folder = folder_ / "kaggle", classes = few_classes(2);
  fs::create_directories(folder / "test");
  fs::copy(classes, folder / "train", fs::copy_options::recursive);
  fs::copy(fs::directory_iterator(fs::directory_iterator(classes)->path())->path(), folder / "test");
  const Outcome outcome = succeeded(classify(folder, {"data.held_out=0.5"}, {"--quiet", "--check"}));
  EXPECT_NE(outcome.err.find("/test' holds images without folders of classes"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("\n[validate]"), std::string::npos);
  const Outcome named = classify(folder / "train", {"data.validate=" + (folder / "test").string()}, {"--quiet", "--check"});
  EXPECT_NE(named.err.find("so they have no labels: pipeline-run --predict"), std::string::npos) << named.err;
}

TEST_F(ShortFiles, NameASecondFolderForValidation) {
  const fs::path folder = folder_ / "four", classes = few_classes(2);
  fs::create_directories(folder);
  for (const char* part : {"train", "test", "testing"}) fs::copy(classes, folder / part, fs::copy_options::recursive);
  const Outcome two = classify(folder, {}, {"--quiet", "--check"});
  EXPECT_NE(two.err.find("' validates, and '"), std::string::npos) << two.err;
  fs::rename(folder / "testing", folder / "val");
  const Outcome outcome = classify(folder, {}, {"--quiet", "--check"});
  EXPECT_EQ(outcome.err.find("' validates, and '"), std::string::npos) << "a test set is for later: " << outcome.err;
}

// A base file keeps a part for validation, which still belongs to the data.
TEST_F(ShortFiles, LookAtAllOfTheirData) {
  const fs::path classes = few_classes(2);
  const auto count = [&](const Words& options) {
    return run_command(with({tool("pipeline-data"), "count", "classify", "--set", "data.path=" + classes.string()}, {}, options))
        .out;
  };
  EXPECT_NE(count({}), count({"--graph", "train"}));
  EXPECT_NE(count({}), count({"--graph", "validate"}));
}

TEST_F(ShortFiles, NameAllClassesWhereAPartLacksOne) {
  const fs::path folder = folder_ / "lacking", classes = few_classes(3);
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(classes)) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  fs::create_directories(folder);
  for (const char* part : {"train", "val"}) fs::copy(classes, folder / part, fs::copy_options::recursive);
  fs::remove_all(folder / "val" / names[0]);
  const std::string all = fmt::format("data.classes=[\"{}\"]", fmt::join(names, "\", \""));
  EXPECT_MESSAGE(refused(classify(folder, {}, {"--quiet", "--check"})));
  const Outcome outcome = succeeded(classify(folder, {all}, {"--quiet", "--check"}));
  EXPECT_NE(outcome.err.find(fmt::format("class '{}' has no image in '", names[0])), std::string::npos) << outcome.err;
  EXPECT_NE(classify(folder, {"data.unpaired=skip"}, {"--check"}).err.find("nothing refers to it"), std::string::npos)
      << "read_folder has no such key";
}

TEST_F(ShortFiles, SayWhatIsNoDataSet) {
  const fs::path folder = folder_ / "kaggle";
  fs::create_directories(folder / "train");
  for (const char* name : {"train/0.jpg", "train.csv", "list.json", "list.parquet", "list.TXT"})
    std::ofstream(folder / name) << "x";
  const std::pair<const char*, const char*> said[] = {
      {"", "train.csv' next to it is a list: data.path = \""},
      {"/list.json", "list.json' is JSON as a whole: a list has an object in each line, and is called .jsonl; expected a folder"},
      {"/list.parquet", "write them as files"},
      {"/list.TXT", "a list is called .csv"}};
  for (const auto& [path, message] : said) {
    const Outcome outcome = classify(folder.string() + path, {}, {"--quiet", "--check"});
    EXPECT_EQ(outcome.code, 2) << path;
    EXPECT_NE(outcome.err.find(message), std::string::npos) << outcome.err;
  }
}

// Requests are reported in one line.
TEST_F(ShortFiles, SayWhatTheyNeed) {
  const std::vector<std::tuple<std::string, Words, std::string>> mistakes = {
      {"classify",
       {},
       "[data] needs 'path': the folder, list, shards or URL of the images; on the command line --set data.path=photos"},
      {"clasify", {}, "neither a file nor a base file 'clasify' exists; nearest is the base file 'classify'"},
      {"segment", {}, "[data] needs 'classes': what masks tell apart"},
      {"regress", {}, "[data] needs 'columns': those of the list that are learned"},
      {segment(shapes()), {}, "holds no images with masks in a known layout"},
      {"classify", {"data.path=x", "network.weights=imagenet"}, "give a .safetensors, .pth or .pt file, or the URL of one"},
      {"classify",
       {"data.path=x", "data.holds=cats"},
       "'holds' must be one of \"classes\", \"masks\", \"images\", \"numbers\", \"labels\""},
      {"classify", {"data.path=x", "data.train=y"}, "'train' and 'path' both say where the images for training are"},
      {"classify", {"data.path=x", "data.held_out=2"}, "'held_out' must be a share above 0 and below 1, found 2"}};
  for (const auto& [file, set, message] : mistakes) {
    const Outcome outcome = run(file, set);
    EXPECT_EQ(outcome.code, 2) << file;
    EXPECT_NE(outcome.err.find(message), std::string::npos) << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
  for (const auto& [text, message] : std::vector<std::pair<std::string, std::string>>{
           {"[data]\npaht = \"x\"\n", "mine.toml:3:1: 'paht' means nothing in [data]; nearest is 'path'"},
           {"[Data]\npath = \"x\"\n", "mine.toml:2:2: [Data] means nothing here; nearest is [data]"},
           {"[data]\npath = \"x\"\nhelt_out = 0.5\n",
            "'helt_out' in [data] is new, and nothing refers to it; nearest is 'held_out'"},
           {"[data]\npath = \"x\"\n[image]\nsize = 64\n",
            "'size' in [image] is new, and nothing refers to it; nearest is 'side'"},
           {"[data]\npath = \"x\"\n[train.augment]\nflipx = 0.2\n",
            "mine.toml:5:1: [train.augment] has no key 'flipx'; nearest is 'flip_x'"},
           {"[data]\npath = \"x\"\n[train.augment]\nflip_x = 0.2\nflipx = 0.2\n", "nearest is 'flip_y'"},
           {"[data]\npath = \"x\"\n[vaildate]\nevery = \"2 epochs\"\n", "nearest is 'validate'"}}) {
    std::ofstream(folder_ / "mine.toml") << "extends = \"classify\"\n" << text;
    const Outcome outcome = run(folder_ / "mine.toml", {});
    EXPECT_EQ(outcome.code, 2) << text;
    EXPECT_NE(outcome.err.find(message), std::string::npos) << outcome.err;
  }
  // Near is what the files below have, not what the same file has.
  std::ofstream(folder_ / "below.toml") << "extends = \"classify\"\n[data]\nmine_too = 1\n";
  std::ofstream(folder_ / "mine.toml")
      << "extends = \"below.toml\"\n[data]\npath = \"x\"\nmine_tooo = 1\nhelt_out = 0.5\nhelt_outt = 0.5\n";
  const std::string both = run(folder_ / "mine.toml", {}).err;
  EXPECT_NE(both.find("'mine_tooo' in [data] is new, and nothing refers to it; nearest is 'mine_too'"), std::string::npos)
      << both;
  EXPECT_NE(both.find("'helt_outt' in [data] is new, and nothing refers to it; nearest is 'held_out'"), std::string::npos)
      << both;
  std::ofstream(folder_ / "mine.toml") << "extends = \"clasify\"\n";
  EXPECT_NE(run(folder_ / "mine.toml", {}).err.find("mine.toml:1:11: unknown base file 'clasify'; nearest is 'classify'"),
            std::string::npos);
}

// Names a network whose output the base file cannot compare, before naming the base file.
TEST_F(ShortFiles, NameTheNetworkThatDoesNotFit) {
  draw_pairs(folder_ / "scenes", 20, 16, 24, 3);
  EXPECT_MESSAGE(refused(run(segment(folder_ / "scenes"), {"network.use=quickstart", "network.filters=unset"})));
}

// A mistake in a value is reported at the option or line that sets it, and not at the base file that uses it.
TEST_F(ShortFiles, NameTheOptionOrTheLineThatGaveAValue) {
  const std::vector<std::pair<Words, std::string>> mistakes = {
      {{"data.path=/nowhere"}, ": --set data.path, used in "},
      {{"data.path=/nowhere"}, "classify.toml:38:1: [train.read]: path: '/nowhere' does not exist"},
      {{"validate.decode_image.size=unset"}, ": --set validate.decode_image.size, "},
      {{"validate.decode_image.size=unset"}, "classify.toml:64:1: [validate.decode_image]: size: required by crop"},
      {{"train.forward_backward.loss=pixel_cross_entropy"}, ": --set train.forward_backward.loss, used in "},
      {{"image.side=2.5"}, "--set image.side: 'size' must be [height, width], or an integer, found [2.5, 2.5]\n"},
      {{"image.side=2.5"}, "--set image.side: height = 2.5 of network 'quickstart': "},
      {{"image.side=99999"}, "--set image.side: 'short_side' must be an integer between 1 and 65535, found 114284\n"},
      {{"image.side=1"},
       "--set image.side: network 'quickstart' needs an input of at least 8 x 8, found 1 x 1, which leaves nothing"},
      {{"image.short=10"}, ": --set image.short, "},
      {{"train.optimizer.learning_rate.initial=3000"}, "--set train.optimizer.learning_rate.initial, used in "}};
  const auto check = [&](const std::string& file, const Words& set) {
    return run_command(with({tool("pipeline-run"), file, "--check", "--devices", "cpu"}, set)).err;
  };
  const std::string file = folder_ / "mine.toml";
  const auto write = [&](const std::string& text) {
    std::ofstream(file) << fmt::format(
        "extends = \"classify\"\n[data]\npath = \"{}\"\n[network]\nuse = \"quickstart\"\n[image]\n{}\n", shapes(), text);
  };
  write("side = 32");
  for (const auto& [set, message] : mistakes) {
    const std::string said = check(file, set);
    EXPECT_NE(said.find(message), std::string::npos) << said;
  }
  write("side = 32\nshort = 10");
  EXPECT_NE(check(file, {}).find(fmt::format(": {0}:8:9, {0}:7:8, used in ", file)), std::string::npos) << check(file, {});
  write("side = 2.5");
  EXPECT_NE(check(file, {}).find(file + ":7:8: 'size' must be [height, width]"), std::string::npos) << check(file, {});
  EXPECT_EQ(check(file, {"image.side=32", "data.path=" + shapes()}).find("mine.toml"), std::string::npos);
  write("side = 32\n[validate.decode_image]\nsize = \"unset\"");
  EXPECT_NE(check(file, {}).find(file + ":8:1: [validate.decode_image]: size: required by "), std::string::npos)
      << check(file, {});
  write("side = 32\n[validate]\nevery = \"epoch\"\n[run]\nbest = \"validate.rmse\"");
  EXPECT_NE(check(file, {}).find(file + ":11:8: [validate] has no figure 'rmse'"), std::string::npos) << check(file, {});
  write("side = 32\n[validate.forward]\nloss = \"mean_squared_error\"");
  EXPECT_NE(check(file, {}).find(file), std::string::npos) << check(file, {});
}

TEST_F(ShortFiles, AreWrittenToGoOnFrom) {
  const std::string file = folder_ / "mine.toml";
  const auto make = [&](const Words& set) {
    return run_command(with({tool("pipeline-inspect"), "classify", "--new", file}, set));
  };
  EXPECT_NE(make({"data.path=x", "run.epohs=2"}).err.find("[run] has no key 'epohs'"), std::string::npos);
  EXPECT_FALSE(fs::exists(file)) << "nothing is written where a mistake is";
  const Outcome made =
      succeeded(make({"data.path=" + shapes(), "network.use=quickstart", "image.side=32", "train.batch.size=20"}));
  EXPECT_TRUE(fs::is_regular_file(folder_.path() / "millrace.schema.json"));
  const std::string text = read_file(file);
  EXPECT_EQ(text.find("#:schema millrace.schema.json\n"), 0U) << text;
  EXPECT_NE(text.find("\n[image]\nside = 32\n# height = \"${image.side}\"\n# width = \"${image.side}\"\n# short = "
                      "\"${image.height} * 8 // 7\"\n"),
            std::string::npos)
      << text;
  const Outcome checked = succeeded(run_command({tool("pipeline-run"), file, "--check", "--devices", "cpu"}));
  EXPECT_NE(make({}).err.find("already exists"), std::string::npos);
}

TEST_F(ShortFiles, AreShownWithTheirVariablesAndGraphs) {
  for (const char* base : {"classify", "classify_small", "segment", "restore", "regress", "labels"}) {
    SCOPED_TRACE(base);
    const Outcome outcome = succeeded(run_command({tool("pipeline-inspect"), base}));
    for (const char* text : {"data.held_out", "[train]", "[validate], every", "[predict], only with --graph"})
      EXPECT_NE(outcome.out.find(text), std::string::npos) << text;
  }
}

// An unreadable part is not absent: a tenth of the others must not be used for validation instead.
TEST_F(ShortFiles, RefuseAPartThatIsThereAndCannotBeRead) {
  const fs::path folder = folder_ / "set", val = folder / "val";
  fs::create_directories(folder);
  fs::create_directory_symlink(fs::path(shapes()) / "train", folder / "train");
  const auto refuse = [&] {
    EXPECT_MESSAGE(refused(classify(folder, {}, {"--quiet", "--check"})));
    fs::remove_all(val);
    fs::remove(folder / "val.tar");
  };
  fs::create_symlink("sets/val", val);
  refuse();
  std::ofstream(val) << "../sets/val";  // git's replacement for a link on systems without links
  refuse();
  std::ofstream(folder / "val.tar") << "x";
  refuse();
  fs::create_directory_symlink(fs::path(shapes()) / "test", folder / "test");
  fs::create_symlink("sets/val", val);
  refuse();  // not `test` in its place
  fs::create_symlink("sets/val", val);
  EXPECT_EQ(classify(folder, {"data.validate=" + shapes() + "/test"}, {"--quiet", "--check"}).code, 0);
  fs::remove(val);
  fs::remove(folder / "train");
  fs::create_symlink("sets/train", folder / "train");
  refuse();
  fs::remove_all(folder);
  draw_pairs((folder / "train").string(), 16, 16, 24, 3);
  fs::create_symlink("sets/val", val);
  EXPECT_MESSAGE(refused(run(segment(folder.string()), {}, {"--quiet", "--check"})));
}

// As the message above proposes: keys of a list for all parts.
TEST_F(ShortFiles, TakeKeysOfListsForAllParts) {
  const fs::path folder = folder_ / "eyes";
  fs::create_directories(folder / "train_images");
  std::ofstream list(folder / "train.txt");
  list << "id_code\tdiagnosis\n";
  std::size_t number = 0;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(shapes()) / "train")) {
    if (!entry.is_regular_file() || ++number > 80) continue;
    const std::string name = fmt::format("a{}", number);
    fs::copy_file(entry.path(), folder / "train_images" / (name + ".jpg"));
    list << name << '\t' << entry.path().parent_path().filename().string() << '\n';
  }
  list.close();
  const Words keys = {"data.format=tsv",
                      "data.file=id_code",
                      "data.label=diagnosis",
                      "data.ending=.jpg",
                      "data.root=" + (folder / "train_images").string(),
                      "data.held_out=0.5"};
  expect_trained(classify(folder / "train.txt", keys), 40);
  Words by_part;
  for (const char* part : {"train", "validate"}) {
    for (const char* key : {"format=tsv", "file=id_code", "label=diagnosis", "ending=.jpg"})
      by_part.push_back(fmt::format("{}.read.{}", part, key));
    by_part.push_back(fmt::format("{}.read.root={}", part, (folder / "train_images").string()));
  }
  by_part.emplace_back("data.held_out=0.5");
  EXPECT_EQ(classify(folder / "train.txt", by_part, {"--quiet", "--check"}).code, 0)
      << "its form is asked for before it is refused";
}

TEST_F(ShortFiles, SegmentUnderNamesOfOtherTools) {
  const fs::path drawn = folder_ / "drawn";
  draw_pairs(drawn.string(), 20, 16, 24, 3);
  const auto laid_out = [&](const std::string& name, const std::string& images, const std::string& masks) {
    const fs::path to = folder_ / name;
    for (const auto& [from, part] : {std::pair(drawn / "images", images), std::pair(drawn / "labels", masks)}) {
      fs::create_directories(to / part);
      const bool is_photograph = images == masks && part == images && from == drawn / "images";
      for (const auto& entry : fs::directory_iterator(from))
        fs::copy(entry.path(), to / part / (entry.path().stem().string() + (is_photograph ? ".jpg" : ".png")));
    }
    return to.string();
  };
  const auto check = [&](const std::string& path) {
    const Outcome outcome = run(segment(path), {}, {"--quiet", "--check"});
    EXPECT_EQ(outcome.code, 0) << path << outcome.err;
  };
  check(laid_out("capital", "Images", "Ground_Truth"));
  check(laid_out("carvana", "train_images", "train_masks"));
  const std::string behind = laid_out("behind", "images_train", "labels_train");
  expect_trained(run(segment(behind), {}), 2);  // a tenth
  laid_out("behind", "img_val", "mask_val");
  const Outcome both = succeeded(run(segment(behind), {}));
  EXPECT_EQ(events(both, "validate").at(0).at("samples"), 20) << "all of img_val, which are those of training here";
  EXPECT_MESSAGE(refused(run(segment(laid_out("nnunet", "imagesTr", "labelsTr")), {})));
  const std::string labelme = laid_out("labelme", "JPEGImages", "SegmentationClassPNG");
  fs::create_directories(labelme + "/SegmentationClass");
  std::ofstream(labelme + "/SegmentationClass/0.npy") << "x";
  check(labelme);
  const std::string one = laid_out("one", ".", ".");  // 0.jpg and 0.png
  check(one);
}

}  // namespace
}  // namespace millrace::test::short_files_test
