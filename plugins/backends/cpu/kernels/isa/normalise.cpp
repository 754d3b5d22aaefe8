#include "kernels/isa/moments.h"
#include "kernels/isa/unpool.h"

namespace millrace::cpu::MILLRACE_ISA {
namespace {

MILLRACE_INLINE v16 inverse_root(v16 value) {
  for (int i = 0; i < Map::kLanes; ++i) value[i] = 1 / __builtin_sqrtf(value[i]);
  return value;
}

// Parameters of sixteen channels.
struct Channels {
  v16 mean, inverse, scale, shift;
  template <class Arguments>
  MILLRACE_INLINE Channels(const Arguments& a, std::int64_t block, int lanes)
      : mean(channel_values(a.mean, block, lanes, 0)),
        inverse(inverse_root(channel_values(a.variance, block, lanes, 0) + a.epsilon)),
        scale(channel_values(a.scale, block, lanes, 1)),
        shift(channel_values(a.shift, block, lanes, 0)) {}
};

template <class T, class A, class Lanes>
void normalise_run(const NormaliseArguments& a, const Run& run, Lanes lanes) {
  const Channels channel(a, run.block, lanes_of(a.x, run.block));
  const v16 factor = channel.scale * channel.inverse;
  const Cursor<T> x(a.x, run), y(a.y, run);
  const std::int64_t count = run.count;
  const A activation;
  if (a.residual == nullptr) {
    for (std::int64_t i = 0; i < count; ++i) {
      const v16 centered = lanes.get(x[i]) - channel.mean;
      lanes.put(y[i], activation.value(centered * factor + channel.shift));
    }
    return;
  }
  const Cursor<T> residual(*a.residual, run);
  for (std::int64_t i = 0; i < count; ++i) {
    const v16 centered = lanes.get(x[i]) - channel.mean;
    lanes.put(y[i], activation.value(centered * factor + (channel.shift + lanes.get(residual[i]))));
  }
}

// Backward's input at a pixel: x_hat, and g = dy * activation'(pre-activation).
template <class T, class A, class Lanes>
class Reader {
 public:
  MILLRACE_INLINE Reader(const NormaliseBackwardArguments& a, const Run& run, Lanes lanes)
      : channel(a, run.block, lanes_of(a.x, run.block)),
        x_(a.x, run),
        dy_(a.dy, run),
        other_(other_map(a), run),
        adds_(&other_map(a) == a.residual),
        replaces_(&other_map(a) == a.y),
        lanes_(lanes) {}
  MILLRACE_INLINE void read(std::int64_t i, v16& x_hat, v16& g) const {
    x_hat = (lanes_.get(x_[i]) - channel.mean) * channel.inverse;
    v16 before = x_hat * channel.scale + channel.shift;
    if (adds_) before += lanes_.get(other_[i]);
    if (replaces_) before = lanes_.get(other_[i]);
    g = lanes_.get(dy_[i]) * activation_.slope(before);
  }
  const Channels channel;

 private:
  // Forward's output, its residual, or an unused map.
  static const Map& other_map(const NormaliseBackwardArguments& a) {
    if (a.y != nullptr && a.activation == Activation::relu) return *a.y;
    return a.residual != nullptr ? *a.residual : a.x;
  }
  const A activation_{};
  const Cursor<T> x_, dy_, other_;
  const bool adds_, replaces_;
  const Lanes lanes_;
};

template <class T, class A, class Lanes>
void sums_run(const NormaliseBackwardArguments& a, const Run& run, const Map* d_residual, v16 (&sums)[2], Lanes lanes) {
  const Reader<T, A, Lanes> reader(a, run, lanes);
  const std::int64_t count = run.count;
  v16 shift{}, scale{}, x_hat, g;
  if (d_residual == nullptr) {
    for (std::int64_t i = 0; i < count; ++i) {
      reader.read(i, x_hat, g);
      shift += g;
      scale += g * x_hat;
    }
  } else {
    const Cursor<T> out(*d_residual, run);
    for (std::int64_t i = 0; i < count; ++i) {
      reader.read(i, x_hat, g);
      shift += g;
      scale += g * x_hat;
      lanes.put(out[i], g);
    }
  }
  sums[0] = shift;
  sums[1] = scale;
}

// dx at a pixel, from the sums of pass 1.
struct Sums {
  const float *shift, *scale;
  float share;  // 1 / count
};
template <class T, class A, class Lanes>
class Gradient {
 public:
  MILLRACE_INLINE Gradient(const NormaliseBackwardArguments& a, const Run& run, const Sums& sums, Lanes lanes)
      : reader_(a, run, lanes) {
    const int count = lanes_of(a.x, run.block);
    factor_ = reader_.channel.scale * reader_.channel.inverse;
    shift_ = channel_values(sums.shift, run.block, count, 0) * sums.share;
    scale_ = channel_values(sums.scale, run.block, count, 0) * sums.share;
  }
  MILLRACE_INLINE v16 operator()(std::int64_t i) const {
    v16 x_hat, g;
    reader_.read(i, x_hat, g);
    return factor_ * (g - shift_ - x_hat * scale_);
  }

