// The middle of an image.
#pragma once

namespace millrace {

// Where `window` pixels begin in the middle of `extent` pixels. Half of an odd margin is rounded to the even number, as
// torchvision's center_crop and Python's round() do: 299 of 342 begin at 22. A window that is larger begins below 0.
constexpr int centred(int extent, int window) {
  const int margin = extent - window;
  return (margin >> 1) + ((margin & 3) == 3 ? 1 : 0);
}

}  // namespace millrace
