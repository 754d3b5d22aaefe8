// The gradient of the weights of a convolution by Winograd's algorithm; see winograd.cpp.
#include "kernels/isa/team_memory.h"
#include "kernels/isa/winograd.h"

namespace millrace::cpu::MILLRACE_ISA {
namespace {

constexpr std::int64_t kLanes = Map::kLanes;

// The transformed gradients of the output's tiles at `places`, for one block of 16 channels: calls made(t, w) for each.
template <class Made>
MILLRACE_INLINE void transform_gradients(const Map& dy, std::int64_t block, const Place* places, std::int64_t count,
                                         Made&& made) {
  for (std::int64_t t = 0; t < count; ++t) {
    const std::int64_t row = 2 * places[t].row, column = 2 * places[t].column;
    const Value* const first = at<Value>(dy, places[t].n, block, row * dy.width + column);
    v16 e[2][2], w[4][4];
    for (int r = 0; r < 2; ++r) {
      for (int c = 0; c < 2; ++c) {
        const bool exists = row + r < dy.height && column + c < dy.width;
        e[r][c] = exists ? load(first + (r * dy.width + c) * dy.stride_pixel) : v16{};
      }
    }
    transform_gradient(e, w);
    made(t, w);
  }
}

// Groups transformed tiles: (place, kTogether tiles, 16, kTogether). An incomplete last group is filled with zeros.
class Groups {
 public:
  Groups(Value* to, std::int64_t place_step, std::int64_t count) : to_(to), place_step_(place_step), count_(count) {}
  MILLRACE_INLINE void operator()(std::int64_t t, const v16 (&w)[4][4]) {
    const std::int64_t in_group = t % kTogether;
    const bool complete = in_group + 1 == kTogether;
    if (!complete) {
#pragma GCC unroll 16
      for (int p = 0; p < kPlaces; ++p) earlier_[p] = w[p / 4][p % 4];
      if (t + 1 < count_) return;
    }
    Value* const out = to_ + (t - in_group) * kLanes;
#pragma GCC unroll 16
    for (int p = 0; p < kPlaces; ++p) {
      v16 values[kTogether] = {};
      values[0] = earlier_[p];
      if (complete) values[kTogether - 1] = w[p / 4][p % 4];
      store_together(out + p * place_step_, values);
    }
  }

