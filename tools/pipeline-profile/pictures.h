// Pictures of what was measured: how a pipeline scales, and how near its layers come to what the device can do.
#pragma once

#include <picture.h>

#include <string>
#include <vector>

#include "layers.h"
#include "scaling.h"

namespace millrace {

// Images a second over the number of replicas, strong and weak scaling beside each other: measured, predicted, and what would be
// with no loss at all.
drawing::Picture throughput_picture(const Scaling& scaling, const std::string& title);

// A bar for each run: what the time of a step goes into, and the efficiency above it.
drawing::Picture step_picture(const Scaling& scaling, const std::string& title);

// Accuracy over time, a curve for each run. REQUIRES: there are accuracies.
drawing::Picture accuracy_picture(const Scaling& scaling, const std::string& title);

// Operations a second of each layer over its operations for a byte, below the roof of the device's peaks: Williams, Waterman,
// Patterson, "Roofline" (2009). Layers without multiplications are left out, and a line says how much time they take.
drawing::Picture roofline_picture(const std::vector<LayerRow>& rows, const Peaks& peaks, const std::string& title);

// Writes `prefix`-NAME.png and .svg. Throws Error that names the file.
void write_picture(const drawing::Picture& picture, const std::string& prefix, const std::string& name);

}  // namespace millrace
