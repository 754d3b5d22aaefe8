// A stage in a separate project: old photographs.
#include <millrace/plugin.h>

#include <algorithm>

namespace {

using namespace millrace;

class Sepia : public SampleTransform {
 public:
  struct Params {
    double chance = 0.5, strength = 1;
  };
  static void describe(StageDescription<Params>& d) {
    d.name("sepia").text("Gives some images the brown of old photographs.").example("chance = 1").example("");
    d.params.add("chance", &Params::chance).range(0, 1).text("chance for each image");
    d.params.add("strength", &Params::strength).range(0, 1).text("0 leaves colours as they are, 1 leaves only brown");
  }
  Sepia(const Params& params, const DataContext& context) : params_(params), window_(context.window) {
    if (context.image.channels != 3) fail(ErrorKind::usage, "expected colour images, found {} channels", context.image.channels);
  }

  bool is_random() const override { return true; }
  void process(Sample& sample, Draw& draw) override {
    if (!draw.chance(params_.chance)) return;
    execute_pending(sample, window_);
    const Image& image = sample.change_colours();
    for (std::uint8_t* pixel = image.data; pixel != image.data + image.shape.bytes(); pixel += 3) {
      const double grey = 0.299 * pixel[0] + 0.587 * pixel[1] + 0.114 * pixel[2];
      const double brown[3] = {1.07 * grey + 30, 0.95 * grey + 10, 0.75 * grey};
      for (int channel = 0; channel < 3; ++channel) {
        const double mixed = pixel[channel] + params_.strength * (brown[channel] - pixel[channel]);
        pixel[channel] = static_cast<std::uint8_t>(std::clamp(mixed, 0.0, 255.0));
      }
    }
  }

 private:
  Params params_;
  ImageShape window_;
};

}  // namespace

MILLRACE_PLUGIN("sepia", "1.0", "Old photographs.") { registry.add_stage<Sepia>(); }
