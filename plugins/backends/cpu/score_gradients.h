// Gradients of scores by values of a network (CompileRequest::gradients): inference of a network without trained parameters, and
// its backward down to the value.
//
// Threading: only on the replica's thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "executable.h"
#include "millrace/backend/executables.h"

namespace millrace::cpu {

class ScoreGradients {
 public:
  explicit ScoreGradients(const Network& network);

  // Plans the gradients that `options` requests. `shared`: context of the replica's other executables. Throws Error(usage) for a
  // value without a gradient.
  void compile(const CompileOptions& options, const CompileContext& shared);
  std::size_t arena_bytes() const;
  void bind(std::byte* arena) const;
  // The networks that compute the gradient by this value. Throws Error(usage) if none was requested.
  Executables<Executable>& by(LayerPort value);

 private:
  struct Compiled {
    std::vector<Node> nodes;
    Executables<Executable> executables;
  };
  void compile(const CompileOptions& inference, LayerPort by);

  const Network network_;  // without trained parameters
  std::unique_ptr<CompileContext> compile_context_;
  std::map<LayerPort, Compiled> compiled_;
};

// Reads the gradient of the scores from the last forward of `network`, one of by(). `labels`: for its samples.
void read_gradient(Executable& network, const Pass& pass, std::span<const std::int32_t> labels, const GradientCopy& copy);

}  // namespace millrace::cpu
