// Shortcuts of our kernels (runtime/shortcuts.h) on the device, against the longer way, with enough rows for many blocks at once:
// the last block of a sum finishes it, signs as bits, and max pooling together with the batch norm before it.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "device_fixture.h"
#include "kernels/plain.h"
#include "layers/map_spec.h"
#include "runtime/machine.h"

namespace millrace::cuda {
namespace {

constexpr std::int64_t kChannels = 32, kPacks = kChannels / kPack;
constexpr std::int64_t kRows = 34 * 512;  // 34 chunks, so two groups of them
constexpr PoolExtents kPooling = {.n = 1, .h = 64, .w = 68, .out_h = 32, .out_w = 34, .packs = kPacks};  // as in ResNet
constexpr PoolWindow kWindow = {.kernel_h = 3, .kernel_w = 3, .stride_h = 2, .stride_w = 2, .top = 1, .left = 1};
constexpr std::int64_t kPooled = kPooling.n * kPooling.out_h * kPooling.out_w * kChannels;
constexpr std::int64_t kRowsPooled = kPooling.n * kPooling.h * kPooling.w;
static_assert(kRowsPooled <= kRows);
using Channels = std::array<float, kChannels>;

// A batch norm with a ReLU after an addition, or before a pooling. All in device memory.
struct Scratch {
  alignas(kAlignment) Bf16 x[kRows * kChannels], residual[kRows * kChannels], dy[kRows * kChannels];
  alignas(kAlignment) Bf16 y[kRows * kChannels], masked[2][kRows * kChannels];
  alignas(kAlignment) Bf16 pooled[2][kPooled];
  alignas(kAlignment) std::uint8_t index[2][kPooled];
  alignas(kAlignment) std::uint8_t positive[kRows * kPacks];
  alignas(kAlignment) float partial[64 * 2 * kChannels];
  alignas(kAlignment) double groups[2 * 2 * kChannels];
  alignas(kAlignment) std::uint32_t tickets[kTickets];
  alignas(kAlignment) Channels mean, variance, factor;
};
struct Statistics {
  Channels mean, variance;
};

class GpuShortcuts : public OnDevice {
 protected:
  void SetUp() override {
    OnDevice::SetUp();
    if (IsSkipped()) return;
    memory_ = allocate(sizeof(Scratch) + kAlignment);
    std::byte* const begin =
        memory_.get() + (kAlignment - reinterpret_cast<std::uintptr_t>(memory_.get()) % kAlignment) % kAlignment;
    device_ = reinterpret_cast<Scratch*>(begin);
    const std::vector<std::byte> zeros(sizeof(Scratch));
    transfer(begin, zeros.data(), zeros.size());
    std::vector<Bf16> values(static_cast<std::size_t>(3 * kRows * kChannels));  // from -2 to 2 in steps that bf16 can represent
    std::uint32_t state = 1;
    for (Bf16& value : values) {
      state = state * 1664525U + 1013904223U;
      value = from_float<Bf16>(static_cast<float>(static_cast<int>(state >> 24) - 128) / 64.0F);
    }
    transfer(device().x, values.data(), values.size() * sizeof(Bf16));
    if (!is_simulated()) {
      check(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, 0), "cudaDeviceGetAttribute");
    }
  }

  Scratch& device() const { return *device_; }

  template <class Element>
  void run(const Element& element) {
    if (is_simulated()) return run_on_host(element);
    launch(kernel_of<Element>, &element, multiprocessors_);
  }

