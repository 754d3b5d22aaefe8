// libmillrace_predict: every task as --predict does it, faults of callers and files, and many threads.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <png.h>
#include <png_file.h>
#include <sys/stat.h>

#include <cmath>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include "millrace/predict.hpp"
#include "model_fixture.h"
#include "pipelines/command.h"
#include "pipelines/pairs_fixture.h"

namespace millrace::test::embedding_test {
namespace {

// The rows of --predict, without the first.
std::vector<std::vector<std::string>> predicted(const std::string& data, const std::string& weights, const std::string& out,
                                                const std::vector<std::string>& set = {}) {
  const Outcome outcome = succeeded(run_command(
      with({tool("pipeline-run"), "--predict", data, "--weights", weights, "--out", out, "--devices", "cpu", "--quiet"}, set)));
  std::istringstream table(read_file(out + "/predictions.csv"));
  std::vector<std::vector<std::string>> rows;
  for (std::string line, cell; std::getline(table, line);) {
    std::istringstream cells(line);
    rows.emplace_back();
    while (std::getline(cells, cell, ',')) rows.back().push_back(cell);
  }
  if (!rows.empty()) rows.erase(rows.begin());
  return rows;
}

struct Pixels {
  int height = 0, width = 0;
  std::vector<std::uint8_t> values;
};

Pixels read_png(const std::string& file, png_uint_32 format) {
  Pixels pixels;
  png_image info{};
  info.version = PNG_IMAGE_VERSION;
  EXPECT_NE(png_image_begin_read_from_file(&info, file.c_str()), 0) << file << ": " << info.message;
  info.format = format;
  pixels.height = static_cast<int>(info.height);
  pixels.width = static_cast<int>(info.width);
  pixels.values.resize(PNG_IMAGE_SIZE(info));
  EXPECT_NE(png_image_finish_read(&info, nullptr, pixels.values.data(), 0, nullptr), 0) << info.message;
  return pixels;
}

TEST(Embedding, ScoresAreThoseOfPredictOfARunAndOfAFile) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "photos");
  for (std::size_t i = 0; i < 20; ++i) fs::copy(trained().images[i * 6], folder / fmt::format("photos/{:02}.jpg", i));
  const auto rows = predicted(folder / "photos", trained().weights, folder / "out", {"predict.write_classes.columns=classes"});
  ASSERT_EQ(rows.size(), 20U);
  const Model run(trained().run), file(trained().weights);
  for (const auto& row : rows) {
    const std::string bytes = read_file(row[0]);
    const auto scores = run.scores(encoded(bytes));
    ASSERT_EQ(scores.values.size(), 10U);
    EXPECT_EQ(row[2], run.classes()[scores.best()]);
    for (std::size_t c = 0; c < 10; ++c) EXPECT_NEAR(scores.values[c], std::stod(row[3 + c]), 1e-5) << row[0];
    EXPECT_EQ(file.scores(encoded(bytes)).values, scores.values);
  }
}

TEST(Embedding, DescribesTheModel) {
  const Model model(trained().run);
  const millrace_description told = model.describe();
  EXPECT_EQ(told.task, MILLRACE_CLASSES);
  EXPECT_EQ(told.height, 32);
  EXPECT_EQ(told.channels, 3);
  EXPECT_EQ(told.classes, 10U);
  EXPECT_EQ(told.precision, MILLRACE_FLOAT32);
  EXPECT_EQ(told.keeps_size, 0);
  EXPECT_EQ(told.weights, trained().weights);
  EXPECT_EQ(model.names(MILLRACE_LAYER_NAMES).size(), told.layers);
  EXPECT_EQ(millrace_name(model.get(), MILLRACE_CLASS_NAMES, 10), nullptr);
  EXPECT_STREQ(millrace_status_name(MILLRACE_IMAGE), "MILLRACE_IMAGE");
}

