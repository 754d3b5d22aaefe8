#include "run/best_exchange.h"

#include <fmt/format.h>

#include <cstring>
#include <span>

#include "millrace/error.h"
#include "network/transfer.h"

namespace millrace {
namespace {

void share(Group* group, std::vector<std::byte>& bytes) {
  if (group != nullptr) group->broadcast(Group::kRun, 0, bytes);
}

}  // namespace

// Nothing: the last weights are evaluated, which is worse than the best ones and better than none.
Weights BestExchange::read(const Best& best) const {
  try {
    if (run_.checkpointer != nullptr) run_.checkpointer->wait();  // which may be writing it
    if (run_.weights->best_there() == best) {
      WeightsSource file;
      file.file = run_.weights->best_path().string();
      return load_weights(file, *run_.pipeline().network);
    }
    run_.observers().warn(fmt::format("'{}' does not hold the best weights, of step {}: the final evaluation uses the last ones",
                                      run_.weights->best_path().string(), best.step));
  } catch (const Error& error) {
    run_.observers().warn(fmt::format("the final evaluation uses the last weights instead of the best ones: {}", error.what()));
  }
  return {};
}

// Every process gets those of the first one.
void BestExchange::share(std::vector<float>& values) const {
  Group* const group = run_.options().group;
  if (group == nullptr) return;
  const std::span<const std::byte> mine = std::as_bytes(std::span(values));
  std::vector<std::byte> bytes(mine.begin(), mine.end());
  millrace::share(group, bytes);
  values.resize(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
}

BestExchange::BestExchange(const RunContext& run, const std::optional<Best>& best) : run_(run) {
  Weights values = best ? read(*best) : Weights();
  std::vector<std::byte> step(sizeof(std::uint64_t));
  const std::uint64_t found = values.empty() ? 0 : best->step;
  std::memcpy(step.data(), &found, sizeof found);
  millrace::share(run_.options().group, step);
  std::memcpy(&step_, step.data(), sizeof step_);
  if (step_ == 0) return;
  const std::vector<Parameter>& parameters = run_.pipeline().network->parameters;
  values.resize(parameters.size());
  before_.resize(parameters.size());
  for (std::size_t p = 0; p < parameters.size(); ++p) {  // there is never a second copy of all
    share(values[p]);
    for (std::size_t r = 0; r < run_.replicas().size(); ++r) {
      Replica& replica = *run_.replicas()[r];
      if (r == 0) before_[p] = replica.read(kValue, static_cast<int>(p));
      if (r > 0 && parameters[p].statistic) statistics_[{r, p}] = replica.read(kValue, static_cast<int>(p));
      if (!values[p].empty()) replica.write(kValue, static_cast<int>(p), values[p]);
    }
    values[p] = {};
  }
}

const std::vector<float>& BestExchange::before(std::size_t replica, std::size_t parameter) const {
  const auto own = statistics_.find({replica, parameter});
  return own == statistics_.end() ? before_[parameter] : own->second;
}

// A replica that fails here has failed before, and its error is under way.
BestExchange::~BestExchange() {
  try {
    for (std::size_t p = 0; p < before_.size(); ++p) {
      for (std::size_t r = 0; r < run_.replicas().size(); ++r) {
        run_.replicas()[r]->write(kValue, static_cast<int>(p), before(r, p));
      }
    }
  } catch (const Error& error) {
    run_.observers().warn(
        fmt::format("the last weights could not be restored after the evaluation of the best ones: {}", error.what()));
  }
}

}  // namespace millrace
