// A session as one of several processes that run a pipeline together.
#include "millrace/error.h"
#include "run/session.h"

namespace millrace {

// What is not made for several processes yet, each by name.
void Session::check_processes() const {
  if (!pipeline_.network)
    fail(ErrorKind::usage, "{}: several processes share the devices of a network, and there is no [network]", pipeline_.title());
  if (options_.hash_input) fail(ErrorKind::usage, "--hash pixels sees one process's part of a batch: run it with one process");
  for (const GraphPlan& graph : pipeline_.graphs) {
    if (!has_predictions(graph) || (options_.graph.empty() ? graph.when.never : graph.name != options_.graph)) continue;
    fail(
        ErrorKind::usage,
        "{}: [{}] makes predictions, which one process writes: give it every = \"never\", and run --graph {} afterwards with one "
        "process",
        to_string(graph.at), graph.name, graph.name);
  }
}

void Session::make_agreements() {
  if (options_.group == nullptr) return;
  requests_.share();
  for (std::size_t g = 0; g < graphs_.size(); ++g) {
    const bool counts = g == 0 && builds_[g]->trains();
    const auto channel = Group::kSteps + static_cast<std::uint32_t>(g);
    agreements_.push_back(std::make_unique<Agreement>(*options_.group, channel, requests_, counts));
  }
}

void Session::share_reports() {
  if (options_.group == nullptr) return;
  if (!is_first()) return log_->send_reports_by(*reporter_);
  log_->expect_reports_of(options_.group->size());
}

// Not before observers know that the run has begun: another process may be ahead.
void Session::receive_reports() {
  if (options_.group == nullptr || !is_first()) return;
  receiver_ = std::make_unique<ReportReceiver>(
      *options_.group,
      ReportReceiver::Take{[this](int rank, const RunServices::StepReport& report) { log_->report(rank, report); },
                           [this](BadSampleEvent event) { log_->bad_sample(std::move(event)); },
                           [this](WarningEvent event) { observers_.tell(std::move(event)); }});
}

// What the others wait for fails, and so does what waits here.
void Session::leave(const std::string& why) {
  if (options_.group == nullptr) return;
  options_.group->leave(why);
  if (meeting_) meeting_->give_up();
  receiver_ = nullptr;
}

}  // namespace millrace