 private:
  Reader<T, A, Lanes> reader_;
  v16 factor_, shift_, scale_;
};

// Calls body(Type<T>, Type<A>) for the arguments' element type and activation.
template <class Gelu, class Body>
void specialise(DataType type, Activation activation, const Body& body) {
  with_type(type, [&](auto element) { with_activation<Gelu>(activation, [&](auto function) { body(element, function); }); });
}

}  // namespace

void batch_statistics(const Map& x, float* mean, float* variance) {
  with_type(x.type, [&]<class T>(Type<T>) {
    const Tiling tiling(x);
    const Moments moments(tiling);
    for_each_slice(tiling, [&](std::int64_t slice, std::int64_t begin, std::int64_t end) {
      moments.clear(slice);
      for (std::int64_t item = begin; item < end; ++item) {
        tiling.runs_of(item, [&](const Run& run) {
          with_lanes(x, run.block, [&](auto lanes) { moments.template add<T>(slice, item == begin, run, x, lanes); });
        });
      }
    });
    moments.finish(x.channels, mean, variance);
  });
}

void normalise(const NormaliseArguments& a) {
  specialise<GeluValue>(a.x.type, a.activation, [&]<class T, class A>(Type<T>, Type<A>) {
    for_each_run(Tiling(a.x),
                 [&](const Run& run) { with_lanes(a.y, run.block, [&](auto lanes) { normalise_run<T, A>(a, run, lanes); }); });
  });
}

void normalise_backward_sums(const NormaliseBackwardArguments& a, float* d_shift, float* d_scale, const Map* d_residual) {
  specialise<GeluSlope>(a.x.type, a.activation, [&]<class T, class A>(Type<T>, Type<A>) {
    const Map& written = d_residual != nullptr ? *d_residual : a.x;
    sum_runs<2>(a.x, {d_shift, d_scale}, [&](const Run& run, v16(&sums)[2]) {
      with_lanes(written, run.block, [&](auto lanes) { sums_run<T, A>(a, run, d_residual, sums, lanes); });
    });
  });
}

void normalise_backward(const NormaliseBackwardArguments& a, const float* d_shift, const float* d_scale, double count,
                        const Map& dx) {
  const Sums sums{d_shift, d_scale, static_cast<float>(1 / count)};
  specialise<GeluSlope>(a.x.type, a.activation, [&]<class T, class A>(Type<T>, Type<A>) {
    for_each_run(Tiling(a.x), [&](const Run& run) {
      with_lanes(dx, run.block, [&](auto lanes) {
        const Gradient<T, A, decltype(lanes)> gradient(a, run, sums, lanes);
        const Cursor<T> out(dx, run);
        const std::int64_t pixels = run.count;
        for (std::int64_t i = 0; i < pixels; ++i) lanes.put(out[i], gradient(i));
      });
    });
  });
}

void normalise_backward_unpool(const NormaliseBackwardArguments& a, const float* d_shift, const float* d_scale, double count,
                               const PoolWindow& window, const std::uint8_t* index, const Map& dx) {
  const Sums sums{d_shift, d_scale, static_cast<float>(1 / count)};
  const Map& y = a.x;  // the pooling's output is the normalisation's input
  specialise<GeluSlope>(y.type, a.activation, [&]<class T, class A>(Type<T>, Type<A>) {
    with_kernel(window, [&](auto kernel) {
      for_each_run(Tiling(y, y.width, window_area(window)), [&](const Run& run) {
        with_lanes(dx, run.block, [&](auto lanes) {
          const Gradient<T, A, decltype(lanes)> gradient(a, run, sums, lanes);
          const std::uint8_t* const which = index + ((run.n * y.blocks() + run.block) * y.pixels() + run.pixel) * Map::kLanes;
          for (std::int64_t done = 0; done < run.count; done += y.width) {
            unpool_row<decltype(kernel)::value>(window, dx, y, at<T>(dx, run.n, run.block, 0), (run.pixel + done) / y.width,
                                                which + done * Map::kLanes, lanes,
                                                [&](std::int64_t j) { return gradient(done + j); });
          }
        });
      });
    });
  });
}

}  // namespace millrace::cpu::MILLRACE_ISA
