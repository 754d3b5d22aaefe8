// Convolutions and products against sums by definition, over channels without padding.
#include "simulation/library_loops.h"

#include <cmath>

#include "millrace/error.h"
#include "simulation/simulation_fixture.h"

namespace millrace::cuda::library_loops_test {
namespace {

using Index = std::int64_t;

class LibraryLoops : public SimulationTest {
 protected:
  static void put(std::byte* memory, DataType type, Index i, double value) {
    const auto single = static_cast<float>(value);
    if (type == DataType::f32) reinterpret_cast<float*>(memory)[i] = single;
    if (type == DataType::bf16) reinterpret_cast<Bf16*>(memory)[i] = from_float<Bf16>(single);
  }
  static double get(const std::byte* memory, DataType type, Index i) {
    return static_cast<double>(type == DataType::f32 ? reinterpret_cast<const float*>(memory)[i]
                                                     : to_float(reinterpret_cast<const Bf16*>(memory)[i]));
  }

  // Runs a plan over operands filled by `fill`.
  template <class Shape>
  void run(const Shape& shape) {
    const std::shared_ptr<const LibraryPlan> plan = machine->plan(shape, {});
    LibraryRun work;
    work.plan = plan.get();
    work.x = x;
    work.w = w;
    work.y = y;
    if (plan->workspace() > 0) work.workspace = machine->allocate(plan->workspace(), "workspace");
    a->run(work);
    machine->finish();
    expect_clean();
  }
  void allocate(const OperandBytes& bytes) {
    x = machine->allocate(bytes.x, "x");
    w = machine->allocate(bytes.w, "w");
    y = machine->allocate(bytes.y, "y");
  }
  std::byte *x = nullptr, *w = nullptr, *y = nullptr;
};

TEST_F(LibraryLoops, LogitsOfBf16MayBeFloat) {
  LinearShape shape{.type = DataType::bf16, .result = DataType::f32, .rows = 1, .in = 8, .out = 8};
  const OperandBytes bytes = operand_bytes(shape);
  EXPECT_EQ(bytes.x, 16U);
  EXPECT_EQ(bytes.w, 128U);
  EXPECT_EQ(bytes.y, 32U);
  allocate(bytes);
  for (Index i = 0; i < 3; ++i) {
    put(x, DataType::bf16, i, 1 + 1.0 / 128);
    put(w, DataType::bf16, i, 1 + 1.0 / 128);
  }
  run(shape);
  EXPECT_EQ(get(y, DataType::f32, 0), 3 * (1 + 1.0 / 128) * (1 + 1.0 / 128)) << "not rounded to bf16";
}

TEST_F(LibraryLoops, Tf32RoundsItsInputs) {
  LinearShape shape{.rows = 1, .in = 8, .out = 8, .tf32 = true};
  allocate(operand_bytes(shape));
  put(x, DataType::f32, 0, 1 + 1.0 / 4096);
  put(x, DataType::f32, 1, 1 + 1.0 / 1024);
  put(w, DataType::f32, 0, 1);
  put(w, DataType::f32, 8 + 1, 1);
  run(shape);
  EXPECT_EQ(get(y, DataType::f32, 0), 1);
  EXPECT_EQ(get(y, DataType::f32, 1), 1 + 1.0 / 1024);
}

TEST_F(LibraryLoops, RefuseWhatDoesNotFit) {
  const auto message = [this](const ConvolutionShape& shape) -> std::string {
    try {
      machine->plan(shape, {});
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      return error.message();
    }
    return "";
  };
  const ConvolutionShape good{.n = 1, .c = 8, .h = 4, .w = 4, .k = 8, .out_h = 3, .out_w = 4, .kernel_h = 2};
  EXPECT_EQ(message(good), "");
  ConvolutionShape bad = good;
  bad.out_h = 4;
  EXPECT_EQ(message(bad), "height: a convolution with this window has 3 outputs, not 4");
  bad = good;
  bad.groups = 3;
  EXPECT_EQ(message(bad), "8 and 8 channels cannot be cut into 3 groups");
  bad = good;
  bad.type = DataType::u8;
  EXPECT_EQ(message(bad), "no engine computes in u8");
}

TEST_F(LibraryLoops, WantAlignedOperandsAndTheirWorkspace) {
  const LinearShape shape{.rows = 1, .in = 8, .out = 8};
  const std::shared_ptr<const LibraryPlan> plan = machine->plan(shape, {});
  allocate(operand_bytes(shape));
  LibraryRun work;
  work.plan = plan.get();
  work.x = x, work.w = w, work.y = y;
  EXPECT_THROW(a->run(work), Error) << "no workspace";
  work.workspace = machine->allocate(plan->workspace(), "workspace");
  work.x = x + 4;
  EXPECT_THROW(a->run(work), Error) << "not aligned";
  work.x = x;
  a->run(work);
  b->run(work);  // shares the result and the workspace
  expect_only("missing wait", 2);
  EXPECT_TRUE(std::isnan(contents(static_cast<const float*>(work.workspace), 1)[0])) << "nothing of use is left in it";
}

}  // namespace
}  // namespace millrace::cuda::library_loops_test
