// Parameters of an augment stage. A table applies to every image unless it sets `chance`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "millrace/params.h"

namespace millrace {

struct GeometryParams {
  struct Translate {
    Range x, y;
    bool subpixel = false;
  };
  double flip_x = 0;
  double flip_y = 0;
  bool alternating_flip = false;
  Translate translate;
  std::optional<Range> rotate, scale, scale_x, scale_y, shear_x, shear_y;
  std::string border = "constant";
  std::vector<std::int64_t> fill = {0};
  std::string interpolation = "bilinear";
};

struct PolicyParams {
  struct RandAugment {
    std::int64_t operations = 2;
    std::int64_t magnitude = 9;
    std::int64_t bins = 31;
  };
  std::optional<RandAugment> rand_augment;
  bool trivial_augment = false;
};

struct JitterParams {
  struct Solarise {
    double chance = 1;
    Range threshold = {128, 128};
  };
  struct Posterise {
    double chance = 1;
    Range bits = {4, 8};
  };
  struct Sharpness {
    double chance = 1;
    Range factor = {0, 2};
  };
  struct Blur {
    double chance = 1;
    Range sigma = {0.1, 2};
  };
  struct Noise {
    double chance = 1;
    Range deviation = {0, 10};
  };
  std::optional<Range> brightness, contrast, saturation, hue;
  double greyscale = 0;
  std::optional<Solarise> solarise;
  std::optional<Posterise> posterise;
  double equalise = 0;
  double autocontrast = 0;
  double invert = 0;
  std::optional<Sharpness> sharpness;
  std::optional<Blur> blur;
  std::optional<Noise> noise;
};

struct EraseParams {
  double chance = 1;
  std::int64_t count = 1;
  Range area = {0.02, 0.33};
  Range aspect = {0.3, 3.3};
  std::string value = "constant";
};

struct CropParams {
  Size size;
  Range area = {0.08, 1};
  Range aspect = {3.0 / 4, 4.0 / 3};
  std::string filter = "bilinear";
};

struct AugmentParams : GeometryParams, PolicyParams, JitterParams {
  std::optional<CropParams> random_resized_crop;
  std::optional<EraseParams> erase;
};

void describe(ParamSet<AugmentParams>& set);

}  // namespace millrace
