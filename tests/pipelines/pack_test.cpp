// pipeline-data pack as users run it: shards return the original samples.
#include <gtest/gtest.h>
#include <png_file.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>

#include "command.h"
#include "testkit/messages.h"

namespace millrace::test::pack_test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// The data stages of a small classifier, without a network.
std::string data_file(const TemporaryFolder& folder, const std::string& stage, const std::string& path) {
  std::string file = folder / (stage + ".toml");
  std::ofstream(file) << "[run]\nname = \"d\"\nfolder = \"\"\n\n[train]\nflow = [\"read\", \"decode_image\", "
                         "\"batch\"]\n\n[train.read]\nstage = \""
                      << stage << "\"\npath = \"" << path
                      << "\"\nshuffle = \"every-epoch\"\n\n[train.decode_image]\nsize = [32, 32]\n\n"
                      << "[train.batch]\nsize = 50\n";
  return file;
}

Outcome pack(std::vector<std::string> arguments, const Interruption& interruption = {}) {
  arguments.insert(arguments.begin(), {tool("pipeline-data"), "pack"});
  return run_command(arguments, interruption);
}

std::vector<std::string> names(const std::string& folder) {
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(folder)) found.push_back(entry.path().filename());
  std::sort(found.begin(), found.end());
  return found;
}

// The stream of two epochs of the quick start's pipeline, with this source.
std::vector<std::string> stream(const TemporaryFolder& folder, const std::string& stage, const std::string& path) {
  const std::string file = folder / "q.toml";
  std::ofstream(file) << "extends = \"" << pipeline("quickstart.toml") << "\"\n[train.read]\nstage = \"" << stage
                      << "\"\npath = \"" << path << "\"\n";
  const Outcome outcome = succeeded(run_command({tool("pipeline-run"), file, "--json", "--set", "data.path=" + shapes(), "--set",
                                                 "run.folder=", "--set", "run.epochs=2", "--set", "run.seed=3"}));
  std::vector<std::string> hashes;
  for (const Json& epoch : events(outcome, "epoch")) hashes.push_back(epoch.at("stream_hash"));
  return hashes;
}

