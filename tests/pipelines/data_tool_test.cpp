// pipeline-data on data sets of every kind: images of any size, unreadable files, label images, numbers, unusual names.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <png_file.h>

#include <fstream>
#include <regex>

#include "command.h"
#include "running_program.h"

namespace millrace::test::data_tool_test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

Outcome data(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), tool("pipeline-data"));
  return run_command(arguments);
}

// A PNG file of one colour or, with one channel, of alternating classes.
void write_png(const std::string& path, ImageShape shape, const std::vector<std::uint8_t>& levels) {
  std::vector<std::uint8_t> pixels(shape.bytes());
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = levels[i % levels.size()];
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << png_bytes({pixels.data(), shape});
}

// A file whose [train] has these stages before `batch`; `read` is the source's table.
std::string pipeline_file(const TemporaryFolder& folder, const std::string& flow, const std::string& read) {
  std::string path = folder / "pipeline.toml";
  std::ofstream(path) << "[run]\nname = \"d\"\nfolder = \"\"\n\n[train]\nflow = [\"read\", " << flow
                      << ", \"batch\"]\n\n[train.read]\n"
                      << read << "\n[train.batch]\nsize = 2\n";
  return path;
}

// Two classes of images of six sizes.
std::string images_of_many_sizes(const TemporaryFolder& folder) {
  for (int i = 0; i < 6; ++i) write_png(folder / fmt::format("set/{}/{}.png", "ab"[i % 2], i), {40 + i, 50 - 7 * i, 3}, {50});
  return pipeline_file(folder, "\"decode_image\", \"augment\"",
                       "stage = \"read_folder\"\npath = \"" + folder / "set" + "\"\n[train.augment]\nflip_x = 0.5\n");
}

void expect_every_verb_works(const TemporaryFolder& folder, const std::string& file) {
  const Outcome count = data({"count", file});
  EXPECT_NE(count.out.find("in all                                    6"), std::string::npos) << count.out << count.err;
  const Outcome statistics = data({"statistics", file});
  EXPECT_NE(statistics.out.find("height     40 to 45\nwidth      15 to 50\n"), std::string::npos) << statistics.err;
  EXPECT_NE(statistics.out.find("format     PNG: 6\nsize       40 x 50: 1, 41 x 43: 1,"), std::string::npos) << statistics.out;
  EXPECT_NE(statistics.out.find("channels   3: 6\nbits       8: 6\nturned     1: 6"), std::string::npos) << statistics.out;
  const Outcome check = succeeded(data({"check", file}));
  const Outcome show = data({"show", file, "--out", folder / "sheet.png"});
  EXPECT_NE(show.out.find("6 samples of epoch 1"), std::string::npos) << show.err;
  const Outcome pack = data({"pack", file, "--out", folder / "shards"});
  EXPECT_NE(pack.out.find("6 samples of 2 classes, 1 shard,"), std::string::npos) << pack.out << pack.err;
  const Outcome split = succeeded(data({"split", file, "a=0.5", "b=0.5", "--out", folder / "lists"}));
}

TEST(DataTool, LooksAtImagesOfTheirOwnSizes) {
  const TemporaryFolder folder;
  expect_every_verb_works(folder, images_of_many_sizes(folder));
}

TEST(DataTool, LooksAtImagesOfTheirOwnSizesInAFileWithANetwork) {
  const TemporaryFolder folder;
  const std::string file = images_of_many_sizes(folder);
  std::ofstream(file, std::ios::app) << "[network]\nuse = \"" << pipeline("networks/cifar10_conv.toml") << "\"\nclasses = 2\n";
  expect_every_verb_works(folder, file);
}

TEST(DataTool, PassesOnceOnWhatASourceWarnsOf) {
  const TemporaryFolder folder;
  const std::string file = images_of_many_sizes(folder);
  const std::string more = "train.read.classes=[\"a\", \"b\", \"c\"]", warning = "warning: class 'c' has no image in '";
  for (const std::vector<std::string>& verb : {std::vector<std::string>{"count", file, "--set", more},
                                               {"split", file, "--set", more, "x=0.5", "y=0.5", "--out", folder / "lists"}}) {
    const Outcome outcome = data(verb);
    EXPECT_EQ(outcome.err.find(warning), 0U) << outcome.err;
    EXPECT_EQ(outcome.err.rfind(warning), 0U) << outcome.err;
  }
}

