#include "graph/gate.h"

#include <algorithm>

namespace millrace {

void Graph::StepAgreed::add(std::size_t entry, const std::vector<double>& of_instance) {
  weights.resize(std::max(weights.size(), entry + 1));
  std::vector<double>& sums = weights[entry];
  sums.resize(std::max(sums.size(), of_instance.size()));
  for (std::size_t i = 0; i < of_instance.size(); ++i) sums[i] += of_instance[i];
}

Graph::StepAgreed Graph::StepAgreed::alone(const StepReady& ready) {
  StepAgreed agreed{.stream_hash = ready.stream_hash};
  for (std::size_t entry = 0; entry < ready.weights.size(); ++entry) {
    for (const std::vector<double>& of_instance : ready.weights[entry]) agreed.add(entry, of_instance);
  }
  return agreed;
}

}  // namespace millrace

namespace millrace::flow {

class Gate::Token final : public StepToken {
 public:
  explicit Token() = default;
  std::weak_ptr<Gate> home;
  std::vector<std::vector<double>> weights;  // what the step's packets point to

 protected:
  void recycle() noexcept override {
    if (const std::shared_ptr<Gate> gate = home.lock()) {
      gate->token_home(this);
    } else {
      delete this;  // outlived a graph that ended with an error
    }
  }
};

Gate::Gate(Core& core, std::shared_ptr<Credits> credits, std::uint64_t steps_per_epoch)
    : core_(core), credits_(std::move(credits)), steps_per_epoch_(steps_per_epoch), token_(new Token) {}

Gate::~Gate() { delete token_; }

void Gate::start(std::uint64_t first, std::uint64_t last) {
  const Lock lock(mutex_);
  if (token_) token_->home = weak_from_this();
  next_ = first;
  last_ = last;
  held_ = false;
  stopped_ = false;
  accounted_ = now_ticks();
}

std::uint64_t Gate::set_horizon(std::uint64_t step) {
  std::uint64_t passes = step;
  {
    const Lock lock(mutex_);
    account();
    horizon_ = step;
    passes = std::max(step, next_);
  }
  pass();
  return passes;
}

void Gate::hold() {
  const Lock lock(mutex_);
  account();
  held_ = true;
}

void Gate::resume() {
  {
    const Lock lock(mutex_);
    account();
    held_ = false;
  }
  pass();
}

void Gate::stop() {
  std::map<std::uint64_t, Waiting> dropped;  // let go of after the lock
  const Lock lock(mutex_);
  account();
  stopped_ = true;
  dropped.swap(waiting_);
  for (const auto& [step, waiting] : dropped) {
    for (const auto& [link, packet] : waiting.packets) link->drop(packet);
  }
}

bool Gate::has_passed(std::uint64_t step) const {
  const Lock lock(mutex_);
  return stopped_ || step < next_;
}

void Gate::give_up() {
  {
    const Lock lock(mutex_);
    given_up_ = true;
  }
  stop();
}

void Gate::arrive(Link& link, Packet packet) {
  Lock lock(mutex_);
  account();
  if (stopped_) {
    link.drop(packet);
    lock.unlock();  // before the packet goes, which may send a batch home
    return;
  }
  const std::uint64_t step = packet.sequence;
  std::vector<Arrived>& packets = waiting_[step].packets;
  packets.push_back({&link, std::move(packet)});
  if (packets.size() < entries_) return;
  std::sort(packets.begin(), packets.end(), [](const Arrived& a, const Arrived& b) { return a.link->number < b.link->number; });
  auto* batch = dynamic_cast<Batch*>(packets.front().packet.payload.get());
  Graph::StepReady ready{.step = step, .stream_hash = batch ? batch->stream_hash : 0, .weights = {}};
  if (agree_) ready.batch = Ref<Batch>(batch);
  std::vector<Arrived> complete = packets;
  lock.unlock();
  ready.weights = weigh(std::move(complete));
  if (agree_) return agree_(std::move(ready), [this, step](Graph::StepAgreed answer) { agreed(step, std::move(answer)); });
  agreed(step, Graph::StepAgreed::alone(ready));
}

// By entry and instance.
std::vector<std::vector<std::vector<double>>> Gate::weigh(std::vector<Arrived> packets) {
  std::vector<std::vector<std::vector<double>>> weights;
  for (const auto& [link, packet] : packets) {
    std::vector<std::vector<double>>& of_entry = weights.emplace_back();
    const auto* batch = dynamic_cast<const Batch*>(packet.payload.get());
    for (const Node* node : link->targets) of_entry.push_back(batch ? node->stage().weigh(*batch) : std::vector<double>());
  }
  return weights;
}

void Gate::agreed(std::uint64_t step, Graph::StepAgreed answer) {
  if (answer.error) return core_.fail(*answer.error);
  if (!answer.go_on) return;  // the run stops this graph, which drops what waits here
  {
    const Lock lock(mutex_);
    account();
    const auto found = waiting_.find(step);
    if (found == waiting_.end()) return;  // dropped
    found->second.agreed = true;
    found->second.left_out = answer.leave_out;
    found->second.weights = std::move(answer.weights);
    found->second.weights.resize(found->second.packets.size());
    auto* batch = dynamic_cast<Batch*>(found->second.packets.front().packet.payload.get());
    if (batch != nullptr && batch->stream_hash != answer.stream_hash) batch->stream_hash = answer.stream_hash;
  }
  pass();
}

void Gate::pass() {
  while (pass_one()) continue;
}

bool Gate::pass_one() {
  Waiting complete;  // let go of after the lock: the batch of a step that is left out goes home
  Ref<Payload> token;
  {
    const Lock lock(mutex_);
    if (!token_ || stopped_ || !next_is_complete()) return false;
    if (!is_open() && !waiting_.at(next_).left_out) return false;
    complete = std::move(waiting_.extract(next_).mapped());
    if (complete.left_out) {
      ++next_;
      for (const auto& [link, packet] : complete.packets) link->drop(packet);
      return true;
    }
    token_->weights = std::move(complete.weights);
    for (std::size_t i = 0; i < complete.packets.size(); ++i) complete.packets[i].packet.weights = token_->weights[i];
    token_->step = next_;
    token_->epoch = next_ / steps_per_epoch_;
    token = Ref<Payload>(std::exchange(token_, nullptr));
    ++next_;
    credits_->out();
  }
  for (std::size_t i = 0; i < complete.packets.size(); ++i) {
    auto& [link, packet] = complete.packets[i];
    // No Ref stays here, so that the token goes home from the thread that finished the step, and not through this one.
    packet.token = i + 1 < complete.packets.size() ? token : std::move(token);
    link->pass(std::move(packet));
  }
  return true;
}

void Gate::token_home(Token* token) {
  const std::uint64_t step = token->step;
  const Credits::Stay stay(*credits_);  // where it is none, the gate was given up before
  {
    const Lock lock(mutex_);
    if (given_up_) {
      token_ = token;
      return;
    }
  }
  try {
    if (step_done_) step_done_(step);
  } catch (...) {
    core_.fail(current_error().in("step " + std::to_string(step)));
  }
  {
    const Lock lock(mutex_);
    account();
    token_ = token;  // not before: the callback may lower the horizon
  }
  pass();
  credits_->home();
}

bool Gate::next_is_complete() const {
  const auto found = waiting_.find(next_);
  return found != waiting_.end() && found->second.agreed;
}

void Gate::account() {
  const std::uint64_t now = now_ticks();
  const std::uint64_t passed = now > accounted_ ? now - accounted_ : 0;
  accounted_ = now;
  if (stopped_ || next_ == last_) return;
  const auto found = waiting_.find(next_);
  const bool is_here = found != waiting_.end() && found->second.packets.size() >= entries_;
  const bool complete = is_here && found->second.agreed;
  if (token_ && is_open() && !complete) (is_here ? waited_.for_ranks : waited_.for_data) += passed;
  if (!token_ && complete) waited_.for_step += passed;
}

std::pair<Graph::WaitingFor, std::uint64_t> Gate::waiting_for() const {
  const Lock lock(mutex_);
  if (token_ == nullptr) return {Graph::WaitingFor::step, next_ - 1};
  if (!is_open()) return {Graph::WaitingFor::run, next_};
  const auto found = waiting_.find(next_);
  const bool complete = found != waiting_.end() && found->second.packets.size() >= entries_;
  return {complete ? Graph::WaitingFor::others : Graph::WaitingFor::batch, next_};
}

Gate::Waited Gate::waited() {
  const Lock lock(mutex_);
  account();  // with the wait that goes on
  return waited_;
}

}  // namespace millrace::flow
