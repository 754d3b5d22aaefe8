#include "report/requests.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace millrace {
namespace {

// A typing error must neither end a run nor stop it from learning.
constexpr double kLeastFactor = 1e-3, kMostFactor = 1e3;

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
    if (factor >= kLeastFactor && factor <= kMostFactor) return requests_.ask(std::move(request));
    requests_.refuse(std::move(request),
                     fmt::format("the factor must be from {:g} to {:g}, found {:g}", kLeastFactor, kMostFactor, factor));
  }
  void warn(std::string_view message) override { requests_.tell_(WarningEvent{std::string(message)}); }
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
  tell_(request);  // before it can complete
  const Lock lock(mutex_);
  if (shared_) return outside_.push_back(std::move(request));
  waiting_.push_back({std::move(request)});
}

std::vector<RequestEvent> Requests::take_outside() {
  const Lock lock(mutex_);
  return std::exchange(outside_, {});
}

void Requests::enter(RequestEvent request, std::uint64_t from) {
  const Lock lock(mutex_);
  // Two graphs may agree at once, in a different order in each process.
  waiting_.insert(std::ranges::upper_bound(waiting_, from, {}, &Waiting::from), Waiting{std::move(request), from});
}

std::optional<RequestEvent> Requests::take(RequestKind kind, std::uint64_t done) {
  const Lock lock(mutex_);
  const auto found =
      std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiting& w) { return w.request.kind == kind && w.from <= done; });
  if (found == waiting_.end()) return std::nullopt;
  RequestEvent request = std::move(found->request);
  waiting_.erase(found);
  return request;
}

bool Requests::waits(RequestKind kind, std::uint64_t done) const {
  const Lock lock(mutex_);
  return std::any_of(waiting_.begin(), waiting_.end(),
                     [&](const Waiting& w) { return w.request.kind == kind && w.from <= done; });
}

void Requests::complete(RequestEvent request, std::uint64_t step, std::string text) {
  request.state = RequestEvent::State::completed;
  request.step = step;
  request.text = std::move(text);
  tell_(std::move(request));
}

void Requests::refuse(RequestEvent request, std::string why) {
  request.state = RequestEvent::State::refused;
  request.text = std::move(why);
  tell_(std::move(request));
}

void Requests::refuse_all(const std::string& why) {
  for (const RequestKind kind :
       {RequestKind::stop, RequestKind::save, RequestKind::validate, RequestKind::rate_factor, RequestKind::checkpoint}) {
    while (auto request = take(kind, UINT64_MAX)) refuse(std::move(*request), why);
  }
  for (RequestEvent& request : take_outside()) refuse(std::move(request), why);
}

void Requests::complete_stops(std::uint64_t step) {
  for (RequestEvent& request : take_outside()) enter(std::move(request), kAtOnce);
  while (auto request = take(RequestKind::stop, UINT64_MAX)) complete(std::move(*request), step);
}

void Requests::complete_factors(std::uint64_t step) {
  while (auto request = take(RequestKind::rate_factor, step)) {
    set_factor(step, request->factor);
    complete(std::move(*request), step);
  }
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
