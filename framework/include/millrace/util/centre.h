// The centre of an image.
#pragma once

namespace millrace {

// Where `window` pixels begin when centred in `extent` pixels. Half of an odd margin is rounded to even, as in torchvision's
// center_crop and Python's round(): 299 of 342 begin at 22. A larger window begins below 0.
constexpr int centred(int extent, int window) {
  const int margin = extent - window;
  return (margin >> 1) + ((margin & 3) == 3 ? 1 : 0);
}

}  // namespace millrace
