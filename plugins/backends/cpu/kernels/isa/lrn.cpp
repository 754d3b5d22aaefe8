#include "kernels/isa/traverse.h"

namespace millrace::cpu::MILLRACE_ISA {
namespace {

constexpr std::int64_t kLanes = Map::kLanes;

MILLRACE_INLINE v16 square_root(v16 value) {
#ifdef __AVX512F__
  return reinterpret_cast<v16>(_mm512_maskz_sqrt_ps(0xffff, reinterpret_cast<__m512>(value)));
#else
  Halves halves{value};
  for (__m256& half : halves.half) half = _mm256_sqrt_ps(half);
  return halves.whole;
#endif
}

// base^-beta
MILLRACE_INLINE v16 inverse_power(v16 base, float beta) {
  if (beta == 0.75F) {  // the value in most networks with this layer; powf takes many times as long
    const v16 root = 1.0F / square_root(base);
    return root * square_root(root);
  }
  v16 power{};
  for (int i = 0; i < kLanes; ++i) power[i] = __builtin_powf(base[i], -beta);
  return power;
}

// The channels of one pixel as floats in thread-local memory, with zeros before and after for windows that reach beyond.
struct Row {
  std::int64_t reach, padded;
  float *squares, *shares, *powers;

  Row(const LrnWindow& window, const Map& map) : padded(map.blocks() * kLanes) {
    reach = (window.size - 1) / 2 < map.channels ? (window.size - 1) / 2 : map.channels;
    const std::int64_t wide = padded + 2 * reach, all = 2 * wide + padded;
    squares = reinterpret_cast<float*>(scratch(static_cast<std::size_t>(all / 2 + 1)));
    shares = squares + wide;
    powers = shares + wide;
    for (std::int64_t i = 0; i < 2 * wide; ++i) squares[i] = 0;
  }
  MILLRACE_INLINE v16 window_sum(const float* from, std::int64_t block) const {
    v16 sum{};
    for (std::int64_t i = 0; i <= 2 * reach; ++i) sum += load(from + block * kLanes + i);
    return sum;
  }
  template <class T>
  MILLRACE_INLINE void square(const Map& x, std::int64_t n, std::int64_t pixel) const {
    for (std::int64_t block = 0; block < x.blocks(); ++block) {
      with_lanes(x, block, [&](auto lanes) {
        const v16 value = lanes.get(at<T>(x, n, block, pixel));
        store(squares + reach + block * kLanes, value * value);
      });
    }
  }
};

template <class Body>
void for_each_pixel(const LrnWindow& window, const Map& map, const Body& body) {
  const std::int64_t pixels = map.n * map.pixels();
#pragma omp parallel if (pixels * map.channels > 2048)
  {
    const Row row(window, map);
#pragma omp for schedule(static)
    for (std::int64_t i = 0; i < pixels; ++i) body(row, i / map.pixels(), i % map.pixels());
  }
}

}  // namespace

void lrn(const LrnWindow& window, const Map& x, const Map& y) {
  const float factor = window.alpha / static_cast<float>(window.size);
  with_type(x.type, [&]<class T>(Type<T>) {
    for_each_pixel(window, x, [&](const Row& row, std::int64_t n, std::int64_t pixel) {
      row.square<T>(x, n, pixel);
      for (std::int64_t block = 0; block < x.blocks(); ++block) {
        const v16 power = inverse_power(window.k + factor * row.window_sum(row.squares, block), window.beta);
        with_lanes(y, block,
                   [&](auto lanes) { lanes.put(at<T>(y, n, block, pixel), lanes.get(at<T>(x, n, block, pixel)) * power); });
      }
    });
  });
}

// dx_i = dy_i * s_i^-beta - 2 * alpha * beta / size * x_i * sum of dy_j * x_j * s_j^(-beta - 1) over the j whose windows contain
// i, where s = k + alpha / size * sum of x^2.
void lrn_backward(const LrnWindow& window, const Map& x, const Map& dy, const Map& dx) {
  const float factor = window.alpha / static_cast<float>(window.size);
  with_type(x.type, [&]<class T>(Type<T>) {
    for_each_pixel(window, x, [&](const Row& row, std::int64_t n, std::int64_t pixel) {
      row.square<T>(x, n, pixel);
      for (std::int64_t block = 0; block < x.blocks(); ++block) {
        const v16 base = window.k + factor * row.window_sum(row.squares, block), power = inverse_power(base, window.beta);
        store(row.powers + block * kLanes, power);
        with_lanes(x, block, [&](auto lanes) {
          const v16 value = lanes.get(at<T>(x, n, block, pixel)) * lanes.get(at<T>(dy, n, block, pixel));
          store(row.shares + row.reach + block * kLanes, value * power / base);
        });
      }
      for (std::int64_t block = 0; block < x.blocks(); ++block) {
        const v16 sum = 2 * factor * window.beta * row.window_sum(row.shares, block);
        with_lanes(dx, block, [&](auto lanes) {
          const v16 value = lanes.get(at<T>(x, n, block, pixel)), gradient = lanes.get(at<T>(dy, n, block, pixel));
          lanes.put(at<T>(dx, n, block, pixel), gradient * load(row.powers + block * kLanes) - value * sum);
        });
      }
    });
  });
}

}  // namespace millrace::cpu::MILLRACE_ISA
