#pragma once

#include "canvas.h"
#include "millrace/sample.h"
#include "parameters.h"

namespace millrace {

// Changes of colour, sharpness and noise, in the order of their draws: brightness, contrast, saturation, hue, greyscale, solarise
// (chance, threshold), posterise (chance, bits), equalise, autocontrast, invert, sharpness (chance, factor), blur (chance,
// sigma), noise (chance, deviation, two words of seed). Unset changes draw nothing; set ones always make all their draws.
class Jitter {
 public:
  explicit Jitter(const JitterParams& params);
  bool any() const { return any_; }
  void apply(Canvas& canvas, Draw& draw) const;

 private:
  void recolour(Canvas& canvas, Draw& draw) const;
  void change_levels(Canvas& canvas, Draw& draw) const;
  void filter(Canvas& canvas, Draw& draw) const;

  JitterParams params_;
  bool any_;
};

}  // namespace millrace
