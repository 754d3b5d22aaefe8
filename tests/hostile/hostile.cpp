// Stages, a layer and an optimizer that each violate one requirement. services.cpp has other kinds.
#include <millrace/layer.h>
#include <millrace/loss.h>
#include <millrace/optimizer.h>
#include <millrace/plugin.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>

namespace {

using namespace millrace;

[[noreturn]] void throw_error() { throw std::runtime_error("boom"); }
[[noreturn]] void throw_number() { throw 7; }
// Uses a volatile, so that compilers do not turn it into a loop.
int overflow(volatile char* before) {
  volatile char block[4096];
  for (volatile char& byte : block) byte = before == nullptr ? 0 : before[0];
  return block[0] != 0 ? 0 : overflow(block) + block[1];
}

// A stage that does this with each sample.
#define HOSTILE_STAGE(Class, name_, ...)                                                                 \
  class Class : public SampleTransform {                                                                 \
   public:                                                                                               \
    struct Params {};                                                                                    \
    static void describe(StageDescription<Params>& d) { d.name(name_).text("Breaks a promise."); }       \
    Class(const Params&, const StageSite&) {}                                                            \
    void process([[maybe_unused]] Sample& sample, [[maybe_unused]] Draw& draw) override { __VA_ARGS__; } \
  };

HOSTILE_STAGE(Throws, "throws", throw_error())
HOSTILE_STAGE(ThrowsNumber, "throws_number", throw_number())
HOSTILE_STAGE(Crashes, "crashes", std::raise(SIGSEGV))
HOSTILE_STAGE(Exits, "exits", std::exit(0))
HOSTILE_STAGE(ExitsAtOnce, "exits_at_once", ::_exit(3))
HOSTILE_STAGE(Overflows, "overflows", sample.label = overflow(nullptr))
HOSTILE_STAGE(Aborts, "aborts", std::abort())
HOSTILE_STAGE(WrongShape, "wrong_shape", sample.set_image(sample.new_image({4, 4, 3})))
HOSTILE_STAGE(WrongLabel, "wrong_label", sample.label = 1000)
HOSTILE_STAGE(GivesNan, "gives_nan", sample.numbers.assign(1, std::numeric_limits<float>::quiet_NaN()))
HOSTILE_STAGE(AtRandom, "at_random", std::random_device device;
              sample.change_colours().data[0] = static_cast<std::uint8_t>(device()))
HOSTILE_STAGE(WritesBehind, "writes_behind", const Image& image = sample.change_colours();
              image.data[image.shape.bytes() + 3] ^= 0xff)

class ConstructorThrows : public SampleTransform {
 public:
  struct Params {
    bool number = false;
  };
  static void describe(StageDescription<Params>& d) {
    d.name("constructor_throws").text("Breaks a promise.");
    d.params.add("number", &Params::number).text("a number instead of an exception");
  }
  ConstructorThrows(const Params& params, const StageSite&) { params.number ? throw_number() : throw_error(); }
  void process(Sample&, Draw&) override {}
};

class DestructorThrows : public SampleTransform {
 public:
  struct Params {};
  static void describe(StageDescription<Params>& d) { d.name("destructor_throws").text("Breaks a promise."); }
  DestructorThrows(const Params&, const StageSite&) {}
  ~DestructorThrows() override { throw_error(); }
  void process(Sample&, Draw&) override {}
};

HOSTILE_STAGE(Blocks, "blocks", while (true) std::this_thread::sleep_for(std::chrono::seconds(1)))

class Leaks : public SampleTransform {
 public:
  struct Params {};
  static void describe(StageDescription<Params>& d) { d.name("leaks").text("Breaks a promise."); }
  Leaks(const Params&, const StageSite&) {}
  void process(Sample&, Draw&) override { last_ = new std::uint8_t[256]; }

 private:
  std::atomic<std::uint8_t*> last_{nullptr};
};

// Changes the previous sample.
class KeepsASample : public SampleTransform {
 public:
  struct Params {};
  static void describe(StageDescription<Params>& d) { d.name("keeps_a_sample").text("Breaks a promise."); }
  KeepsASample(const Params&, const StageSite&) {}
  void process(Sample& sample, Draw&) override {
    if (Sample* const before = before_.exchange(&sample)) before->label = 1 - before->label;
  }

