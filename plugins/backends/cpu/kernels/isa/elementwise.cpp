#include "kernels/isa/traverse.h"

namespace millrace::cpu::MILLRACE_ISA {
namespace {

// y = f(x), or f(a, b), at every element.
template <class T, class Lanes, class F>
MILLRACE_INLINE void map_run(const Map& x, const Map& y, const Run& run, Lanes lanes, const F& f) {
  const Cursor<T> from(x, run), to(y, run);
  const std::int64_t count = run.count;
  for (std::int64_t i = 0; i < count; ++i) lanes.put(to[i], f(lanes.get(from[i])));
}
template <class T, class Lanes, class F>
MILLRACE_INLINE void map_run(const Map& a, const Map& b, const Map& y, const Run& run, Lanes lanes, const F& f) {
  const Cursor<T> left(a, run), right(b, run), to(y, run);
  const std::int64_t count = run.count;
  for (std::int64_t i = 0; i < count; ++i) lanes.put(to[i], f(lanes.get(left[i]), lanes.get(right[i])));
}

// The sum over a run of dy * slope(x); also writes the terms if dx is set.
template <class T, class A, class Lanes>
v16 activation_sum(const Map& x, const Map& dy, const Map* dx, const Run& run, Lanes lanes) {
  const A activation;
  v16 sum{};
  const auto term = [&](v16 before, v16 gradient) {
    const v16 value = gradient * activation.slope(before);
    sum += value;
    return value;
  };
  if (dx != nullptr) {
    map_run<T>(x, dy, *dx, run, lanes, term);
    return sum;
  }
  const Cursor<T> before(x, run), gradient(dy, run);
  const std::int64_t count = run.count;
  for (std::int64_t i = 0; i < count; ++i) term(lanes.get(before[i]), lanes.get(gradient[i]));
  return sum;
}

}  // namespace

// Padding channels stay zero in flat passes, since every function here maps zero to zero.
void activate(Activation kind, const Map& from, const Map& to) {
  Map x = from, y = to;
  flatten(x, y);
  with_type(x.type, [&]<class T>(Type<T>) {
    with_activation<GeluValue>(kind, [&]<class A>(Type<A>) {
      for_each_run(Tiling(x), [&](const Run& run) {
        with_lanes(y, run.block, [&](auto lanes) {
          const A activation;
          map_run<T>(x, y, run, lanes, [&](v16 value) { return activation.value(value); });
        });
      });
    });
  });
}

void activate_backward(Activation kind, const Map& before, const Map& gradient, const Map* result, float* d_bias) {
  Map x = before, dy = gradient, written = result != nullptr ? *result : before;
  if (d_bias == nullptr) flatten(x, dy, written);
  const Map* const dx = result != nullptr ? &written : nullptr;
  with_type(x.type, [&]<class T>(Type<T>) {
    with_activation<GeluSlope>(kind, [&]<class A>(Type<A>) {
      const auto run_sum = [&](const Run& run) {
        v16 sum{};
        with_lanes(written, run.block, [&](auto lanes) { sum = activation_sum<T, A>(x, dy, dx, run, lanes); });
        return sum;
      };
      if (d_bias != nullptr) {
        sum_runs<1>(x, {d_bias}, [&](const Run& run, v16(&sums)[1]) { sums[0] = run_sum(run); });
      } else if (dx != nullptr) {
        for_each_run(Tiling(x), [&](const Run& run) { run_sum(run); });
      }
    });
  });
}

void add(const Map& first, const Map& second, const Map& to) {
  Map a = first, b = second, y = to;
  flatten(a, b, y);
  with_type(y.type, [&]<class T>(Type<T>) {
    for_each_run(Tiling(y), [&](const Run& run) {
      with_lanes(y, run.block,
                 [&](auto lanes) { map_run<T>(a, b, y, run, lanes, [](v16 left, v16 right) { return left + right; }); });
    });
  });
}

void scale(float factor, const Map& from, const Map& to) {
  Map x = from, y = to;
  flatten(x, y);
  with_type(y.type, [&]<class T>(Type<T>) {
    for_each_run(Tiling(y), [&](const Run& run) {
      with_lanes(y, run.block, [&](auto lanes) { map_run<T>(x, y, run, lanes, [&](v16 value) { return value * factor; }); });
    });
  });
}

void fill_zero(const Map& map) {
  Map y = map;
  flatten(y);
  with_type(y.type, [&]<class T>(Type<T>) {
    for_each_run(Tiling(y), [&](const Run& run) {
      with_lanes(y, run.block, [&](auto lanes) {
        const Cursor<T> to(y, run);
        const std::int64_t count = run.count;
        for (std::int64_t i = 0; i < count; ++i) lanes.put(to[i], v16{});
      });
    });
  });
}

}  // namespace millrace::cpu::MILLRACE_ISA