TEST(DataTool, ChecksOnWhenAFileCannotBeRead) {
  const TemporaryFolder folder;
  std::vector<std::string> command = without_privileges();
  if (command.empty()) GTEST_SKIP() << "root may read everything, and there is no setpriv";
  const std::string file = images_of_many_sizes(folder);
  std::ofstream(folder / "set/a/0.png") << "no image";
  fs::permissions(folder / "set/a/2.png", fs::perms::none);
  std::ofstream(folder / "set/b/5.png") << "no image either";
  command.insert(command.end(), {tool("pipeline-data"), "check", file});
  const Outcome check = run_command(command);
  EXPECT_EQ(check.code, 3);
  EXPECT_NE(check.err.find("3 of 6 samples are bad"), std::string::npos) << check.err;
  std::vector<std::string> causes;
  std::istringstream lines(check.out);
  for (std::string line; std::getline(lines, line);) causes.push_back(Json::parse(line)["cause"]);
  ASSERT_EQ(causes.size(), 3U) << check.out;
  EXPECT_EQ(causes[1], "cannot open '" + folder / "set/a/2.png" + "': Permission denied");
}

TEST(DataTool, ASourceThatCannotBeOpenedEndsACheck) {
  const TemporaryFolder folder;
  const std::string file = images_of_many_sizes(folder);
  fs::remove_all(folder / "set");
  const Outcome check = data({"check", file});
  EXPECT_NE(check.code, 0);
  EXPECT_NE(check.err.find("does not exist"), std::string::npos) << check.err;
}

TEST(DataTool, CountsThePixelsOfLabelImages) {
  const TemporaryFolder folder;
  // Class 0: 12 of 20 and 5 of 10 pixels; class 1: 4 of 20; class 2: none; the rest is ignored.
  const std::pair<ImageShape, std::vector<std::uint8_t>> labels[] = {{{4, 5, 1}, {0, 0, 0, 7, 9}}, {{2, 5, 1}, {0, 9}}};
  for (const auto& [shape, values] : labels) {
    const std::string name = fmt::format("{}.png", shape.height);
    write_png(folder / ("labels/" + name), shape, values);
    write_png(folder / ("images/" + name), {shape.height, shape.width, 3}, {50});
  }
  const std::string file =
      pipeline_file(folder, "\"decode_image\"",
                    "stage = \"read_pairs\"\nimages = \"" + folder / "images" + "\"\nlabels = \"" + folder / "labels" +
                        "\"\nclasses = [{ name = \"sky\" }, { name = \"road\", ids = [7] }, "
                        "{ name = \"sea\", ids = [3] }]\nignored = [9]\n");
  const Outcome outcome = succeeded(data({"statistics", file}));
  const auto expect_line = [&](const std::string& pattern) {
    EXPECT_TRUE(std::regex_search(outcome.out, std::regex(pattern))) << pattern << "\n" << outcome.out;
  };
  // Frequencies 17/30 and 4/20, with median 23/60.
  expect_line(" 0 +sky +17 +80.952% +2 +0.6765\n");
  expect_line(" 1 +road +4 +19.048% +1 +1.9167\n");
  expect_line(" 2 +sea +0 +0.000% +0 +0.0000\n");
  expect_line(" ignored +9 +30.000% of all\n");
  expect_line(R"(weights = \[0\.6765, 1\.9167, 0\.0000\])");
  const Outcome count = data({"count", file});
  EXPECT_EQ(count.out.find("sky"), std::string::npos) << "images are not of these classes\n" << count.out;
}

TEST(DataTool, DescribesColumnsOfNumbers) {
  const TemporaryFolder folder;
  write_png(folder / "a.png", {8, 8, 3}, {50});
  std::ofstream(folder / "list.csv") << "file_name,angle,speed\na.png,1,1e6\na.png,-3,1e6\na.png,5,1e6\n";
  const std::string file =
      pipeline_file(folder, "\"decode_image\"",
                    "stage = \"read_list\"\npath = \"" + folder / "list.csv" + "\"\nnumbers = [\"angle\", \"speed\"]\n");
  const Outcome outcome = succeeded(data({"statistics", file}));
  EXPECT_TRUE(std::regex_search(outcome.out, std::regex("angle +3 +-3 +5 +1 +3.26599\n"))) << outcome.out;
  EXPECT_TRUE(std::regex_search(outcome.out, std::regex("speed +3 +1e\\+06 +1e\\+06 +1e\\+06 +0\n"))) << outcome.out;
}

