// A replica's arrays for its parameters, and copies of them for checkpoints that are written while training continues.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

// States of a parameter that every replica has; Replica::states() lists all.
inline constexpr std::string_view kValue = "value";
inline constexpr std::string_view kGradient = "gradient";  // from the last backward

struct StateOf {
  std::string state;
  int parameter = 0;  // index into Network::parameters
};
// States as they were when Replica::capture() was called, whatever is computed later. Used by one thread, not necessarily the
// replica's. Must be destroyed before its replica.
class Snapshot {
 public:
  virtual ~Snapshot() = default;
  // The index-th requested state, as Replica::read() would have returned it then. Waits for it. Call once for each index.
  virtual std::vector<float> take(std::size_t index) = 0;
};

}  // namespace millrace
