#include "millrace/batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/characters.h"
#include "base/secrets.h"
#include "base/thread_name.h"
#include "millrace/backend/network.h"
#include "millrace/detail/types.h"
#include "millrace/error.h"
#include "millrace/plugin.h"
#include "millrace/util/finite_count.h"
#include "millrace/util/text.h"

namespace millrace {

// Secrets are removed, since tables are passed on.
void Predictions::Sample::append_place(std::string& to) const {
  url.find("://") == std::string::npos ? append_name(to, url) : append_name(to, without_secrets(url));
  if (!member.empty()) append_name(to.append(": "), member);
}

std::span<const float> Predictions::Values::row(std::size_t sample) const {
  const auto elements = static_cast<std::size_t>(shape.elements());
  return {values + sample * elements, elements};
}

const Predictions::Values& Predictions::output(LayerPort port) const {
  return *std::find_if(outputs.begin(), outputs.end(),
                       [&](const Values& values) { return values.port == port && !values.score; });
}

const Predictions::Values& Predictions::gradient(const ScoreGradient& of) const {
  return *std::find_if(outputs.begin(), outputs.end(),
                       [&](const Values& values) { return values.port == of.by && values.score == of.of; });
}

void Predictions::copy_image(std::size_t sample, std::uint8_t* to) const {
  const std::size_t slot = first_slot + sample;
  apply_record(batch->records[slot], {batch->pixels + slot * batch->image.bytes(), batch->image}, batch->window, to);
}

void Predictions::copy_target(std::size_t sample, std::uint8_t* to) const {
  const std::size_t slot = first_slot + sample;
  const ImageShape stored = batch->target.shape(batch->image);
  apply_record(target_record(batch->records[slot], batch->target), {batch->targets + slot * stored.bytes(), stored},
               batch->target.shape(batch->window), to);
}

namespace {

// Index of a named output of a layer.
int find_port(const StageSite& site, std::string_view key, const Layer& layer, std::string_view name) {
  const LayerType* const type = site.registry->layers().find(layer.op);
  std::vector<std::string> names;
  for (int port = 0; type != nullptr && port < layer.output_count(); ++port) {
    const LayerOutput& output = type->outputs[static_cast<std::size_t>(port)];
    if (output.name == name && output.carries == Carries::values) return port;
    if (output.carries == Carries::values) names.push_back(output.name);
  }
  fail(ErrorKind::usage, "{}: layer '{}' has no output '{}' of values; it has '{}'", key, layer.name, name,
       fmt::join(names, "', '"));
}

// Suggestions for an unknown layer name: the layers of the block with this name, or the layers with this name in blocks, as
// "relu2" may exist in each block; else the nearest name.
std::string layers_instead(const Network& network, std::string_view name) {
  constexpr std::size_t kMaxNamed = 10;
  const std::string block = std::string(name) + '.', inner = '.' + std::string(name);
  std::vector<std::string> meant, names;
  for (const Layer& layer : network.layers) {
    names.push_back(layer.name);
    if (layer.name.starts_with(block) || layer.name.ends_with(inner)) meant.push_back(layer.name);
  }
  if (meant.empty()) {
    const auto near = nearest_name(name, names);
    return near ? fmt::format("; nearest is '{}'", *near) : fmt::format("; `pipeline-inspect {}` lists its layers", network.name);
  }
  const std::size_t all = meant.size();
  if (all > kMaxNamed) meant.erase(meant.begin(), meant.end() - kMaxNamed);  // layers near the end are the likeliest
  return fmt::format("; name one: '{}'{}", fmt::join(meant, "', '"),
                     all > kMaxNamed ? fmt::format(", or one of the {} before them", all - kMaxNamed) : "");
}

}  // namespace

LayerPort find_output(const StageSite& site, std::string_view key, std::string_view name) {
  const std::vector<Layer>& layers = site.network->layers;
  const auto find = [&](std::string_view wanted) {
    return std::find_if(layers.begin(), layers.end(), [&](const Layer& layer) { return layer.name == wanted; });
  };
  if (const auto layer = find(name); layer != layers.end()) return static_cast<int>(layer - layers.begin());
  const std::size_t colon = name.rfind(':');
  if (colon != std::string_view::npos) {
    const auto layer = find(name.substr(0, colon));
    if (layer != layers.end()) {
      return {static_cast<int>(layer - layers.begin()), find_port(site, key, *layer, name.substr(colon + 1))};
    }
  }
  fail(ErrorKind::usage, "{}: network '{}' has no layer '{}'{}", key, site.network->name, name,
       layers_instead(*site.network, name));
}

namespace {

// Skips shares whose samples neither count nor are bad, as all are while a graph is tried, unless they end the pass.
bool is_to_be_written(const Predictions& share) {
  const auto end = share.samples.begin() + share.count;
  const auto is_known = [](const Predictions::Sample& sample) { return sample.counts || !sample.fault.empty(); };
  return share.last || std::any_of(share.samples.begin(), end, is_known);
}

}  // namespace

struct PredictionLine::State {
  using Place = std::pair<std::uint64_t, int>;  // turn, replica
  struct Item {
    // Held by the next item to write: after an error of the graph the others may never be written. Released last: the share's
    // batch must return before the graph finishes.
    std::optional<Output::Hold> hold;
    Ref<Predictions> share;
    Output* output = nullptr;
  };

