// Scratch memory for a team.
#pragma once

#include <omp.h>

#include "kernels/isa/lanes.h"

namespace millrace::cpu::MILLRACE_ISA {

// Parts of the calling thread's scratch(): one shared by the whole team, and one for each of its threads.
class TeamMemory {
 public:
  TeamMemory(std::int64_t shared, std::int64_t each)
      : shared_(whole(shared)), each_(whole(each)), memory_(reinterpret_cast<float*>(scratch(doubles()))) {}
  float* shared() const { return memory_; }
  float* mine() const { return memory_ + shared_ + omp_get_thread_num() * each_; }
  float* mine_at_zero() const {
    float* const begin = mine();
    for (std::int64_t i = 0; i < each_; i += Map::kLanes) store(begin + i, v16{});
    return begin;
  }

 private:
  static std::int64_t whole(std::int64_t floats) { return (floats + Map::kLanes - 1) / Map::kLanes * Map::kLanes; }
  std::size_t doubles() const { return static_cast<std::size_t>(shared_ + each_ * omp_get_max_threads()) / 2; }
  std::int64_t shared_, each_;
  float* memory_;
};

}  // namespace millrace::cpu::MILLRACE_ISA
