#include "report/requests.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>

namespace millrace {
namespace {

// A typing error must neither end a run nor stop it from learning.
constexpr double kLeastFactor = 1e-3, kMaxFactor = 1e3;

}  // namespace

class Requests::Control final : public RunControl {
 public:
  Control(Requests& requests, std::string by) : requests_(requests), by_(std::move(by)) {}
  void stop() override { requests_.ask({.kind = RequestKind::stop, .by = by_, .text = {}}); }
  void save() override { requests_.ask({.kind = RequestKind::save, .by = by_, .text = {}}); }
  void validate() override { requests_.ask({.kind = RequestKind::validate, .by = by_, .text = {}}); }
  void rate_factor(double factor) override {
    RequestEvent request{.kind = RequestKind::rate_factor, .by = by_, .factor = factor, .text = {}};
    // Written so that NaN is refused.
    if (factor >= kLeastFactor && factor <= kMaxFactor) return requests_.ask(std::move(request));
    requests_.refuse(std::move(request),
                     fmt::format("the factor must be from {:g} to {:g}, found {:g}", kLeastFactor, kMaxFactor, factor));
  }
  void warn(std::string_view message) override { requests_.send_(WarningEvent{std::string(message)}); }
  void checkpoint() override { requests_.ask({.kind = RequestKind::checkpoint, .by = by_, .text = {}}); }

 private:
  Requests& requests_;
  const std::string by_;
};

RunControl& Requests::control(const std::string& by) {
  const Lock lock(mutex_);
  return *controls_.emplace_back(std::make_unique<Control>(*this, by));
}

void Requests::ask(RequestEvent request) {
  request.state = RequestEvent::State::asked;
  send_(request);  // before it can complete
  const Lock lock(mutex_);
  if (shared_) return outside_.push_back(std::move(request));
  hand_over(std::move(request), kAtOnce);
}

void Requests::hand_over(RequestEvent request, std::uint64_t from) {
  if (take_) return take_(std::move(request), from);
  waiting_.push_back({std::move(request), from});
}

void Requests::give_to(Take take) {
  const Lock lock(mutex_);
  take_ = std::move(take);
  if (!take_) return;
  for (auto& [request, from] : std::exchange(waiting_, {})) take_(std::move(request), from);
}

std::vector<RequestEvent> Requests::take_outside() {
  const Lock lock(mutex_);
  return std::exchange(outside_, {});
}

void Requests::enter(RequestEvent request, std::uint64_t from) {
  const Lock lock(mutex_);
  hand_over(std::move(request), from);
}

void Requests::complete(RequestEvent request, std::uint64_t step, std::string text) {
  request.state = RequestEvent::State::completed;
  request.step = step;
  request.text = std::move(text);
  send_(std::move(request));
}

void Requests::refuse(RequestEvent request, std::string why) {
  request.state = RequestEvent::State::refused;
  request.text = std::move(why);
  send_(std::move(request));
}

void Requests::set_factor(std::uint64_t step, double factor) {
  const Lock lock(mutex_);
  factors_[step] = factor;
  if (factors_.size() > kKeptFactors) factors_.erase(factors_.begin());
}

double Requests::factor(std::uint64_t step) const {
  const Lock lock(mutex_);
  const auto next = factors_.upper_bound(step);
  return next == factors_.begin() ? 1 : std::prev(next)->second;
}

}  // namespace millrace