  explicit State(Write the_write) : write(std::move(the_write)) {}

  void run() {
    while (std::optional<Item> item = take()) {
      if (broken) continue;
      try {
        item->share->ready->wait();
        if (is_to_be_written(*item->share)) write(*item->share);
      } catch (...) {
        broken = true;
        item->output->fail(current_error());
      }
    }
  }

  std::optional<Item> take() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return stopping || !line.empty(); });
    if (stopping) return std::nullopt;
    Item item = std::move(line.front());
    line.pop_front();
    return item;
  }

  const Write write;
  bool broken = false;  // used by the thread alone

  std::mutex mutex;
  std::condition_variable changed;
  std::map<Place, Item> early;  // arrived before their predecessors
  Place next = {0, 0};
  std::deque<Item> line;
  bool stopping = false;
  std::thread thread;
};

PredictionLine::PredictionLine(Write write) : state_(std::make_unique<State>(std::move(write))) {}

PredictionLine::~PredictionLine() { stop(); }

void PredictionLine::add(Packet packet, Output& output) {
  State& state = *state_;
  Ref<Predictions> share(static_cast<Predictions*>(packet.payload.get()));
  const std::lock_guard lock(state.mutex);
  if (state.stopping) return;
  const int replicas = share->replicas;
  const State::Place place{share->turn, share->replica};
  state.early.emplace(place, State::Item{{}, std::move(share), &output});
  for (auto first = state.early.begin(); first != state.early.end() && first->first == state.next; first = state.early.begin()) {
    first->second.hold.emplace(output);
    state.line.push_back(std::move(first->second));
    state.early.erase(first);
    state.next = state.next.second + 1 < replicas ? State::Place{state.next.first, state.next.second + 1}
                                                  : State::Place{state.next.first + 1, 0};
  }
  if (!state.thread.joinable())
    state.thread = std::thread([&state] {
      name_this_thread("predictions");
      state.run();
    });
  state.changed.notify_one();
}

void PredictionLine::stop() noexcept {
  State& state = *state_;
  {
    const std::lock_guard lock(state.mutex);
    state.stopping = true;
  }
  state.changed.notify_one();
  if (state.thread.joinable()) state.thread.join();
  state.line.clear();
  state.early.clear();
}

bool FiniteCount::is_finite(std::span<const float> outputs) {
  return std::ranges::all_of(outputs, [](float value) { return value < std::numeric_limits<float>::infinity(); });
}

void FiniteCount::add(const Predictions& share, const Predictions::Values& outputs) {
  for (std::uint32_t i = 0; i < share.count; ++i) {
    const Predictions::Sample& sample = share.samples[i];
    if (!sample.counts) continue;
    ++images_;
    if (is_finite(outputs.row(i))) continue;
    if (wrong_++ == 0) {
      step_ = share.step;
      sample.append_place(first_);
    }
  }
}

void FiniteCount::end_pass(const StageSite& site) {
  if (wrong_ > 0) {
    site.run->warn(
        fmt::format("{}: {} of {} predictions are not finite and therefore meaningless, such as that of '{}': the weights are "
                    "not finite either, or the network's values grow too large",
                    site.place(), wrong_, images_, line_text(first_)));
    site.run->not_finite(site.graph, step_, "a prediction");
  }
  *this = {};
}

}  // namespace millrace
