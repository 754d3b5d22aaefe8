// Labels with unintended meanings, and names that are not valid text: the run's warnings, and the stored values.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <png_file.h>

#include <fstream>

#include "command.h"

namespace millrace::test {
namespace {

namespace fs = std::filesystem;

constexpr int kSide = 32;

void write_png(const fs::path& path, const std::vector<std::uint8_t>& pixels, int channels) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << png_bytes({pixels.data(), {kSide, kSide, channels}});
}

bool contains(const std::string& text, std::string_view part) { return text.find(part) != text.npos; }

class WrongLabels : public testing::Test {
 protected:
  // Images with a bright left half, each of different brightness, and masks that are 0 and `value` there.
  void draw_masks(std::uint8_t value) {
    for (int number = 0; number < 4; ++number) {
      std::vector<std::uint8_t> pixels, labels;
      for (int i = 0; i < kSide * kSide; ++i) {
        const bool left = i % kSide < kSide / 2;
        pixels.insert(pixels.end(), 3, static_cast<std::uint8_t>((left ? 200 : 20) + number));
        labels.push_back(left ? value : 0);
      }
      write_png(folder_ / fmt::format("images/{}.png", number), pixels, 3);
      write_png(folder_ / fmt::format("labels/{}.png", number), labels, 1);
    }
    std::ofstream(folder_ / "pipe.toml")
        << "[run]\nname = \"m\"\nepochs = 1\nprecision = \"fp32\"\ndevices = \"cpu\"\nfolder = \"" << folder_ / "runs"
        << "\"\n[network]\nuse = \"unet\"\nfilters = 4\nclasses = 2\nheight = 32\nwidth = 32\n"
           "[train]\nflow = [\"read\", \"decode_image\", \"batch\", \"forward_backward\", "
           "\"optimizer\"]\n[train.read]\nstage = \"read_pairs\"\nimages = \""
        << folder_ / "images"
        << "\"\nlabels = \"" << folder_ / "labels"
        << "\"\nclasses = [{ name = \"background\" }, { name = \"object\" }]\n"
           "[train.decode_image]\nsize = [32, 32]\n[train.batch]\nsize = 2\n"
           "[train.forward_backward]\nloss = \"pixel_cross_entropy\"\n"
           "[train.optimizer]\nlearning_rate = 0.01\n";
  }

  // Two classes of images in folders of these names; half of them are for validation.
  void draw_classes(const std::string& first, const std::string& second) {
    for (const std::string& name : {first, second}) {
      for (int number = 0; number < 8; ++number) {
        const std::vector<std::uint8_t> pixels(3 * kSide * kSide, static_cast<std::uint8_t>(name == first ? 30 + number : 200));
        write_png(fs::path(folder_ / "data") / name / fmt::format("{}.png", number), pixels, 3);
      }
    }
    const std::string read = "stage = \"read_folder\"\npath = \"" + folder_ / "data" + "\"\n";
    std::ofstream(folder_ / "pipe.toml")
        << "[run]\nname = \"c\"\nepochs = 1\nprecision = \"fp32\"\ndevices = \"cpu\"\nfolder = \"" << folder_ / "runs"
        << "\"\n[network]\nuse = \"quickstart\"\nclasses = 2\n[train]\nflow = [\"read\", "
           "\"decode_image\", \"batch\", \"forward_backward\", \"optimizer\"]\n[train.read]\n"
        << read
        << "part = [0, 0.5]\nshuffle = \"once\"\n[train.decode_image]\nsize = [32, 32]\n[train.batch]\nsize = 8\n"
           "[train.optimizer]\nlearning_rate = 0.01\n[checkpoint]\nevery = \"epoch\"\n"
           "[validate]\nevery = \"end\"\nflow = [\"read\", \"decode_image\", \"batch\", \"forward\", "
           "\"metrics\"]\n[validate.read]\n"
        << read << "part = [0.5, 1]\n[validate.decode_image]\nsize = [32, 32]\n[validate.batch]\nsize = 8\nlast = \"keep\"\n";
  }

  Outcome run(std::vector<std::string> options) {
    options.insert(options.begin(), {tool("pipeline-run"), folder_ / "pipe.toml"});
    return run_command(options);
  }

