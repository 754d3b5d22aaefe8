#include "graph/feeder.h"

#include <algorithm>
#include <cassert>

#include "graph/chunk_size.h"
#include "graph/guard.h"
#include "millrace/detail/random.h"
#include "millrace/util/trace.h"

namespace millrace::flow {

// All memory of one step's samples, allocated once.
class Feeder::CirculatingBatch final : public Batch, public Guarded {
 public:
  CirculatingBatch(std::weak_ptr<Feeder> feeder, const FeederPlan& plan)
      : home_(std::move(feeder)),
        slots_(plan.spec.size),
        slot_records_(plan.spec.size),
        slot_source_maps_(plan.spec.size),
        slot_labels_(plan.spec.size, -1),
        slot_second_labels_(plan.spec.size, -1),
        slot_shares_(plan.spec.size, 1.0F),
        slot_weights_(plan.spec.size, 0.0F),
        slot_numbers_(plan.options.has_rows ? 0 : std::size_t{plan.spec.size} * plan.options.numbers, 0.0F),
        slot_rows_(plan.options.has_rows ? plan.spec.size + 1 : 0, 0U) {
    image = plan.options.image;
    window = plan.options.window;
    target = plan.options.target;
    numbers_per_sample = plan.options.numbers;
    numbers = slot_numbers_.data();
    if (plan.options.has_rows) row_offsets = slot_rows_.data();
    memory_ = buffer(plan, image.bytes(), pixel_guards_);
    target_memory_ = buffer(plan, target_bytes(), target_guards_);
    samples = slots_;
    pixels = memory_.get();
    targets = target_memory_.get();
    records = slot_records_.data();
    labels = slot_labels_.data();
    second_labels = slot_second_labels_.data();
    shares = slot_shares_.data();
    weights = slot_weights_.data();
  }

  // Resets the state of the previous step.
  void forget() {
    source_maps = slot_source_maps_.data();
    std::fill(slot_source_maps_.begin(), slot_source_maps_.end(), SourceMap{});
    std::fill(slot_records_.begin(), slot_records_.end(), AugmentationRecord{});
    std::fill(slot_labels_.begin(), slot_labels_.end(), -1);
    std::fill(slot_second_labels_.begin(), slot_second_labels_.end(), -1);
    std::fill(slot_shares_.begin(), slot_shares_.end(), 1.0F);
    std::fill(slot_weights_.begin(), slot_weights_.end(), 0.0F);
  }

  void reset(std::uint32_t index, const SampleKey& key) {
    const Image slot = slot_of(memory_, image, pixel_guards_, index);
    slots_[index].reset(key, slot, target, slot_of(target_memory_, target.shape(image), target_guards_, index));
  }

  bool was_complete = false;  // it has passed the stages before the steps

  std::string damage(std::uint32_t begin, std::uint32_t slots) const override {
    for (std::uint32_t slot = begin; slot < begin + slots; ++slot) {
      for (const auto& [guards, what] : {std::pair{&pixel_guards_, "image"}, std::pair{&target_guards_, "target"}}) {
        const std::string found = guards->slots.empty() ? "" : guards->slots.damage(slot);
        if (found.empty()) continue;
        return fmt::format("sample '{}': it wrote outside the slot of the {} ({}): {}", slots_[slot].place(), what,
                           to_string(what[0] == 'i' ? image : target.shape(image)), found);
      }
    }
    for (const auto& [guards, what] : {std::pair{&pixel_guards_, "images"}, std::pair{&target_guards_, "targets"}}) {
      const std::string found = guards->whole.empty() ? "" : guards->whole.damage(0);
      if (!found.empty()) return fmt::format("step {}: it wrote outside the memory of the batch's {}: {}", step, what, found);
    }
    return {};
  }

 protected:
  void recycle() noexcept override {
    if (const std::shared_ptr<Feeder> feeder = home_.lock()) {
      feeder->home(this);
    } else {
      delete this;  // outlived a graph that failed
    }
  }

 private:
  // With GraphOptions::guard, sample stages get separate slots; `batch` copies from there into the memory that devices read.
  // Else empty.
  struct Guards {
    GuardedMemory slots, whole;
  };

  // For `bytes` per slot; none if the shape varies.
  std::shared_ptr<std::uint8_t[]> buffer(const FeederPlan& plan, std::size_t bytes, Guards& guards) const {
    const std::size_t all = image.is_static() ? bytes * plan.spec.size : 0;
    if (all == 0) return nullptr;
    if (plan.options.guard) {
      guards.slots = GuardedMemory(plan.spec.size, bytes);
      guards.whole = GuardedMemory(1, all, plan.options.host_buffer);
      return guards.whole.share(0);
    }
    return plan.options.host_buffer ? plan.options.host_buffer(all) : std::make_shared<std::uint8_t[]>(all);
  }

