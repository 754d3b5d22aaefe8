// Kernels of our own on a simulated queue: what they touch they say themselves, and what they compute is the same code.
#include "elements/run_on_host.h"
#include "simulation/simulated_queue.h"

namespace millrace::cuda {

template <class Element>
void SimulatedQueue::run_element(const Element& element) {
  struct Collector {
    std::vector<Named> memory;
    void read(const void* pointer, std::size_t bytes) { memory.push_back({pointer, bytes, false, false}); }
    void write(const void* pointer, std::size_t bytes) { memory.push_back({pointer, bytes, true, false}); }
  } collector;
  element.accesses(collector);
  submit(Element::kName, collector.memory, [element] { run_on_host(element); });
}

#define MILLRACE_RUN(Element) \
  void SimulatedQueue::run(const Element& element) { run_element(element); }
MILLRACE_CUDA_ELEMENTS(MILLRACE_RUN)
#undef MILLRACE_RUN

}  // namespace millrace::cuda