TEST(Pack, ShardsGiveTheSameStreamAsTheFolder) {
  const TemporaryFolder folder;
  const Outcome outcome =
      pack({data_file(folder, "read_folder", shapes() + "/train"), "--out", folder / "out", "--shard-size", "200kB"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("400 samples of 10 classes, "), std::string::npos) << outcome.out;
  EXPECT_GE(names(folder / "out").size(), 4U);
  const auto plain = stream(folder, "read_folder", shapes() + "/train");
  ASSERT_EQ(plain.size(), 2U);
  EXPECT_EQ(stream(folder, "read_tar", folder / "out"), plain);
  EXPECT_EQ(stream(folder, "read_tar", folder / "out"), plain) << "with the index of the run before";
}

TEST(Pack, WritesTheSameBytesWithAnyNumberOfThreads) {
  const TemporaryFolder folder;
  const std::string file = data_file(folder, "read_folder", shapes() + "/train");
  for (const char* threads : {"1", "7"}) {
    ASSERT_EQ(pack({file, "--out", folder / threads, "--threads", threads, "--shard-size", "100kB", "--quality", "50"}).code, 0);
  }
  ASSERT_EQ(names(folder / "1"), names(folder / "7"));
  for (const std::string& name : names(folder / "1"))
    EXPECT_EQ(read_file(folder / ("1/" + name)), read_file(folder / ("7/" + name))) << name;
}

TEST(Pack, ShrinksImagesWhenAsked) {
  const TemporaryFolder folder;
  ASSERT_EQ(pack({data_file(folder, "read_folder", shapes() + "/train"), "--out", folder / "out", "--short-side", "16"}).code, 0);
  const Outcome statistics =
      succeeded(run_command({tool("pipeline-data"), "statistics", data_file(folder, "read_tar", folder / "out"), "--set",
                             "train.decode_image.size=[16, 16]"}));
}

TEST(Pack, WeightsOfShrunkImagesDoNotFindTheirOriginalsStrange) {
  const TemporaryFolder folder;
  for (const auto& [from, to] : {std::pair("train", "train"), std::pair("test", "val")}) {
    ASSERT_EQ(
        pack({data_file(folder, "read_folder", shapes() + "/" + from), "--out", folder / "small/" + to, "--short-side", "24"})
            .code,
        0);
  }
  std::vector<std::string> words = {tool("pipeline-run"), "classify", "--quiet", "--devices", "cpu"};
  for (const std::string& set : {"data.path=" + folder / "small", "run.folder=" + folder / "runs", std::string("run.epochs=1"),
                                 std::string("image.side=20"), std::string("image.short=24"),
                                 std::string("network.use=quickstart"), std::string("train.read.limit=64")})
    words.insert(words.end(), {"--set", set});
  const Outcome trained = succeeded(run_command(words));
  const std::string weights = find_file(folder / "runs", "weights.safetensors").string();
  const Outcome predicted = succeeded(run_command({tool("pipeline-run"), "--predict", shapes() + "/test", "--weights", weights,
                                                   "--out", folder / "found", "--devices", "cpu"}));
  EXPECT_EQ(predicted.err.find("height of"), std::string::npos) << predicted.err;
  const Outcome small = run_command({tool("pipeline-run"), "--predict", folder / "small/val", "--weights", weights, "--out",
                                     folder / "found", "--devices", "cpu"});
  EXPECT_EQ(small.err.find("height of"), std::string::npos) << "they were as large: " << small.err;
}

// What pack wrote beside the shards is not absent where it cannot be read.
TEST(Pack, ClassesThatCannotBeReadAreAnErrorThatNamesThem) {
  const TemporaryFolder folder;
  ASSERT_EQ(pack({data_file(folder, "read_folder", shapes() + "/test"), "--out", folder / "out"}).code, 0);
  const fs::path classes = folder / "out/classes.txt";
  const auto count = [&](std::vector<std::string> words) {
    words.insert(words.end(), {tool("pipeline-data"), "count", data_file(folder, "read_tar", folder / "out")});
    const Outcome outcome = run_command(words);
    EXPECT_EQ(outcome.code, 3) << outcome.err;
    return outcome.err;
  };
  const std::string names = read_file(classes);
  std::ofstream(classes) << names.substr(names.find('\n') + 1);  // without the first: other names than the numbers count
  EXPECT_NE(count({"/usr/bin/env"}).find("has samples with the label 9, and the 9 classes are"), std::string::npos);
  fs::remove(classes);
  fs::create_directory(classes);
  EXPECT_NE(count({"/usr/bin/env"}).find("'" + classes.string() + "' is a folder, not a file"), std::string::npos);
  fs::remove(classes);
  std::ofstream(classes) << names;
  fs::permissions(classes, fs::perms::none);
  const std::vector<std::string> words = without_privileges();
  if (words.empty()) GTEST_SKIP() << "root may read everything, and there is no setpriv";
  EXPECT_NE(count(words).find("cannot open '" + classes.string() + "': Permission denied"), std::string::npos);
}

TEST(Pack, PixelsBecomePng) {
  const TemporaryFolder folder;
  std::string records;
  for (int i = 0; i < 60; ++i) records += static_cast<char>(i % 10) + std::string(3072, static_cast<char>(4 * i));
  fs::create_directories(folder / "cifar");
  std::ofstream(folder / "cifar/data_batch_1.bin", std::ios::binary) << records;
  ASSERT_EQ(pack({data_file(folder, "read_cifar", folder / "cifar"), "--out", folder / "out"}).code, 0);
  const std::string shard = read_file(folder / "out/shard-000000.tar");
  EXPECT_EQ(shard.substr(1024, 13), "000000000.png");
  EXPECT_EQ(shard.substr(1536 + 1, 3), "PNG");
  const Outcome count = run_command({tool("pipeline-data"), "count", data_file(folder, "read_tar", folder / "out")});
  EXPECT_NE(count.out.find("in all                                   60"), std::string::npos) << count.out << count.err;
}

TEST(Pack, LabelImagesHoldTheNumbersOfTheClasses) {
  const TemporaryFolder folder;
  std::vector<std::uint8_t> colours(8 * 8 * 3, 90), ids(8 * 8), numbers(8 * 8);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<std::uint8_t>(i % 4);                      // 0 and 3 are class 0, 1 is class 1
    numbers[i] = std::array<std::uint8_t, 4>{0, 1, 255, 0}[i % 4];  // and 2 is ignored
  }
  fs::create_directories(folder / "images");
  fs::create_directories(folder / "labels");
  std::ofstream(folder / "images/a.png", std::ios::binary) << png_bytes({colours.data(), {8, 8, 3}});
  std::ofstream(folder / "labels/a.png", std::ios::binary) << png_bytes({ids.data(), {8, 8, 1}});
  const std::string file = folder / "pairs.toml";
  std::ofstream(file)
      << "[run]\nname = \"p\"\nfolder = \"\"\n\n[train]\nflow = [\"read\", \"decode_image\", \"batch\"]\n\n[train.read]\n"
      << "stage = \"read_pairs\"\nimages = \"" << folder / "images"
      << "\"\nlabels = \"" << folder / "labels"
      << "\"\n"
      << "classes = [{ name = \"sky\", ids = [0, 3] }, { name = \"road\", ids = [1] }]\nignored = [2]\n\n"
      << "[train.decode_image]\nsize = [8, 8]\n\n[train.batch]\nsize = 1\n";
  const Outcome outcome = succeeded(pack({file, "--out", folder / "out"}));
  const std::string shard = read_file(folder / "out/shard-000000.tar");
  EXPECT_NE(shard.find(png_bytes({colours.data(), {8, 8, 3}})), std::string::npos) << "the image is taken over as it is";
  EXPECT_NE(shard.find(png_bytes({numbers.data(), {8, 8, 1}})), std::string::npos);
  EXPECT_NE(shard.find("000000000.label.png"), std::string::npos);
  EXPECT_EQ(read_file(folder / "out/classes.txt"), "sky\nroad\n");
}

