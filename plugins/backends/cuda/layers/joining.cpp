// Operations with several inputs or outputs: addition that was not fused into batch normalisation, concatenation of channels, and
// split.
#include "millrace/backend/map_operations.h"

#include "operation.h"

namespace millrace::cuda {
namespace {

using Joining = JoiningOperation<Operation>;

class Addition final : public Joining {
 public:
  using Joining::Joining;

  void forward(Queue& queue) override {
    with_type(y_.spec.type, [&]<class T>(T) {
      for (std::size_t i = 1; i < x_.size(); ++i) {
        queue.run(
            Add<T>{.a = i == 1 ? x_[0].as<T>() : y_.as<T>(), .b = x_[i].as<T>(), .y = y_.as<T>(), .packs = y_.spec.packs()});
      }
    });
  }

  void backward(Queue& queue) override {
    for (std::size_t i = d_inputs_.size(); i-- > 0;) {
      if (!d_inputs_[i] || d_inputs_[i].map.data == dy_.data) continue;
      with_type(dy_.spec.type, [&]<class T>(T) {
        queue.run(Scale<T>{.x = dy_.as<T>(), .y = d_inputs_[i].map.as<T>(), .packs = dy_.spec.packs(), .add = d_inputs_[i].add});
      });
    }
  }
};

// If not all channels of a map are written, zeroes its padding.
void zero_padding(Queue& queue, const Map& map) {
  if (map.spec.pitch() != map.spec.channels) queue.zero(map.data, map.spec.bytes());
}

void copy(Queue& queue, const Map& from, std::int64_t from_begin, const Map& to, std::int64_t to_begin, std::int64_t channels,
          bool add) {
  with_type(from.spec.type, [&]<class T>(T) {
    queue.run(CopyChannels<T>{.from = from.as<T>(),
                              .to = to.as<T>(),
                              .rows = from.spec.rows(),
                              .channels = channels,
                              .from_pitch = from.spec.pitch(),
                              .from_begin = from_begin,
                              .to_pitch = to.spec.pitch(),
                              .to_begin = to_begin,
                              .add = add});
  });
}

class Concatenation final : public Joining {
 public:
  using Joining::Joining;

  void forward(Queue& queue) override {
    zero_padding(queue, y_);
    std::int64_t begin = 0;
    for (const Map& from : x_) {
      copy(queue, from, 0, y_, begin, from.spec.channels, false);
      begin += from.spec.channels;
    }
  }

  void backward(Queue& queue) override {
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < d_inputs_.size(); ++i) {
      const GradientTarget& to = d_inputs_[i];
      if (to) {
        if (!to.add) zero_padding(queue, to.map);
        copy(queue, dy_, begin, to.map, 0, to.map.spec.channels, to.add);
      }
      begin += x_[i].spec.channels;
    }
  }
};

class Split final : public SplitOperation<Operation> {
 public:
  using SplitOperation::SplitOperation;

  void forward(Queue& queue) override {
    std::int64_t begin = 0;
    for (const Map& y : y_) {
      zero_padding(queue, y);
      copy(queue, x_, begin, y, 0, y.spec.channels, false);
      begin += y.spec.channels;
    }
  }

  void backward(Queue& queue) override {
    if (!d_input_) return;
    if (!d_input_.add) zero_padding(queue, d_input_.map);
    std::int64_t begin = 0;
    for (const Map& dy : dy_) {
      copy(queue, dy, 0, d_input_.map, begin, dy.spec.channels, d_input_.add);
      begin += dy.spec.channels;
    }
  }
};

}  // namespace

std::unique_ptr<Operation> make_joining(CompileContext& compile_context, const Node& node) {
  if (node.kind == Node::Kind::add) return std::make_unique<Addition>(compile_context, node);
  if (node.kind == Node::Kind::split) return std::make_unique<Split>(compile_context, node);
  return std::make_unique<Concatenation>(compile_context, node);
}

}  // namespace millrace::cuda