TEST(Embedding, PixelsInEveryFormatAreTheImageOfTheFile) {
  const std::string bytes = png_of(32, 32);
  std::vector<std::uint8_t> rgb, bgra, upside_down;
  for (int i = 0; i < 32 * 32 * 3; ++i) rgb.push_back(static_cast<std::uint8_t>(i * 7 % 251));
  for (std::size_t i = 0; i < rgb.size(); i += 3) bgra.insert(bgra.end(), {rgb[i + 2], rgb[i + 1], rgb[i], 9});
  for (int y = 31; y >= 0; --y) {
    upside_down.insert(upside_down.end(), rgb.begin() + y * 96, rgb.begin() + (y + 1) * 96);
    upside_down.insert(upside_down.end(), 5, 77);  // a gap
  }
  const Model model(trained().run);
  const auto expected = model.numbers(encoded(bytes)).values;
  EXPECT_EQ(model.numbers(predict::pixels(rgb.data(), 32, 32, MILLRACE_RGB)).values, expected);
  EXPECT_EQ(model.numbers(predict::pixels(bgra.data(), 32, 32, MILLRACE_BGRA)).values, expected);
  EXPECT_EQ(model.numbers(predict::pixels(upside_down.data() + 31 * 101, 32, 32, MILLRACE_RGB, -101)).values, expected);
  const std::vector<std::uint8_t> grey(32 * 32, 100), same(32 * 32 * 3, 100);
  EXPECT_EQ(model.numbers(predict::pixels(grey.data(), 32, 32, MILLRACE_GREY)).values,
            model.numbers(predict::pixels(same.data(), 32, 32, MILLRACE_RGB)).values);
}

TEST(Embedding, FeaturesAreTheOutputOfALayer) {
  const Model plain(trained().run);
  const std::string layer = plain.names(MILLRACE_LAYER_NAMES).back();
  const Model model(trained().run, {}, {layer, plain.names(MILLRACE_LAYER_NAMES)[0]});
  const std::string bytes = png_of(32, 32);
  EXPECT_EQ(model.features(encoded(bytes), layer).values, model.numbers(encoded(bytes)).values);
  const auto first = model.features(encoded(bytes), plain.names(MILLRACE_LAYER_NAMES)[0]);
  EXPECT_EQ(first.values.size(), static_cast<std::size_t>(first.channels * first.height * first.width));
  EXPECT_GT(first.height, 1);
  EXPECT_EQ(failure([&] { plain.features(encoded(bytes), layer); }).first, MILLRACE_ARGUMENT) << "it was not asked for";
  const auto unknown = failure([&] { const Model other(trained().run, {}, {"nowhere"}); });
  EXPECT_EQ(unknown.first, MILLRACE_MODEL);
  EXPECT_NE(unknown.second.find("nowhere"), std::string::npos) << unknown.second;
}

TEST(Embedding, MapsAreThoseOfPredict) {
  const TemporaryFolder folder;
  const std::string weights = train_maps(folder.path().string());
  predicted(folder / "images", weights, folder / "out");
  const Model model(weights);
  EXPECT_EQ(model.describe().task, MILLRACE_CLASS_MAP);
  EXPECT_EQ(model.classes(), (std::vector<std::string>{"sky", "road", "tree"}));
  predicted(folder / "images", weights, folder / "whole", {"predict.write_masks.size=source"});
  for (int i = 0; i < 4; ++i) {
    const std::string bytes = read_file(folder / fmt::format("images/{}.png", i));
    for (const bool of_image : {false, true}) {
      const Pixels there = read_png(folder / fmt::format("{}/masks/{}.png", of_image ? "whole" : "out", i), PNG_FORMAT_GRAY);
      const auto here = model.class_map(encoded(bytes), of_image);
      EXPECT_EQ(here.height, there.height);
      EXPECT_EQ(here.width, there.width);
      EXPECT_EQ(here.values, there.values) << i << ' ' << of_image;
    }
  }
  EXPECT_EQ(failure([&] { model.scores(encoded(png_of(20, 32))); }).first, MILLRACE_ARGUMENT);
}

