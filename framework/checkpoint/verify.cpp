#include "checkpoint/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "checkpoint/batch_hashes.h"
#include "millrace/error.h"

namespace millrace {
namespace {

// The difference, with both hashes.
std::string difference_text(const SavedState::BatchHash& then, const SavedState::BatchHash& now) {
  if (then.stream != now.stream) {
    return fmt::format(
        "other samples or draws: its stream hash was {:016x}, and is {:016x}. Files were changed, added or removed, or a plugin "
        "draws differently",
        then.stream, now.stream);
  }
  return fmt::format(
      "the same samples and draws, but other images: their hash was {:016x}, and is {:016x}. A plugin or a device decodes or "
      "changes images differently",
      then.images, now.images);
}

}  // namespace

BatchHashList read_batches(Graph& graph, std::uint64_t first, std::uint64_t last) {
  BatchHashes seen;
  graph.on_step_ready([&seen](Graph::StepReady ready, const auto& answer) {
    if (ready.batch) seen.add(ready.step, hash_of(*ready.batch));
    ready.batch = nullptr;
    answer({.leave_out = true});
  });
  graph.start(first, last);
  graph.wait();
  graph.on_step_ready({});
  return seen.last(last);
}

BatchHashList sums_of_processes(const BatchHashList& mine, Group* group) {
  if (group == nullptr) return mine;
  BatchHashList sums(mine.size());
  for (const std::vector<std::byte>& bytes : group->all_gather(Group::kRun, std::as_bytes(std::span(mine)))) {
    if (bytes.size() != mine.size() * sizeof(mine[0])) {
      fail(ErrorKind::usage, "the processes have hashed other batches ({} and {} bytes): they run different pipelines",
           bytes.size(), mine.size() * sizeof(mine[0]));
    }
    const auto* hashes = reinterpret_cast<const SavedState::BatchHash*>(bytes.data());
    for (std::size_t i = 0; i < sums.size(); ++i) {
      sums[i].stream += hashes[i].stream;
      sums[i].images += hashes[i].images;
    }
  }
  return sums;
}

std::string verify_batches(const FoundCheckpoint& from, std::uint64_t first_step, std::uint64_t most, const ReadBatches& read,
                           Group* group) {
  const SavedState& state = from.checkpoint.state;
  const std::string path = from.path.string();
  if (state.batches.empty() || state.step != first_step) {
    fail(ErrorKind::usage, "--verify: the checkpoint '{}' {}: leave out --verify to resume anyway", path,
         state.batches.empty() ? "holds no hashes of batches" : "is of a run whose epochs have another number of steps");
  }
  const auto count = std::min<std::uint64_t>(most, state.batches.size());
  const std::uint64_t first = first_step - count;
  const BatchHashList then(state.batches.end() - static_cast<std::ptrdiff_t>(count), state.batches.end());
  BatchHashList mine = read(first, first_step);
  mine.resize(count);
  const BatchHashList now = sums_of_processes(mine, group);
  for (std::size_t i = 0; i < count; ++i) {
    if (then[i] == now[i]) continue;
    if (group != nullptr) group->leave(nullptr);  // all processes find the same difference, so none is lost
    fail(ErrorKind::usage,
         "--verify: the batch of step {} differs from the batch of the run after '{}': {}. Leave out --verify to resume anyway",
         first + i + 1, path, difference_text(then[i], now[i]));
  }
  return fmt::format("verified: the data of the last {} step{} before '{}' is the same{}", count, count == 1 ? "" : "s", path,
                     count < most ? fmt::format(" (it holds no more hashes; {} were requested)", most) : "");
}

}  // namespace millrace
