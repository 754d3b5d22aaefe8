// Convolution of 3x3 windows by Winograd's algorithm F(2 x 2, 3 x 3) (Lavin and Gray, arXiv 1509.09308): 16 products for 4 pixels
// instead of 36 of a direct convolution.
//
// A tile is 2 x 2 pixels of the result, which depend on 4 x 4 pixels of the input. With g a window, d an input tile, e an output
// tile:
//   U = G g G',  V = B' d B,  result = A' (U * V summed over input channels) A
//   gradient of g = G' (V * A e A' summed over tiles) G
// All is computed in float32. With instructions for bf16, U, V and A e A' are rounded to bf16 once, and products are summed in
// float32. The 16 places of a tile are 16 matrix products.
#include "kernels/isa/winograd.h"

#include "kernels/isa/team_memory.h"

namespace millrace::cpu::MILLRACE_ISA {
namespace {

constexpr std::int64_t kLanes = Map::kLanes;
// Tiles with sums in registers: times two blocks of channels in 28 of 32, or times one block in 12 of 16.
constexpr std::int64_t kRows = kRegisters == 1 ? 14 : 6;
constexpr int kBlocksAtOnce = kRegisters == 1 ? 2 : 1;
constexpr std::int64_t kUnit =
    kRegisters == 1 ? 28 : 24;  // tiles that a thread transforms, multiplies and transforms back at once

struct Finish {
  const float* bias;
  bool relu;
};

// The transformed input of up to kUnit tiles: (place, block of 16 input channels, kUnit, 16).
void gather(const WinogradShape& shape, const Map& x, const Place* places, std::int64_t count, Value* to) {
  const std::int64_t place_step = x.blocks() * kUnit * kLanes;
  for (std::int64_t block = 0; block < x.blocks(); ++block) {
    transform_tiles(shape, x, block, places, count, [&](std::int64_t t, const v16(&v)[4][4]) {
      Value* const out = to + (block * kUnit + t) * kLanes;
#pragma GCC unroll 16
      for (int p = 0; p < kPlaces; ++p) store(out + p * place_step, v[p / 4][p % 4]);
    });
  }
}

// sums (kRows, 32): products of kRows tiles with kBlocks * 16 columns, over all input channels; rows of columns are `step`
// elements apart.
template <int kBlocks>
void multiply_blocks(const Value* a, const Value* b, std::int64_t step, std::int64_t blocks, float* sums) {
  constexpr int kColumns = kBlocks * kRegisters;
  Sum sum[kRows][kColumns] = {};
  for (std::int64_t block = 0; block < blocks; ++block, a += kUnit * kLanes) {
#pragma GCC unroll 1
    for (int k = 0; k < kLanes; k += kTogether, b += step) {
      Lanes column[kColumns];
#pragma GCC unroll 2
      for (int j = 0; j < kColumns; ++j) column[j] = load_lanes(b + j * kTogether * kWidth);
#pragma GCC unroll 16
      for (int t = 0; t < kRows; ++t) {
        const Lanes row = in_every_lane(a + t * kLanes + k);
#pragma GCC unroll 2
        for (int j = 0; j < kColumns; ++j) sum[t][j] = multiply_add(sum[t][j], row, column[j]);
      }
    }
  }
#pragma GCC unroll 16
  for (int t = 0; t < kRows; ++t) {
#pragma GCC unroll 2
    for (int j = 0; j < kColumns; ++j) store_sum(sums + t * 2 * kLanes + j * kWidth, sum[t][j]);
  }
}

template <int kBlocks>
void multiply(const Value* a, const Value* b, std::int64_t blocks, float* sums) {
  constexpr int kAtOnce = kBlocks < kBlocksAtOnce ? kBlocks : kBlocksAtOnce;
  for (int j = 0; j < kBlocks; j += kAtOnce)
    multiply_blocks<kAtOnce>(a, b + j * kTogether * kLanes, kBlocks * kTogether * kLanes, blocks, sums + j * kLanes);
}

// The pixels of up to kRows tiles from their sums (place, kRows, 32), for a block of 16 channels.
void scatter(const float* sums, const Place* places, std::int64_t count, std::int64_t block, const Finish& finish, const Map& y) {
  const v16 bias = finish.bias == nullptr ? v16{} : load(finish.bias + block * kLanes);
  for (std::int64_t t = 0; t < count; ++t, sums += 2 * kLanes) {
    v16 m[4][4], pixels[2][2];
#pragma GCC unroll 16
    for (int p = 0; p < kPlaces; ++p) m[p / 4][p % 4] = load(sums + p * kRows * 2 * kLanes);
    transform_sums(m, pixels);
    const Place place = places[t];
    const std::int64_t row = 2 * place.row, column = 2 * place.column;
    Value* const out = at<Value>(y, place.n, block, row * y.width + column);
#pragma GCC unroll 2
    for (int r = 0; r < 2; ++r) {
#pragma GCC unroll 2
      for (int c = 0; c < 2; ++c) {
        if (row + r >= y.height || column + c >= y.width) continue;
        v16 value = pixels[r][c] + bias;
        if (finish.relu) value = Relu{}.value(value);
        store(out + (r * y.width + c) * y.stride_pixel, value);
      }
    }
  }
}

// kBlocks * 16 output channels from `block` on, for the unit's tiles.
template <int kBlocks>
void compute_panel(const Value* transformed, const Value* weights, std::int64_t in_blocks, const Place* places,
                   std::int64_t count, std::int64_t block, const Finish& finish, float* sums, const Map& y) {
  for (std::int64_t t = 0; t < count; t += kRows) {
    for (std::int64_t p = 0; p < kPlaces; ++p) {
      multiply<kBlocks>(transformed + (p * in_blocks * kUnit + t) * kLanes, weights + p * in_blocks * kLanes * kBlocks * kLanes,
                        in_blocks, sums + p * kRows * 2 * kLanes);
    }
    const std::int64_t left = count - t, rows = left < kRows ? left : kRows;
    for (std::int64_t j = 0; j < kBlocks; ++j) scatter(sums + j * kLanes, places + t, rows, block + j, finish, y);
  }
}

void transform_weights(const WinogradShape& shape, const float* weights, bool backward, void* transformed) {
  auto* const to = static_cast<Value*>(transformed);
  const std::int64_t ins = backward ? shape.out : shape.in, outs = backward ? shape.in : shape.out;
  const std::int64_t out_step = backward ? 9 : shape.in * 9, in_step = backward ? shape.in * 9 : 9;  // floats
  const std::int64_t blocks = outs / kLanes;
#pragma omp parallel for collapse(2) schedule(static)
  for (std::int64_t block = 0; block < blocks; ++block) {
    for (std::int64_t k = 0; k < ins; k += kTogether) {
      const std::int64_t wide = block / 2 * 2 + 2 <= blocks ? 2 : 1;  // blocks in this panel
      v16 u[kTogether][4][4];
      for (int each = 0; each < kTogether; ++each) {
        v16 g[3][3];
        for (int i = 0; i < 9; ++i) {
          float lanes[kLanes];
          const float* const from = weights + block * kLanes * out_step + (k + each) * in_step + (backward ? 8 - i : i);
          for (std::int64_t o = 0; o < kLanes; ++o) lanes[o] = from[o * out_step];
          g[i / 3][i % 3] = load(lanes);
        }
        transform_window(g, u[each]);
      }
      Value* const panel = to + block / 2 * 2 * kPlaces * ins * kLanes;
      for (std::int64_t p = 0; p < kPlaces; ++p) {
        v16 values[kTogether];
        for (int each = 0; each < kTogether; ++each) values[each] = u[each][p / 4][p % 4];
        store_together(panel + ((p * ins + k) * wide + block % 2 * kTogether) * kLanes, values);
      }
    }
  }
}

void convolve(const WinogradShape& shape, const Map& x, const void* transformed_weights, const float* bias, bool relu,
              const Map& y) {
  const auto* const weights = static_cast<const Value*>(transformed_weights);
  const Tiles tiles(y);
  const std::int64_t units = (tiles.all + kUnit - 1) / kUnit, blocks = x.blocks();
  const std::int64_t transformed = floats_of(kPlaces * blocks * kUnit * kLanes), sums = kPlaces * kRows * 2 * kLanes;
  const TeamMemory memory(0, transformed + sums);
#pragma omp parallel
  {
    float* const mine = memory.mine();
    auto* const values = reinterpret_cast<Value*>(mine + sums);
#pragma omp for schedule(dynamic)
    for (std::int64_t unit = 0; unit < units; ++unit) {
      Place places[kUnit];
      const std::int64_t count = tiles.places(unit * kUnit, kUnit, places);
      gather(shape, x, places, count, values);
      for (std::int64_t block = 0; block < y.blocks(); block += 2) {
        const Value* const panel = weights + block * kPlaces * blocks * kLanes * kLanes;
        const auto compute = block + 1 < y.blocks() ? compute_panel<2> : compute_panel<1>;
        compute(values, panel, blocks, places, count, block, {bias, relu}, mine, y);
      }
    }
  }
}

}  // namespace

constinit const WinogradKernels kWinograd{sizeof(Value), transform_weights, convolve, winograd_backward_floats,
                                          winograd_backward_weights};

}  // namespace millrace::cpu::MILLRACE_ISA
