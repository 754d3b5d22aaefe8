// Depthwise convolution: each channel has its own window. The rows that a window covers are in a ring of padded float32 rows in
// the nearest cache, for any type and layout of the map. From there a tile of output pixels, or the sums of a window's row, are
// computed in registers; each pixel is read once for a whole row of the window.
#include "kernels/isa/depthwise.h"
#include "kernels/isa/team_memory.h"
#include "kernels/isa/traverse.h"

namespace millrace::cpu::MILLRACE_ISA {
namespace {

constexpr std::int64_t kRing = 8;    // rows; a window has at most 7
constexpr std::int64_t kMargin = 7;  // pixels of zeros before and after a row
constexpr std::int64_t kLanes = Map::kLanes;

// Prefetches the next row: the processor does not predict the large strides of channels last.
template <class T, class Lanes>
void load_row(const Map map, const T* from, float* to, Lanes lanes) {
  for (std::int64_t w = 0; w < map.width; ++w) {
    __builtin_prefetch(from + (w + map.width) * map.stride_pixel);
    store(to + w * kLanes, lanes.get(from + w * map.stride_pixel));
  }
}

// Rows of one plane as float32; the last kRing requested ones.
template <class T, class Lanes>
class Rows {
 public:
  Rows(const Map& map, std::int64_t n, std::int64_t block, float* memory, Lanes lanes)
      : map_(map), plane_(at<T>(map, n, block, 0)), memory_(memory), lanes_(lanes) {}
  // Reads all rows up to `last`. REQUIRES: later calls do not request fewer.
  void read(std::int64_t last) {
    if (last >= map_.height) last = map_.height - 1;
    for (; next_ <= last; ++next_) load_row(map_, plane_ + next_ * map_.width * map_.stride_pixel, row(next_), lanes_);
  }
  float* row(std::int64_t index) const { return memory_ + (index % kRing * pitch(map_) + kMargin) * kLanes; }

  static std::int64_t pitch(const Map& map) { return (map.width + kMargin) | 1; }  // pixels; odd: rows are in different sets
  static std::int64_t floats(const Map& map) { return (kRing * pitch(map) + 2 * kMargin) * kLanes; }

 private:
  const Map map_;
  const T* const plane_;
  float* const memory_;
  const Lanes lanes_;
  std::int64_t next_ = 0;
};

// The output columns q, q + step, q + 2 step, ...: each is a sum over `taps` neighbours in a row, the first of them at column
// stride * i + start for the i-th. Their weights begin at `first` in a row of arranged weights.
struct Columns {
  std::int64_t count, step, start, first;
  int taps;
  RowKernel* kernel;
};

// The inputs of an output row: row input_row + m * input_step for its weights' row first + m * step, m = 0, 1, ...
struct Taps {
  std::int64_t first, step, input_row, input_step;
};

// Both directions are convolutions. Forward has one phase of columns. Backward has as many as its stride: each holds the columns
// that met the same columns of the window, mirrored.
struct Plan {
  PoolWindow window;
  bool backward;
  std::int64_t phases = 1;
  Columns columns[2];

