#include "simulation/arenas.h"

#include <fmt/format.h>

#include <algorithm>

namespace millrace::cuda {
namespace {

bool alive(const ArenaTensor& tensor, int time) { return tensor.first <= time && time <= tensor.last; }

bool share_bytes(const ArenaTensor& a, const ArenaTensor& b) {
  return a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

bool share_times(const ArenaTensor& a, const ArenaTensor& b) { return a.first <= b.last && b.first <= a.last; }

// True if a tensor written in a pass that has reached `from` stays alive when time goes back to `to`.
bool survives(const ArenaTensor& tensor, int from, int to) { return tensor.first < to && from <= tensor.last; }

}  // namespace

int tensor_at(const ArenaDeclaration& arena, int time, std::size_t begin, std::size_t end) {
  for (std::size_t i = 0; i < arena.tensors.size(); ++i) {
    const ArenaTensor& tensor = arena.tensors[i];
    const std::size_t first = arena.begin + tensor.offset;
    if (alive(tensor, time) && first <= begin && end <= first + tensor.bytes) return static_cast<int>(i);
  }
  return kNoTensor;
}

std::string describe(const ArenaTensor& tensor) {
  return fmt::format("'{}' ({}..{}, alive from {} to {})", tensor.name, tensor.offset, tensor.offset + tensor.bytes, tensor.first,
                     tensor.last);
}

std::string tensors_near(const ArenaDeclaration& arena, std::size_t begin, std::size_t end) {
  constexpr std::size_t kMax = 6;
  std::vector<std::string> near;
  for (const ArenaTensor& tensor : arena.tensors) {
    const std::size_t first = arena.begin + tensor.offset;
    if (first < end && begin < first + tensor.bytes) near.push_back(describe(tensor));
  }
  if (near.empty()) return "no tensor";
  const std::size_t more = near.size() > kMax ? near.size() - kMax : 0;
  near.resize(near.size() - more);
  return fmt::format("{}{}", fmt::join(near, ", "), more == 0 ? "" : fmt::format(" and {} more", more));
}

std::vector<std::pair<int, int>> collisions(const ArenaDeclaration& arena) {
  std::vector<int> order;  // by position
  for (std::size_t i = 0; i < arena.tensors.size(); ++i)
    if (arena.tensors[i].bytes > 0) order.push_back(static_cast<int>(i));
  const auto at = [&arena](int i) -> const ArenaTensor& { return arena.tensors[static_cast<std::size_t>(i)]; };
  std::stable_sort(order.begin(), order.end(), [&at](int a, int b) { return at(a).offset < at(b).offset; });

  std::vector<std::pair<int, int>> result;
  for (auto a = order.begin(); a != order.end(); ++a)
    for (auto b = a + 1; b != order.end() && share_bytes(at(*a), at(*b)); ++b)
      if (share_times(at(*a), at(*b))) result.emplace_back(*a, *b);
  return result;
}

void Arenas::declare(const Declaration& declaration) {
  State& state = states_[key(*declaration)];
  state = State();
  state.declaration = declaration;
  state.written.resize(declaration->tensors.size(), 0);
}

void Arenas::restore(const Declaration& declaration) {
  if (in_force(declaration) == nullptr) declare(declaration);
}

void Arenas::forget(const Allocation& memory) {
  std::erase_if(states_, [&memory](const auto& entry) { return entry.first.first == &memory; });
}

Declaration Arenas::find(const Allocation& memory, std::size_t offset) const {
  auto above = states_.upper_bound({&memory, offset});
  if (above == states_.begin()) return nullptr;
  --above;
  return above->first.first == &memory ? above->second.declaration : nullptr;
}

Arenas::State* Arenas::in_force(const Declaration& arena) {
  const auto found = states_.find(key(*arena));
  return found == states_.end() || found->second.declaration != arena ? nullptr : &found->second;
}
const Arenas::State* Arenas::in_force(const Declaration& arena) const { return const_cast<Arenas*>(this)->in_force(arena); }

void Arenas::set_time(const Declaration& arena, int queue, int time) {
  State* state = in_force(arena);
  if (state == nullptr) return;
  const auto [found, is_new] = state->queues.try_emplace(queue, QueueTime{time, state->pass});
  QueueTime& now = found->second;
  if (!is_new && time < now.time) {
    if (now.pass == state->pass) {  // the first queue to go back; others follow into the new pass
      ++state->pass;
      for (std::size_t i = 0; i < state->written.size(); ++i)
        if (!survives(arena->tensors[i], now.time, time)) state->written[i] = 0;
    }
    now.pass = state->pass;
  }
  now.time = time;
}

std::optional<int> Arenas::time(const Declaration& arena, int queue) const {
  const State* state = in_force(arena);
  if (state == nullptr) return std::nullopt;
  const auto found = state->queues.find(queue);
  return found == state->queues.end() ? std::nullopt : std::optional<int>(found->second.time);
}

bool Arenas::written(const Declaration& arena, int tensor) const {
  const State* state = in_force(arena);
  return state == nullptr || state->written[static_cast<std::size_t>(tensor)] != 0;
}

void Arenas::set_written(const Declaration& arena, int tensor) {
  if (State* state = in_force(arena)) state->written[static_cast<std::size_t>(tensor)] = 1;
}

}  // namespace millrace::cuda
