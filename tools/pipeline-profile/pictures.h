// Pictures of measurements: a pipeline's scaling, and how near its layers come to the device's limits.
#pragma once

#include <picture.h>

#include <string>
#include <vector>

#include "layers.h"
#include "scaling.h"

namespace millrace {

// Images per second over the number of replicas, strong and weak scaling side by side: measured, predicted, and ideal.
drawing::Picture throughput_picture(const Scaling& scaling, const std::string& title);

// A bar for each run: the parts of a step's time, and the efficiency above it.
drawing::Picture step_picture(const Scaling& scaling, const std::string& title);

// Accuracy over time, a curve for each run. REQUIRES: there are accuracies.
drawing::Picture accuracy_picture(const Scaling& scaling, const std::string& title);

// Operations per second of each layer over its operations per byte, below the roof of the device's peaks: Williams, Waterman,
// Patterson, "Roofline" (2009). Layers without multiplications are left out, and a line reports their share of time.
drawing::Picture roofline_picture(const std::vector<LayerRow>& rows, const Peaks& peaks, const std::string& title);

// Writes `prefix`-NAME.png and .svg. Throws Error, naming the file.
void write_picture(const drawing::Picture& picture, const std::string& prefix, const std::string& name);

}  // namespace millrace
