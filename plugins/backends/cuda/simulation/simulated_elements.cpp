// Our kernels on a simulated queue: they report the memory that they touch, and run the same code.
#include "simulation/simulated_queue.h"

namespace millrace::cuda {

void SimulatedQueue::run(const Kernel& kernel, const void* element) {
  std::vector<Named> memory;
  for (const MemoryUse& use : kernel.uses(element)) memory.push_back({use.memory, use.bytes, use.write, false});
  const auto* first = static_cast<const std::byte*>(element);
  const auto copied = std::make_shared<const std::vector<std::byte>>(first, first + kernel.bytes);
  submit(kernel.name, memory, [&kernel, copied] { kernel.run_on_host(copied->data(), 0, kernel.units(copied->data())); });
}

}  // namespace millrace::cuda