// The output of `count` for each class, without the numbers of samples.
std::string numbering(const std::string& file) {
  const Outcome outcome = succeeded(data({"count", file}));
  std::string result;
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) result += line.substr(0, 30) + "\n";
  return result.substr(0, result.find(" in all"));
}

// Splits the source and expects that the list, read with the printed line, numbers the classes as the source does.
void expect_same_numbers(const std::string& read) {
  const TemporaryFolder folder;
  const std::string file = pipeline_file(folder, "\"decode_image\"", read);
  const Outcome split = succeeded(data({"split", file, "one=0.5", "two=0.5", "--out", folder / "lists"}));
  const std::size_t line = split.out.find("classes = [");
  ASSERT_NE(line, std::string::npos) << split.out;
  const std::string before = numbering(file);
  EXPECT_EQ(
      numbering(pipeline_file(folder, "\"decode_image\"",
                              "stage = \"read_list\"\npath = \"" + folder / "lists/two.csv" + "\"\n" + split.out.substr(line))),
      before);
}

TEST(DataTool, AListNumbersClassesAsTheSourceDoes) {
  const TemporaryFolder folder;
  for (const char* name : {"b \"quoted\"", "a\\slash", "10", "9", "comma, here"}) {
    for (int i = 0; i < 4; ++i) write_png(folder / fmt::format("set/{}/{}.png", name, i), {8, 8, 3}, {50});
  }
  const std::string path = "path = \"" + folder / "set" + "\"\n";
  expect_same_numbers("stage = \"read_folder\"\n" + path);
  expect_same_numbers("stage = \"read_folder\"\n" + path + "only = [\"9\", \"10\"]\n");
  {
    std::ofstream list(folder / "list.csv");
    list << "file_name,label\n";
    for (int i = 0; i < 12; ++i) list << "set/9/" << i % 4 << ".png," << std::array<int, 3>{0, 2, 10}[i % 3U] << "\n";
  }
  expect_same_numbers("stage = \"read_list\"\npath = \"" + folder / "list.csv" + "\"\n");
  expect_same_numbers("stage = \"mix\"\nsources = [{ stage = \"read_folder\", " + path.substr(0, path.size() - 1) +
                      " }, { stage = \"read_list\", path = \"" + folder / "list.csv" + "\" }]\n");
}

TEST(DataTool, RefusesWhatIsNoLineOfALedger) {
  const TemporaryFolder folder;
  const std::string file = images_of_many_sizes(folder), ledger = folder / "quarantine.jsonl";
  std::ofstream(folder / "set/a/0.png") << "no image";
  const std::string line = data({"check", file}).out;
  std::ofstream(ledger) << line;
  EXPECT_EQ(data({"replay", ledger, "--pipeline", file}).code, 3) << "bad still";
  Json spoilt = Json::parse(line);
  spoilt["attempt"] = "first";
  std::ofstream(ledger) << spoilt.dump() << "\n";
  const Outcome outcome = data({"replay", ledger, "--pipeline", file});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find(ledger + ":1: this is not a line of a ledger"), std::string::npos) << outcome.err;
}

TEST(DataTool, RepeatsASampleWhoseNameIsNoText) {
  const TemporaryFolder folder;
  const std::string file = images_of_many_sizes(folder), ledger = folder / "quarantine.jsonl";
  std::ofstream(folder / "set/a/0\xff.png") << "no image";
  std::ofstream(ledger) << data({"check", file}).out;
  const Outcome outcome = data({"replay", ledger, "--pipeline", file});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_NE(outcome.out.find("is        not a JPEG or PNG image"), std::string::npos) << outcome.out << outcome.err;
}