TEST(Embedding, RestoredImagesAreThoseOfPredictAtAnySize) {
  const TemporaryFolder folder;
  for (const char* part : {"train", "photos"}) fs::create_directories(folder / part);
  for (int i = 0; i < 8; ++i) std::ofstream(folder / fmt::format("train/{}.png", i), std::ios::binary) << png_of(24, 24 + i % 2);
  std::ofstream(folder / "photos/a.png", std::ios::binary) << png_of(24, 40);
  std::ofstream(folder / "photos/b.png", std::ios::binary) << png_of(33, 21);
  std::ofstream(folder / "network.toml") << R"(input = { channels = 3, height = 16, width = 16, mean = [0.5, 0.5, 0.5] }
layers = [{ name = "a", op = "conv", out = 3, kernel = 3, padding = 1 }]
)";
  std::string file = fmt::format(
      "[run]\nname = \"p\"\nepochs = 1\nprecision = \"fp32\"\ndevices = \"cpu\"\nfolder = \"{0}/runs\"\n[network]\nuse = "
      "\"network.toml\"\n",
      folder.path().string());
  for (const char* graph : {"train", "validate"}) {
    file += fmt::format(
        "[{0}]\n{1}flow = [\"read\", \"decode_image\", \"batch\", {2}]\n[{0}.read]\nstage = \"read_pairs\"\nimages = "
        "\"{3}/train\"\n"
        "[{0}.decode_image]\nsize = [16, 16]\ncrop = \"centre\"\n[{0}.batch]\nsize = 4\n",
        graph, graph[0] == 'v' ? "every = \"epoch\"\n" : "",
        graph[0] == 'v' ? "\"forward\", \"metrics\"" : "\"forward_backward\", \"optimizer\"", folder.path().string());
  }
  file +=
      "[train.forward_backward]\nloss = \"mean_squared_error\"\n[train.optimizer]\nlearning_rate = 0.01\n"
      "[validate.forward]\nloss = \"mean_squared_error\"\n";
  std::ofstream(folder / "p.toml") << file;
  const Outcome outcome = succeeded(run_command({tool("pipeline-run"), folder / "p.toml", "--quiet"}));
  const std::string weights = find_file(folder / "runs", "weights.safetensors").string();
  predicted(folder / "photos", weights, folder / "out");
  const Model model(weights);
  EXPECT_EQ(model.describe().task, MILLRACE_RESTORATION);
  EXPECT_EQ(model.describe().keeps_size, 1);
  for (const char* name : {"a", "b", "a"}) {
    const Pixels there = read_png(folder / fmt::format("out/images/{}.png", name), PNG_FORMAT_RGB);
    const auto here = model.picture(encoded(read_file(folder / fmt::format("photos/{}.png", name))));
    EXPECT_EQ(here.height, there.height);
    EXPECT_EQ(here.width, there.width);
    EXPECT_EQ(here.values, there.values) << name;
  }
}

