#include "checkpoint/replica_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "millrace/error.h"

namespace millrace {
namespace {

using TensorsByName = std::map<std::string, const NamedTensor*>;

// "conv1.weight/momentum"; for statistics, which differ between replicas, "bn1.running_mean/value/0".
std::string tensor_name(const Parameter& parameter, const std::string& state, std::size_t replica) {
  return parameter.statistic ? fmt::format("{}/{}/{}", parameter.name, state, replica)
                             : fmt::format("{}/{}", parameter.name, state);
}

// Every step computes its gradients again.
bool is_saved(const Replica& replica, const std::string& state, int parameter) {
  return state != kGradient && replica.has_state(state, parameter);
}

TensorsByName by_name(const std::vector<NamedTensor>& tensors) {
  TensorsByName found;
  for (const NamedTensor& tensor : tensors) found[tensor.name] = &tensor;
  return found;
}

// The initial states of replicas, and the copies that begin later.
std::vector<std::string> states_with(const Replica& replica, const std::vector<std::string>& copies) {
  std::vector<std::string> states = replica.states();
  for (const std::string& copy : copies) {
    if (std::ranges::find(states, copy) == states.end()) states.push_back(copy);
  }
  return states;
}

// Message for a checkpoint without this tensor. The network owns values, the optimizer all other states.
std::string missing_text(const TensorsByName& tensors, const Parameter& parameter, const std::string& state,
                         const std::string& name) {
  if (state == kValue) return fmt::format("has no '{}', but this network does", name);
  std::vector<std::string> kept;
  const std::string prefix = parameter.name + "/";
  for (auto tensor = tensors.lower_bound(prefix); tensor != tensors.end() && tensor->first.starts_with(prefix); ++tensor) {
    if (tensor->first != prefix + std::string(kValue)) kept.push_back(tensor->first.substr(prefix.size()));
  }
  return fmt::format(
      "is of another optimizer: for '{}' it holds {}, but this run's optimizer needs {}. To begin a new run with these weights, "
      "use --weights RUN instead of --resume",
      parameter.name, kept.empty() ? "no state" : fmt::format("the {}", fmt::join(kept, ", ")), state);
}

void require_shape(const NamedTensor& tensor, const Shape& shape, const std::string& path, const std::string& pipeline) {
  if (tensor.shape == shape) return;
  fail(ErrorKind::usage, "{}: '{}' has shape {} in the checkpoint '{}', and {} in this network", pipeline, tensor.name,
       to_string(tensor.shape), path, to_string(shape));
}

// The tensors of a checkpoint that give each parameter's values: one tensor, or a statistic of each replica.
struct EvaluatedTensors {
  std::vector<std::vector<const NamedTensor*>> by_parameter;  // in the network's order
  std::vector<double> load;

  std::vector<float> values(int parameter) const {
    const std::vector<const NamedTensor*>& sources = by_parameter[static_cast<std::size_t>(parameter)];
    if (sources.size() == 1) return sources.front()->values;
    std::vector<std::vector<float>> copies;
    for (const NamedTensor* source : sources) copies.push_back(source->values);
    return weighted_mean(copies, load.size() == copies.size() ? load : std::vector<double>());
  }
};

}  // namespace

std::size_t checkpoint_bytes(const Network& network, const Replica& replica, const std::vector<std::string>& copies,
                             std::size_t all_replicas) {
  const std::vector<std::string> states = states_with(replica, copies);
  std::size_t bytes = 0;
  for (int p = 0; const Parameter& parameter : network.parameters) {
    std::int64_t numbers = 0;
    for (const std::string& state : states) {
      if (is_saved(replica, state, p)) numbers += replica.state_shape(state, p)->elements();
    }
    ++p;
    bytes += static_cast<std::size_t>(numbers) * sizeof(float) * (parameter.statistic ? all_replicas : 1);
  }
  return bytes;
}

FetchTensors capture_values(const ReplicaView& view, std::vector<NamedTensor>& tensors) {
  Replica& first = *view.replicas.front();
  const bool is_first = view.group == nullptr || view.group->rank() == 0;
  const std::vector<std::string> states = first.states();
  std::vector<StateOf> asked;
  std::vector<std::size_t> places;  // their indices among the tensors
  for (int p = 0; const Parameter& parameter : view.network.parameters) {
    for (const std::string& state : states) {
      if (!is_saved(first, state, p)) continue;
      std::vector<std::vector<float>> copies;
      if (parameter.statistic) {
        for (const auto& replica : view.replicas) copies.push_back(replica->read(state, p));
        if (view.group != nullptr) copies = copies_of_all(copies, *view.group);
      } else if (is_first) {
        asked.push_back({state, p});
        places.push_back(tensors.size());
        copies.emplace_back();
      }
      for (std::size_t r = 0; r < copies.size(); ++r)
        tensors.push_back({tensor_name(parameter, state, r), *first.state_shape(state, p), std::move(copies[r])});
    }
    ++p;
  }
  if (asked.empty()) return {};
  const std::shared_ptr<Snapshot> snapshot = first.capture(asked);
  return [snapshot, places](std::vector<NamedTensor>& all) {
    for (std::size_t i = 0; i < places.size(); ++i) all[places[i]].values = snapshot->take(i);
  };
}

void restore_values(const ReplicaView& view, const FoundCheckpoint& from, const std::string& pipeline) {
  const TensorsByName tensors = by_name(from.checkpoint.tensors);
  const std::vector<std::string> states = states_with(*view.replicas.front(), view.copies);
  const std::uint64_t saved_replicas = std::max<std::uint64_t>(from.checkpoint.state.replicas, 1);
  for (std::size_t r = 0; r < view.replicas.size(); ++r) {
    const std::size_t saved_replica = (view.first_replica + r) % saved_replicas;
    for (int p = 0; const Parameter& parameter : view.network.parameters) {
      for (const std::string& state : states) {
        if (!is_saved(*view.replicas[r], state, p)) continue;
        const std::string name = tensor_name(parameter, state, saved_replica), path = from.path.string();
        const auto tensor = tensors.find(name);
        if (tensor == tensors.end()) {
          if (std::ranges::find(view.copies, state) != view.copies.end()) continue;  // the copy had not begun
          fail(ErrorKind::usage, "{}: the checkpoint '{}' {}", pipeline, path, missing_text(tensors, parameter, state, name));
        }
        require_shape(*tensor->second, *view.replicas[r]->state_shape(state, p), path, pipeline);
        view.replicas[r]->write(state, p, tensor->second->values);
      }
      ++p;
    }
  }
}

std::optional<WeightsFile::Fetch> evaluated_values(const ReplicaView& view, const Checkpoint& checkpoint) {
  const TensorsByName tensors = by_name(checkpoint.tensors);
  const std::uint64_t replicas = std::max<std::uint64_t>(checkpoint.state.replicas, 1);
  auto evaluated = std::make_shared<EvaluatedTensors>();
  for (const Parameter& parameter : view.network.parameters) {
    std::vector<const NamedTensor*>& sources = evaluated->by_parameter.emplace_back();
    for (std::uint64_t r = 0; r < (parameter.statistic ? replicas : 1); ++r) {
      auto found =
          tensors.find(tensor_name(parameter, view.evaluated, r));  // "" without a copy; copies that have not begun are not saved
      if (found == tensors.end()) found = tensors.find(tensor_name(parameter, std::string(kValue), r));
      if (found == tensors.end() || found->second->shape != parameter.shape) return std::nullopt;
      sources.push_back(found->second);
    }
  }
  evaluated->load = view.load;
  return [evaluated](int parameter) { return evaluated->values(parameter); };
}

}  // namespace millrace
