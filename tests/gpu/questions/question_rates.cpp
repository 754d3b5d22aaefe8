// The two ceilings: how fast the device multiplies matrices, and how fast it copies; and its clocks meanwhile.
#include <algorithm>

#include "cublaslt/linear.h"
#include "device.h"
#include "kernels.h"
#include "nvml_readings.h"
#include "questions.h"

namespace millrace::gpu {
namespace {

constexpr std::int64_t kExtent = 8192;
constexpr std::size_t kMostAlgorithms = 8;
constexpr int kTimes = 5;
constexpr int kTimesForClocks = 200;  // about half a second

struct Product {
  DataType type, result;
  bool tf32;
  const char* name;
};
constexpr Product kProducts[] = {{DataType::bf16, DataType::bf16, false, "bf16"},
                                 {DataType::bf16, DataType::f32, false, "bf16 to float32"},
                                 {DataType::f32, DataType::f32, true, "tf32"},
                                 {DataType::f32, DataType::f32, false, "float32"}};

struct Matrices {
  Buffer x{bytes}, w{bytes}, y{bytes}, workspace{cuda::PlanOptions{}.workspace_limit};
  static constexpr std::size_t bytes = kExtent * kExtent * sizeof(float);
};

double teraflops(double milliseconds) { return rounded(2.0 * kExtent * kExtent * kExtent / milliseconds / 1e9); }

void ask_product(const std::shared_ptr<const cuda::CublasLtHandle>& handle, const Product& product, const Matrices& matrices,
                 cudaStream_t stream, Findings& findings) {
  cuda::LinearShape shape;
  shape.type = product.type, shape.result = product.result, shape.tf32 = product.tf32;
  shape.rows = shape.in = shape.out = kExtent;
  const Numbers numbers = product.type == DataType::bf16 ? Numbers::bf16 : Numbers::f32;
  check(fill(matrices.x.data(), numbers, kExtent * kExtent, 1, stream), "fill");
  check(fill(matrices.w.data(), numbers, kExtent * kExtent, 2, stream), "fill");
  cuda::LibraryRun run{.x = matrices.x.data(), .w = matrices.w.data(), .y = matrices.y.data()};
  run.workspace = matrices.workspace.data();
  Json& rows = findings.answer["products of 8192"][product.name] = Json::array();
  double best = 1e30;
  for (const auto& choice : cuda::offered_algorithms(*handle, shape, cuda::epilogue_of(shape), {}, kMostAlgorithms)) {
    if (findings.left() <= 0 && !rows.empty()) break;
    const cuda::LinearPlan plan(handle, shape, choice);
    findings.doing(fmt::format("{} by {}", product.name, plan.engine()));
    plan.run_algorithm(run, stream);
    const double milliseconds = best_milliseconds(stream, kTimes, [&] { plan.run_algorithm(run, stream); });
    rows.push_back({{"algorithm", plan.engine()}, {"workspace", choice.workspace}, {"tflops", teraflops(milliseconds)}});
    best = std::min(best, milliseconds);
  }
  findings.answer["tflops"][product.name] = teraflops(best);
}

// Clocks and power after half a second of products, while they go on.
void ask_clocks(const std::shared_ptr<const cuda::CublasLtHandle>& handle, const Matrices& matrices, cudaStream_t stream,
                Findings& findings) {
  cuda::LinearShape shape;
  shape.type = shape.result = DataType::bf16;
  shape.rows = shape.in = shape.out = kExtent;
  findings.doing("clocks under load");
  const cuda::LinearPlan plan(handle, shape, cuda::offered_algorithms(*handle, shape, cuda::epilogue_of(shape), {}, 1).at(0));
  cuda::LibraryRun run{.x = matrices.x.data(), .w = matrices.w.data(), .y = matrices.y.data()};
  run.workspace = matrices.workspace.data();
  const auto submit = [&] {
    for (int i = 0; i < kTimesForClocks; ++i) plan.run_algorithm(run, stream);
  };
  submit();
  const double milliseconds = device_milliseconds(stream, submit);
  submit();
  findings.answer["under_load"] = nvml_readings();
  findings.answer["under_load"]["tflops"] = teraflops(milliseconds / kTimesForClocks);
  finish(stream);
}

void ask_copy_rate(cudaStream_t stream, Findings& findings) {
  findings.doing("copy rate");
  constexpr std::size_t kBytes = std::size_t{2} << 30;
  const Buffer from(kBytes), to(kBytes);
  const auto gigabytes = [&](double bytes, double milliseconds) { return rounded(bytes / milliseconds / 1e6); };
  findings.answer["gb_per_second"]["copy, read and write"] =
      gigabytes(2.0 * kBytes, best_milliseconds(stream, kTimes, [&] {
                  check(cudaMemcpyAsync(to.data(), from.data(), kBytes, cudaMemcpyDeviceToDevice, stream), "cudaMemcpyAsync");
                }));
  findings.answer["gb_per_second"]["memset"] = gigabytes(
      1.0 * kBytes,
      best_milliseconds(stream, kTimes, [&] { check(cudaMemsetAsync(to.data(), 0, kBytes, stream), "cudaMemsetAsync"); }));
}

}  // namespace

void ask_rates(const Setting&, Findings& findings) {
  check(cudaSetDevice(kDevice), "cudaSetDevice");
  const Stream stream = make_stream();
  ask_copy_rate(stream.get(), findings);
  findings.doing("opening cuBLASLt");
  const auto handle = std::make_shared<const cuda::CublasLtHandle>(std::make_shared<const cuda::CublasLtApi>());
  const Matrices matrices;
  for (const Product& product : kProducts) ask_product(handle, product, matrices, stream.get(), findings);
  check(fill(matrices.x.data(), Numbers::bf16, kExtent * kExtent, 1, stream.get()), "fill");
  check(fill(matrices.w.data(), Numbers::bf16, kExtent * kExtent, 2, stream.get()), "fill");
  ask_clocks(handle, matrices, stream.get(), findings);
}

}  // namespace millrace::gpu