// Two numbers, or two labels, by the loss.
std::string train_numbers(const std::string& folder, const std::string& loss) {
  std::string rows = "file_name,round,red\n";
  for (int i = 0; i < 8; ++i) {
    const std::vector<std::uint8_t> pixels(16 * 16 * 3, static_cast<std::uint8_t>(30 * i));
    std::ofstream(fmt::format("{}/{}.png", folder, i), std::ios::binary) << png_bytes({pixels.data(), {16, 16, 3}});
    rows += fmt::format("{}.png,{},{}\n", i, i % 2, i / 4);
  }
  std::ofstream(folder + "/list.csv") << rows;
  std::ofstream(folder + "/network.toml") << R"(input = { channels = 3, height = 16, width = 16, mean = [0.5, 0.5, 0.5] }
layers = [{ name = "a", op = "conv", out = 4, kernel = 3 }, { op = "relu" }, { op = "global_average_pool" },
  { name = "fc", op = "linear", out = 2 }]
)";
  std::string file = fmt::format(
      "[run]\nname = \"n\"\nepochs = 1\nprecision = \"fp32\"\ndevices = \"cpu\"\nfolder = \"{0}/runs-{1}\"\n[network]\nuse = "
      "\"network.toml\"\n[train.optimizer]\nlearning_rate = 0.1\n[train.forward_backward]\nloss = \"{1}\"\n[validate.forward]\n"
      "loss = \"{1}\"\n",
      folder, loss);
  for (const std::string graph : {"train", "validate"}) {
    file += fmt::format(
        "[{0}]\nflow = [\"read\", \"decode_image\", \"batch\", {1}]\n[{0}.read]\nstage = \"read_list\"\npath = "
        "\"{2}/list.csv\"\nnumbers = [\"round\", \"red\"]\n[{0}.decode_image]\nsize = [16, 16]\n[{0}.batch]\nsize = 4\n",
        graph, graph == "train" ? "\"forward_backward\", \"optimizer\"" : "\"forward\", \"metrics\"]\nevery = \"epoch\" #",
        folder);
  }
  std::ofstream(folder + "/" + loss + ".toml") << file;
  const Outcome outcome = succeeded(run_command({tool("pipeline-run"), folder + "/" + loss + ".toml", "--quiet"}));
  return find_file(folder + "/runs-" + loss, "weights.safetensors").string();
}

TEST(Embedding, NumbersAndLabelsAreThoseOfPredict) {
  const TemporaryFolder folder;
  for (const std::string loss : {"mean_squared_error", "binary_cross_entropy"}) {
    const std::string weights = train_numbers(folder.path().string(), loss);
    predicted(folder / "3.png", weights, folder / "out-" + loss);
    const std::string table = read_file(folder / "out-" + loss + "/features.csv");
    const Model model(weights);
    EXPECT_EQ(model.describe().task, loss[0] == 'm' ? MILLRACE_REGRESSION : MILLRACE_LABELS);
    EXPECT_EQ(model.names(MILLRACE_NUMBER_NAMES), (std::vector<std::string>{"round", "red"}));
    const std::string image = read_file(folder / "3.png");
    const auto numbers = model.numbers(encoded(image)).values;
    ASSERT_EQ(numbers.size(), 2U);
    EXPECT_NE(table.find(fmt::format(",{},{}", numbers[0], numbers[1])), std::string::npos) << table << numbers[0];
    if (loss[0] == 'b') {
      EXPECT_NEAR(model.scores(encoded(image)).values[1], 1 / (1 + std::exp(-numbers[1])), 1e-6);
    } else {
      EXPECT_EQ(failure([&] { model.scores(encoded(image)); }).first, MILLRACE_ARGUMENT);
    }
  }
}

