#include "prepare/initial_weights.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <utility>

#include "config/network_plan.h"
#include "millrace/backend/network.h"
#include "millrace/error.h"
#include "millrace/storage.h"
#include "millrace/util/centre.h"
#include "network/whitening.h"
#include "prepare/data_line.h"
#include "prepare/graph_build.h"
#include "toml/document.h"
#include "util/crc64.h"
#include "weights/fetched_weights.h"
#include "weights/tensor_file.h"

namespace millrace {
namespace {

constexpr std::uint64_t kWhiteningImages = 5000;

// The centre of the image, without the recorded augmentation.
void normalise(const Sample& sample, const Network& network, std::vector<std::uint8_t>& bytes, std::vector<float>& image) {
  const ImageShape window = network.input;
  AugmentationRecord centre{.x = static_cast<std::int16_t>(centred(sample.image().shape.width, window.width)),
                            .y = static_cast<std::int16_t>(centred(sample.image().shape.height, window.height))};
  bytes.resize(window.bytes());
  apply_record(centre, sample.image(), window, bytes.data());
  image.resize(window.bytes());
  const auto channels = static_cast<std::size_t>(window.channels);
  const std::size_t pixels = bytes.size() / channels;
  for (std::size_t c = 0; c < channels; ++c) {
    for (std::size_t p = 0; p < pixels; ++p) {
      image[c * pixels + p] =
          static_cast<float>((static_cast<double>(bytes[p * channels + c]) / 255 - network.mean[c]) / network.deviation[c]);
    }
  }
}

// Draws `count` samples at random (by the seed), runs each through the graph's sample stages on the calling thread, and passes
// on the pixels in the network's window, normalised as at ingest: (C, H, W) float32. Leaves out augmentation that is recorded
// but not yet executed. Skips bad samples. REQUIRES: the graph has an open source.
void probe_samples(const GraphBuild& build, const Network& network, std::uint64_t seed, std::uint64_t count,
                   const std::function<void(std::span<const float> image)>& take) {
  const DataLine line(build, seed);
  Sample sample;
  std::vector<std::uint8_t> bytes;
  std::vector<float> image;
  for (std::uint64_t position = 0; position < count; ++position) {
    SampleKey key{.epoch = 0, .position = position};
    Draw draw(seed, key, hash_text("probe"));
    key.index =
        line.order().listed(static_cast<std::uint64_t>(draw.integer(0, static_cast<std::int64_t>(line.order().listed()) - 1)));
    line.load(key, DataLine::Depth::decoded, sample);
    if (sample.fault) continue;
    normalise(sample, network, bytes, image);
    take(image);
  }
}

// A parameter's initial values in every replica; the initialiser "whiten" reads 5,000 training images.
std::vector<float> first_values(const Parameter& parameter, const Network& network, std::uint64_t seed, const GraphBuild& build) {
  if (parameter.initialiser.rule != "whiten") return initial_values(parameter, seed);
  if (!build.data().source)
    fail(ErrorKind::usage, "parameter '{}' is initialised by whitening, which needs a source", parameter.name);
  PatchStatistics patches(parameter.shape);
  probe_samples(build, network, seed, kWhiteningImages,
                [&](std::span<const float> image) { patches.add(image, network.input.height, network.input.width); });
  if (patches.patches() == 0)
    fail(ErrorKind::data, "parameter '{}' is initialised by whitening: no image could be read", parameter.name);
  return patches.filters();
}

enum class Has : std::uint8_t { nothing_to_read, file, no_copy };

Has state_of(const std::string& path) {
  if (path.empty() || is_remote(path)) return Has::nothing_to_read;
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored) ? Has::file : Has::no_copy;
}

std::vector<std::byte> bytes_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  std::vector<std::byte> bytes(file ? static_cast<std::size_t>(file.tellg()) : 0);
  file.seekg(0).read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!file) fail(ErrorKind::storage, "the weights '{}' cannot be read: {}", path, std::strerror(errno));
  return bytes;
}

}  // namespace

WeightsSource choose_weights(const Pipeline& pipeline, const GraphPlan& main, const WeightsOptions& options) {
  const NetworkParams& params = pipeline.network_params;
  const bool given = !options.file.empty();
  if (given && !(trains(main) && options.begins)) {
    WeightsSource whole;
    whole.file = options.file;
    return whole;
  }
  if (!given && !options.begins && trains(main) && !params.weights.file.empty()) {
    fail(ErrorKind::usage,
         "{}: --from begins with a later step, and [network] weights = \"{}\" are for the first one: name the run's weights with "
         "--weights FILE",
         pipeline.place_of("network.weights"), params.weights.file);
  }
  WeightsSource from{.file = given ? options.file : params.weights.file,
                     .fresh = params.fresh,
                     .rename = params.rename,
                     .sha256 = given ? "" : params.sha256,
                     .inside = params.weights.inside,
                     .other_classes = pipeline.classes_follow_data && !pipeline.network_table.find("new") && trains(main)};
  if (options.is_profile) return from;
  if (from.file.empty() && !(params.fresh.empty() && params.rename.empty())) {
    fail(ErrorKind::usage, "{}: [network] has '{}' but no weights: set weights = \"FILE\" in it, or pass --weights FILE",
         pipeline.place_of(params.fresh.empty() ? "network.rename" : "network.new"), params.fresh.empty() ? "rename" : "new");
  }
  if (!trains(main) && !params.fresh.empty()) {
    fail(ErrorKind::usage,
         "{}: [{}] does not train, and layers of new = [\"{}\"] would begin with new values: pass the weights of a run that "
         "trained them with --weights FILE",
         pipeline.place_of("network.new"), main.name, fmt::join(params.fresh, "\", \""));
  }
  return from;
}

