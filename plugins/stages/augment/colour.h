// Changes of colour, in place. Images of three channels are R, G, B; operations that relate channels leave other images
// unchanged. Results are rounded to the nearest level.
#pragma once

#include "millrace/sample.h"

namespace millrace::colour {

// A blend of the image with black, with its mean luminance, with its own luminance: factor 0 gives the other picture, 1 the
// image; more than 1 extrapolates. Same as torchvision's adjust_brightness, adjust_contrast and adjust_saturation. factor: 0 ...
// 100.
void brightness(const Image& image, double factor);
void contrast(const Image& image, double factor);
void saturation(const Image& image, double factor);

void hue(const Image& image, double turns);  // turns the hue of HSV; -0.5 ... 0.5, both ends are the complementary colours
void greyscale(const Image& image);          // every channel becomes the luminance of ITU-R 601

}  // namespace millrace::colour