// Without a runtime that could prove it.
TEST(ExportedFile, IsWrittenUnproven) {
  const TemporaryFolder folder;
  const std::string onnx = folder / "model.onnx";
  succeeded(run_command({tool("pipeline-export"), trained().run, "--onnx", onnx, "--unproven"}));
  EXPECT_GT(fs::file_size(onnx), fs::file_size(trained().weights) / 2);
  const Outcome outcome =
      run_command({tool("pipeline-export"), trained().run, "--int8", "--weights", folder / "nowhere/int8.safetensors"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find("there is no folder '" + (folder / "nowhere") + "'"), std::string::npos) << outcome.err;
}

TEST(PredictLines, AnswersEachPathWithALine) {
  const TemporaryFolder folder;
  std::ofstream(folder / "bad.jpg", std::ios::binary) << "GIF89a";
  const std::string good = trained().images[0];
  std::ofstream(folder / "paths") << good << "\n"
                                  << folder / "bad.jpg"
                                  << "\n\n"
                                  << folder / "missing \"one\".jpg"
                                  << "\n"
                                  << good;
  const auto serve = [&](const std::string& more) {
    return run_command(
        {"/bin/sh", "-c",
         fmt::format("'{}' --predict - --devices cpu --quiet {} < '{}'", tool("pipeline-run"), more, folder / "paths")});
  };
  const Outcome outcome = succeeded(serve("--weights '" + trained().run + "'"));
  std::istringstream lines(outcome.out);
  std::vector<nlohmann::json> answers;
  for (std::string line; std::getline(lines, line);) answers.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(answers.size(), 4U) << outcome.out;
  const Model model(trained().run);
  const auto scores = model.scores(encoded(read_file(good)));
  EXPECT_EQ(answers[0].at("path"), good);
  EXPECT_EQ(answers[0].at("classes").at(0), model.classes()[scores.best()]);
  EXPECT_EQ(answers[0].at("scores").at(0).get<float>(), scores.values[scores.best()]);
  EXPECT_EQ(answers[0].at("scores").size(), 5U);
  EXPECT_NE(answers[1].at("error").get<std::string>().find("GIF"), std::string::npos) << answers[1];
  EXPECT_EQ(answers[2].at("path"), folder / "missing \"one\".jpg");
  EXPECT_NE(answers[2].at("error").get<std::string>().find("No such file"), std::string::npos) << answers[2];
  EXPECT_EQ(answers[3], answers[0]);
  EXPECT_EQ(serve("").code, 2);
  EXPECT_EQ(serve("--out found --weights '" + trained().run + "'").code, 2);
  EXPECT_EQ(serve("--weights '" + (folder / "nothing") + "'").code, 2);
}

TEST(PredictLines, AnswersPathsThatAreNotFiles) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  const std::string good = trained().images[0];
  std::ofstream(folder / "paths") << folder.path().string() << "\n/dev/zero\n"
                                  << folder / "pipe"
                                  << "\n"
                                  << good << "\n";
  const Outcome outcome = succeeded(run_command({"/bin/sh", "-c",
                                                 fmt::format("'{}' --predict - --devices cpu --quiet --weights '{}' < '{}'",
                                                             tool("pipeline-run"), trained().run, folder / "paths")}));
  std::istringstream lines(outcome.out);
  std::vector<nlohmann::json> answers;
  for (std::string line; std::getline(lines, line);) answers.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(answers.size(), 4U) << outcome.out;
  EXPECT_EQ(answers[0].at("error"), fmt::format("'{}' is a folder, not a file", folder.path().string()));
  EXPECT_EQ(answers[1].at("error"), "'/dev/zero' is a device, not a file");
  EXPECT_EQ(answers[2].at("error"), fmt::format("'{}' is a pipe, not a file", folder / "pipe"));
  EXPECT_EQ(answers[3].count("error"), 0U);
}

TEST(PredictLines, EndsAtOnceOnASignal) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);  // opened for both directions, it never ends
  const std::string command = fmt::format("'{}' --predict - --quiet --weights '{}'", tool("pipeline-run"), trained().run);
  const Outcome outcome =
      run_command({"/bin/sh", "-c", fmt::format("timeout --preserve-status -s TERM 2 {} <> '{}'", command, folder / "pipe")});
  EXPECT_EQ(outcome.code, 128 + 15) << outcome.err;
  EXPECT_NE(outcome.err.find("nothing to save"), std::string::npos) << outcome.err;
  for (const char* option : {"--trace t.json", "--devices 'cpu*2'"})
    EXPECT_EQ(run_command({"/bin/sh", "-c", fmt::format("{} {} < /dev/null", command, option)}).code, 2) << option;
}

