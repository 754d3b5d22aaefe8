// In the steady state, the path from file to batch neither allocates nor locks per sample, only per chunk and batch.
#include <gtest/gtest.h>

#include <mutex>

#include "counting.h"
#include "millrace/plugin.h"
#include "millrace/util/load_plugins.h"
#include "pipelines/command.h"
#include "testkit/files.h"
#include "testkit/graph_fixture.h"
#include "testkit/stages.h"

namespace millrace::test {
namespace {

using testkit::table;

constexpr std::uint64_t kWarm = 60, kEnd = 160;  // steps

// The cost of a batch, between steps kWarm and kEnd.
struct Cost {
  double allocations = 0, locks = 0;
};

Cost cost(const char* source, const Value& parameters, std::int64_t batch, std::uint32_t chunk) {
  Registry registry;
  load_all_plugins(registry);
  testkit::TestGraph test;
  test.use(registry);
  Value read = parameters;
  read.set("shuffle", Value("every-epoch"));
  test.add("read", *registry.stages().find(source), read);
  test.add("decode_image", *registry.stages().find("decode_image"), table({{"size", Value(Array{Value(32), Value(32)})}}));
  test.add("augment", *registry.stages().find("augment"), table({{"flip_x", Value(0.5)}}));
  test.add("batch", *registry.stages().find("batch"), table({{"size", Value(batch)}}));
  auto& log = test.add<testkit::BatchLog>("log");
  Counts warm, end;
  log.on_batch = [&](const Packet& packet, Output&) {
    if (packet.sequence == kWarm) warm = counts();
    if (packet.sequence == kEnd) end = counts();
  };
  leave_out("libjpeg");
  test.run({.threads = 2, .epochs = (kEnd + 1) * static_cast<std::uint64_t>(batch) / 400 + 1, .chunk = chunk});  // 400 images
  const auto steps = static_cast<double>(kEnd - kWarm);
  return {static_cast<double>(end.allocations - warm.allocations) / steps, static_cast<double>(end.locks - warm.locks) / steps};
}

TEST(SteadyState, CountsWhatItIsMeantToCount) {
  const Counts before = counts();
  int* volatile memory = new int(1);
  static std::mutex mutex;
  { const std::lock_guard lock(mutex); }
  const Counts after = counts();
  delete memory;
  EXPECT_GE(after.allocations, before.allocations + 1);
  EXPECT_GE(after.locks, before.locks + 1);
}

// The images of shapes(), as a list.
std::string list_in(const testkit::TestFolder& folder) {
  std::string list = "file_name,label\n";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(shapes() + "/train")) {
    if (entry.is_regular_file()) list += entry.path().string() + "," + entry.path().parent_path().filename().string() + "\n";
  }
  return folder.write("list.csv", list);
}

// The images of shapes(), as tar shards.
std::string shards_in(const testkit::TestFolder& folder) {
  const std::string file = folder.write("pack.toml",
                                        "[run]\nname = \"p\"\n[train]\nflow = [\"read\", \"decode_image\", "
                                        "\"batch\"]\n[train.read]\nstage = \"read_folder\"\npath = \"" +
                                            shapes() + "/train\"\n[train.decode_image]\nsize = 32\n[train.batch]\nsize = 1\n");
  const Outcome outcome =
      succeeded(run_command({tool("pipeline-data"), "pack", file, "--out", file + ".shards", "--shard-size", "200kB"}));
  return file + ".shards";
}

// Costs per sample would make a batch four times as large cost four times as much.
TEST(SteadyState, NothingIsAllocatedAndNoLockIsTakenForASample) {
  const testkit::TestFolder folder;
  const Value images = table({{"path", Value(shapes() + "/train")}}), list = table({{"path", Value(list_in(folder))}});
  const Value shards = table({{"path", Value(shards_in(folder))}});
  Value first = images, second = list;
  first.set("stage", Value("read_folder"));
  second.set("stage", Value("read_list"));
  const Value both = table({{"sources", Value(Array{first, second})}});
  for (const auto& [source, parameters] :
       {std::pair{"read_folder", images}, std::pair{"read_list", list}, std::pair{"mix", both}, std::pair{"read_tar", shards}}) {
    const Cost small = cost(source, parameters, 50, 25), large = cost(source, parameters, 200, 100);
    std::printf("%s: a batch of 50: %.1f allocations, %.1f locks; of 200: %.1f, %.1f\n", source, small.allocations, small.locks,
                large.allocations, large.locks);
    EXPECT_LT(large.allocations, 50) << source << ": a quarter of one for each sample";
    EXPECT_LT(large.locks, 50) << source;
    EXPECT_LT(large.allocations, small.allocations + 15) << source;
    EXPECT_LT(large.locks, small.locks + 15) << source;
  }
}

}  // namespace
}  // namespace millrace::test
