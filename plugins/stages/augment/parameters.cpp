#include "parameters.h"

namespace millrace {

namespace {

using Set = ParamSet<AugmentParams>;
using P = AugmentParams;

constexpr const char* kRangeOrFixed = "; drawn evenly from [low, high], or one number";

template <class Table>
ParamRef chance_of(ParamSet<Table>& set) {
  return set.add("chance", &Table::chance).range(0, 1).text("for each image");
}

// Adds a table that is in P's base; add_table needs a member of P.
template <class T, class Owner, class Describe>
ParamRef table(Set& set, const char* name, T Owner::*field, Describe describe) {
  return set.add_table(name, static_cast<T P::*>(field), describe);
}

void describe_flips_and_shifts(Set& set) {
  set.add("flip_x", &P::flip_x).range(0, 1).text("chance of mirroring left and right");
  set.add("flip_y", &P::flip_y).range(0, 1).text("chance of mirroring top and bottom");
  set.add("alternating_flip", &P::alternating_flip)
      .text("mirror half of the images in even epochs and the other half in odd ones, instead of flip_x");
  using Translate = P::Translate;
  table(set, "translate", &P::translate, [](ParamSet<Translate>& members) {
    members.add("x", &Translate::x).unit("pixels").text("to the right; from ... to, both included");
    members.add("y", &Translate::y).unit("pixels").text("down; from ... to, both included");
    members.add("subpixel", &Translate::subpixel).text("fractions of pixels as well, which takes interpolation on the host");
  }).text("random shift, whole pixels unless subpixel is set");
}

void describe_warps(Set& set) {
  const auto text = [](const char* what) { return std::string(what) + kRangeOrFixed; };
  set.add("rotate", &P::rotate).range(-360, 360).unit("degrees").text(text("counter-clockwise"));
  set.add("scale", &P::scale).range(0.01, 100).unit("factor").text(text("in both directions"));
  set.add("scale_x", &P::scale_x).range(0.01, 100).unit("factor").text(text("of the width, beside `scale`"));
  set.add("scale_y", &P::scale_y).range(0.01, 100).unit("factor").text(text("of the height, beside `scale`"));
  set.add("shear_x", &P::shear_x)
      .range(-85, 85)
      .unit("degrees")
      .text(text("moves rows along themselves, lower ones to the right"));
  set.add("shear_y", &P::shear_y)
      .range(-85, 85)
      .unit("degrees")
      .text(text("moves columns along themselves, those on the right down"));
  set.add("border", &P::border)
      .choices({"constant", "reflect", "edge"})
      .text("what lies outside the image: `fill`, the image mirrored about its edge pixels, or the edge pixels");
  set.add("fill", &P::fill).text("0 ... 255; one for all channels or one for each");
  set.add("interpolation", &P::interpolation)
      .choices({"bilinear", "bicubic", "nearest"})
      .text("between pixels; label images always take the nearest");
}

void describe_crop(Set& set) {
  set.add_table(
         "random_resized_crop", &P::random_resized_crop,
         [](ParamSet<CropParams>& members) {
           members.add("size", &CropParams::size).required().unit("pixels").text("of the result, [height, width]");
           members.add("area", &CropParams::area).range(0.0001, 1).text("of the part, as a share of the image");
           members.add("aspect", &CropParams::aspect)
               .range(0.01, 100)
               .text("of the part, width over height; drawn by its logarithm");
           members.add("filter", &CropParams::filter).choices({"bilinear", "bicubic", "nearest"}).text("of the resampling");
         })
      .text("some part of each image, resized; decode_image has the same for images that are not decoded yet, and is faster");
}

void describe_policies(Set& set) {
  using RandAugment = P::RandAugment;
  table(set, "rand_augment", &P::rand_augment, [](ParamSet<RandAugment>& members) {
    members.add("operations", &RandAugment::operations).range(0, 14).text("for each image, one after the other");
    members.add("magnitude", &RandAugment::magnitude).range(0, 1000).text("0 ... bins - 1");
    members.add("bins", &RandAugment::bins).range(2, 1001).text("how many magnitudes there are");
  }).text("RandAugment (Cubuk et al., arXiv 1909.13719): random operations, all of one magnitude");
  set.add("trivial_augment", &P::trivial_augment)
      .text("TrivialAugment, wide (Müller and Hutter, arXiv 2103.10158): one random operation of a random magnitude");
}

void describe_colours(Set& set) {
  const auto text = [](const char* what) { return std::string(what) + kRangeOrFixed; };
  set.add("brightness", &P::brightness).range(0, 100).unit("factor").text(text("1 changes nothing, 0 is black"));
  set.add("contrast", &P::contrast).range(0, 100).unit("factor").text(text("1 changes nothing, 0 is flat grey"));
  set.add("saturation", &P::saturation).range(0, 100).unit("factor").text(text("1 changes nothing, 0 is without colour"));
  set.add("hue", &P::hue).range(-0.5, 0.5).unit("turns").text(text("of the colour circle"));
  set.add("greyscale", &P::greyscale).range(0, 1).text("chance of losing all colour");
  table(set, "solarise", &P::solarise, [](ParamSet<P::Solarise>& members) {
    chance_of(members);
    members.add("threshold", &P::Solarise::threshold).range(0, 256).text("levels from it on are inverted");
  }).text("inverts the light parts");
  table(set, "posterise", &P::posterise, [](ParamSet<P::Posterise>& members) {
    chance_of(members);
    members.add("bits", &P::Posterise::bits).range(1, 8).text("that each level keeps");
  }).text("keeps the upper bits of each level");
  set.add("equalise", &P::equalise).range(0, 1).text("chance of spreading each channel's levels evenly");
  set.add("autocontrast", &P::autocontrast).range(0, 1).text("chance of stretching each channel's levels to 0 ... 255");
  set.add("invert", &P::invert).range(0, 1).text("chance of becoming a negative");
}

void describe_filters(Set& set) {
  table(set, "sharpness", &P::sharpness, [](ParamSet<P::Sharpness>& members) {
    chance_of(members);
    members.add("factor", &P::Sharpness::factor).range(0, 100).text("0 is smooth, 1 changes nothing, 2 is sharp");
  }).text("smoother or sharper");
  table(set, "blur", &P::blur, [](ParamSet<P::Blur>& members) {
    chance_of(members);
    members.add("sigma", &P::Blur::sigma).range(0, 64).unit("pixels").text("deviation of the Gaussian");
  }).text("Gaussian blur");
  table(set, "noise", &P::noise, [](ParamSet<P::Noise>& members) {
    chance_of(members);
    members.add("deviation", &P::Noise::deviation).range(0, 255).unit("grey levels").text("of the noise");
  }).text("Gaussian noise, another for every pixel and channel");
  set.add_table(
         "erase", &P::erase,
         [](ParamSet<EraseParams>& members) {
           chance_of(members);
           members.add("count", &EraseParams::count).range(1, 100).text("rectangles");
           members.add("area", &EraseParams::area).range(0, 1).text("of one, as a part of what the network sees");
           members.add("aspect", &EraseParams::aspect).range(0.01, 100).text("height over width; drawn evenly in its logarithm");
           members.add("value", &EraseParams::value)
               .choices({"constant", "mean", "noise"})
               .text("what is put there: `fill`, the image's mean colour, or evenly distributed noise");
         })
      .text("random erasing (Zhong et al., arXiv 1708.04896), cutout");
}

}  // namespace

void describe(ParamSet<AugmentParams>& set) {
  describe_flips_and_shifts(set);
  describe_warps(set);
  describe_crop(set);
  describe_policies(set);
  describe_colours(set);
  describe_filters(set);
}

}  // namespace millrace
