// Tracks which tensors of an arena are alive, and which were written: logic alone.
//
// A plan gives each tensor a place and a span of times. Every queue announces the time of its work; times ascend during a pass,
// and the first queue that goes back begins a new pass, in which tensors' lives start again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/machine.h"
#include "simulation/allocations.h"

namespace millrace::cuda {

struct ArenaDeclaration {
  const Allocation* memory = nullptr;  // never dereferenced: it may be gone
  std::string name;                    // name of the memory
  std::size_t begin = 0;               // offset of the arena within the memory
  std::vector<ArenaTensor> tensors;    // offsets count from `begin`
};
using Declaration = std::shared_ptr<const ArenaDeclaration>;

inline constexpr int kNoTensor = -1;

// The tensor that is alive at this time and contains all of [begin, end) of the memory.
int tensor_at(const ArenaDeclaration& arena, int time, std::size_t begin, std::size_t end);
// "'conv1' (0..4096, alive from 3 to 7), 'pool' (...)": the tensors with bytes there, for messages when none was found.
std::string tensors_near(const ArenaDeclaration& arena, std::size_t begin, std::size_t end);
std::string describe(const ArenaTensor& tensor);
// Pairs of tensors that share bytes while both are alive.
std::vector<std::pair<int, int>> collisions(const ArenaDeclaration& arena);

// The declarations in force. Not thread-safe: its owner locks.
class Arenas {
 public:
  void declare(const Declaration& declaration);  // from now on; nothing in it has been written
  void restore(const Declaration& declaration);  // the same, unless it is in force already
  void forget(const Allocation& memory);

  // The arena of a byte: the last one declared at or before it in the same memory. Null if none.
  Declaration find(const Allocation& memory, std::size_t offset) const;

  void set_time(const Declaration& arena, int queue, int time);
  std::optional<int> time(const Declaration& arena, int queue) const;

  bool written(const Declaration& arena, int tensor) const;
  void set_written(const Declaration& arena, int tensor);

 private:
  struct QueueTime {
    int time = 0;
    std::uint64_t pass = 0;
  };
  struct State {
    Declaration declaration;
    std::vector<char> written;  // by tensor
    std::uint64_t pass = 1;
    std::map<int, QueueTime> queues;
  };
  using Key = std::pair<const Allocation*, std::size_t>;
  static Key key(const ArenaDeclaration& arena) { return {arena.memory, arena.begin}; }
  State* in_force(const Declaration& arena);
  const State* in_force(const Declaration& arena) const;

  std::map<Key, State> states_;
};

}  // namespace millrace::cuda