TEST(Embedding, NamesWhatIsWrongWithAModel) {
  const TemporaryFolder folder;
  const auto refused = [](const std::string& path) { return failure([&] { const Model model(path); }); };
  EXPECT_EQ(refused(folder / "nothing").first, MILLRACE_MODEL);
  EXPECT_NE(refused(folder / "nothing").second.find("nothing"), std::string::npos);
  EXPECT_EQ(refused(folder.path().string()).first, MILLRACE_MODEL) << "a folder without weights";
  const std::string whole = read_file(trained().weights);
  for (const std::size_t size : {std::size_t{0}, std::size_t{7}, std::size_t{100}, whole.size() / 2, whole.size() - 1}) {
    std::ofstream(folder / "short.safetensors", std::ios::binary) << whole.substr(0, size);
    EXPECT_EQ(refused(folder / "short.safetensors").first, MILLRACE_MODEL) << size;
  }
  millrace_options options{};
  options.device = "abacus";
  EXPECT_EQ(failure([&] { const Model model(trained().run, options); }).first, MILLRACE_MODEL);
  options = {};
  options.threads = -1;
  EXPECT_EQ(failure([&] { const Model model(trained().run, options); }).first, MILLRACE_MODEL);
}

// The weights with another text in place of `from` in their recipe.
std::string with_recipe(const std::vector<std::pair<std::string, std::string>>& changes) {
  return with_header([&](nlohmann::ordered_json& header) {
    auto recipe = header.at("__metadata__").at("usage").get<std::string>();
    for (const auto& [from, to] : changes) {
      const std::size_t at = recipe.find(from);
      EXPECT_NE(at, std::string::npos) << from << " in " << recipe;
      if (at != std::string::npos) recipe.replace(at, from.size(), to);
    }
    header["__metadata__"]["usage"] = recipe;
  });
}

TEST(Embedding, HostileRecipesAreRefused) {
  const TemporaryFolder folder;
  const auto refused = [&](const std::vector<std::pair<std::string, std::string>>& changes) {
    std::ofstream(folder / "w.safetensors", std::ios::binary) << with_recipe(changes);
    return failure([&] { Model(folder / "w.safetensors").numbers(encoded(png_of(32, 32))); });
  };
  EXPECT_EQ(refused({}).first, MILLRACE_OK);
  const auto twice = refused({{"predict = [\"forward\"]", "predict = [\"forward\", \"again\"]"},
                              {"[stages.forward]", "[stages.again]\nstage = \"forward\"\n[stages.forward]"}});
  EXPECT_EQ(twice.first, MILLRACE_MODEL);
  EXPECT_NE(twice.second.find("'again' of the weights cannot take Predictions"), std::string::npos) << twice.second;
  const auto encoded_pixels =
      refused({{"prepare = [\"decode_image\"]", "prepare = [\"small\"]"},
               {"[stages.forward]", "[stages.small]\nstage = \"resize\"\nsize = [32, 32]\n[stages.forward]"}});
  EXPECT_EQ(encoded_pixels.first, MILLRACE_MODEL);
  EXPECT_NE(encoded_pixels.second.find("'small' of the weights cannot take SampleChunk"), std::string::npos)
      << encoded_pixels.second;
  const auto map = refused({{"output = \"classes\"", "output = \"map\""}});
  EXPECT_EQ(map.first, MILLRACE_MODEL);
  EXPECT_NE(map.second.find("2 to 255"), std::string::npos) << map.second;
  EXPECT_EQ(refused({{"output = \"classes\"", "output = \"image\""}}).first, MILLRACE_MODEL);
}

TEST(Embedding, NamesWhatIsWrongWithAnImageAndGoesOn) {
  const Model model(trained().run);
  const std::string whole = read_file(trained().images[0]);
  const auto expected = model.scores(encoded(whole)).values;
  for (const std::string& bytes :
       {std::string(), std::string("GIF89a"), whole.substr(0, whole.size() / 2), std::string(4000, '\0')})
    EXPECT_EQ(failure([&] { model.scores(encoded(bytes)); }).first, MILLRACE_IMAGE) << bytes.size();
  const auto other_size = failure([&] { model.scores(encoded(png_of(20, 32))); });
  EXPECT_EQ(other_size.first, MILLRACE_IMAGE);
  EXPECT_NE(other_size.second.find("20 x 32"), std::string::npos) << other_size.second;
  EXPECT_EQ(model.scores(encoded(whole)).values, expected);
}