 private:
  std::atomic<Sample*> before_{nullptr};
};

// Computes a sample's value in a variable shared by all threads.
class SharesAPlace : public SampleTransform {
 public:
  struct Params {};
  static void describe(StageDescription<Params>& d) { d.name("shares_a_place").text("Breaks a promise."); }
  SharesAPlace(const Params&, const StageSite&) {}
  void process(Sample& sample, Draw&) override {
    const Image& image = sample.change_colours();
    place_ = image.data[1];
    std::this_thread::sleep_for(std::chrono::microseconds(300));
    image.data[0] = place_;
  }

 private:
  std::atomic<std::uint8_t> place_{0};
};

class BadDefault : public SampleTransform {
 public:
  struct Params {
    double chance = 2;
  };
  static void describe(StageDescription<Params>& d) {
    d.name("bad_default").text("Breaks a promise.");
    d.params.add("chance", &Params::chance).range(0, 1).text("for each image");
  }
  BadDefault(const Params&, const StageSite&) {}
  void process(Sample&, Draw&) override {}
};

class WithoutText : public SampleTransform {
 public:
  struct Params {
    double chance = 1;
  };
  static void describe(StageDescription<Params>& d) {
    d.name("without_text").text("Breaks a promise.");
    d.params.add("chance", &Params::chance).range(0, 1);
  }
  WithoutText(const Params&, const StageSite&) {}
  void process(Sample&, Draw&) override {}
};

class ForgetsItsState : public SampleTransform {
 public:
  struct Params {};
  static void describe(StageDescription<Params>& d) { d.name("forgets_its_state").text("Breaks a promise."); }
  ForgetsItsState(const Params&, const StageSite&) {}
  void process(Sample&, Draw&) override {}
  std::string save() const override { return restored_ ? "nothing" : "something"; }
  void restore(std::string_view) override { restored_ = true; }

 private:
  bool restored_ = false;
};

struct Twice {
  MILLRACE_KERNEL float operator()(float x) const { return 2 * x; }
};
struct ThreeTimes {
  MILLRACE_KERNEL float operator()(float dy) const { return 3 * dy; }
};

class WrongGradient final : public PortableLayer {
 public:
  struct Params {};
  static void describe(LayerDescription<Params>& d) {
    d.name("wrong_gradient").text("Breaks a promise.").example("", {{8, 5, 7}});
  }
  void forward(Pass& pass) const override { pass.each(Twice(), pass.in(), pass.out()); }
  void backward(Pass& pass) const override { pass.each(ThreeTimes(), pass.d_out(), pass.d_in()); }
};

struct MovesPaddingKernel {
  static constexpr int kStates = 0;
  MILLRACE_KERNEL void operator()(const UpdateNumbers& n, float gradient, float& value) const { value += 1 - n.rate * gradient; }
};

class MovesPadding {
 public:
  struct Params {};
  static void describe(OptimizerDescription<Params>& d) { d.name("moves_padding").text("Breaks a promise."); }
  explicit MovesPadding(const Params&) {}
  MovesPaddingKernel kernel(const UpdateTime&) const { return {}; }
};

struct IgnoresTheRateKernel {
  static constexpr int kStates = 0;
  MILLRACE_KERNEL void operator()(const UpdateNumbers&, float gradient, float& value) const { value -= 0.1F * gradient; }
};

class IgnoresTheRate {
 public:
  struct Params {};
  static void describe(OptimizerDescription<Params>& d) { d.name("ignores_the_rate").text("Breaks a promise."); }
  explicit IgnoresTheRate(const Params&) {}
  IgnoresTheRateKernel kernel(const UpdateTime&) const { return {}; }
};

// output, target, weight -> gradient, loss, weight
struct CountsLessKernel {
  static constexpr int kReads = 3, kWrites = 3;
  template <class Row>
  MILLRACE_KERNEL void operator()(Row& row) const {
    const float weight = row.place_in(2) / 35;
    const auto scale = static_cast<float>(weight / row.divisor());
    row.each([&](auto c) { row.out(0, c, scale * (row.in(0, c) - row.in(1, c))); });
    row.place_out(1, weight * row.sum([&](auto c) { return (row.in(0, c) - row.in(1, c)) * (row.in(0, c) - row.in(1, c)) / 2; }));
    row.place_out(2, weight);
  }
};

// Counts an image of 5 x 7 once, in its kernels too, but keeps the default weight(), which counts each pixel.
class CountsLess final : public Loss {
 public:
  struct Params {};
  static void describe(LossDescription<Params>& d) {
    d.name("counts_less").text("Breaks a promise.").target(LossTarget::values).example("", {3, 5, 7});
  }
  void compute(LossPass& pass) const override {
    pass.row(CountsLessKernel{}, {pass.output(), pass.target(), pass.weight()},
             {pass.d_output(), pass.figure(kLoss), pass.figure(kWeight)});
  }
};

// Satisfies all requirements: complaints about the others must not name it.
class Harmless : public SampleTransform {
 public:
  struct Params {};
  static void describe(StageDescription<Params>& d) { d.name("harmless").text("Keeps its promises.").example("", {16, 12, 1}); }
  Harmless(const Params&, const StageSite&) {}
  bool is_random() const override { return true; }
  void process(Sample& sample, Draw& draw) override {
    if (draw.chance(0.5)) sample.change_colours().data[0] = 1;
  }
};

// is_random() wrongly returns false.
HOSTILE_STAGE(DrawsInSecret, "draws_in_secret", sample.label = draw.chance(0.5) ? 1 : 0)

class WrongExample : public SampleTransform {
 public:
  struct Params {
    double chance = 0;
  };
  static void describe(StageDescription<Params>& d) {
    d.name("wrong_example").text("Breaks a promise.").example("chance = 0.5").example("chance = 2");
    d.params.add("chance", &Params::chance).range(0, 1).text("of nothing");
  }
  WrongExample(const Params&, const StageSite&) {}
  void process(Sample&, Draw&) override {}
};

// Harmless sources of a format for which no file can be guessed: each digit is a sample.
class OwnFormat : public Source {
 public:
  struct Params : SourceParams {
    std::string path;
  };
  static void write_digits(const std::string& folder) { std::ofstream(folder + "/digits.own") << "OWN 3141592653"; }
  static void describe_own(StageDescription<Params>& d) {
    d.text("Digits.").example("path = '${folder}/digits.own'", &write_digits);
    d.params.add("path", &Params::path).required().text("the file");
    SourceParams::describe(d.params);
  }
  static void describe(StageDescription<Params>& d) {
    d.name("own_format");
    describe_own(d);
  }
  OwnFormat(const Params& params, const StageSite&) : Source(params), path_(params.path) {}
  void open() override {
    std::ifstream file(path_);
    std::string magic;
    if (!(file >> magic >> digits_) || magic != "OWN") fail(ErrorKind::data, "'{}' holds no digits", path_);
  }
  std::uint64_t size() const override { return digits_.size(); }
  std::size_t largest_encoded() const override { return 1; }
  void read(Sample& sample) override {
    sample.url = path_;
    sample.encoded.resize(1)[0] = static_cast<std::uint8_t>(digits_[sample.key.index]);
  }

