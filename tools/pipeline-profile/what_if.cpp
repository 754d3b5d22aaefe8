#include "what_if.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "forecast.h"
#include "millrace/detail/value.h"
#include "millrace/error.h"
#include "values.h"

namespace millrace {
namespace {

constexpr std::size_t kParts = 5;      // per measurement: noise of the machine lasts longer than a window
constexpr double kNineOfTen = 1.645;   // standard deviations of a normal distribution to both sides for 90 %
constexpr double kRunToRun = 0.043;    // standard deviation between runs of one file: tools/bench/README.md
constexpr double kPerDoubling = 0.03;  // added to the band per doubling or halving of the rate
constexpr int kMaxCores = 4096;       // limit of the simulation

constexpr std::array kCounts = {"threads", "io_threads", "buffers", "chunk", "batch", "cores", "replicas", "image", "pack"};
constexpr std::array kSpeeds = {"device", "storage"};

bool is_count(std::string_view key) { return std::ranges::find(kCounts, key) != kCounts.end(); }

std::vector<std::string> keys_of(const RunFacts& facts) {
  std::vector<std::string> keys(kCounts.begin(), kCounts.end());
  keys.insert(keys.end(), kSpeeds.begin(), kSpeeds.end());
  keys.emplace_back("storage_latency");
  for (const RunFacts::Stage& stage : facts.stages) keys.push_back(stage.name);
  return keys;
}

std::string full_key(const std::string& key, const RunFacts& facts) {
  const std::vector<std::string> keys = keys_of(facts);
  if (std::ranges::find(keys, key) != keys.end()) return key;
  std::vector<std::string> stages;
  for (const RunFacts::Stage& stage : facts.stages) {
    if (!key.empty() && stage.name.starts_with(key)) stages.push_back(stage.name);
  }
  if (stages.size() == 1) return stages.front();
  const auto nearest = nearest_name(key, keys);
  fail(ErrorKind::usage, "--what-if: unknown key '{}'; {}", key,
       nearest ? fmt::format("did you mean '{}'?", *nearest) : fmt::format("there are {}", fmt::join(keys, ", ")));
}

Change parse_change(std::string_view text, const RunFacts& facts) {
  const auto [key_text, value] = split_setting("--what-if", text);
  Change change{full_key(key_text, facts), 0};
  const std::string what = "--what-if: " + change.key;
  if (change.key == "chunk" && value == "auto") return change;
  if (is_count(change.key)) {
    change.value = count_value(what, value);
  } else if (change.key == "storage_latency") {
    change.value = time_value(what, value);
  } else {
    change.value = factor_value(what, value);
  }
  if (change.key == "cores" && change.value > kMaxCores)
    fail(ErrorKind::usage, "{}: {} at most are simulated", what, kMaxCores);
  if (change.key == "image" && facts.image_side == 0) fail(ErrorKind::usage, "{}: the graph has no network", what);
  if (change.key == "pack" && facts.source_pixels == 0) fail(ErrorKind::usage, "{}: the files are not JPEG or PNG images", what);
  if ((change.key == "device" || change.key == "replicas") && facts.devices.replicas == 0) {
    fail(ErrorKind::usage, "{}: graph '{}' uses no device", what, facts.graph);
  }
  return change;
}

// A replica on another number of threads. By Amdahl's law, all its threads compute for part of the time, and one alone for the
// rest: the average number of runnable threads yields that part. With one thread it is unknown; then all of the work is assumed
// divisible.
void divide_replica(SimulatedStep& step, double threads_before, double threads) {
  const double together = threads_before > 1 ? std::clamp((step.device_threads - 1) / (threads_before - 1), 0.0, 1.0) : 1;
  const double longer = 1 - together + together * threads_before / threads;
  step.sample_seconds *= longer;
  step.fixed_seconds *= longer;
  step.device_threads /= longer;  // the work stays the same
}

// On the host's cores: distributes them among replicas and data stages like a run. `is_known`: a replica's speed there was
// measured.
void share_host(ChangedGraph& to, const RunFacts& facts, bool is_known) {
  SimulatedGraph& graph = to.graph;
  share_cores_of(graph, facts.threads_are_chosen);
  const double before = facts.devices.threads;
  if (before == 0 || is_known) return;
  const auto threads = static_cast<double>(graph.step.cores.front().size());
  divide_replica(graph.step, before, threads);
  to.doubt *= std::pow(std::max(threads / before, before / threads), 0.2);
}

// Steps were measured alone, in the requested and the current form: the ratio applies to a run as well. False if they were not
// measured.
bool take_measured_steps(SimulatedGraph& graph, const std::optional<StepShare>& asked, const RunFacts& facts) {
  const std::vector<StepsAlone>& all = facts.devices.alone;
  const auto found = std::ranges::find_if(all, [&](const StepsAlone& each) { return asked && each.share == *asked; });
  const auto now = std::ranges::find(all, share_of(facts), &StepsAlone::share);
  if (found == all.end() || now == all.end()) return false;
  SimulatedStep& step = graph.step;
  const double fixed = step.fixed_seconds * step.replicas / graph.data.batch;
  step.sample_seconds = (step.sample_seconds + fixed) * found->sample_seconds / now->sample_seconds;
  step.fixed_seconds = 0;
  step.device_threads = found->runnable;
  return true;
}

// The cost of sums over more replicas than were measured, which no measured step contains. On the host's processor one thread
// reads and writes all replicas' gradients.
double sum_seconds(double bytes, int replicas, const DeviceFacts& devices) {
  constexpr double kMemoryBandwidth = 5e9;  // bytes per second of one thread
  if (devices.network) return all_reduce_time(bytes, 1, replicas, *devices.network).seconds();
  return devices.threads > 0 ? 2 * replicas * bytes / kMemoryBandwidth : all_reduce_time(bytes, replicas, 1, {}).seconds();
}
void add_sums(SimulatedGraph& graph, const DeviceFacts& devices) {
  if (graph.step.replicas <= devices.replicas || devices.bucket_ready.size() != devices.bucket_bytes.size()) return;
  graph.step.buckets.clear();
  graph.step.sums_wait = devices.network.has_value();
  for (std::size_t b = 0; b < devices.bucket_bytes.size(); ++b) {
    graph.step.buckets.push_back({devices.bucket_ready[b], sum_seconds(devices.bucket_bytes[b], graph.step.replicas, devices)});
  }
}

void change_image(double side, const RunFacts& facts, ChangedGraph& to) {
  const double pixels = std::pow(side / facts.image_side, 2);
  to.graph.step.sample_seconds *= pixels;
  // The first stage decodes whole files and makes an image of them: an unknown part of its work is proportional to the pixels.
  std::vector<SimulatedStage>& stages = to.graph.data.stages;
  for (std::size_t s = 0; s < stages.size(); ++s) stages[s].seconds *= s == 0 ? std::sqrt(pixels) : pixels;
  to.doubt *= std::pow(std::max(pixels, 1 / pixels), 0.25);
}

// Files with fewer pixels are smaller and decode faster.
void change_files(double side, const RunFacts& facts, ChangedGraph& to) {
  const double pixels = std::min(1.0, side * side * 4 / 3 / facts.source_pixels);  // photographs are 4 : 3
  to.graph.data.read_seconds *= pixels;
  to.graph.data.storage_seconds *= pixels;
  if (!to.graph.data.stages.empty()) to.graph.data.stages.front().seconds *= pixels;
  to.doubt *= std::pow(pixels, -0.1);
}

void apply(const Change& change, const RunFacts& facts, ChangedGraph& to) {
  SimulatedGraph& graph = to.graph;
  const auto whole = static_cast<int>(std::min(change.value, 1e6));
  if (change.key == "threads") graph.data.threads = whole;
  if (change.key == "io_threads") graph.data.io_threads = whole;
  if (change.key == "buffers") graph.data.buffers = static_cast<std::uint32_t>(whole);
  if (change.key == "batch") graph.data.batch = static_cast<std::uint32_t>(whole);
  if (change.key == "cores") graph.cores = whole;
  if (change.key == "replicas") graph.step.replicas = whole, graph.step.load.clear();
  if (change.key == "device") graph.step.sample_seconds /= change.value, graph.step.fixed_seconds /= change.value;
  if (change.key == "storage") graph.data.storage_seconds /= change.value;
  if (change.key == "storage_latency") graph.data.storage_seconds = change.value;
  if (change.key == "image") change_image(change.value, facts, to);
  if (change.key == "pack") change_files(change.value, facts, to);
  if (change.key == facts.stages.front().name)
    graph.data.read_seconds /= change.value, graph.data.storage_seconds /= change.value;
  for (SimulatedStage& stage : graph.data.stages) {
    if (change.key == stage.name) stage.seconds /= change.value;
  }
}

std::uint64_t steps_for(const SimulatedGraph& graph) {
  constexpr std::uint64_t kChunks = 5'000;  // some milliseconds of simulation
  const std::uint64_t chunks = (graph.data.batch + graph.data.chunk - 1) / graph.data.chunk;
  return std::clamp<std::uint64_t>(kChunks / chunks, 40, 200);
}

// Half the 90 % interval of the mean, by Student's distribution. REQUIRES: 2 to kParts values.
double band_of_mean(const std::vector<double>& values) {
  static constexpr std::array<double, kParts - 1> kStudent = {6.31, 2.92, 2.35, 2.13};
  double sum = 0, squares = 0;
  for (const double value : values) sum += value;
  const auto count = static_cast<double>(values.size());
  for (const double value : values) squares += std::pow(value - sum / count, 2);
  return kStudent[values.size() - 2] * std::sqrt(squares / (count - 1) / count);
}

std::string percent(double gain, double band) { return fmt::format("{:+.0f} % +- {:.0f}", 100 * gain, std::ceil(100 * band)); }

std::string suggestions_text(const RunFacts& facts, const Predictor& predictor) {
  struct Answer {
    Suggestion suggestion;
    double gain, band;
  };
  std::vector<Answer> answers;
  for (Suggestion& suggestion : suggestions(facts)) {
    const Prediction found = predictor.predict(parse_question(suggestion.question, facts));
    answers.push_back({std::move(suggestion), found.images_per_second / predictor.measured() - 1,
                       (found.high - found.low) / 2 / predictor.measured()});
  }
  std::ranges::stable_sort(answers, [](const Answer& a, const Answer& b) { return a.gain > b.gain; });
  std::string text, rest;
  for (const Answer& answer : answers) {
    if (answer.gain < 0.02) {
      rest += fmt::format("{}{}", rest.empty() ? "" : ", ", answer.suggestion.question);
    } else {
      text += fmt::format("  {:<24} {:>14}  {}\n", answer.suggestion.question, percent(answer.gain, answer.band),
                          answer.suggestion.text);
    }
  }
  if (!text.empty()) text = "\nwhat would help, best first:\n" + text;
  return text + (rest.empty() ? "" : fmt::format("\nless than 2 % each: {}\n", rest));
}

}  // namespace

Question parse_question(std::string_view text, const RunFacts& facts) {
  Question question{.text = std::string(text), .changes = {}};
  for (const std::string_view part : split_list(text)) {
    Change change = parse_change(part, facts);
    if (std::ranges::find(question.changes, change.key, &Change::key) != question.changes.end())
      fail(ErrorKind::usage, "--what-if: {} occurs twice in '{}'; --what-if may be given again", change.key, text);
    question.changes.push_back(std::move(change));
  }
  return question;
}

bool divides_steps(const Question& question) {
  return std::ranges::any_of(question.changes, [](const Change& c) { return c.key == "batch" || c.key == "replicas"; });
}

StepShare share_of(const RunFacts& facts) { return {facts.cores, facts.devices.replicas, facts.batch}; }

std::optional<StepShare> asked_share(const Question& question, const RunFacts& facts) {
  StepShare share = share_of(facts);
  for (const Change& change : question.changes) {
    if (change.key == "cores") share.cores = static_cast<int>(change.value);
    if (change.key == "batch") share.batch = static_cast<std::uint32_t>(change.value);
    if (change.key == "replicas") share.replicas = static_cast<int>(change.value);
  }
  return share != share_of(facts) && facts.devices.threads > 0 ? std::optional(share) : std::nullopt;
}

ChangedGraph changed(const Question& question, const RunFacts& facts, SimulatedGraph graph) {
  ChangedGraph to{std::move(graph)};
  RunFacts asked = facts;
  const bool is_known = take_measured_steps(to.graph, asked_share(question, facts), facts);
  for (const Change& change : question.changes) {
    if (change.key == "chunk") asked.chunk = static_cast<std::uint32_t>(change.value);
    if (change.key == "threads") asked.threads_are_chosen = false;
    apply(change, facts, to);
  }
  const bool is_shared_anew = std::ranges::any_of(
      question.changes, [](const Change& c) { return c.key == "cores" || c.key == "replicas" || c.key == "threads"; });
  if (is_shared_anew) share_host(to, asked, is_known);
  add_sums(to.graph, facts.devices);
  to.graph.data.chunk = chunk_for(asked, to.graph.data);
  return to;
}

std::string bound_of(const SimulatedGraph& graph, const Simulated& result) {
  constexpr double kBusy = 0.9;
  if (graph.step.replicas > 0 && result.device_busy > kBusy) {
    return graph.step.device_threads > 0 && result.data_busy > 0.2 ? "the device, which shares its cores with data stages"
                                                                   : "the device";
  }
  if (result.io_busy > kBusy) return graph.data.storage_seconds > graph.data.read_seconds ? "storage" : "reading";
  const auto slowest = std::ranges::max_element(graph.data.stages, {}, &SimulatedStage::seconds);
  const std::string stage = slowest == graph.data.stages.end() ? "the data stages" : slowest->name;
  if (result.core_busy > kBusy) return fmt::format("the cores, most of all by {}", stage);
  if (result.data_busy > kBusy) return fmt::format("the data threads, most of all by {}", stage);
  if (slowest != graph.data.stages.end() && slowest->serial) return stage + ", which runs on one thread at a time";
  return "waiting for batches: more buffers or smaller chunks would fill the gaps";
}

Predictor::Predictor(const Calibration& measured)
    : facts_(measured.facts), today_(graph_of(measured.facts, measured.windows)), steps_(steps_for(today_)) {
  const Simulated today = simulate(today_, 1, steps_);
  measured_ = measured.images_per_second();
  simulated_ = today.images_per_second;
  bound_by_ = bound_of(today_, today);
  const auto count = static_cast<std::ptrdiff_t>(measured.windows.size()), parts = std::min<std::ptrdiff_t>(kParts, count);
  std::vector<double> rates;
  for (std::ptrdiff_t i = 0; i < parts; ++i) {
    const auto begin = measured.windows.begin();
    const std::vector<Window> windows(begin + count * i / parts, begin + count * (i + 1) / parts);
    const Window sum = Calibration::sum_of(windows);
    if (sum.steps <= 0) continue;
    Part& part = parts_.emplace_back();
    part.graph = graph_of(facts_, windows);
    part.measured = facts_.batch * sum.steps / sum.seconds;
    part.simulated = simulate(part.graph, 1, steps_).images_per_second;
    rates.push_back(part.measured);
  }
  if (rates.size() < 2 || simulated_ <= 0) {
    fail(ErrorKind::usage, "too few steps were measured to predict anything from them: give more --seconds");
  }
  band_ = band_of_mean(rates);
}

double Predictor::rate(const Question& question) const {
  return measured_ * simulate(changed(question, facts_, today_).graph, 1, steps_).images_per_second / simulated_;
}

Prediction Predictor::predict(const Question& question) const {
  const ChangedGraph asked = changed(question, facts_, today_);
  const Simulated answer = simulate(asked.graph, 1, steps_);
  std::vector<double> answers;
  double errors = 0;  // squared errors of the simulation
  for (const Part& part : parts_) {
    const ChangedGraph again = changed(question, facts_, part.graph);
    answers.push_back(part.measured * simulate(again.graph, 1, steps_).images_per_second / part.simulated);
    errors += std::pow(part.simulated / part.measured - 1, 2) / static_cast<double>(parts_.size());
  }
  Prediction found;
  const double gain = answer.images_per_second / simulated_;
  found.images_per_second = measured_ * gain;
  // The predicted run has as much noise as the measured one.
  const double noise = std::sqrt(2) * band_of_mean(answers) / std::max(found.images_per_second, 1e-9);
  const double known = std::hypot(noise, kNineOfTen * std::sqrt(errors), kNineOfTen * kRunToRun);
  const double band = known + kPerDoubling * std::abs(std::log2(std::max(gain, 1e-9))) + (asked.doubt - 1);
  found.low = found.images_per_second * std::max(0.0, 1 - band);
  found.high = found.images_per_second * (1 + band);
  found.bound_by = bound_of(asked.graph, answer);
  return found;
}

std::vector<Suggestion> suggestions(const RunFacts& facts) {
  std::vector<Suggestion> all;
  const auto add = [&](std::string question, std::string text) { all.push_back({std::move(question), std::move(text)}); };
  if (facts.threads < facts.cores) add(fmt::format("threads={}", facts.cores), "[run] threads: as many data threads as cores");
  add(fmt::format("io_threads={}", facts.io_threads * 4), "[run] io_threads: more files are read at once");
  add(fmt::format("buffers={}", facts.buffers * 2),
      fmt::format("[{}] buffers: more batches are read ahead", facts.stages.back().name));
  if (facts.chunk > 0) add("chunk=auto", "[run] chunk: chosen by the run");
  add("storage_latency=0ms", "files in memory: a stage cache_encoded, or a local disk");
  const int packed = (facts.image_side * 8 + 6) / 7;
  if (facts.image_side > 0 && facts.source_pixels > 2.0 * packed * packed) {
    add(fmt::format("pack={}", packed), fmt::format("pipeline-data pack --short-side {}", packed));
  }
  for (std::size_t s = 1; s + 1 < facts.stages.size(); ++s) {
    add(facts.stages[s].name + "=2x", fmt::format("{} at twice the speed", facts.stages[s].name));
  }
  add(fmt::format("cores={}", 2 * facts.cores), "a processor with twice as many cores");
  if (facts.devices.replicas == 0) return all;
  if (facts.devices.may_use_bf16) add("device=1.5x", "[run] precision = \"bf16\", where it makes the device 1.5 times as fast");
  add("device=2x", "a device of twice the speed, or a network of half the work");
  if (facts.devices.threads == 0) add(fmt::format("replicas={}", facts.devices.replicas + 1), "one more such device");
  return all;
}

std::string what_if_text(const Calibration& measured, const std::vector<std::string>& questions, bool suggests) {
  const Predictor predictor(measured);
  const double rate = predictor.measured();
  std::string text = fmt::format("measured:  {:.0f} images/s +- {:.0f}, over {:.0f} steps\n", rate, predictor.measured_band(),
                                 measured.sum().steps);
  text += fmt::format("simulated: {:.0f} images/s, {:.1f} % {}; bound by {}\n", predictor.simulated(),
                      100 * std::abs(predictor.simulation_error()), predictor.simulation_error() < 0 ? "less" : "more",
                      predictor.bound_by());
  text += busy_text(graph_of(measured.facts, measured.windows).other_threads);
  for (const std::string& each : questions) {
    const Question question = parse_question(each, measured.facts);
    const Prediction found = predictor.predict(question);
    text +=
        fmt::format("{}: {:.0f} images/s, {}, between {:.0f} and {:.0f} nine times out of ten; then bound by {}\n", question.text,
                    found.images_per_second, percent(found.images_per_second / rate - 1, (found.high - found.low) / 2 / rate),
                    found.low, found.high, found.bound_by);
  }
  return suggests ? text + suggestions_text(measured.facts, predictor) : text;
}

}  // namespace millrace
