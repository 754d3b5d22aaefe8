#include "millrace/optimizer.h"

namespace millrace {

Rule::Rule(std::string name, RuleScope scope, std::vector<RuleState> states)
    : name_(std::move(name)), scope_(scope), states_(std::move(states)) {}

namespace {

// Null pointers and empty ranges are left out.
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

}  // namespace

std::vector<MemoryUse> uses_of_update(const UpdateArguments& at) {
  Uses uses;
  const std::int64_t elements = at.packs * kUpdatePack;
  uses.read(at.value, elements).write(at.value, elements).read(at.gradient, elements).write(at.bf16, elements);
  for (const float* state : at.states) uses.read(state, elements).write(state, elements);
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
  for (const float* state : at.states) uses.read(state, elements);
  return uses.write(at.partial_squares, at.chunks).take();
}

std::vector<MemoryUse> SquaresOfSegment::uses() const {
  Uses uses;
  uses.read(at.segments, at.segment_count).read(at.partial_squares, at.chunks).write(at.squares, at.segment_count);
  return uses.take();
}

}  // namespace millrace