  static Image slot_of(const std::shared_ptr<std::uint8_t[]>& memory, const ImageShape& shape, Guards& guards,
                       std::uint32_t index) {
    if (!memory) return {};
    if (guards.slots.empty()) return {memory.get() + index * shape.bytes(), shape};
    guards.slots.renew(index);
    return {guards.slots.piece(index), shape};
  }

  std::weak_ptr<Feeder> home_;
  std::shared_ptr<std::uint8_t[]> memory_, target_memory_;
  Guards pixel_guards_, target_guards_;
  std::vector<Sample> slots_;
  std::vector<AugmentationRecord> slot_records_;
  std::vector<SourceMap> slot_source_maps_;
  std::vector<std::int32_t> slot_labels_, slot_second_labels_;
  std::vector<float> slot_shares_;
  std::vector<float> slot_weights_;
  std::vector<float> slot_numbers_;
  std::vector<std::uint32_t> slot_rows_;
};

// One batch being read, by several I/O threads at once.
struct Feeder::Filling {
  Filling(Ref<Batch> batch_, std::uint32_t chunk_) : batch(std::move(batch_)), chunk(chunk_) {}

  Ref<Batch> batch;
  std::uint32_t chunk;
  std::atomic<std::uint32_t> next{0};  // the first unclaimed slot
};

Feeder::Feeder(Core& core, std::shared_ptr<Credits> credits, std::shared_ptr<Gate> gate, IoPool& io, FeederPlan plan)
    : core_(core),
      credits_(std::move(credits)),
      gate_(std::move(gate)),
      io_(io),
      plan_(std::move(plan)),
      source_(static_cast<Source&>(plan_.node->stage())),
      name_hash_(hash_text(plan_.node->place().name)),
      order_(source_, combine(plan_.options.seed, name_hash_)) {}

Feeder::~Feeder() {
  for (CirculatingBatch* batch : home_) delete batch;
}

void Feeder::allocate() {
  const Lock lock(mutex_);
  home_.reserve(plan_.spec.buffers);  // so that home() never allocates
  away_.reserve(plan_.spec.buffers);
  for (std::uint32_t i = 0; i < plan_.spec.buffers; ++i) home_.push_back(new CirculatingBatch(weak_from_this(), plan_));
}

void Feeder::start(std::uint64_t first, std::uint64_t last) {
  {
    const Lock lock(mutex_);
    if (first < next_) ++pass_;
    next_ = first;
    last_ = last;
    stopped_ = false;
  }
  dispatch();
}

void Feeder::stop() { stopped_ = true; }

void Feeder::home(CirculatingBatch* batch) {
  const Credits::Stay stay(*credits_);
  if (!stay) {
    const Lock lock(mutex_);
    std::erase(away_, batch);
    home_.push_back(batch);
    return;
  }
  const bool lost = !stopped_ && gate_->any_entry() && !gate_->has_passed(batch->step);
  {
    const Lock lock(mutex_);
    if (lost && !lost_step_) lost_step_ = batch->step;
    batch->was_complete = !lost && gate_->any_entry();
    std::erase(away_, batch);
    home_.push_back(batch);
  }
  if (lost) {
    stopped_ = true;
    gate_->stop();
  }
  dispatch();
  credits_->home();
}

std::string Feeder::place_of(std::uint64_t step, std::uint32_t slot) const {
  const Lock lock(mutex_);
  const auto batch = std::ranges::find_if(away_, [step](const Batch* each) { return each->step == step; });
  return batch == away_.end() || slot >= (*batch)->samples.size() ? std::string() : (*batch)->samples[slot].place();
}

std::uint64_t Feeder::waited_for_credit() const {
  const Lock lock(mutex_);
  const std::uint64_t now = now_ticks();
  return credit_waited_ + (credit_since_ != 0 && !stopped_ ? now - std::min(now, credit_since_) : 0);
}

std::optional<std::uint64_t> Feeder::lost_step() {
  const Lock lock(mutex_);
  return lost_step_;
}

void Feeder::dispatch() {
  while (true) {
    CirculatingBatch* batch = nullptr;
    std::uint64_t step = 0;
    {
      const Lock lock(mutex_);
      const std::uint64_t now = now_ticks();
      if (credit_since_ != 0) credit_waited_ += now - std::min(now, credit_since_);
      credit_since_ = !stopped_ && next_ != last_ && home_.empty() ? now : 0;
      if (stopped_ || next_ == last_ || home_.empty()) return;
      batch = home_.back();
      home_.pop_back();
      away_.push_back(batch);
      step = next_++;
      credits_->out();
    }
    if (plan_.options.keeps_batches && batch->was_complete) {
      send_again(batch, step);
      continue;
    }
    prepare(*batch, step);
    const auto filling = std::make_shared<Filling>(Ref<Batch>(batch), chunk_size());
    const std::uint32_t chunks = (batch->count + filling->chunk - 1) / filling->chunk;
    const auto readers = std::clamp(chunks, 1U, static_cast<std::uint32_t>(io_.threads()));
    for (std::uint32_t i = 0; i < readers; ++i) post([this, filling] { fill(*filling); });
  }
}

// Runs on an I/O thread, like reading.
void Feeder::send_again(CirculatingBatch* batch, std::uint64_t step) {
  batch->step = step;
  batch->epoch = step / plan_.options.steps_per_epoch;
  post([this, batch = Ref<Batch>(batch)] {
    Packet packet;
    packet.payload = batch;
    packet.sequence = batch->step;
    plan_.batcher->emit(0, std::move(packet));
  });
}

void Feeder::prepare(Batch& batch, std::uint64_t step) const {
  assert(batch.in_flight == 0);
  const GraphOptions& options = plan_.options;
  batch.epoch = step / options.steps_per_epoch;
  batch.step = step;
  batch.pass = pass_;
  const std::uint64_t first = step % options.steps_per_epoch * plan_.global_batch;
  const std::uint64_t left = options.samples_per_epoch > first ? options.samples_per_epoch - first : 0;
  batch.global_count = plan_.global_batch;
  if (plan_.spec.last != BatchSpec::Last::wrap)
    batch.global_count = static_cast<std::uint32_t>(std::min<std::uint64_t>(batch.global_count, left));
  const Share part = plan_.part_of(batch.global_count);
  batch.first_slot = part.begin;
  batch.count = part.count;
  batch.weight = 0;
  batch.stream_hash = 0;
  batch.missing = batch.count;
  batch.resident_set = options.resident_set;
  static_cast<CirculatingBatch&>(batch).forget();
}

void Feeder::post(std::function<void()> work) {
  core_.graph.reserve_wait();
  ++reading_;
  io_.post([this, &graph = core_.graph, work = std::move(work)]() mutable {
    work();
    --reading_;
    work = nullptr;  // releases the batch before the graph may end
    graph.release_wait();
  });
}

void Feeder::fill(Filling& filling) {
  Batch& batch = *filling.batch;
  if (batch.count == 0) return send_empty(filling);
  std::uint32_t begin = filling.next, end = 0;
  while (!core_.failed()) {
    bool dropped = false;
    do {
      if (begin >= batch.count) return;
      dropped = begin == 0 && stopped_;
      end = dropped ? batch.count : std::min(begin + filling.chunk, batch.count);
    } while (!filling.next.compare_exchange_weak(begin, end));
    const std::uint64_t traced = is_traced() ? now_ticks() : 0;
    if (dropped || !read_chunk(batch, begin, end)) return;
    if (traced != 0) trace_read(batch, begin, end - begin, traced);
    Packet packet;
    packet.payload = filling.batch;
    packet.sequence = batch.step;
    packet.begin = begin;
    packet.count = end - begin;
    plan_.node->emit(0, std::move(packet));
    begin = filling.next;
  }
}

void Feeder::trace_read(const Batch& batch, std::uint32_t slot, std::uint32_t slots, std::uint64_t begin) const noexcept {
  const Node::Place& place = plan_.node->place();
  std::string file;
  try {
    file = batch.samples[slot].place();
  } catch (const std::bad_alloc&) {
  }
  trace({.graph = place.graph,
         .name = place.name,
         .file = file,
         .begin = begin,
         .end = now_ticks(),
         .step = batch.step,
         .slot = slot,
         .slots = slots});
}

// The other processes have the whole batch. The step still runs here.
void Feeder::send_empty(const Filling& filling) {
  if (core_.failed() || stopped_) return;
  Packet packet;
  packet.payload = filling.batch;
  packet.sequence = filling.batch->step;
  plan_.node->emit(0, std::move(packet));
}

bool Feeder::read_chunk(Batch& batch, std::uint32_t begin, std::uint32_t end) {
  const std::uint64_t first = first_position(batch);
  return read_slots(batch, begin, end - begin, [&](std::uint32_t slot) {
    const std::uint64_t position = first + slot;
    return SampleKey{batch.epoch, position, order_.index(batch.epoch, position % order_.size()), 0};
  });
}

template <class KeyOf>
bool Feeder::read_slots(Batch& batch, std::uint32_t begin, std::uint32_t count, KeyOf key_of) {
  const int line = Counters::this_line();
  const std::uint64_t computed = plan_.node->is_sampled() ? thread_nanoseconds() : 0, started = now_ticks();
  core_.work.begin(line, plan_.node, started, batch.step, begin, count);
  SampleWatch watch(&plan_.node->service, line, started, core_.work.at(line).sample);
  std::uint64_t bytes = 0;
  bool goes_on = true;
  for (std::uint32_t i = 0; goes_on && i < count; ++i) {
    watch.begins(i);
    goes_on = read(batch, begin + i, key_of(begin + i));
    bytes += batch.samples[begin + i].encoded.size() + batch.samples[begin + i].encoded_target.size();
    watch.done();
  }
  core_.work.end(line);
  const std::uint64_t ended = now_ticks();
  if (goes_on) plan_.node->count(line, ended - started, count, bytes, computed > 0 ? thread_nanoseconds() - computed : 0);
  return goes_on;
}

bool Feeder::read(Batch& batch, std::uint32_t slot, const SampleKey& key) {
  Sample& sample = batch.samples[slot];
  static_cast<CirculatingBatch&>(batch).reset(slot, key);
  try {
    fetch(sample);
  } catch (...) {
    Error error = current_error();
    if (error.kind() != ErrorKind::content) {
      const std::string name = sample.url.empty() ? "number " + std::to_string(key.index) : "'" + sample.place() + "'";
      plan_.node->fail(error.in("sample " + name));
      return false;
    }
    sample.fault = SampleFault{plan_.node->place().name, error.what()};
  }
  const std::uint64_t what = combine(combine(mix64(key.position), key.index), static_cast<std::uint64_t>(sample.label));
  sample.first_hash = combine(what, sample.content);
  sample.hash = sample.first_hash;
  return true;
}

void Feeder::fetch(Sample& sample) const {
  sample.cached = plan_.cache && plan_.cache->fetch(sample);
  if (!sample.cached) {
    source_.read(sample);
    sample.content = hash_bytes(sample.encoded.data(), sample.encoded.size());
    if (sample.encoded_target.size() > 0) {
      sample.content = hash_bytes(sample.encoded_target.data(), sample.encoded_target.size(), sample.content);
    }
    if (!sample.numbers.empty()) {
      sample.content = hash_bytes(sample.numbers.data(), sample.numbers.size() * sizeof(float), sample.content);
    }
  }
  // A cache holds labels as numbered by `only`, and its file may come from a run with another `only` or none.
  // Labels that the source learns only by reading were never renumbered.
  const std::int32_t listed = sample.cached ? source_.label(sample.key.index) : -1;
  sample.label = order_.label(listed >= 0 ? listed : sample.label);
}

void Feeder::retry(Packet packet) {
  post([this, packet = std::move(packet)]() mutable {
    if (core_.failed()) return;
    Batch& batch = static_cast<Batch&>(*packet.payload);
    const auto key_of = [&](std::uint32_t slot) { return replacement(batch.samples[slot].key); };
    if (!read_slots(batch, packet.begin, packet.count, key_of)) return;
    plan_.node->emit(0, std::move(packet));
  });
}

SampleKey Feeder::replacement(SampleKey key) const {
  ++key.attempt;
  Draw draw(plan_.options.seed, key, name_hash_);
  key.index =
      order_.replacement(key.epoch, static_cast<std::uint64_t>(draw.integer(0, static_cast<std::int64_t>(order_.size()) - 1)));
  return key;
}

std::uint64_t Feeder::first_position(const Batch& batch) const {
  return batch.step % plan_.options.steps_per_epoch * plan_.global_batch + batch.first_slot;
}

Share FeederPlan::part_of(std::uint32_t global_count) const {
  if (options.load.empty()) return {0, global_count};
  Share part;
  const std::vector<Share> shares = split(global_count, options.load.size(), options.load);
  for (std::uint32_t i = 0; i < options.replicas; ++i) {
    const Share& share = shares[options.first_replica + i];
    if (i == 0) part.begin = share.begin;
    part.count += share.count;
  }
  return part;
}

std::uint32_t Feeder::chunk_size() const {
  if (plan_.options.chunk > 0) return plan_.options.chunk;
  double seconds = 0;  // per sample, in all stages
  for (const Node* node : plan_.work) {
    const Counters::Totals totals = node->counters.totals();
    if (totals.samples > 0) seconds += static_cast<double>(totals.busy_ticks) / static_cast<double>(totals.samples);
  }
  return automatic_chunk(seconds * seconds_per_tick(), plan_.spec.size, plan_.threads);
}

}  // namespace millrace::flow