TEST(DataTool, SaysWhenItsOutputIsLost) {
  const TemporaryFolder folder;
  const Outcome outcome =
      run_command({"/bin/sh", "-c", "exec " + tool("pipeline-data") + " count " + images_of_many_sizes(folder) + " > /dev/full"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.err, "pipeline-data: standard output cannot be written: No space left on device\n");
}

// Exit code 3 means unusable data.
TEST(DataTool, AnOutputThatCannotBeWrittenIsNoFaultOfTheData) {
  const TemporaryFolder folder;
  const std::string file = images_of_many_sizes(folder), program = tool("pipeline-data");
  std::ofstream(folder / "set/large.bin") << std::string(100'000, 'x');
  const std::vector<std::vector<std::string>> nowhere = {{"pack", file, "--out", "/proc/shards"},
                                                         {"copy", folder / "set", "/proc/copy"},
                                                         {"split", file, "a=0.5", "b=0.5", "--out", "/proc/lists"},
                                                         {"show", file, "--out", "/proc/sheet.png"},
                                                         {"shapes", "/proc/shapes"}};
  for (const std::vector<std::string>& verb : nowhere) {
    const Outcome outcome = data(verb);
    EXPECT_EQ(outcome.code, 1) << verb[0] << ": " << outcome.err;
    EXPECT_NE(outcome.err.find("'/proc/" + fs::path(verb.back()).filename().string()), std::string::npos) << outcome.err;
  }
  const std::vector<std::string> full[] = {{"pack", file, "--out", folder / "shards"},
                                           {"copy", folder / "set", folder / "copy"},
                                           {"show", file, "--out", folder / "sheet.png"},
                                           {"shapes", folder / "shapes", "--count=10", "--validation=0", "--size=200"}};
  for (const std::vector<std::string>& verb : full) {  // files may have one block, and further writes fail
    const Outcome outcome =
        run_command({"/bin/sh", "-c", fmt::format("trap '' XFSZ; ulimit -f 1; exec {} {}", program, fmt::join(verb, " "))});
    EXPECT_EQ(outcome.code, 1) << verb[0] << ": " << outcome.err;
    EXPECT_NE(outcome.err.find("File too large"), std::string::npos) << outcome.err;
  }
}

TEST(DataTool, AnInterruptedCheckSaysWhatItFound) {
  const TemporaryFolder folder;
  std::ofstream(folder / "bad.png") << "no image";
  write_png(folder / "large.png", {3000, 3000, 3}, {50});
  {
    std::ofstream list(folder / "list.csv");
    list << "file_name,label\nbad.png,a\n";
    for (int i = 0; i < 10'000; ++i) list << "large.png,a\n";
  }
  const std::string file =
      pipeline_file(folder, "\"decode_image\"", "stage = \"read_list\"\npath = \"" + folder / "list.csv" + "\"\n");
  constexpr double kPatience = 240;  // seconds, for busy machines
  RunningProgram program({tool("pipeline-data"), "check", file});
  ASSERT_TRUE(program.reports("checked ", kPatience)) << program.err();
  program.send(SIGINT);
  ASSERT_TRUE(program.ends(kPatience)) << program.err();
  EXPECT_EQ(program.code(), 130);
  EXPECT_EQ(program.out().find("{\"graph\":\"train\""), 0U);
  EXPECT_NE(program.err().find("stopped: 1 bad samples were found until then"), std::string::npos) << program.err();
}

// It would keep a part of them for validation.
TEST(DataTool, DividesAllThatABaseFileReads) {
  const TemporaryFolder folder;
  const auto split = [&](const std::string& path, const std::string& out) {
    return data({"split", "classify", "a=0.5", "b=0.5", "--set", "data.path=" + path, "--out", folder / out}).out;
  };
  EXPECT_EQ(split(shapes() + "/train", "one").find(fmt::format("{:<24} {:>10} samples\n", folder / "one/a.csv", 200)), 0U);
  EXPECT_EQ(split(shapes(), "two").find(fmt::format("{:<24} {:>10} samples\n", folder / "two/a.csv", 200)), 0U)
      << "the part that is trained on";
}

// As when two exports are concatenated, or rows are repeated to balance classes.
TEST(DataTool, PutsAllLinesOfAFileIntoOneList) {
  const TemporaryFolder folder;
  std::string lines = "file_name,label\n";
  for (const char* again : {"", "./"}) {
    for (int i = 0; i < 20; ++i) lines += fmt::format("{}{}.png,{}\n", again, i, "ab"[i % 2]);
  }
  for (int i = 0; i < 20; ++i) write_png(folder / fmt::format("{}.png", i), {4, 5, 3}, {50});
  std::ofstream(folder / "both.csv") << lines;
  const Outcome split =
      data({"split", "classify", "one=0.5", "two=0.5", "--set", "data.path=" + folder / "both.csv", "--out", folder / "lists"});
  ASSERT_EQ(split.code, 0) << split.err;
  std::set<std::string> files[2];
  std::size_t count = 0;
  for (const auto& [name, part] : {std::pair{"one", 0}, std::pair{"two", 1}}) {
    std::ifstream list(folder / fmt::format("lists/{}.csv", name));
    std::string line;
    std::getline(list, line);
    for (; std::getline(list, line); ++count) files[part].insert(line);
  }
  EXPECT_EQ(count, 40U);
  EXPECT_EQ(files[0].size(), 10U);
  EXPECT_EQ(files[1].size(), 10U);
  for (const std::string& file : files[0]) EXPECT_FALSE(files[1].contains(file)) << file;
}

// The data that a base file finds for training and validation.
class PartsOfData : public testing::Test {
 protected:
  PartsOfData() {
    for (int i = 0; i < 6; ++i) write_png(folder_ / fmt::format("set/train/{}/{}.png", "ab"[i % 2], i), {40, 50, 3}, {50});
    for (int i = 0; i < 4; ++i) write_png(folder_ / fmt::format("set/val/{}/{}.png", "ab"[i % 2], i), {40, 50, 3}, {50});
    std::ofstream(folder_ / "set/val/a/junk.jpg") << "no image";
  }
  // Both ways to set their location.
  std::vector<std::vector<std::string>> places() const {
    return {{"--set", "data.path=" + folder_ / "set"},
            {"--set", "data.train=" + folder_ / "set/train", "--set", "data.validate=" + folder_ / "set/val"}};
  }
  static Outcome on(const std::vector<std::string>& place, std::vector<std::string> verb) {
    verb.insert(verb.end(), place.begin(), place.end());
    return data(verb);
  }

  const TemporaryFolder folder_;
  const std::string warning_ = "warning: the data of [validate] are not included, 5 samples (path = \"" + folder_ / "set/val" +
                               "\"); --graph validate selects them\n";
};

TEST_F(PartsOfData, AreAllChecked) {
  for (const auto& place : places()) {
    const Outcome all = on(place, {"check", "classify"});
    EXPECT_EQ(all.code, 3);
    EXPECT_NE(all.out.find("{\"graph\":\"validate\",\"path\":\"" + folder_ / "set/val/a/junk.jpg" + "\""), std::string::npos);
    EXPECT_EQ(all.err, "1 of 11 samples are bad\n");
    const Outcome one = succeeded(on(place, {"check", "classify", "--graph", "train"}));
    EXPECT_EQ(one.err, "0 of 6 samples are bad\n");
  }
}

TEST_F(PartsOfData, AreNamedWhereTheyAreLeftOut) {
  int number = 0;
  for (const auto& place : places()) {
    const std::string out = folder_ / fmt::format("out{}", number++);
    EXPECT_EQ(on(place, {"count", "classify"}).err, warning_);
    EXPECT_EQ(on(place, {"pack", "classify", "--out", out}).err, warning_);
    EXPECT_EQ(on(place, {"split", "classify", "x=0.5", "y=0.5", "--out", out}).err, warning_);
    EXPECT_EQ(on(place, {"count", "classify", "--graph", "validate"}).err, "");
  }
}

TEST_F(PartsOfData, AreNoOthersWhereAllLieTogether) {
  const std::vector<std::string> place = {"--set", "data.path=" + folder_ / "set/val"};
  EXPECT_EQ(on(place, {"count", "classify"}).err, "");
  EXPECT_EQ(on(place, {"check", "classify"}).err, "1 of 5 samples are bad\n");
}

TEST_F(PartsOfData, AreCheckedOnceWhereTheyOverlap) {
  const std::string file = pipeline_file(folder_, "\"decode_image\"",
                                         "stage = \"read_folder\"\npath = \"" + folder_ / "set/val" + "\"\npart = [0, 0.7]\n");
  std::ofstream(file, std::ios::app) << "[validate]\nevery = \"epoch\"\nflow = [\"read\", \"decode_image\", \"batch\"]\n"
                                     << "[validate.read]\nstage = \"read_folder\"\npath = \"" << folder_ / "set/val"
                                     << "\"\npart = [0.3, 1]\n[validate.batch]\nsize = 2\n";
  EXPECT_EQ(data({"check", file}).err, "1 of 5 samples are bad\n");
  EXPECT_EQ(data({"check", file, "--set", "validate.read.part=[0, 0.7]", "--set", "validate.read.limit=1"}).err.substr(1),
            data({"check", file, "--graph", "train"}).err.substr(1))
      << "it is a part of what was read";
}

TEST(DataTool, RefusesASplitThatCannotBe) {
  const TemporaryFolder folder;
  const std::string file = images_of_many_sizes(folder);
  const Outcome twice = data({"split", file, "a=0.5", "a=0.5", "--out", folder / "lists"});
  EXPECT_EQ(twice.code, 2);
  EXPECT_NE(twice.err.find("two parts are named 'a'"), std::string::npos) << twice.err;
  const Outcome empty = data({"split", file, "a=0.3", "b=0.1", "c=0.6", "--out", folder / "lists"});
  EXPECT_EQ(empty.code, 3);
  EXPECT_NE(empty.err.find("part 'b': "), std::string::npos) << empty.err;
  EXPECT_FALSE(fs::exists(folder / "lists/a.csv")) << "half a division";
  std::ofstream(folder / "lists/b.csv") << "mine";
  const Outcome there = data({"split", file, "a=0.5", "b=0.5", "--out", folder / "lists"});
  EXPECT_EQ(there.code, 2);
  EXPECT_NE(there.err.find("b.csv' already exists"), std::string::npos) << there.err;
  EXPECT_FALSE(fs::exists(folder / "lists/a.csv")) << "half a division";
}

TEST(DataTool, AManifestFindsWhatAnotherCopyHolds) {
  const TemporaryFolder folder;
  images_of_many_sizes(folder);
  const Outcome made = succeeded(data({"hash", folder / "set", "--out", folder / "set.sha256"}));
  const Outcome known =
      run_command({"/usr/bin/env", "--chdir=" + folder / "set", "sha256sum", "--quiet", "-c", folder / "set.sha256"});
  EXPECT_EQ(known.code, 0) << known.out << known.err;
  const Outcome same = succeeded(data({"hash", folder / "set", "--compare", folder / "set.sha256"}));
  EXPECT_EQ(same.out, "");
  fs::copy(folder.path() / "set", folder.path() / "copy", fs::copy_options::recursive);
  fs::copy_file(folder / "copy/a/0.png", folder / "copy/b/1.png", fs::copy_options::overwrite_existing);
  fs::rename(folder / "copy/a/2.png", folder / "copy/a/7.png");
  const Outcome other = data({"hash", folder / "copy", "--compare", folder / "set.sha256"});
  EXPECT_EQ(other.code, 3) << other.err;
  EXPECT_EQ(other.out, "new: a/7.png\nother bytes: b/1.png\ngone: a/2.png\n");
}

TEST(DataTool, AManifestNamesTheSamplesOfAPipeline) {
  const TemporaryFolder folder;
  const std::string file = images_of_many_sizes(folder);
  const Outcome of_folder = data({"hash", folder / "set"}), of_file = data({"hash", file});
  ASSERT_EQ(of_file.code, 0) << of_file.err;
  EXPECT_EQ(of_file.out, of_folder.out);
  std::ofstream(folder / "set/list.csv") << "file_name,label\na/0.png,a\nb/1.png,b\n";
  const Outcome of_list = succeeded(data({"hash", folder / "set/list.csv"}));
  EXPECT_EQ(std::ranges::count(of_list.out, '\n'), 2) << of_list.out;
  EXPECT_NE(of_folder.out.find(of_list.out.substr(0, of_list.out.find('\n'))), std::string::npos) << of_list.out;
}

// A file with the size and time of the last call is not read again.
TEST(DataTool, AManifestReadsOnlyWhatHasChanged) {
  const TemporaryFolder folder;
  images_of_many_sizes(folder);
  const auto hash = [&] {
    const Outcome outcome =
        run_command({"/usr/bin/env", "MILLRACE_CACHE=" + folder / "cache", tool("pipeline-data"), "hash", folder / "set"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.out;
  };
  const fs::path image = folder / "set/a/0.png";
  const auto change = [&] {
    std::string bytes = read_file(image);
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    std::ofstream(image, std::ios::binary) << bytes;
  };
  const std::string first = hash();
  change();
  const std::string second = hash();
  EXPECT_NE(second, first);
  const auto time = fs::last_write_time(image);
  change();
  fs::last_write_time(image, time);
  EXPECT_EQ(hash(), second) << "the same size and time";
}

}  // namespace
}  // namespace millrace::test::data_tool_test
