#include "millrace/optimizer.h"

#include <algorithm>

namespace millrace {

Optimizer::Optimizer(std::string name, OptimizerScope scope, std::vector<OptimizerState> states, bool has_momentum)
    : name_(std::move(name)), scope_(scope), states_(std::move(states)), has_momentum_(has_momentum) {}

bool Optimizer::keeps_reduced() const {
  return std::ranges::any_of(states_, [](const OptimizerState& state) { return state.shape != StateShape::element; });
}

namespace {

// Ignores null pointers and empty ranges.
class Uses {
 public:
  template <class T>
  Uses& read(const T* memory, std::int64_t count) {
    return add(memory, static_cast<std::size_t>(count) * sizeof(T), false);
  }
  template <class T>
  Uses& write(const T* memory, std::int64_t count) {
    return add(memory, static_cast<std::size_t>(count) * sizeof(T), true);
  }
  std::vector<MemoryUse> take() { return std::move(uses_); }

 private:
  Uses& add(const void* memory, std::size_t bytes, bool write) {
    if (memory != nullptr && bytes > 0) uses_.push_back({memory, bytes, write});
    return *this;
  }
  std::vector<MemoryUse> uses_;
};

std::int64_t numbers_in(const UpdateArguments& at, int state) {
  switch (at.shapes[state]) {
    case StateShape::element: return at.packs * kUpdatePack;
    case StateShape::rows: return at.rows;
    case StateShape::columns: return at.column_packs * kUpdatePack;
    case StateShape::scalar: break;
  }
  return at.segment_count;
}

}  // namespace

std::vector<MemoryUse> uses_of_update(const UpdateArguments& at) {
  Uses uses;
  const std::int64_t elements = at.packs * kUpdatePack;
  uses.read(at.value, elements).write(at.value, elements).read(at.gradient, elements).write(at.bf16, elements);
  for (int s = 0; s < kMaxStates; ++s) {
    uses.read(at.states[s], numbers_in(at, s));
    if (at.shapes[s] == StateShape::element) uses.write(at.states[s], elements);
  }
  uses.read(at.segments, at.segment_count).read(at.squares, at.segment_count).read(at.scale, 1);
  return uses.write(at.wrong, 1).take();
}

std::vector<MemoryUse> uses_of_before(const UpdateArguments& at) {
  Uses uses;
  const std::int64_t elements = at.packs * kUpdatePack;
  uses.read(at.value, elements).read(at.gradient, elements).write(at.direction, elements);
  for (const float* state : at.states) uses.read(state, elements).write(state, elements);
  return uses.read(at.segments, at.segment_count).read(at.scale, 1).write(at.wrong, 1).take();
}

std::vector<MemoryUse> SquaresOfChunk::uses() const {
  Uses uses;
  const std::int64_t elements = at.packs * kUpdatePack;
  uses.read(at.value, elements).read(at.gradient, elements).read(at.segments, at.segment_count);
  return uses.write(at.partial_squares, at.chunks).take();
}

std::vector<MemoryUse> uses_of_directions(const UpdateArguments& at) {
  Uses uses;
  const std::int64_t elements = at.packs * kUpdatePack;
  uses.read(at.value, elements).read(at.gradient, elements).read(at.segments, at.segment_count).read(at.scale, 1);
  for (int s = 0; s < kMaxStates; ++s) uses.read(at.states[s], numbers_in(at, s));
  return uses.write(at.partial_squares, at.chunks).take();
}

std::vector<MemoryUse> uses_of_reduction(const UpdateArguments& at, int state) {
  Uses uses;
  const std::int64_t elements = at.packs * kUpdatePack, numbers = numbers_in(at, state);
  uses.read(at.value, elements).read(at.gradient, elements).read(at.segments, at.segment_count).read(at.scale, 1);
  return uses.read(at.states[state], numbers).write(at.states[state], numbers).take();
}

std::vector<MemoryUse> uses_of_measures(const UpdateArguments& at) {
  Uses uses;
  const std::int64_t elements = at.packs * kUpdatePack;
  uses.read(at.value, elements).read(at.gradient, elements).read(at.segments, at.segment_count).read(at.scale, 1);
  return uses.write(at.partial_squares, at.chunks).take();
}

std::vector<MemoryUse> uses_of_measured_chunks(const UpdateArguments& at, int state) {
  Uses uses;
  uses.read(at.segments, at.segment_count).read(at.partial_squares, at.chunks).read(at.scale, 1);
  return uses.read(at.states[state], at.segment_count).write(at.states[state], at.segment_count).take();
}

std::vector<MemoryUse> SquaresOfSegment::uses() const {
  Uses uses;
  uses.read(at.segments, at.segment_count).read(at.partial_squares, at.chunks).write(at.squares, at.segment_count);
  return uses.take();
}

}  // namespace millrace
