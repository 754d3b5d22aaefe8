// Generated input for unknown stages: parameters from their declarations, samples from their ports.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "millrace/backend/backend.h"
#include "millrace/backend/network.h"
#include "millrace/optimizer.h"
#include "millrace/plugin.h"
#include "testkit/harness.h"

namespace millrace::conformance {

inline constexpr ImageShape kImage{8, 8, 3};
inline constexpr std::uint32_t kSamples = 24;

// A grey JPEG file, 8 x 8 blocks of one level each (baseline, written without a library). The first has `level`, and each next
// one `step` more.
std::vector<std::uint8_t> grey_jpeg(int height, int width, std::uint8_t level, int step = 0);

// A folder with two classes of images, made once: first/0.jpg ...; next to the classes are the files of write_archives().
// Removed with the process that made it; processes forked from that one may use it.
const std::filesystem::path& image_folder();

// The value of ${folder} in a StageExample: a separate folder with `files`, removed with this; without `files` image_folder().
class ExampleFolder {
 public:
  explicit ExampleFolder(void (*files)(const std::string& folder));
  ExampleFolder(const ExampleFolder&) = delete;
  ExampleFolder& operator=(const ExampleFolder&) = delete;
  ~ExampleFolder();
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  bool is_own_;
};

// Reads the table of an example. Returns the mistake, or "".
std::string read_example(const StageExample& example, const std::filesystem::path& folder, Value& table);

// Files that hold many samples, one of each format: tar, CIFAR-10, IDX.
void write_archives(const std::filesystem::path& folder);

// A probably valid value: in its range, one of its choices, or a folder of images for a path.
Value plausible(const ParamInfo& info);

// The context of a pipeline on small images, with two devices' replicas if `with_replicas`.
class Bench {
 public:
  Bench(const Registry& registry, bool with_replicas, ImageShape image = kImage);
  const StepContext& context() const { return context_; }

 private:
  std::shared_ptr<Backend> backend_;
  std::unique_ptr<Device> device_;
  Network network_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  testkit::RecordedRun run_;
  StepContext context_;
};

// The smallest table from which the stage can be made: its required keys, or those and one more. Empty if none is accepted;
// `why` then holds the last refusal.
std::optional<Value> workable_table(const StageType& type, const StepContext& context, std::string& why);
// Why the stage cannot be made from the table, or "".
std::string refusal(const StageType& type, const Value& table, const StepContext& context);

// The optimizer with its defaults; and, if accepted, with every number at 0.5 and every switch on.
std::vector<std::shared_ptr<const Optimizer>> workable_optimizers(const OptimizerType& type);

// Input for the stage's first port: an encoded image, or pixels that differ from slot to slot.
void fill_sample(Sample& sample, std::uint32_t slot, std::string_view input_payload, ImageShape image = kImage);
// A batch whose slots suit the stage's first port: encoded images, or pixels that differ from slot to slot.
Ref<Batch> filled_batch(std::string_view input_payload, std::uint32_t samples, ImageShape image = kImage);

}  // namespace millrace::conformance
