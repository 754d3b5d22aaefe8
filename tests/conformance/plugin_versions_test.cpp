// A cache file is reused as long as the versions of the plugins before the cache are unchanged. So a stage that makes other
// samples from the same table needs another version; the samples of each version are recorded here.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "discovered.h"
#include "millrace/util/load_plugins.h"
#include "testkit/conformance_stage.h"

namespace millrace::conformance {
namespace {

struct Noted {
  const char *stage, *table;
  ImageShape image;  // arriving
  const char* version;
  std::uint64_t samples;  // hash of the stage's output
};

constexpr Noted kNoted[] = {
    {"decode_image", "size = [8, 8]\nfit = 'exact'", {16, 24, 3}, "1.1", 0x14d495a968a4d7d},
    {"decode_image",
     "short_side = 9\nsize = [9, 9]\ncrop = 'centre'\nfilter = 'bicubic'",
     {26, 35, 3},
     "1.1",
     0x9c374173eabfad35},
    {"decode_image", "channels = 1", {16, 24, 3}, "1.1", 0xea01fcd2c3dc5cd0},
    {"resize", "size = [5, 12]", {8, 8, 3}, "1.0", 0x35607834fdf3b3f2},
    {"resize", "short_side = 4\nfilter = 'bicubic'", {8, 12, 3}, "1.0", 0x756c75846ec8e167},
    {"resize", "short_side = 13\nfilter = 'nearest'", {8, 12, 3}, "1.0", 0x8cf51fecf07be50},
    {"crop", "size = [6, 5]", {8, 8, 3}, "1.0", 0x4fa7b1bce39d6fd5},
    {"pad", "size = [11, 9]\nfill = [1, 2, 3]", {8, 8, 3}, "1.0", 0x8b86b04fcb976100},
    {"pad", "margin = [1, 2]\nborder = 'reflect'", {6, 6, 1}, "1.0", 0x3d9264e89d0bc75a},
    {"pad", "margin = [3, 1]\nborder = 'edge'", {6, 6, 3}, "1.0", 0xa6398b111bd33f00},
};

std::string version_of(const StageType& type) {
  const std::vector<PluginInfo>& plugins = loaded_plugins(registry());
  return std::ranges::find(plugins, type.plugin, &PluginInfo::name)->version;
}

std::uint64_t hash_of_samples(const Workable& stage) {
  testkit::Harness made = stage.harness();
  made.stage().open();
  const Ref<Batch> batch = filled_batch(stage.input(), 3, stage.image());
  if (stage.input() == payload::kSampleChunk) {
    for (Sample& sample : batch->samples) {
      const auto bytes = grey_jpeg(stage.image().height, stage.image().width, 20, 9 + static_cast<int>(sample.key.index));
      std::memcpy(sample.encoded.resize(bytes.size()), bytes.data(), bytes.size());
    }
  }
  made.feed(testkit::whole(batch));
  std::uint64_t hash = 0;
  for (const Sample& sample : batch->samples) {
    const Outcome left = outcome(sample);
    EXPECT_EQ(left.fault, "");
    hash = hash_text(fmt::format("{} {}", hash, to_string(left.shape)));
    hash = hash_bytes(left.pixels.data(), left.pixels.size(), hash);
  }
  return hash;
}

TEST(PluginVersions, ChangeWithTheSamplesThatStagesMake) {
  for (const Noted& noted : kNoted) {
    const StageType* const type = registry().stages().find(noted.stage);
    if (type == nullptr) continue;
    const StageExample example{.table = noted.table, .image = noted.image};
    const Workable stage(registry(), *type, &example);
    ASSERT_EQ(stage.why_not(), "") << noted.stage << ": " << noted.table;
    const std::uint64_t samples = hash_of_samples(stage);
    EXPECT_EQ(version_of(*type), noted.version) << fmt::format("note it, and what '{}' makes by it: {:#x}", noted.table, samples);
    EXPECT_EQ(samples, noted.samples) << fmt::format(
        "{} {} makes other samples of '{}' than before: {:#x}. If that is meant, raise the version of the plugin and note both: "
        "cache files are read again until it changes",
        noted.stage, noted.version, noted.table, samples);
  }
}

}  // namespace
}  // namespace millrace::conformance