TEST(Pack, LeavesBadSamplesOutOnlyWhenAsked) {
  const TemporaryFolder folder;
  fs::copy(shapes(), folder / "shapes", fs::copy_options::recursive);
  std::ofstream(folder / "shapes/train/star/00001.jpg") << "no image";
  const std::string file = data_file(folder, "read_folder", folder / "shapes/train");
  EXPECT_MESSAGE(refused(pack({file, "--out", folder / "out"}), 3));
  EXPECT_FALSE(fs::exists(folder / "out"));
  const Outcome skipped = succeeded(pack({file, "--out", folder / "out", "--skip-bad"}));
  EXPECT_NE(skipped.out.find("399 samples"), std::string::npos) << skipped.out;
  EXPECT_NE(skipped.err.find("left out: '"), std::string::npos) << skipped.err;
}

// A file that begins correctly is copied unchanged, unless checks are requested.
TEST(Pack, FindsBrokenImagesOnlyWhenAsked) {
  const TemporaryFolder folder;
  fs::copy(shapes(), folder / "shapes", fs::copy_options::recursive);
  const fs::path broken = folder / "shapes/train/star/00001.jpg";
  fs::resize_file(broken, fs::file_size(broken) / 2);
  const std::string file = data_file(folder, "read_folder", folder / "shapes/train");
  const Outcome taken = pack({file, "--out", folder / "all"});
  EXPECT_NE(taken.out.find("400 samples"), std::string::npos) << taken.out << taken.err;
  const Outcome skipped = succeeded(pack({file, "--out", folder / "good", "--skip-bad"}));
  EXPECT_NE(skipped.out.find("399 samples"), std::string::npos) << skipped.out;
  EXPECT_NE(skipped.out.find("; 1 bad left out"), std::string::npos) << skipped.out;
  EXPECT_NE(skipped.err.find("left out: '" + broken.string() + "': the JPEG is truncated"), std::string::npos) << skipped.err;
  EXPECT_EQ(run_command({tool("pipeline-data"), "check", data_file(folder, "read_tar", folder / "good")}).code, 0);
}

// A pipeline over minutes of work.
std::string long_work(const TemporaryFolder& folder) {
  std::ofstream list(folder / "list.csv");
  list << "file_name,label\n";
  for (int i = 0; i < 40000; ++i) list << shapes() << "/train/star/00001.jpg,star\n";
  return data_file(folder, "read_list", folder / "list.csv");
}

// A signal while the second shard is being written, anywhere in the folder.
Interruption at_the_second_shard(const TemporaryFolder& folder, int signal) {
  Interruption interruption;
  interruption.signal = signal;
  interruption.limit = 120;
  interruption.once = [path = folder.path()] {
    std::error_code gone;
    for (fs::recursive_directory_iterator at(path, gone), end; !gone && at != end; at.increment(gone)) {
      if (at->path().filename().string().find("shard-000001") != std::string::npos) return true;
    }
    return false;
  };
  return interruption;
}

TEST(Pack, LeavesTheFolderAsItWasWhenInterrupted) {
  const TemporaryFolder folder;
  const std::string file = long_work(folder);
  fs::create_directories(folder / "out");
  std::ofstream(folder / "out/shard-000000.tar") << "an earlier one";
  const Outcome outcome = pack({file, "--out", folder / "out", "--force", "--quality", "80", "--shard-size", "100 kB"},
                               at_the_second_shard(folder, SIGINT));
  EXPECT_EQ(outcome.code, 130) << outcome.out << outcome.err;
  EXPECT_NE(outcome.err.find("stopped: '" + (folder / "out") + "' is unchanged"), std::string::npos) << outcome.err;
  EXPECT_EQ(names(folder / "out"), (std::vector<std::string>{"shard-000000.tar"}));
  EXPECT_EQ(read_file(folder / "out/shard-000000.tar"), "an earlier one");
}

}  // namespace
}  // namespace millrace::test::pack_test