  Plan(const PoolWindow& of, bool to_data, const Map& out) : window(of), backward(to_data) {
    if (!backward) {
      columns[0] = {out.width,
                    1,
                    -window.left,
                    0,
                    static_cast<int>(window.kernel_width),
                    row_kernel(window.kernel_width, window.stride_width)};
      return;
    }
    phases = window.stride_width;
    std::int64_t arranged = 0;
    for (std::int64_t q = 0; q < phases; ++q) {
      const std::int64_t first = (q + window.left) % phases, taps = (window.kernel_width - first + phases - 1) / phases;
      columns[q] = {(out.width - q + phases - 1) / phases,
                    phases,
                    (q + window.left - first) / phases - (taps - 1),
                    arranged,
                    static_cast<int>(taps),
                    row_kernel(taps, 1)};
      arranged += taps;
    }
  }
  // Index of column k's weight in its arranged row.
  std::int64_t place(std::int64_t k) const {
    if (!backward) return k;
    const std::int64_t q = ((k - window.left) % phases + phases) % phases;
    return columns[q].first + columns[q].taps - 1 - k / phases;
  }
  Taps taps(std::int64_t row) const {
    if (!backward) return {0, 1, row * window.stride_height - window.top, 1};
    const std::int64_t first = (row + window.top) % window.stride_height;
    return {first, window.stride_height, (row + window.top - first) / window.stride_height, -1};
  }
};

template <class T>
void arrange(const Plan& plan, const T* weights, float* arranged) {
  const std::int64_t width = plan.window.kernel_width;
  for (std::int64_t r = 0; r < plan.window.kernel_height; ++r) {
    for (std::int64_t k = 0; k < width; ++k) {
      store(arranged + (r * width + plan.place(k)) * kLanes, load(weights + (r * width + k) * kLanes));
    }
  }
}

struct Finish {
  v16 bias;
  bool relu;
  template <class T, class Lanes>
  MILLRACE_INLINE void put(const float* from, T* to, std::int64_t step, std::int64_t count, Lanes lanes) const {
    for (std::int64_t i = 0; i < count; ++i, from += kLanes, to += step) {
      const v16 sum = load(from) + bias;
      lanes.put(to, relu ? Relu{}.value(sum) : sum);
    }
  }
};

template <class T, class Lanes>
void convolve_plane(const Plan plan, const Map in, const Map out, std::int64_t n, std::int64_t block, const float* weights,
                    float* memory, const Finish finish, Lanes lanes) {
  Rows<T, Lanes> input(in, n, block, memory, lanes);
  float* const sums = memory + Rows<T, Lanes>::floats(in);
  for (std::int64_t i = 0; i < out.height; ++i) {
    const Taps taps = plan.taps(i);
    WindowRow rows[kRing];
    int used = 0;
    const std::int64_t height = plan.window.kernel_height;
    input.read(plan.backward ? taps.input_row : taps.input_row + height - 1);
    std::int64_t row = taps.input_row;
    for (std::int64_t r = taps.first; r < height; r += taps.step, row += taps.input_step) {
      if (row < 0 || row >= in.height) continue;
      rows[used++] = {input.row(row), weights + r * plan.window.kernel_width * kLanes};
    }
    T* const to = at<T>(out, n, block, i * out.width);
    for (std::int64_t q = 0; q < plan.phases; ++q) {
      const Columns& columns = plan.columns[q];
      columns.kernel({rows, used, columns.start * kLanes, columns.first * kLanes}, columns.count, sums);
      finish.put(sums, to + q * out.stride_pixel, columns.step * out.stride_pixel, columns.count, lanes);
    }
  }
}

void convolve(const Plan& plan, const Map& in, const void* weights, const float* bias, bool relu, const Map& out) {
  const std::int64_t window = plan.window.kernel_height * plan.window.kernel_width * kLanes, blocks = out.blocks();
  with_type(out.type, [&]<class T>(Type<T>) {
    const std::int64_t rows = Rows<T, Whole>::floats(in) + (out.width + 3) * kLanes;
    const TeamMemory memory(0, rows + window);
#pragma omp parallel if (Tiling(out).threads)
    {
      float* const mine = memory.mine_at_zero();
      float* const arranged = mine + rows;
#pragma omp for schedule(static)
      for (std::int64_t item = 0; item < out.n * blocks; ++item) {
        const std::int64_t block = item % blocks;
        arrange(plan, static_cast<const T*>(weights) + block * window, arranged);
        const Finish finish{channel_values(bias, block, lanes_of(out, block), 0), relu};
        with_lanes(out, block,
                   [&](auto lanes) { convolve_plane<T>(plan, in, out, item / blocks, block, arranged, mine, finish, lanes); });
      }
    }
  });
}

// Adds one sample's contribution to the gradient of a block's window.
template <class T, class Lanes>
void correlate_plane(const PoolWindow window, const Map x, const Map dy, std::int64_t n, std::int64_t block, float* memory,
                     float* d_weights, Lanes lanes) {
  Rows<T, Lanes> input(x, n, block, memory, lanes);
  float* const gradient = memory + Rows<T, Lanes>::floats(x);
  CorrelateKernel* const kernel = correlate_kernel(window.kernel_width, window.stride_width);
  for (std::int64_t i = 0; i < dy.height; ++i) {
    const std::int64_t top = i * window.stride_height - window.top;
    input.read(top + window.kernel_height - 1);
    load_row(dy, at<T>(dy, n, block, i * dy.width), gradient, lanes);
    for (std::int64_t r = 0; r < window.kernel_height; ++r) {
      if (top + r < 0 || top + r >= x.height) continue;
      kernel(input.row(top + r) - window.left * kLanes, gradient, dy.width, d_weights + r * window.kernel_width * kLanes);
    }
  }
}

}  // namespace

void depthwise(const PoolWindow& window, const Map& x, const void* weights, const float* bias, bool relu, const Map& y) {
  convolve(Plan(window, false, y), x, weights, bias, relu, y);
}

void depthwise_backward_data(const PoolWindow& window, const Map& dy, const void* weights, const Map& dx) {
  convolve(Plan(window, true, dx), dy, weights, nullptr, false, dx);
}

// Samples are divided into slices, so that there are a hundred items with the blocks of channels, and the slices' sums are added
// in order.
void depthwise_backward_weights(const PoolWindow& window, const Map& x, const Map& dy, float* d_weights) {
  constexpr std::int64_t kItems = 128;
  const std::int64_t blocks = x.blocks(), most = (kItems + blocks - 1) / blocks, slices = x.n < most ? x.n : most;
  const std::int64_t each = window.kernel_height * window.kernel_width * kLanes, all = blocks * each;
  with_type(x.type, [&]<class T>(Type<T>) {
    const TeamMemory memory(slices * all, Rows<T, Whole>::floats(x) + dy.width * kLanes);
    float* const partial = memory.shared();
#pragma omp parallel if (Tiling(x).threads)
    {
      float* const mine = memory.mine_at_zero();
#pragma omp for schedule(static)
      for (std::int64_t item = 0; item < slices * blocks; ++item) {
        const std::int64_t slice = item / blocks, block = item % blocks;
        float* const sums = partial + item * each;
        for (std::int64_t i = 0; i < each; i += kLanes) store(sums + i, v16{});
        with_lanes(x, block, [&](auto lanes) {
          for (std::int64_t n = x.n * slice / slices; n < x.n * (slice + 1) / slices; ++n) {
            correlate_plane<T>(window, x, dy, n, block, mine, sums, lanes);
          }
        });
      }
#pragma omp for schedule(static)
      for (std::int64_t i = 0; i < all; i += kLanes) {
        v16 sum{};
        for (std::int64_t slice = 0; slice < slices; ++slice) sum += load(partial + slice * all + i);
        store(d_weights + i, sum);
      }
    }
  });
}

}  // namespace millrace::cpu::MILLRACE_ISA
