// The graph that validated a model, run again by this program.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "config/plan.h"
#include "millrace/detail/figure.h"
#include "predict/model.h"

namespace millrace {

struct ValidationRequest {
  std::vector<std::string> overrides = {};   // of the run's pipeline, as `--set` gives them
  std::string sink = {};                     // a stage that takes predictions; "": none
  std::vector<std::string> parameters = {};  // its keys: "folder=\"x\""
  bool without_noise = false;  // leaves out stages that spoil images on a device, since the sink gets images without it
  // Replaces the network of the run, and its weights by those in a file; null, "": the model's.
  std::shared_ptr<const Network> network = {};
  std::string weights = {};
  std::int64_t most_in_batch = 0;  // images; 0: as many as the run's
  const std::atomic<int>* stop_signal = nullptr;
};

// Throws Error(usage) for weights outside the folder of their run, and for a run without validation. Result in float32: the
// validation's metrics, or nullopt if a signal stopped it.
std::optional<std::vector<Figure>> validate(const Model& model, const ValidationRequest& request, const Registry& registry);

}  // namespace millrace
