// Kernels are deliberately wrong here: this program's dnnl_primitive_execute() overrides oneDNN's for the whole backend, in
// checks and in training.
#include "primitive_checks.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstring>
#include <fstream>

#include "backend.h"
#include "cpu_fixture.h"
#include "primitives.h"
#include "testkit/files.h"
#include "testkit/operator_cases.h"

namespace millrace::cpu::test {
namespace {

using dnnl::memory;
using Type = memory::data_type;
using Fault = std::function<void(float* result, std::size_t bytes)>;

// The fault applied to results of implementations with this name and result.
struct Planted {
  int argument = 0;            // DNNL_ARG_DIFF_WEIGHTS
  std::string implementation;  // empty: any
  Fault fault;
  int executed = 0;          // primitives with this result
  std::string crashes = {};  // an implementation of the weight gradient, while it is created
};
Planted planted;

void apply(const_dnnl_primitive_t primitive, int count, const dnnl_exec_arg_t* arguments) {
  const_dnnl_primitive_desc_t desc = nullptr;
  const char* name = nullptr;
  dnnl_primitive_get_primitive_desc(primitive, &desc);
  dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, static_cast<void*>(&name));
  for (int i = 0; i < count; ++i) {
    if (arguments[i].arg != planted.argument) continue;
    ++planted.executed;
    if (!planted.fault || (!planted.implementation.empty() && planted.implementation != name)) continue;
    void* data = nullptr;
    dnnl_memory_get_data_handle(arguments[i].memory, &data);
    planted.fault(static_cast<float*>(data), dnnl::memory(arguments[i].memory, true).get_desc().get_size());
  }
}

}  // namespace
}  // namespace millrace::cpu::test

extern "C" dnnl_status_t dnnl_primitive_execute(const_dnnl_primitive_t primitive, dnnl_stream_t stream, int count,
                                                const dnnl_exec_arg_t* arguments) {
  using Execute = dnnl_status_t (*)(const_dnnl_primitive_t, dnnl_stream_t, int, const dnnl_exec_arg_t*);
  static const auto execute = reinterpret_cast<Execute>(dlsym(RTLD_NEXT, "dnnl_primitive_execute"));
  const dnnl_status_t status = execute(primitive, stream, count, arguments);
  if (status == dnnl_success) millrace::cpu::test::apply(primitive, count, arguments);
  return status;
}

extern "C" dnnl_status_t dnnl_primitive_create(dnnl_primitive_t* primitive, const_dnnl_primitive_desc_t desc) {
  using Create = dnnl_status_t (*)(dnnl_primitive_t*, const_dnnl_primitive_desc_t);
  static const auto create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "dnnl_primitive_create"));
  const char* name = nullptr;
  dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, static_cast<void*>(&name));
  dnnl_prop_kind_t kind = dnnl_prop_kind_undef;
  dnnl_primitive_desc_query(desc, dnnl_query_prop_kind, 0, &kind);
  if (name != nullptr && kind == dnnl_backward_weights && millrace::cpu::test::planted.crashes == name) std::raise(SIGSEGV);
  return create(primitive, desc);
}

namespace millrace::cpu::test {
namespace {

void spoil_a_block(float* result, std::size_t bytes) {
  const std::size_t block = 16, at = bytes / sizeof(float) / block / 2 * block;
  for (std::size_t i = at; i < at + block; ++i) result[i] += 1e33F;
}

void write_behind(float* result, std::size_t bytes) { std::memset(reinterpret_cast<std::byte*>(result) + bytes, 0, 64); }
void write_far_behind(float* result, std::size_t) { result[std::size_t{3} << 20] = 1; }  // 12 MiB
void write_far_in_front(float* result, std::size_t) { *(result - (std::ptrdiff_t{2} << 20)) = 1; }

class PrimitiveChecksTest : public testing::Test {
 protected:
  ~PrimitiveChecksTest() override { planted = {}; }

  PrimitiveChecks checks(const std::filesystem::path& file = {}) {
    return {std::make_shared<EngineChoices>(file), [this](std::string_view text) { warnings_.emplace_back(text); }};
  }
  static std::shared_ptr<const Network> network() {
    return network_of(R"(
      input = { channels = 3, height = 12, width = 12 }
      layers = [{ name = "a", op = "conv", out = 20, kernel = 3, padding = 1 },
                { name = "b", op = "conv", out = 36, kernel = 3, stride = 2, bias = true }, { op = "relu" },
                { name = "fc", op = "linear", out = 5 }])");
  }
  // The gradient by the weights of b, and the implementation that computed it.
  struct Gradient {
    std::vector<float> values;
    std::string implementation;
  };
  static Gradient train(const PrimitiveChecks& checks) {
    const auto trained = network();
    constexpr std::int64_t kTrainedSamples = 6;
    Laboratory laboratory(trained, kTrainedSamples, true, {}, checks);
    const auto values = parameter_values(*trained, 1);
    for (std::size_t i = 0; i < values.size(); ++i) laboratory.write(static_cast<int>(i), values[i]);
    laboratory.set_input(noise(kTrainedSamples * 3 * 12 * 12, 2));
    laboratory.forward();
    laboratory.loss({0, 1, 2, 3, 4, 0});
    laboratory.backward();
    const std::string detail = laboratory.executable().layer_times()[1].detail;
    return {laboratory.read(kGradient, trained->layers[1].parameters[0]), detail.substr(detail.rfind("| ") + 2)};
  }

