#include "parameters.h"

namespace millrace {

namespace {

using Set = ParamSet<AugmentParams>;
using P = AugmentParams;

constexpr const char* kRangeOrFixed = "; uniform, or one number";

template <class Table>
ParamRef chance_of(ParamSet<Table>& set) {
  return set.add("chance", &Table::chance).range(0, 1).text("probability per image");
}

// Adds a table that is in P's base; add_table needs a member of P.
template <class T, class Owner, class Describe>
ParamRef table(Set& set, const char* name, T Owner::*field, Describe describe) {
  return set.add_table(name, static_cast<T P::*>(field), describe);
}

void describe_flips_and_shifts(Set& set) {
  set.add("flip_x", &P::flip_x).range(0, 1).text("probability of mirroring left to right");
  set.add("flip_y", &P::flip_y).range(0, 1).text("probability of mirroring top to bottom");
  set.add("alternating_flip", &P::alternating_flip)
      .text("mirror half of the images in even epochs, the other half in odd ones, instead of flip_x");
  using Translate = P::Translate;
  table(set, "translate", &P::translate, [](ParamSet<Translate>& members) {
    members.add("x", &Translate::x).unit("pixels").text("to the right, both ends included");
    members.add("y", &Translate::y).unit("pixels").text("down, both ends included");
    members.add("subpixel", &Translate::subpixel).text("allow fractions of pixels, which need interpolation on the host");
  }).text("random shift, in whole pixels unless subpixel is set");
}

void describe_warps(Set& set) {
  const auto text = [](const char* what) { return std::string(what) + kRangeOrFixed; };
  set.add("rotate", &P::rotate).range(-360, 360).unit("degrees").text(text("counter-clockwise"));
  set.add("scale", &P::scale).range(0.01, 100).unit("factor").text(text("both directions"));
  set.add("scale_x", &P::scale_x).range(0.01, 100).unit("factor").text(text("further factor on the width"));
  set.add("scale_y", &P::scale_y).range(0.01, 100).unit("factor").text(text("further factor on the height"));
  set.add("shear_x", &P::shear_x).range(-85, 85).unit("degrees").text(text("shifts rows, lower ones to the right"));
  set.add("shear_y", &P::shear_y).range(-85, 85).unit("degrees").text(text("shifts columns, right ones down"));
  set.add("border", &P::border)
      .choices({"constant", "reflect", "edge"})
      .text("pixels outside the image: `fill`, reflection about the edge pixels, or the edge pixels");
  set.add("fill", &P::fill).text("0 ... 255; one for all channels or one per channel");
  set.add("interpolation", &P::interpolation)
      .choices({"bilinear", "bicubic", "nearest"})
      .text("label images always use the nearest pixel");
}

void describe_crop(Set& set) {
  set.add_table(
         "random_resized_crop", &P::random_resized_crop,
         [](ParamSet<CropParams>& members) {
           members.add("size", &CropParams::size).required().unit("pixels").text("output size, [height, width]");
           members.add("area", &CropParams::area).range(0.0001, 1).text("share of the image's area");
           members.add("aspect", &CropParams::aspect).range(0.01, 100).text("width over height; uniform in its logarithm");
           members.add("filter", &CropParams::filter).choices({"bilinear", "bicubic", "nearest"}).text("resampling filter");
         })
      .text("random part of each image, resized; faster in decode_image, for images not yet decoded");
}

void describe_policies(Set& set) {
  using RandAugment = P::RandAugment;
  table(set, "rand_augment", &P::rand_augment, [](ParamSet<RandAugment>& members) {
    members.add("operations", &RandAugment::operations).range(0, 14).text("number per image, applied in sequence");
    members.add("magnitude", &RandAugment::magnitude).range(0, 1000).text("strength, 0 ... bins - 1");
    members.add("bins", &RandAugment::bins).range(2, 1001).text("number of magnitudes");
  }).text("RandAugment (Cubuk et al., arXiv 1909.13719): random operations of one magnitude");
  set.add("trivial_augment", &P::trivial_augment)
      .text("TrivialAugment, wide (Müller and Hutter, arXiv 2103.10158): one random operation of random magnitude");
}

void describe_colours(Set& set) {
  const auto text = [](const char* what) { return std::string(what) + kRangeOrFixed; };
  set.add("brightness", &P::brightness).range(0, 100).unit("factor").text(text("1: unchanged, 0: black"));
  set.add("contrast", &P::contrast).range(0, 100).unit("factor").text(text("1: unchanged, 0: flat grey"));
  set.add("saturation", &P::saturation).range(0, 100).unit("factor").text(text("1: unchanged, 0: grey"));
  set.add("hue", &P::hue).range(-0.5, 0.5).unit("turns").text(text("rotation of the colour circle"));
  set.add("greyscale", &P::greyscale).range(0, 1).text("probability of turning grey");
  table(set, "solarise", &P::solarise, [](ParamSet<P::Solarise>& members) {
    chance_of(members);
    members.add("threshold", &P::Solarise::threshold).range(0, 256).text("lowest inverted level");
  }).text("inverts light levels");
  table(set, "posterise", &P::posterise, [](ParamSet<P::Posterise>& members) {
    chance_of(members);
    members.add("bits", &P::Posterise::bits).range(1, 8).text("number of bits kept");
  }).text("keeps the upper bits of each level");
  set.add("equalise", &P::equalise).range(0, 1).text("probability of spreading each channel's levels evenly");
  set.add("autocontrast", &P::autocontrast).range(0, 1).text("probability of stretching each channel's levels to 0 ... 255");
  set.add("invert", &P::invert).range(0, 1).text("probability of inverting all levels");
}

void describe_filters(Set& set) {
  table(set, "sharpness", &P::sharpness, [](ParamSet<P::Sharpness>& members) {
    chance_of(members);
    members.add("factor", &P::Sharpness::factor).range(0, 100).text("0: smooth, 1: unchanged, 2: sharp");
  }).text("smoother or sharper");
  table(set, "blur", &P::blur, [](ParamSet<P::Blur>& members) {
    chance_of(members);
    members.add("sigma", &P::Blur::sigma).range(0, 64).unit("pixels").text("standard deviation");
  }).text("Gaussian blur");
  table(set, "noise", &P::noise, [](ParamSet<P::Noise>& members) {
    chance_of(members);
    members.add("deviation", &P::Noise::deviation).range(0, 255).unit("grey levels").text("standard deviation");
  }).text("Gaussian noise, independent per pixel and channel");
  set.add_table(
         "erase", &P::erase,
         [](ParamSet<EraseParams>& members) {
           chance_of(members);
           members.add("count", &EraseParams::count).range(1, 100).text("number of rectangles");
           members.add("area", &EraseParams::area).range(0, 1).text("share of the network's view per rectangle");
           members.add("aspect", &EraseParams::aspect).range(0.01, 100).text("height over width; uniform in its logarithm");
           members.add("value", &EraseParams::value)
               .choices({"constant", "mean", "noise"})
               .text("content: `fill`, the image's mean colour, or uniform noise");
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
