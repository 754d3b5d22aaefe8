// Networks in int8 on processors that multiply 8-bit integers (VNNI): between layers that can read them, values are integers of
// one byte, channels last. Elsewhere, and on other processors, the same values are computed in float32.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "kernels/map.h"
#include "map_spec.h"
#include "millrace/backend/fusion.h"
#include "millrace/backend/int8.h"
#include "millrace/backend/planned_operation.h"

namespace millrace::cpu {

bool multiplies_bytes();  // true with VNNI: sums of products of bytes are exact

// Joins layers that round with the convolution, linear layer, addition or max pooling before them, whose node then computes
// integers. `outputs`: values that are read outside layers.
std::vector<Node> with_integers(const Network& network, std::vector<Node> nodes, const std::vector<LayerPort>& outputs);

// Integers on their way between operations: `data` is (N, H, W, C).
struct Int8Values {
  void* data = nullptr;
  float scale = 1;
  bool is_signed = false;
};

// The integers of one executable.
class Int8Plan {
 public:
  // `nodes`: from with_integers().
  Int8Plan(const Network& network, const std::vector<Node>& nodes, const std::vector<LayerPort>& outputs);

  // Whether the value has integers: it is on a grid.
  bool has(LayerPort value) const { return multiplies_bytes() && grid_of(network_, value) != nullptr; }
  // Whether an operation reads it in float32.
  bool needs_floats(LayerPort value) const { return !has(value) || floats_.contains(value); }

  void plan(Planner& planner, LayerPort value, const MapSpec& spec);  // by the operation that computes it
  void use(Planner& planner, LayerPort value) const { planner.use(tensors_.at(value)); }
  Int8Values bind(const Binding& binding, LayerPort value) const;

 private:
  const Network& network_;
  std::set<LayerPort> floats_;
  std::map<LayerPort, TensorId> tensors_;
};

inline constexpr float kNearest = 0x1.8p23F;  // x + kNearest - kNearest: the nearest whole number, ties to even

// ---- Kernels. REQUIRES: multiplies_bytes(). Threading: the caller's OpenMP team. ----
void to_integers(const Map& from, const Int8Values& to);
void from_integers(const Int8Values& from, const Map& to);
// y = a + b, with a ReLU if asked for. `count`: elements.
void add_integers(const Int8Values& a, const Int8Values& b, bool relu, const Int8Values& y, std::int64_t count);

}  // namespace millrace::cpu