  std::vector<std::string> warnings_;
};

TEST_F(PrimitiveChecksTest, PassOverAWrongBlockAndAWriteOutside) {
  const Gradient right = train({});
  for (const Fault& fault : {Fault(spoil_a_block), Fault(write_behind), Fault(write_far_behind), Fault(write_far_in_front)}) {
    warnings_.clear();
    planted = {DNNL_ARG_DIFF_WEIGHTS, right.implementation, fault};
    const Gradient other = train(checks());
    EXPECT_NE(other.implementation, right.implementation);
    EXPECT_LT(relative_difference(other.values, right.values), 1e-6);
    ASSERT_FALSE(warnings_.empty());
    for (const std::string& warning : warnings_) {
      EXPECT_NE(warning.find(right.implementation), std::string::npos) << warning;
      EXPECT_NE(warning.find("gradient of the weights of a "), std::string::npos) << warning;
    }
  }
  planted.fault = spoil_a_block;  // training does not survive it
  EXPECT_GT(relative_difference(train({}).values, right.values), 1);
}

TEST_F(PrimitiveChecksTest, RememberVerdictsAndCheckDamagedOnesAgain) {
  const testkit::TestFolder folder;
  const auto file = folder.path() / "verdicts";
  const Gradient right = train({});
  planted = {DNNL_ARG_DIFF_WEIGHTS, right.implementation, spoil_a_block};
  train(checks(file));
  const int first = std::exchange(planted.executed, 0);
  const auto warned = std::exchange(warnings_, {});

  EXPECT_NE(train(checks(file)).implementation, right.implementation);
  const int training = std::exchange(planted.executed, 0);
  EXPECT_LT(training, first);
  EXPECT_EQ(warnings_, warned);  // each run names the implementations that it skips

  std::ifstream in(file);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  for (std::size_t i = 7; i < text.size(); i += 50) text[i] = '#';
  std::ofstream(file) << text;
  EXPECT_NE(train(checks(file)).implementation, right.implementation);
  EXPECT_EQ(planted.executed, first);
}

TEST_F(PrimitiveChecksTest, SayThatNothingIsRight) {
  planted = {DNNL_ARG_DIFF_WEIGHTS, "", spoil_a_block};
  const Error error = testkit::error_of([&] { train(checks()); });
  EXPECT_NE(std::string(error.what()).find("no implementation is left that computes this rightly"), std::string::npos)
      << error.what();
  EXPECT_FALSE(warnings_.empty());
}

// Like oneDNN's AVX-512 kernels for a local response normalisation of one channel.
TEST_F(PrimitiveChecksTest, PassOverAKernelThatCrashesAsItIsMade) {
  const Gradient right = train({});
  planted.crashes = right.implementation;
  const Gradient other = train(checks());
  EXPECT_NE(other.implementation, right.implementation);
  EXPECT_LT(relative_difference(other.values, right.values), 1e-5);
  ASSERT_FALSE(warnings_.empty());
  EXPECT_NE(warnings_.front().find(": it crashes with signal 11 (Segmentation fault) when created"), std::string::npos)
      << warnings_.front();
  try {
    train({});  // no check
    FAIL() << "it trains";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::device);
    EXPECT_NE(std::string(error.what()).find("oneDNN crashes with signal 11 (Segmentation fault) while creating its kernel"),
              std::string::npos)
        << error.what();
  }
}

TEST_F(PrimitiveChecksTest, RefuseCopiesBetweenLayoutsThatAreWrong) {
  const memory::dims extents = {40, 20, 6, 6};
  const memory::desc one(extents, Type::f32, memory::format_tag::nchw), other(extents, Type::f32, memory::format_tag::nChw16c);
  checks().require_right_copies(one, other);
  for (const Fault& fault : {Fault(spoil_a_block), Fault(write_behind)}) {
    planted = {DNNL_ARG_TO, "", fault};
    const Error error = testkit::error_of([&] { checks().require_right_copies(one, other); });
    EXPECT_EQ(error.kind(), ErrorKind::device);
    EXPECT_NE(error.message().find(" is wrong on this processor: copy of 40x20x6x6 from f32,"), std::string::npos)
        << error.what();
  }
}

// No false alarms, for every kind of layer and for matrix products.
TEST_F(PrimitiveChecksTest, FindTodaysKernelsRight) {
  const PrimitiveChecks all = checks();
  const bool bf16 = CpuBackend().devices().front().bf16;
  for (const testkit::OperatorCase& tested : testkit::operator_cases()) {
    const auto network = network_of(testkit::network_text(tested));
    for (const Precision precision : {Precision::fp32, Precision::bf16}) {
      CompileOptions options;
      options.precision = precision;
      if (precision == Precision::fp32 || bf16) const Laboratory laboratory(network, 3, true, options, all);
    }
  }
  const dnnl::engine engine = processor();
  for (const Type type : {Type::f32, Type::bf16}) {
    for (const memory::dims& right : {memory::dims{40, 1}, memory::dims{1, 72}}) {  // strides: as it is, and transposed
      if (type == Type::bf16 && !bf16) continue;
      WindowSum product{.layer = WindowSum::Layer::product};
      product.source = {{64, 72}, type, memory::dims{72, 1}};
      product.weights = {{72, 40}, type, right};
      product.destination = {{64, 40}, type, memory::dims{40, 1}};
      EXPECT_TRUE(all.is_right(product, all.describe(engine, product)));
    }
  }
  EXPECT_EQ(warnings_, std::vector<std::string>());
}

}  // namespace
}  // namespace millrace::cpu::test
