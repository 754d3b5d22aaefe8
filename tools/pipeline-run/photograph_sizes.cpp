#include "photograph_sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "millrace/error.h"
#include "millrace/storage.h"
#include "stages/data_line.h"

namespace millrace {
namespace {

struct Seen {
  ImageShape shape, file;  // empty if unreadable
  std::string url;
  bool in_archive = false;
  std::string cause;  // why it is unreadable
};

Seen seen(const DataLine& line, std::uint64_t index, Sample& sample) {
  const SampleKey key{0, index, index, 0};
  try {
    line.load(key, DataLine::Depth::decoded, sample);
  } catch (const Error& error) {
    const bool is_of_file = error.kind() == ErrorKind::storage && url_scheme(sample.url) == "file";  // and not of a server
    if (error.kind() != ErrorKind::data && !is_of_file) throw;
    return {{}, {}, sample.url, !sample.member.empty(), error.what()};
  }
  if (sample.fault) return {{}, {}, sample.url, !sample.member.empty(), sample.fault->cause};
  const ImageShape shape = sample.image().shape;
  const SourceMap source = sample.source_map();
  const bool known = source.height > 0;
  return {shape, known ? ImageShape{source.height, source.width, shape.channels} : shape, sample.url, !sample.member.empty(), {}};
}

std::vector<Seen> look_at_all(const Pipeline& pipeline, const Registry& registry) {
  GraphPlan plan = *pipeline.graph("predict");
  const auto batcher = [](const StagePlan& stage) { return stage.type->role == StageType::Role::batcher; };
  plan.stages.erase(std::find_if(plan.stages.begin(), plan.stages.end(), batcher), plan.stages.end());
  plan.edges.clear();
  DataContext context;
  context.seed = static_cast<std::uint64_t>(pipeline.run.seed);
  context.network = pipeline.network.get();
  context.registry = &registry;
  const GraphBuild build(plan, context);
  const DataLine line(build, context.seed);
  const unsigned threads = std::max(1U, std::thread::hardware_concurrency());
  std::vector<Sample> samples(threads);
  std::vector<Seen> all(line.source().size());
  for_each_sample(all.size(), threads, [&](std::uint64_t i, unsigned thread) { all[i] = seen(line, i, samples[thread]); });
  return all;
}

std::string size_text(std::int64_t height, std::int64_t width) { return fmt::format("{} x {}", height, width); }

class SizeCheck {
 public:
  SizeCheck(const InferenceRecipe& recipe, const Registry& registry) : recipe_(recipe), registry_(registry) {}

  // Why the size is impossible; empty if it is possible.
  std::optional<std::string> problem(std::int64_t height, std::int64_t width) {
    const ImageShape shape{static_cast<int>(height), static_cast<int>(width), static_cast<int>(number("channels"))};
    std::string why;
    return network_for_size(recipe_, shape, registry_, why) ? std::nullopt : std::optional(why);
  }

  // Describes the nearest smaller possible size; each side on its own, with the other from validation.
  std::string advice(std::int64_t height, std::int64_t width) {
    constexpr std::int64_t kFarthest = 64;
    const auto nearest = [&](std::int64_t side, auto&& fits) {
      for (std::int64_t less = side; less > 0 && less > side - kFarthest; --less) {
        if (fits(less)) return less;
      }
      return std::int64_t{0};
    };
    const std::int64_t tall = nearest(height, [&](std::int64_t h) { return !problem(h, number("width")); });
    const std::int64_t wide = nearest(width, [&](std::int64_t w) { return !problem(number("height"), w); });
    if (tall == 0 || wide == 0 || problem(tall, wide)) return "";
    return fmt::format("; the nearest smaller size that it can take is {}", size_text(tall, wide));
  }

 private:
  std::int64_t number(const char* key) const {
    const Value* const value = recipe_.input.find(key);
    return value != nullptr && value->kind() == Value::Kind::integer ? value->integer() : 0;
  }

  const InferenceRecipe& recipe_;
  const Registry& registry_;
};

}  // namespace

std::vector<SizeGroup> group_by_size(const Pipeline& pipeline, const Registry& registry) {
  std::vector<Seen> all = look_at_all(pipeline, registry);
  std::vector<SizeGroup> groups;
  std::map<std::pair<int, int>, std::size_t> places;
  const auto add = [](SizeGroup& group, Seen& image) {
    group.in_archives = group.in_archives || image.in_archive;
    group.urls.push_back(std::move(image.url));
  };
  for (Seen& image : all) {
    if (image.shape == ImageShape{}) continue;
    const auto [place, is_new] = places.try_emplace({image.shape.height, image.shape.width}, groups.size());
    if (is_new) groups.push_back({image.shape, image.file, image.url, {}, false});
    add(groups[place->second], image);
  }
  if (groups.empty()) {
    fail(ErrorKind::data, "--predict: no image can be read{}",
         all.empty() ? "" : fmt::format(" of {}; the first is '{}': {}", all.size(), all[0].url, all[0].cause));
  }
  for (Seen& image : all) {
    if (image.shape == ImageShape{}) add(groups.front(), image);
  }
  return groups;
}

void check_size(const InferenceRecipe& recipe, const SizeGroup& images, const Registry& registry) {
  SizeCheck check(recipe, registry);
  const auto problem = check.problem(images.shape.height, images.shape.width);
  if (!problem) return;
  fail(ErrorKind::usage, "--predict: '{}' is {}, and the network cannot take that: {}{}. Crop or resize such images",
       images.first, size_text(images.shape.height, images.shape.width), *problem,
       check.advice(images.shape.height, images.shape.width));
}

}  // namespace millrace
