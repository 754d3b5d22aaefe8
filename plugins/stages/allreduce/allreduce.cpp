#include "allreduce.h"

#include <fmt/format.h>

#include <algorithm>

#include "millrace/backend/backend.h"
#include "millrace/error.h"
#include "millrace/plugin.h"

namespace millrace {
namespace {

// Prefers a communicator made for the backend that all devices share, else one that only needs streams.
const CommunicatorType* choose(const Registry& registry, const std::vector<Device*>& devices) {
  for (const auto& [name, type] : registry.communicators()) {
    const bool fits = std::all_of(devices.begin(), devices.end(),
                                  [&type = type](Device* device) { return device->info().backend == type.backend; });
    if (fits && !devices.empty()) return &type;
  }
  return registry.communicators().find("local");
}

const CommunicatorType* named(const Registry& registry, const std::string& name) {
  if (const CommunicatorType* type = registry.communicators().find(name)) return type;
  std::vector<std::string> names = {"auto"};
  for (const auto& [known, type] : registry.communicators()) names.push_back(known);
  const auto nearest = nearest_name(name, names);
  fail(ErrorKind::usage, "communicator = \"{}\": no such communicator; {}", name,
       nearest ? fmt::format("did you mean \"{}\"?", *nearest) : fmt::format("there are {}", fmt::join(names, ", ")));
}

}  // namespace

void Allreduce::describe(StageDescription<Params>& d) {
  d.name("allreduce").text("Sums gradients over the replicas, bucket by bucket.");
  d.input(payload::kGradientBucket).output(payload::kGradientBucket);
  d.serial();
  d.params.add("communicator", &Params::communicator).text("\"auto\", \"local\", or a communicator of a plugin");
}

Allreduce::Allreduce(const Params& params, const StepContext& context) : context_(context) {
  if (!context.registry) return;
  type_ =
      params.communicator == "auto" ? choose(*context.registry, context.devices) : named(*context.registry, params.communicator);
}

void Allreduce::open() {
  if (context_.all_replicas() < 2) return;
  if (!type_) fail(ErrorKind::usage, "no communicator can sum over {} replicas", context_.all_replicas());
  communicator_ = type_->create(
      {context_.devices, context_.group, static_cast<std::size_t>(context_.first_replica), context_.all_replicas()});
}

void Allreduce::process(int, Packet packet, Output& output) {
  if (!communicator_) {
    output.emit(0, std::move(packet));
    return;
  }
  Ref<GradientBucket> bucket(static_cast<GradientBucket*>(packet.payload.get()));
  packet.payload = nullptr;
  const std::pair key(bucket->step, bucket->bucket);
  const auto replica = static_cast<std::size_t>(bucket->replica);
  Joint& joint = open_[key];
  if (joint.buckets.empty()) {
    joint.buckets.resize(context_.replicas.size());
    joint.missing = static_cast<int>(context_.replicas.size());
  }
  joint.buckets[replica] = std::move(bucket);
  if (--joint.missing > 0) return;

  std::vector<Ref<GradientBucket>> complete = std::move(joint.buckets);
  open_.erase(key);
  const Ref<Event> filled = complete[replica]->ready;
  communicator_->all_reduce(complete);
  clock_.watch_behind(filled, complete.front()->ready);
  for (Ref<GradientBucket>& sum : complete) {
    if (sum->bucket + 1 == sum->buckets) check_when(sum->ready, output);
    Packet out;
    out.sequence = sum->step;
    out.replica = sum->replica;
    out.payload = std::move(sum);
    output.emit(0, std::move(out));
  }
}

std::string Allreduce::save() const {
  if (communicator_) communicator_->check();
  return {};
}

// An error after submission is caught by the next call. The last step has no next call, so the run would save wrong weights.
void Allreduce::check_when(const Ref<Event>& sum, Output& output) {
  if (!sum) return;
  auto hold = std::make_shared<Output::Hold>(output);
  sum->then([this, hold, &output](const Error* failure) mutable {
    try {
      communicator_->check();  // names the cause
      if (failure != nullptr) throw Error(*failure);
    } catch (...) {
      output.fail(current_error());
    }
    hold = nullptr;
  });
}

}  // namespace millrace

MILLRACE_PLUGIN("allreduce", "1.0", "Sums of gradients over the replicas of a run.") {
  registry.add_stage<millrace::Allreduce>();
}