 private:
  Value* to_;
  std::int64_t place_step_, count_;
  v16 earlier_[kPlaces] = {};
};

// sums (kInputs, kBlocks * 16): products of kInputs input channels with kBlocks * 16 output channels, over groups of tiles; rows
// of sums are `step` floats apart, blocks of b `b_step` elements.
constexpr std::int64_t kInputs = kRegisters == 1 ? 8 : 4;
template <int kBlocks>
void correlate_blocks(const Value* a, const Value* b, std::int64_t b_step, std::int64_t groups, bool add, float* sums,
                      std::int64_t step) {
  constexpr int kColumns = kBlocks * kRegisters;
  Sum sum[kInputs][kColumns] = {};
#pragma GCC unroll 1
  for (std::int64_t k = 0; k < groups; ++k, a += kTogether * kLanes, b += kTogether * kLanes) {
    Lanes column[kColumns];
#pragma GCC unroll 2
    for (int j = 0; j < kColumns; ++j) column[j] = load_lanes(b + j / kRegisters * b_step + j % kRegisters * kTogether * kWidth);
#pragma GCC unroll 8
    for (int i = 0; i < kInputs; ++i) {
      const Lanes row = in_every_lane(a + kTogether * i);
#pragma GCC unroll 2
      for (int j = 0; j < kColumns; ++j) sum[i][j] = multiply_add(sum[i][j], row, column[j]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kInputs; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < kColumns; ++j) {
      float* const to = sums + i * step + j * kWidth;
      store_sum(to, add ? load_sum(to) + sum[i][j] : sum[i][j]);
    }
  }
}

template <int kBlocks>
void correlate(const Value* a, const Value* b, std::int64_t b_step, std::int64_t groups, bool add, float* sums,
               std::int64_t step) {
  constexpr int kAtOnce = kRegisters == 1 ? kBlocks : 1;
  for (int j = 0; j < kBlocks; j += kAtOnce)
    correlate_blocks<kAtOnce>(a, b + j * b_step, b_step, groups, add, sums + j * kLanes, step);
}

constexpr std::int64_t kRun = 32;  // tiles, transformed at once

// How backward_weights() divides its sums. Each slice of the tiles has its own sums, which are added at the end; its tiles are
// transformed and multiplied part by part. If sums are large there is one slice, and threads share the channels.
struct Parts {
  std::int64_t slices, tiles_of_slice, part;
  Parts(const WinogradShape& shape, std::int64_t tiles) {
    const std::int64_t sums = kPlaces * shape.in * shape.out * 4,
                       tile = (shape.in + shape.out) * kPlaces * std::int64_t{sizeof(Value)};
    constexpr std::int64_t kNear = std::int64_t{512} << 10, kFar = std::int64_t{4} << 20;  // a core's cache; the last-level cache
    slices = sums > kNear / 2 ? 1 : kFar * 2 / sums;
    slices = slices > 64 ? 64 : slices;
    part = (slices > 1 ? kNear : kFar) / tile / kRun * kRun;
    part = part < 2 * kRun ? 2 * kRun : part > 2048 ? 2048 : part;
    const std::int64_t parts = (tiles + part - 1) / part;
    if (slices > parts) slices = parts;
    tiles_of_slice = (parts + slices - 1) / slices * part;
  }
};

}  // namespace

std::size_t winograd_backward_floats(const WinogradShape& shape, const Map& dy) {
  const Parts parts(shape, Tiles(dy).all);
  const std::int64_t values = floats_of(kPlaces * (shape.in + shape.out) * parts.part);
  return static_cast<std::size_t>(parts.slices * kPlaces * shape.in * shape.out + (parts.slices > 1 ? 0 : values));
}

namespace {

struct Correlation {
  const WinogradShape& shape;
  const Map &x, &dy;
  const Tiles tiles;
  const Parts parts;
  std::int64_t block_step = parts.part * kLanes, in_step = x.blocks() * block_step, out_step = dy.blocks() * block_step;