  TemporaryFolder folder_;
};

TEST_F(WrongLabels, ValuesWithoutAClassAreNamedBehindACacheOfFilesToo) {
  draw_masks(255);
  const Outcome checked = succeeded(run(
      {"--check", "--set", R"(train.flow=["read", "cache_encoded", "decode_image", "batch", "forward_backward", "optimizer"])"}));
  EXPECT_TRUE(contains(checked.err, "4 label images were checked: no class has the value 255 (50 %)")) << checked.err;
}

// Programs that sort or shorten palettes give a colour a different index in each file.
TEST_F(WrongLabels, AValueOfTwoColoursIsNamed) {
  draw_masks(1);
  const std::vector<std::uint8_t> labels(kSide * kSide, 1);
  const auto write_palette = [&](const char* name, std::uint8_t red_of_1, std::uint8_t red_of_2) {
    std::vector<std::uint8_t> palette(3 * 256);
    palette[3] = red_of_1;
    palette[6] = red_of_2;
    std::ofstream(folder_ / name, std::ios::binary) << png_bytes({labels.data(), {kSide, kSide, 1}}, palette.data());
  };
  write_palette("labels/1.png", 128, 0);
  write_palette("labels/2.png", 128, 9);
  EXPECT_EQ(run({"--check"}).err, "") << "no pixel is 2";
  write_palette("labels/2.png", 200, 0);
  const Outcome checked = succeeded(run({"--check"}));
  EXPECT_TRUE(
      contains(checked.err, fmt::format("4 label images were checked: value 1 is #800000 in '{0}1.png' and #c80000 in '{0}2.png'",
                                        folder_ / "labels/")))
      << checked.err;
}

TEST_F(WrongLabels, AGreyThatIsTheColourOfAClassAndNoValueIsNamed) {
  draw_masks(255);
  const Outcome checked =
      run({"--check", "--set",
           R"(train.read.classes=[{ name = "background", colour = "#000000" }, { name = "object", colour = "#ffffff" }])"});
  EXPECT_TRUE(contains(checked.err, "value 255 is #ffffff in '")) << checked.err;
  EXPECT_TRUE(contains(checked.err, "which is the colour of class 'object'")) << checked.err;
}

TEST_F(WrongLabels, AClassThatSaysWhereSomethingIsIsNamedWhereImagesAreMirrored) {
  draw_classes("turn_left", "turn_right");
  const std::vector<std::string> flips = {
      "--check", "--set", R"(train.flow=["read", "decode_image", "augment", "batch", "forward_backward", "optimizer"])", "--set"};
  const auto said = [&](const std::string& key) {
    std::vector<std::string> arguments = flips;
    arguments.push_back(key);
    return run(arguments).err;
  };
  EXPECT_TRUE(contains(said("train.augment.flip_x=0.5"),
                       "flip_x mirrors left and right, and class 'turn_left' names a side, which is wrong in the mirror image; "
                       "--set train.augment.flip_x=0 turns it off"))
      << said("train.augment.flip_x=0.5");
  EXPECT_FALSE(contains(said("train.augment.flip_y=0.5"), "mirrors"));
  EXPECT_FALSE(contains(said("train.augment.flip_x=0"), "mirrors"));
}

// An accent after its letter, as on macOS, and a non-breaking blank, as in spreadsheets.
TEST_F(WrongLabels, ClassesThatAreWrittenInTwoWaysAreNamedOnce) {
  for (const auto& [first, second] :
       {std::pair("Cat", "cat"), std::pair("cafe\u0301", "caf\u00e9"), std::pair("red cat", "red\u00a0cat")}) {
    std::filesystem::remove_all(folder_ / "data");
    draw_classes(first, second);
    const Outcome checked = succeeded(run({"--check"}));
    EXPECT_EQ(checked.err,
              fmt::format("warning: {}:12:1: [train.read]: the classes '{}' and '{}' differ only in upper and lower case, "
                          "accents or blanks, and are two classes: put their images together if they are one\n",
                          folder_ / "pipe.toml", first, second));
  }
}

// A name in Latin-1, from an old archive.
TEST_F(WrongLabels, AClassNameThatIsNoUtf8IsStoredAndFoundAgain) {
  draw_classes("a", "ni\xf1o");
  const Outcome trained = succeeded(run({}));
  const std::string weights = find_file(folder_ / "runs", "weights.safetensors").string();
  EXPECT_TRUE(contains(read_file(weights), "ni\\\\\\\\xf1o"));
  for (const auto& options : {std::vector<std::string>{"--resume", "--set", "run.epochs=2", "--allow-change", "run.epochs"},
                              std::vector<std::string>{"--graph", "validate", "--weights", weights}}) {
    const Outcome again = succeeded(run(options));
  }
  const std::string out = folder_ / "predictions";
  const Outcome predicted =
      run_command({tool("pipeline-run"), "--predict", folder_ / "data", "--labels", "path", "--weights", weights, "--out", out});
  EXPECT_EQ(predicted.code, 0) << predicted.err;
  const std::string rows = read_file(find_file(out, "predictions.csv"));
  EXPECT_TRUE(contains(rows, "/ni\\xf1o/0.png,ni\\xf1o,")) << rows;
  for (const fs::directory_entry& file : fs::recursive_directory_iterator(folder_ / "runs")) {
    if (file.is_regular_file() && file.path().extension() == ".jsonl") {
      EXPECT_FALSE(contains(read_file(file.path()), "\xef\xbf\xbd")) << file.path();
    }
  }
}

TEST_F(WrongLabels, NamesControlNoTerminalAndBreakNoLine) {
  const std::string name =
      "b\x1b]0;owned\x07\xc2\x9b"
      "31m\n\xe2\x80\xae";
  draw_classes("a", name);
  std::ofstream(fs::path(folder_ / "data") / name / "broken\x1b[2J\r.png") << "no image";
  std::ofstream(fs::path(folder_ / "data") / name / "other\x1b[2J.webp") << "no image";
  std::string said;
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{tool("pipeline-run"), folder_ / "pipe.toml"},
        {tool("pipeline-run"), folder_ / "pipe.toml", "--json"},
        {tool("pipeline-run"), folder_ / "pipe.toml", "--check"},
        {tool("pipeline-run"), folder_ / "pipe.toml", "--check", "--set", "train.read.classes=[\"a\", \"c\"]"},
        {tool("pipeline-data"), "check", folder_ / "pipe.toml"},
        {tool("pipeline-data"), "count", folder_ / "pipe.toml"}}) {
    const Outcome outcome = run_command(command);
    said += outcome.out + outcome.err;
  }
  said += run_command({tool("pipeline-inspect"), find_file(folder_ / "runs", "weights.safetensors").string()}).out;
  for (const char* control : {"\x1b", "\x07", "\r", "\xc2\x9b", "\xe2\x80\xae"}) {
    EXPECT_FALSE(contains(said, control)) << testing::PrintToString(said);
  }
  EXPECT_TRUE(contains(said, "broken\\x1b[2J\\x0d.png"));
  EXPECT_TRUE(contains(said, "other\\x1b[2J.webp"));
}

}  // namespace
}  // namespace millrace::test
