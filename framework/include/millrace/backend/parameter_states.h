// What a replica keeps for its parameters, and copies of it for checkpoints that are written while training goes on.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

// The states of a parameter that every replica has; Replica::states() lists all.
inline constexpr std::string_view kValue = "value";
inline constexpr std::string_view kGradient = "gradient";  // of the last backward

struct StateOf {
  std::string state;
  int parameter = 0;  // index into Network::parameters
};
// States as they were when Replica::capture() was called, whatever has been computed since. Used by one thread, which may be
// another than the replica's. Goes before its replica.
class Snapshot {
 public:
  virtual ~Snapshot() = default;
  // The index-th of the states asked for, as Replica::read() would have given it then. Once each. Waits until it is there.
  virtual std::vector<float> take(std::size_t index) = 0;
};

}  // namespace millrace
