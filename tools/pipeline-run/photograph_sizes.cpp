#include "photograph_sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "millrace/error.h"
#include "millrace/storage.h"
#include "network/load.h"
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
  SizeCheck(const InferenceRecipe& recipe, const Registry& registry)
      : recipe_(recipe), registry_(registry), validated_(build(recipe.document, recipe.network)) {}

  // Why the size is impossible; empty if it is possible.
  std::optional<std::string> problem(std::int64_t height, std::int64_t width) {
    const ImageShape shape{static_cast<int>(height), static_cast<int>(width), static_cast<int>(number("channels"))};
    const SizedNetwork sized = at_size(recipe_, shape);
    std::string why;
    const auto network = build(sized.document, sized.variables, &why);
    if (!network) return why;
    const auto same = [](const Parameter& a, const Parameter& b) { return a.name == b.name && a.shape == b.shape; };
    if (validated_ && !std::ranges::equal(network->parameters, validated_->parameters, same))
      return fmt::format("its layers have weights only for {}", size_text(number("height"), number("width")));
    const Value* const scale = recipe_.target.find("scale");
    const std::int64_t times = scale != nullptr && scale->kind() == Value::Kind::integer ? scale->integer() : 1;
    const Shape& output = network->output();
    if (output.rank() == 3 && output[1] == times * height && output[2] == times * width) return std::nullopt;
    return fmt::format("its output would be {}, and should be {}", to_string(output), size_text(times * height, times * width));
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

  std::shared_ptr<const Network> build(const Value& document, const Value& variables, std::string* why = nullptr) const {
    Diagnostics errors;
    auto network = build_network(document, "network.toml", variables, registry_, errors);
    if (errors.empty()) return network;
    const std::string text = errors.text();
    if (why != nullptr) *why = text.substr(0, text.find('\n'));
    return nullptr;
  }

  const InferenceRecipe& recipe_;
  const Registry& registry_;
  const std::shared_ptr<const Network> validated_;
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

SizedNetwork at_size(const InferenceRecipe& recipe, const ImageShape& shape) {
  SizedNetwork sized{recipe.document, recipe.network};
  Value* const input = sized.document.find("input");
  for (const auto& [key, extent] : {std::pair{"height", shape.height}, {"width", shape.width}}) {
    const Value* const given = input != nullptr ? input->find(key) : nullptr;
    const bool refers = given != nullptr && given->kind() == Value::Kind::text && given->text().starts_with("${") &&
                        given->text().find('}') == given->text().size() - 1;
    if (refers)
      sized.variables.set(given->text().substr(2, given->text().size() - 3), Value(extent));
    else if (input != nullptr)
      input->set(key, Value(extent));
  }
  return sized;
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
