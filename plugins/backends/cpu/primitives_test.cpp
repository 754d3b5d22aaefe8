// The differences of oneDNN's versions: layouts, changes of their types, and the parameters that depend on it.
#include "primitives.h"

#include <gtest/gtest.h>

#include <numeric>

#include "cpu_fixture.h"

namespace millrace::cpu::test {
namespace {

using dnnl::memory;
using Type = memory::data_type;

const memory::dims kDims = {48, 20, 3, 3};  // (out, in, height, width); 20 is not a multiple of a block

// Whole numbers exact in bf16, laid out by `desc`: the upper 16 bits of each element, which are all of bf16.
std::vector<std::uint16_t> laid_out(const memory::desc& desc) {
  const dnnl::engine engine = processor();
  dnnl::stream stream(engine);
  std::vector<float> values(48 * 20 * 3 * 3);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 239 + 1);
  memory from({kDims, Type::f32, memory::format_tag::oihw}, engine, values.data());
  std::vector<std::uint16_t> halves(desc.get_size() / sizeof(std::uint16_t));
  memory to(desc, engine, halves.data());
  dnnl::reorder(from, to).execute(stream, from, to);
  stream.wait();
  if (type_of(desc) == Type::bf16) return halves;
  std::vector<std::uint16_t> upper(halves.size() / 2);
  for (std::size_t i = 0; i < upper.size(); ++i) upper[i] = halves[2 * i + 1];
  return upper;
}

// No layout has this name: rows are 5 apart.
memory::desc nameless(Type type) { return {kDims, type, memory::dims{20 * 3 * 5, 3 * 5, 5, 1}}; }

TEST(Primitives, ChangeATypeAndLeaveEveryElementInItsPlace) {
  for (const auto layout : {memory::format_tag::oihw, memory::format_tag::hwio, memory::format_tag::OIhw16i16o,
                            memory::format_tag::OIhw8i16o2i, memory::format_tag::OIhw16i16o2i}) {
    const memory::desc desc(kDims, Type::bf16, layout);
    const auto twin = in_type(desc, Type::f32);
    ASSERT_TRUE(twin.has_value());
    EXPECT_EQ(type_of(*twin), Type::f32);
    EXPECT_EQ(dims_of(*twin), kDims);
    EXPECT_EQ(laid_out(*twin), laid_out(desc));
    EXPECT_EQ(in_type(*twin, Type::bf16), desc);
  }
}

TEST(Primitives, TellStridesAndPadding) {
  const Strides plain = strides_of({kDims, Type::f32, memory::format_tag::oihw});
  EXPECT_FALSE(plain.blocked);
  EXPECT_EQ(plain.strides, (memory::dims{180, 9, 3, 1}));
  const Strides blocked = strides_of({kDims, Type::f32, memory::format_tag::nChw16c});
  EXPECT_TRUE(blocked.blocked);
  EXPECT_EQ(blocked.padded, (memory::dims{48, 32, 3, 3}));
  EXPECT_EQ(blocked.strides, (memory::dims{2 * 9 * 16, 9 * 16, 3 * 16, 16}));
}

// Weights whose layout has no float32 equivalent are kept in the network's order.
TEST(Primitives, KeepWeightsOfANamelessLayoutInAnOrderThatBothTypesHave) {
  const auto network = network_of(R"(
    input = { channels = 20, height = 8, width = 8 }
    layers = [ { name = "c", op = "conv", out = 48, kernel = 3, padding = 1 }, { name = "fc", op = "linear", out = 4 } ])");
  CompileOptions options;
  options.precision = Precision::bf16;
  const int weights = network->layers[0].parameters[0];
  ParameterStore store(*network, options);
  store.layouts().set(weights, nameless(Type::bf16), {kDims, Type::f32, memory::format_tag::oihw});
  store.finish_planning();
  store.start();

  EXPECT_EQ(type_of(store.layouts().computed(weights)), Type::bf16);
  const Strides values = strides_of(store.layouts().held(weights)), computed = strides_of(store.layouts().computed(weights));
  EXPECT_EQ(values.strides, computed.strides);
  std::vector<float> written(48 * 20 * 3 * 3);
  std::iota(written.begin(), written.end(), 1.0F);
  const dnnl::engine engine = processor();
  store.write(kValue, weights, written, engine);
  EXPECT_EQ(store.read(kValue, weights, engine), written);
}

}  // namespace
}  // namespace millrace::cpu::test
