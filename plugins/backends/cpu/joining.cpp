// Operations with several inputs or outputs: addition that was not fused into batch normalisation, concatenation of channels, and
// split.
#include "kernels/rearrange.h"
#include "millrace/backend/map_operations.h"
#include "operation.h"

namespace millrace::cpu {
namespace {

using Joining = JoiningOperation<Operation>;

class Addition final : public Joining {
 public:
  using Joining::Joining;

  void forward(const Pass&) override {
    kernels().add(x_[0], x_[1], y_);
    for (std::size_t i = 2; i < x_.size(); ++i) kernels().add(y_, x_[i], y_);
  }

  void backward(const Pass&) override {
    for (std::size_t i = d_inputs_.size(); i-- > 0;) {
      if (!d_inputs_[i]) continue;
      if (d_inputs_[i].add)
        kernels().add(d_inputs_[i].total, dy_, d_inputs_[i].total);
      else if (d_inputs_[i].written.data != dy_.data)
        copy(dy_, d_inputs_[i].written);
    }
  }
};

class Concatenation final : public Joining {
 public:
  using Joining::Joining;

  void forward(const Pass&) override {
    std::int64_t channel = 0;
    for (const Map& x : x_) {
      copy_channels(x, 0, y_, channel, x.channels);
      channel += x.channels;
    }
  }

  void backward(const Pass&) override {
    std::int64_t channel = 0;
    for (std::size_t i = 0; i < d_inputs_.size(); ++i) {
      const GradientTarget& target = d_inputs_[i];
      if (target) {
        copy_channels(dy_, channel, target.written, 0, x_[i].channels);
        target.finish();
      }
      channel += x_[i].channels;
    }
  }
};

class Split final : public SplitOperation<Operation> {
 public:
  using SplitOperation::SplitOperation;

  void forward(const Pass&) override {
    copy_channels(x_, 0, y_[0], 0, y_[0].channels);
    copy_channels(x_, y_[0].channels, y_[1], 0, y_[1].channels);
  }

  void backward(const Pass&) override {
    if (!d_input_) return;
    copy_channels(dy_[0], 0, d_input_.written, 0, dy_[0].channels);
    copy_channels(dy_[1], 0, d_input_.written, dy_[0].channels, dy_[1].channels);
    d_input_.finish();
  }
};

}  // namespace

std::unique_ptr<Operation> make_joining(CompileContext& compile_context, const Node& node) {
  if (node.kind == Node::Kind::add) return std::make_unique<Addition>(compile_context, node);
  if (node.kind == Node::Kind::split) return std::make_unique<Split>(compile_context, node);
  return std::make_unique<Concatenation>(compile_context, node);
}

}  // namespace millrace::cpu
