// Similarity of two images as papers on denoising and super-resolution measure it: pixels from 0 to 255.
#pragma once

#include <vector>

#include "millrace/sample.h"

namespace millrace {

// The channels of an image, each row by row.
struct Planes {
  int height = 0, width = 0;
  std::vector<std::vector<double>> channels;
};

// luminance: Y of ITU-R BT.601, from 16 to 235, instead of red, green and blue. border: rows and columns to ignore at each edge.
// REQUIRES: the image is larger than twice the border, and has 1 or 3 channels.
Planes planes_of(const ImageView& image, bool luminance, int border);

// 10 log10(255^2 / mean squared difference), in dB; infinite for equal images. REQUIRES, as below: images of one shape.
double peak_signal_to_noise_ratio(const Planes& a, const Planes& b);

// Wang, Bovik, Sheikh and Simoncelli, "Image quality assessment: from error visibility to structural similarity" (2004): windows
// of 11 x 11 weighted by a Gaussian of deviation 1.5, K1 = 0.01, K2 = 0.03, the mean over all windows that lie within the image,
// and over channels. REQUIRES: height and width of at least 11.
double structural_similarity(const Planes& a, const Planes& b);
inline constexpr int kSimilarityWindow = 11;

}  // namespace millrace