TEST(Embedding, NamesMistakesOfTheCaller) {
  const Model model(trained().run);
  millrace_error error{};
  millrace_model* opened = model.get();
  EXPECT_EQ(millrace_open(nullptr, nullptr, &opened, &error), MILLRACE_ARGUMENT);
  EXPECT_EQ(opened, nullptr);
  EXPECT_STREQ(error.text, "path is NULL");
  EXPECT_EQ(millrace_open(trained().run.c_str(), nullptr, nullptr, nullptr), MILLRACE_ARGUMENT);
  millrace_close(nullptr);
  EXPECT_EQ(millrace_name(nullptr, MILLRACE_CLASS_NAMES, 0), nullptr);
  EXPECT_EQ(millrace_describe(model.get(), nullptr, &error), MILLRACE_ARGUMENT);
  EXPECT_EQ(millrace_describe(nullptr, nullptr, &error), MILLRACE_ARGUMENT);

  const std::string bytes = png_of(32, 32);
  float scores[10] = {};
  millrace_output output{};
  const auto call = [&] { return millrace_predict_encoded(model.get(), bytes.data(), bytes.size(), &output, 1, &error); };
  EXPECT_EQ(call(), MILLRACE_ARGUMENT) << "without its size";
  output = {sizeof output, MILLRACE_SCORES, nullptr, scores, sizeof scores - 1, 0, 0, 0, 0};
  EXPECT_EQ(call(), MILLRACE_BUFFER);
  EXPECT_EQ(output.needed, sizeof scores);
  EXPECT_EQ(output.channels, 10);
  EXPECT_EQ(scores[0], 0) << "nothing was written";
  output.bytes = sizeof scores;
  EXPECT_EQ(call(), MILLRACE_OK);
  EXPECT_GT(scores[0], 0);
  output.kind = 99;
  EXPECT_EQ(call(), MILLRACE_ARGUMENT);
  output.kind = MILLRACE_CLASS_OF;
  EXPECT_EQ(call(), MILLRACE_ARGUMENT);
  output.kind = MILLRACE_SCORES;
  EXPECT_EQ(millrace_predict_encoded(model.get(), nullptr, 3, &output, 1, &error), MILLRACE_ARGUMENT);
  EXPECT_EQ(millrace_predict_encoded(model.get(), bytes.data(), bytes.size(), nullptr, 1, &error), MILLRACE_ARGUMENT);
  millrace_pixels pixels{sizeof pixels, bytes.data(), 32, 0, 0, MILLRACE_RGB};
  EXPECT_EQ(millrace_predict_pixels(model.get(), &pixels, &output, 1, &error), MILLRACE_IMAGE);
  pixels = {sizeof pixels, bytes.data(), 4, 4, 11, MILLRACE_RGB};
  EXPECT_EQ(millrace_predict_pixels(model.get(), &pixels, &output, 1, &error), MILLRACE_ARGUMENT) << "a short stride";
  pixels.format = 0;
  EXPECT_EQ(millrace_predict_pixels(model.get(), &pixels, &output, 1, &error), MILLRACE_ARGUMENT);
}

TEST(Embedding, ThreadsOpenModelsOfTheirOwn) {
  const std::string image = read_file(trained().images[0]);
  millrace_options options{};
  options.threads = 1;
  const auto expected = Model(trained().run, options).scores(encoded(image)).values;
  std::atomic<int> wrong = 0;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 3; ++i) wrong += Model(trained().run, options).scores(encoded(image)).values != expected;
    });
  }
  threads.clear();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace millrace::test::embedding_test