  Statistics statistics(bool in_last_block) {
    Scratch& d = device();
    FinishMoments<Bf16> finish;
    finish.x = d.x;
    finish.partial = d.partial;
    finish.rows = kRows;
    finish.packs = kPacks;
    finish.epsilon = 1e-5F;
    finish.mean = d.mean.data();
    finish.variance = d.variance.data();
    finish.factor = d.factor.data();
    Moments<Bf16> moments;
    moments.x = d.x;
    moments.rows = kRows;
    moments.packs = kPacks;
    moments.partial = d.partial;
    const std::array<Channels, 3> zeros{};
    transfer(d.mean.data(), zeros.data(), sizeof zeros);
    if (in_last_block) {
      moments.last = {d.tickets, d.groups};
      moments.finish = finish;
    }
    run(moments);
    if (!in_last_block) run(finish);
    Statistics found;
    transfer(&found.mean, d.mean.data(), sizeof found.mean);
    transfer(&found.variance, d.variance.data(), sizeof found.variance);
    return found;
  }
  void forward() {
    Scratch& d = device();
    Normalise<Bf16> kernel;
    kernel.x = d.x;
    kernel.residual = d.residual;
    kernel.y = d.y;
    kernel.mean = d.mean.data();
    kernel.factor = d.factor.data();
    kernel.rows = kRows;
    kernel.packs = kPacks;
    kernel.activation = Activation::relu;
    kernel.positive = d.positive;
    run(kernel);
  }
  NormaliseBackwardSums<Bf16> backward_sums(Bf16* masked, std::int64_t rows) {
    Scratch& d = device();
    NormaliseBackwardSums<Bf16> kernel;
    kernel.x = d.x;
    kernel.masked = masked;
    kernel.mean = d.mean.data();
    kernel.factor = d.factor.data();
    kernel.rows = rows;
    kernel.packs = kPacks;
    kernel.activation = Activation::relu;
    kernel.partial = d.partial;
    return kernel;
  }
  void masked(bool by_bits) {
    Scratch& d = device();
    NormaliseBackwardSums<Bf16> kernel = backward_sums(d.masked[by_bits ? 1 : 0], kRows);
    kernel.dy = d.dy;
    if (by_bits)
      kernel.positive = d.positive;
    else
      kernel.y = d.y;
    run(kernel);
  }
  void pool_apart() {
    Scratch& d = device();
    Normalise<Bf16> normalise;
    normalise.x = d.x;
    normalise.y = d.y;
    normalise.mean = d.mean.data();
    normalise.factor = d.factor.data();
    normalise.rows = kRowsPooled;
    normalise.packs = kPacks;
    normalise.activation = Activation::relu;
    run(normalise);
    run(MaxPool<Bf16>{d.y, d.pooled[0], d.index[0], kPooling, kWindow});
    run(MaxPoolBackward<Bf16>{d.dy, d.index[0], d.y, kPooling, kWindow});
    NormaliseBackwardSums<Bf16> sums = backward_sums(d.masked[0], kRowsPooled);
    sums.dy = d.y;
    run(sums);
  }
  void pool_together() {
    Scratch& d = device();
    NormaliseMaxPool<Bf16> forward;
    forward.x = d.x;
    forward.y = d.pooled[1];
    forward.index = d.index[1];
    forward.mean = d.mean.data();
    forward.factor = d.factor.data();
    forward.at = kPooling;
    forward.window = kWindow;
    run(forward);
    NormaliseBackwardSums<Bf16> sums = backward_sums(d.masked[1], kRowsPooled);
    sums.pooled = {d.dy, d.index[1], kPooling, kWindow};
    run(sums);
  }

  template <class T>
  static std::vector<T> fetched(const T* from, std::int64_t count) {
    std::vector<T> values(static_cast<std::size_t>(count));
    transfer(values.data(), from, values.size() * sizeof(T));
    return values;
  }
  static void expect_same_bits(const Bf16* one, const Bf16* other, std::int64_t count) {
    const std::vector<Bf16> a = fetched(one, count), b = fetched(other, count);
    const auto differs = std::ranges::mismatch(a, b, {}, &Bf16::bits, &Bf16::bits).in1;
    EXPECT_EQ(differs - a.begin(), count) << "the first value that differs";
    EXPECT_TRUE(std::ranges::any_of(a, [](Bf16 value) { return value.bits != 0; }));
  }

 private:
  std::shared_ptr<std::byte[]> memory_;
  Scratch* device_ = nullptr;
  int multiprocessors_ = 1;
};

TEST_F(GpuShortcuts, TheLastBlockOfASumFinishesIt) {
  const Statistics apart = statistics(false);
  for (int time = 1; time <= 3; ++time) {  // tickets must be unchanged
    const Statistics together = statistics(true);
    for (std::size_t c = 0; c < kChannels; ++c) {
      EXPECT_NEAR(together.mean[c], apart.mean[c], 1e-5F) << "channel " << c << " of sum " << time;
      EXPECT_NEAR(together.variance[c], apart.variance[c], 1e-5F * std::max(1.0F, apart.variance[c])) << "channel " << c;
      EXPECT_GT(together.variance[c], 1);
    }
  }
}

TEST_F(GpuShortcuts, BitsOfSignsMaskGradientsAsTheValuesDo) {
  statistics(false);
  forward();
  for (const bool bits : {false, true}) masked(bits);
  expect_same_bits(device().masked[0], device().masked[1], kRows * kChannels);
}

TEST_F(GpuShortcuts, MaxPoolingWithItsBatchNormGivesTheBitsThatTheyGiveApart) {
  statistics(false);
  pool_apart();
  pool_together();
  expect_same_bits(device().pooled[0], device().pooled[1], kPooled);
  expect_same_bits(device().masked[0], device().masked[1], kRowsPooled * kChannels);
}

}  // namespace
}  // namespace millrace::cuda