InitialWeights read_weights(WeightsSource from, const WeightsOptions& options, const Network& network, const Registry& registry,
                            const std::function<void(std::string)>& doing,
                            const std::function<void(const std::string&)>& announce) {
  InitialWeights weights;
  weights.from = std::move(from);
  WeightsSource& source = weights.from;
  if (source.file.empty()) return weights;
  std::error_code ignored;
  if (!options.file.empty() && source.file.find("://") == std::string::npos && !std::filesystem::exists(source.file, ignored))
    fail(ErrorKind::usage, "--weights: {}{}", no_such_file(source.file), weights_hint(source.file));
  if (is_remote(source.file)) source.url = source.file;
  source.file = local_weights({source.file, source.sha256}, registry, doing, announce);
  doing(fmt::format("reading the weights '{}'", source.file));
  try {
    weights.values = load_weights(source, network, weights.new_layer, weights.metadata);
    if (!weights.new_layer.empty()) source.fresh = {weights.new_layer};
  } catch (Error& error) {
    if (source.url.empty()) throw;
    if (error.kind() == ErrorKind::data) {  // such as an access-denied page
      std::filesystem::remove(source.file, ignored);
      error.in("deleted, as it holds no weights");
    }
    throw error.in(fmt::format("'{}'", source.url));
  }
  return weights;
}

void begin_last_layer_new(InitialWeights& weights, const Network& network) {
  const Layer* const last = last_layer_with_parameters(network);
  if (last == nullptr) return;
  weights.new_layer = last->name;
  weights.from.fresh = {last->name};
  for (std::size_t i = 0; i < network.parameters.size(); ++i) {
    if (covers_any(weights.from.fresh, network.parameters[i].name)) weights.values[i].clear();
  }
}

void write_initial_values(InitialWeights& weights, const Pipeline& pipeline, const GraphBuild& main,
                          const std::vector<std::unique_ptr<Replica>>& replicas, const WeightsOptions& options) {
  const std::vector<Parameter>& parameters = pipeline.network->parameters;
  const bool is_new = weights.from.file.empty() && !main.trains();
  if (!parameters.empty() && has_predictions(main.plan()) && is_new && !options.is_profile) {
    fail(ErrorKind::usage, "{}: [{}] makes predictions, but the network is not trained: pass its weights with --weights FILE",
         to_string(main.plan().at), main.plan().name);
  }
  const auto seed = static_cast<std::uint64_t>(pipeline.run.seed);
  Weights all = std::exchange(weights.values, {});
  all.resize(parameters.size());
  for (int p = 0; const Parameter& parameter : parameters) {  // so that two copies of all values never exist
    std::vector<float> values = std::move(all[static_cast<std::size_t>(p)]);
    if (values.empty()) values = first_values(parameter, *pipeline.network, seed, main);
    for (const auto& replica : replicas) replica->write(kValue, p, values);
    ++p;
  }
  malloc_trim(0);  // returns freed memory to the system
}

std::unique_ptr<ScratchFolder> send_weights_where_missing(std::string& path, Group& group) {
  const Has mine = state_of(path);
  const auto sent = static_cast<std::byte>(mine);
  const auto all = group.all_gather(Group::kRun, std::span(&sent, 1));
  const auto has = [&](std::size_t rank, Has state) { return all[rank] == std::vector{static_cast<std::byte>(state)}; };
  std::size_t owner = 0;
  while (owner < all.size() && !has(owner, Has::file)) ++owner;
  if (owner == all.size()) return nullptr;
  std::vector<std::byte> bytes;
  if (static_cast<std::size_t>(group.rank()) == owner) {
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      if (!has(rank, Has::no_copy)) continue;
      if (bytes.empty()) bytes = bytes_of_file(path);
      group.send(static_cast<int>(rank), Group::kRun, bytes);
    }
  }
  if (mine != Has::no_copy) return nullptr;
  group.receive(static_cast<int>(owner), Group::kRun, bytes);
  auto copy = std::make_unique<ScratchFolder>("weights");
  path = copy->path() / std::filesystem::path(path).filename();
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!file.flush())
    fail(ErrorKind::storage, "weights sent by another rank cannot be stored in '{}': {}", path, std::strerror(errno));
  return copy;
}

std::string checksum_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> bytes(1U << 20U);
  Crc64 sum;
  while (file.read(bytes.data(), static_cast<std::streamsize>(bytes.size())) || file.gcount() > 0) {
    sum.add(bytes.data(), static_cast<std::size_t>(file.gcount()));
  }
  return sum.text();
}

}  // namespace millrace