  // Transforms kRun tiles from `first` on, the `at`-th of the part, for one block: of an input, then of an output.
  void transform(std::int64_t first, std::int64_t end, std::int64_t at, std::int64_t block, Value* inputs,
                 Value* gradients) const {
    Place places[kRun];
    const std::int64_t count = tiles.places(first + at, first + at + kRun < end ? kRun : end - first - at, places);
    if (block < x.blocks()) {
      Groups groups(inputs + block * block_step + at * kLanes, in_step, count);
      transform_tiles(shape, x, block, places, count, groups);
    } else {
      Groups groups(gradients + (block - x.blocks()) * block_step + at * kLanes, out_step, count);
      transform_gradients(dy, block - x.blocks(), places, count, groups);
    }
  }
  std::int64_t panels() const { return (dy.blocks() + 1) / 2; }
  // The products for one place and one panel of output channels.
  void multiply(std::int64_t p, std::int64_t panel, std::int64_t count, bool add, const Value* inputs, const Value* gradients,
                float* sums) const {
    const std::int64_t groups = (count + kTogether - 1) / kTogether;
    const auto multiply = 2 * panel + 1 < dy.blocks() ? correlate<2> : correlate<1>;
    for (std::int64_t i = 0; i < shape.in; i += kInputs) {
      multiply(inputs + p * in_step + i / kLanes * block_step + i % kLanes * kTogether,
               gradients + p * out_step + 2 * panel * block_step, block_step, groups, add,
               sums + (p * shape.in + i) * shape.out + panel * 2 * kLanes, shape.out);
    }
  }
  std::int64_t blocks() const { return x.blocks() + dy.blocks(); }
};

// Each thread processes its own slices.
void correlate_slices(const Correlation& c, float* sums) {
  const std::int64_t floats = kPlaces * c.shape.in * c.shape.out;
  const TeamMemory memory(0, floats_of(kPlaces * c.blocks() * c.block_step));
#pragma omp parallel
  {
    auto* const inputs = reinterpret_cast<Value*>(memory.mine());
    Value* const gradients = inputs + kPlaces * c.in_step;
#pragma omp for schedule(dynamic)
    for (std::int64_t slice = 0; slice < c.parts.slices; ++slice) {
      const std::int64_t begin = slice * c.parts.tiles_of_slice, until = begin + c.parts.tiles_of_slice;
      const std::int64_t end = until < c.tiles.all ? until : c.tiles.all;
      if (begin >= end) {
        for (std::int64_t i = 0; i < floats; i += kLanes) store(sums + slice * floats + i, v16{});
      }
      for (std::int64_t first = begin; first < end; first += c.parts.part) {
        const std::int64_t stop = first + c.parts.part < end ? first + c.parts.part : end;
        for (std::int64_t block = 0; block < c.blocks(); ++block) {
          for (std::int64_t at = 0; first + at < stop; at += kRun) c.transform(first, stop, at, block, inputs, gradients);
        }
        for (std::int64_t item = 0; item < kPlaces * c.panels(); ++item) {
          c.multiply(item / c.panels(), item % c.panels(), stop - first, first > begin, inputs, gradients, sums + slice * floats);
        }
      }
    }
  }
}

// All threads share the same tiles: they transform them, then each computes the products for some places and channels.
void correlate_together(const Correlation& c, float* sums) {
  auto* const inputs = reinterpret_cast<Value*>(sums + kPlaces * c.shape.in * c.shape.out);
  Value* const gradients = inputs + kPlaces * c.in_step;
#pragma omp parallel
  for (std::int64_t first = 0; first < c.tiles.all; first += c.parts.part) {
    const std::int64_t stop = first + c.parts.part < c.tiles.all ? first + c.parts.part : c.tiles.all;
    const std::int64_t runs = (stop - first + kRun - 1) / kRun;
#pragma omp for schedule(dynamic)
    for (std::int64_t item = 0; item < c.blocks() * runs; ++item) {
      c.transform(first, stop, item % runs * kRun, item / runs, inputs, gradients);
    }
#pragma omp for schedule(dynamic)
    for (std::int64_t item = 0; item < kPlaces * c.panels(); ++item) {
      c.multiply(item / c.panels(), item % c.panels(), stop - first, first > 0, inputs, gradients, sums);
    }
  }
}

}  // namespace

void winograd_backward_weights(const WinogradShape& shape, const Map& x, const Map& dy, float* sums, float* d_weights) {
  const Tiles tiles(dy);
  const Correlation c{shape, x, dy, tiles, Parts(shape, tiles.all)};
  (c.parts.slices > 1 ? correlate_slices : correlate_together)(c, sums);
  const std::int64_t floats = kPlaces * shape.in * shape.out;
#pragma omp parallel for schedule(static)
  for (std::int64_t item = 0; item < dy.blocks() * shape.in; ++item) {
    const std::int64_t block = item / shape.in, i = item % shape.in;
    v16 u[4][4], g[3][3];
    for (std::int64_t p = 0; p < kPlaces; ++p) {
      const float* const from = sums + (p * shape.in + i) * shape.out + block * kLanes;
      u[p / 4][p % 4] = load(from);
      for (std::int64_t slice = 1; slice < c.parts.slices; ++slice) u[p / 4][p % 4] += load(from + slice * floats);
    }
    transform_window_back(u, g);
    for (int k = 0; k < 9; ++k) {
      float lanes[kLanes];
      store(lanes, g[k / 3][k % 3]);
      for (std::int64_t o = 0; o < kLanes; ++o) d_weights[((block * kLanes + o) * shape.in + i) * 9 + k] = lanes[o];
    }
  }
}

}  // namespace millrace::cpu::MILLRACE_ISA
