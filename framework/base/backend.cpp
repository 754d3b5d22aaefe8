#include "millrace/backend.h"

namespace millrace {

void StepSums::add(const StepSums& others) {
  if (values.size() < others.values.size()) values.resize(others.values.size(), 0.0);
  for (std::size_t i = 0; i < others.values.size(); ++i) values[i] += others.values[i];
}

const char* to_string(Precision precision) {
  switch (precision) {
    case Precision::fp32: return "fp32";
    case Precision::tf32: return "tf32";
    case Precision::bf16: return "bf16";
  }
  return "unknown";
}

const char* to_string(Tune tune) {
  switch (tune) {
    case Tune::heuristic: return "heuristic";
    case Tune::measure: return "measure";
  }
  return "unknown";
}

std::size_t MemoryPlan::total() const {
  std::size_t bytes = 0;
  for (const Item& item : items) bytes += item.bytes;
  return bytes;
}

}  // namespace millrace
