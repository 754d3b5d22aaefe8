// Whether the data of a run that goes on is still the same: hashes of its batches, which checkpoints keep, and their comparison.
#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "millrace/error.h"
#include "run/session.h"

namespace millrace {
namespace {

using Hashes = std::vector<RunState::BatchHash>;

// Of several processes each has hashed its slots of each batch. REQUIRES: all have as many hashes.
Hashes summed(const Hashes& mine, Group* group) {
  if (group == nullptr) return mine;
  Hashes sums(mine.size());
  for (const std::vector<std::byte>& bytes : group->all_gather(Group::kRun, std::as_bytes(std::span(mine)))) {
    if (bytes.size() != mine.size() * sizeof(mine[0])) {
      fail(ErrorKind::peer, "the processes have hashed other batches ({} and {} bytes): they run different pipelines",
           bytes.size(), mine.size() * sizeof(mine[0]));
    }
    const auto* hashes = reinterpret_cast<const RunState::BatchHash*>(bytes.data());
    for (std::size_t i = 0; i < sums.size(); ++i) {
      sums[i].stream += hashes[i].stream;
      sums[i].images += hashes[i].images;
    }
  }
  return sums;
}

// What differs, with both hashes.
std::string difference_text(const RunState::BatchHash& then, const RunState::BatchHash& now) {
  if (then.stream != now.stream) {
    return fmt::format(
        "other samples or draws: its stream hash was {:016x}, and is {:016x}. Files were changed, added or removed, "
        "or a plugin draws otherwise",
        then.stream, now.stream);
  }
  return fmt::format(
      "the same samples and draws, and other images: their hash was {:016x}, and is {:016x}. A plugin or a "
      "device decodes or changes images otherwise",
      then.images, now.images);
}

}  // namespace

// Before the first start of a graph. The main graph of a run with checkpoints is watched in front of its gate.
void Session::watch_gates() {
  for (std::size_t g = 0; g < graphs_.size(); ++g) {
    Graph::Agree agree;  // null: this process is alone
    if (!agreements_.empty()) {
      agree = [agreement = agreements_[g].get()](Graph::StepReady ready, auto answer) {
        agreement->step_is_ready(std::move(ready), std::move(answer));
      };
    }
    if (g == 0 && has_checkpoints()) {
      agree = [this, agree = std::move(agree)](Graph::StepReady ready, auto answer) {
        if (ready.batch) batch_hashes_.add(ready.step, hash_of(*ready.batch));
        ready.batch = nullptr;
        if (agree) return agree(std::move(ready), std::move(answer));
        answer(Graph::StepAgreed::alone(ready));
      };
    }
    graphs_[g]->on_step_ready(std::move(agree));
  }
}

std::vector<RunState::BatchHash> Session::last_batches(std::uint64_t done) {
  return summed(batch_hashes_.last(done), options_.group);
}

// Parts of a sum: rank 0 has the whole.
void Session::restore_batches() {
  const RunState& state = resumed_->checkpoint.state;
  if (state.step != first_step_) return;  // epochs have another length
  batch_hashes_.restore(first_step_, is_first() ? state.batches : Hashes(state.batches.size()));
}

// Reads the batches of these steps as run() would, and does no step.
std::vector<RunState::BatchHash> Session::read_batches(std::uint64_t first, std::uint64_t last) {
  if (is_first()) log_->expect_folder(resumed_run_);  // stages that are opened here write there
  prepare();
  doing(fmt::format("reading the batches of steps {} to {} again", first + 1, last));
  BatchHashes seen;
  Graph& graph = *graphs_.front();
  graph.on_step_ready([&seen](Graph::StepReady ready, const auto& answer) {
    if (ready.batch) seen.add(ready.step, hash_of(*ready.batch));
    ready.batch = nullptr;
    answer({.leave_out = true});
  });
  log_->rehearse(true);
  graph.start(first, last);
  graph.wait();
  log_->rehearse(false);
  graph.on_step_ready({});
  return seen.last(last);
}

std::string Session::verify(std::uint64_t most) {
  if (!resumed_) return {};
  const RunState& state = resumed_->checkpoint.state;
  const std::string path = resumed_->path.string();
  if (state.batches.empty() || state.step != first_step_) {
    fail(ErrorKind::usage, "--verify: the checkpoint '{}' {}: leave out --verify to go on all the same", path,
         state.batches.empty() ? "holds no hashes of batches" : "is of a run whose epochs have another number of steps");
  }
  const auto count = std::min<std::uint64_t>(most, state.batches.size());
  const std::uint64_t first = first_step_ - count;
  const Hashes then(state.batches.end() - static_cast<std::ptrdiff_t>(count), state.batches.end());
  Hashes mine = read_batches(first, first_step_);
  mine.resize(count);
  const Hashes now = summed(mine, options_.group);
  for (std::size_t i = 0; i < count; ++i) {
    if (then[i] == now[i]) continue;
    leave("");  // in good order: all processes find the same, and none is lost by it
    fail(ErrorKind::usage,
         "--verify: the batch of step {} is not the one that the run behind '{}' has seen: {}. Leave out --verify "
         "to go on all the same",
         first + i + 1, path, difference_text(then[i], now[i]));
  }
  return fmt::format("verified: the data of the last {} step{} before '{}' is the same{}", count, count == 1 ? "" : "s", path,
                     count < most ? fmt::format(" (it holds no more hashes; {} were asked for)", most) : "");
}

}  // namespace millrace
