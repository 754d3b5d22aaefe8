#include "noise.h"

#include <fmt/format.h>

#include "millrace/plugin.h"

namespace millrace {
namespace {

void add_noise(Sample& sample, const Range& deviation, Draw& draw) {
  const bool varies = deviation.high > deviation.low;
  sample.noise = static_cast<float>(varies ? draw.uniform(deviation.low, deviation.high) : deviation.low);
  sample.noise_seed = draw.bits();
}

}  // namespace

void Noise::describe(StageDescription<Params>& d) {
  d.name("noise")
      .text("Adds Gaussian noise, in float, to images where the network reads them; targets stay clean.")
      .in_recipes(RecipeRole::preparation, RecipeEffect::spoils)
      .example("deviation = [0, 25]");
  d.params.add("deviation", &Params::deviation)
      .required()
      .range(0, 255)
      .unit("grey levels")
      .text("standard deviation; uniform for each image, or one number")
      .in_recipes();
  d.params.add("every_epoch", &Params::every_epoch)
      .text("new noise every epoch; false: the same in all, for validation")
      .in_recipes();
}

Noise::Noise(const Params& params, const StageSite& site) : params_(params), seed_(site.seed), name_hash_(hash_text(site.name)) {
  if (site.run == nullptr || params.deviation.high >= 1) return;  // suits pixels of 0 ... 1
  site.run->warn(fmt::format("{}: deviation is at most {:g} of 255 grey levels: images stay almost clean", site.place(),
                             params.deviation.high));
}

void Noise::process(Sample& sample, Draw& draw) {
  if (params_.every_epoch) return add_noise(sample, params_.deviation, draw);
  Draw fixed(seed_, {0, sample.key.index, sample.key.index, 0}, name_hash_);
  add_noise(sample, params_.deviation, fixed);
}

}  // namespace millrace

MILLRACE_PLUGIN("noise", "1.0", "Gaussian noise in float.") { registry.add_stage<millrace::Noise>(); }
