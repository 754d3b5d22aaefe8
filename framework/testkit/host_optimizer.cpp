#include "testkit/host_optimizer.h"

#include <vector>

namespace millrace::testkit {
namespace {

struct alignas(32) Pack {
  float values[kUpdatePack];
};

void run_whole(const Kernel& kernel, const void* element) { kernel.run_on_host(element, 0, kernel.units(element)); }

struct PlainProducts {
  std::int64_t height, width;

  void gram(const float* x, float* result) const {
    each(
        result, height,
        [&](std::int64_t r, std::int64_t c, std::int64_t k) { return product(x[r * width + k], x[c * width + k]); }, width);
  }
  void square(const float* gram, float* result) const {
    each(
        result, height,
        [&](std::int64_t r, std::int64_t c, std::int64_t k) { return product(gram[r * height + k], gram[k * height + c]); },
        height);
  }
  void apply(const float* left, const float* x, float* result) const {
    each(
        result, width,
        [&](std::int64_t r, std::int64_t c, std::int64_t k) { return product(left[r * height + k], x[k * width + c]); }, height);
  }

 private:
  static double product(float a, float b) { return static_cast<double>(a) * static_cast<double>(b); }
  template <class Term>
  void each(float* result, std::int64_t columns, const Term& term, std::int64_t terms) const {
    for (std::int64_t r = 0; r < height; ++r) {
      for (std::int64_t c = 0; c < columns; ++c) {
        double sum = 0;
        for (std::int64_t k = 0; k < terms; ++k) sum += term(r, c, k);
        result[r * columns + c] = static_cast<float>(sum);
      }
    }
  }
};

}  // namespace

void orthogonalise_on_host(float* matrix, const Squares* squares, const MatrixShape& shape, const NewtonSchulz& how) {
  std::vector<Pack> memory(MatrixMemory<float>::elements(shape) / kUpdatePack);
  orthogonalise(matrix, squares, shape, how, MatrixMemory<float>::in(memory.data(), shape), run_whole,
                PlainProducts{shape.height(), shape.width()});
}

void set_matrix(const MatrixShape& matrix, UpdateSegment& segment, UpdateArguments& arguments) {
  segment.rows = static_cast<std::int32_t>(matrix.rows);
  segment.columns = static_cast<std::int32_t>(matrix.columns);
  segment.width = matrix.columns;
  arguments.rows = matrix.rows;
  arguments.column_packs = column_packs(matrix.columns);
  arguments.segments = &segment;
  arguments.segment_count = 1;
}

void update_on_host(const Optimizer& optimizer, UpdateArguments arguments, const UpdateTime& time,
                    const Optimizer::Submit& submit) {
  const Optimizer::Submit run = submit ? submit : run_whole;
  if (optimizer.scope() != OptimizerScope::matrix) return optimizer.update(arguments, time, run);
  std::vector<Pack> directions(static_cast<std::size_t>(arguments.packs));
  arguments.direction = directions.data()->values;
  optimizer.directions(arguments, time, run);
  for (std::int32_t s = 0; s < arguments.segment_count; ++s) {
    const UpdateSegment& segment = arguments.segments[s];
    orthogonalise_on_host(arguments.direction + segment.begin * kUpdatePack, arguments.squares + s,
                          {segment.rows, segment.columns}, optimizer.newton_schulz());
  }
  optimizer.update(arguments, time, run);
}

}  // namespace millrace::testkit