 private:
  const std::string path_;
  std::string digits_;
};

class ReadsDifferently : public OwnFormat {
 public:
  using OwnFormat::OwnFormat;
  static void describe(StageDescription<Params>& d) {
    d.name("reads_differently");
    describe_own(d);
  }
  void read(Sample& sample) override {
    OwnFormat::read(sample);
    sample.label = reads_++;
  }

 private:
  std::atomic<std::int32_t> reads_{0};
};

}  // namespace

MILLRACE_PLUGIN("hostile", "1.0", "Breaks promises.") {
  registry.add_stage<Throws>();
  registry.add_stage<ThrowsNumber>();
  registry.add_stage<Crashes>();
  registry.add_stage<Exits>();
  registry.add_stage<ExitsAtOnce>();
  registry.add_stage<Overflows>();
  registry.add_stage<Aborts>();
  registry.add_stage<WrongShape>();
  registry.add_stage<WrongLabel>();
  registry.add_stage<GivesNan>();
  registry.add_stage<AtRandom>();
  registry.add_stage<WritesBehind>();
  registry.add_stage<ConstructorThrows>();
  registry.add_stage<DestructorThrows>();
  registry.add_stage<Blocks>();
  registry.add_stage<Leaks>();
  registry.add_stage<KeepsASample>();
  registry.add_stage<SharesAPlace>();
  registry.add_stage<BadDefault>();
  registry.add_stage<WithoutText>();
  registry.add_stage<ForgetsItsState>();
  registry.add_stage<Harmless>();
  registry.add_stage<DrawsInSecret>();
  registry.add_stage<WrongExample>();
  registry.add_stage<OwnFormat>();
  registry.add_stage<ReadsDifferently>();
  registry.add_layer<WrongGradient>();
  registry.add_optimizer<MovesPadding>();
  registry.add_optimizer<IgnoresTheRate>();
  registry.add_loss<CountsLess>();
}
