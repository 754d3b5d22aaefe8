// The part of an image that becomes the sample, and its size: a pure function of the image's size and of draws, the same for
// every kind of file and for targets. jpeg_decoder.h decodes only what that part needs.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "millrace/params.h"
#include "millrace/sample.h"
#include "millrace/util/resample.h"

namespace millrace {

// A rectangle of whole pixels.
struct Region {
  int top = 0, left = 0, height = 0, width = 0;
  friend bool operator==(const Region&, const Region&) = default;
};

struct Excerpt {
  Region region;              // all pixels that are needed
  Box box;                    // the resampled area, in pixels of the image; within the region
  int height = 0, width = 0;  // size of the result
  bool resampled = false;     // false if the region is the result

  Excerpt scaled(int scale) const;  // the same for an image scaled up by an integer, with the result scaled alike
};

struct ExcerptParams {
  struct RandomPart {
    Range area{0, 0};                // fraction of the image's area
    Range aspect{3.0 / 4, 4.0 / 3};  // width over height
  };
  std::optional<Size> size;
  std::optional<std::int64_t> short_side;
  std::string fit = "as-is";
  std::string crop = "none";
  RandomPart random_resized_crop;
  std::string filter = "bilinear";
};

// Errors: inconsistent parameters: ErrorKind::usage; an image that is too small or has another size: ErrorKind::content.
class ExcerptRule {
 public:
  // random_resized_crop's draws for every sample, always made: an area and an aspect ratio for each of ten attempts, then the row
  // and the column; uniform in [0, 1).
  struct Draws {
    std::array<double, 10> area{}, aspect{};
    double row = 0, column = 0;
  };

  explicit ExcerptRule(const ExcerptParams& params);

  Draws draw(Draw& draw) const;  // draws nothing in the other modes
  Excerpt excerpt(int height, int width, const Draws& draws) const;
  bool is_random() const { return mode_ == Mode::random_part; }
  int height() const { return height_; }  // the result's height; 0 if it varies
  int width() const { return width_; }

 private:
  enum class Mode { whole, same_size, stretch, random_part, middle, short_side, short_side_middle };

  static Mode mode_of(const ExcerptParams& params);
  Region random_part(int height, int width, const Draws& draws) const;
  Excerpt middle(int height, int width) const;
  Excerpt short_side_middle(int height, int width) const;

  Mode mode_;
  int height_ = 0, width_ = 0;
  std::int64_t short_side_ = 0;
  ExcerptParams::RandomPart part_;
  ResampleFilter filter_;
};

}  // namespace millrace
