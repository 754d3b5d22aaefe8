// Gradients of scores by values of a network (CompileRequest::gradients): inference of a network of which nothing is trained, and
// its backward down to the value.
//
// Threading: everything on the replica's thread.
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

  // Plans those that `options` request. `shared`: of the replica's other executables. Throws Error(usage) for a value that has no
  // gradient.
  void compile(const CompileOptions& options, const CompileContext& shared);
  std::size_t arena_bytes() const;
  void bind(std::byte* arena) const;
  // The networks that compute the gradient by this value. Throws Error(usage) where none was requested.
  Executables<Executable>& by(LayerPort value);

 private:
  struct Compiled {
    std::vector<Node> nodes;
    Executables<Executable> executables;
  };
  void compile(const CompileOptions& inference, LayerPort by);

  const Network network_;  // without parameters that are trained
  std::unique_ptr<CompileContext> compile_context_;
  std::map<LayerPort, Compiled> compiled_;
};

// Reads the gradient of the scores that the last forward of `network`, one of by(), has made. `labels`: of its samples.
void read_gradient(Executable& network, const Pass& pass, std::span<const std::int32_t> labels, const GradientCopy& copy);

}  // namespace millrace::cpu
