#include "view_sum.h"

#include <utility>

namespace millrace::cuda {
namespace {

constexpr const char* kWhat = "logits of several views";

}  // namespace

ViewSum::ViewSum(Machine& machine, const MapSpec& output, bool wanted)
    : machine_(machine),
      largest_bytes_(output.bytes()),
      planned_bytes_(wanted || output.height * output.width == 1 ? largest_bytes_ : 0) {}

void ViewSum::start() { memory_ = DeviceMemory(machine_, planned_bytes_, kWhat); }

Map ViewSum::begin(const Map& output) {
  Map sum = output;
  sum.spec.type = DataType::f32;
  if (memory_.bytes() < sum.spec.bytes()) memory_ = DeviceMemory(machine_, largest_bytes_, kWhat);  // views were not announced
  sum.data = memory_.data();
  is_empty_ = true;
  return sum;
}

void ViewSum::add(Queue& queue, const Map& output, const View& view) {
  with_type(output.spec.type, [&](auto type) {
    AddLogits<decltype(type)> add;
    add.logits = output.as<decltype(type)>();
    add.total = memory_.as<float>();
    add.rows = output.spec.n * output.spec.height;
    add.width = output.spec.width;
    add.row_packs = output.spec.row_packs();
    add.weight = static_cast<float>(view.weight);
    add.mirrored = view.flip_x;
    add.first = std::exchange(is_empty_, false);
    queue.run(add);
  });
}

}  // namespace millrace::cuda
