#include "update.h"

#include "kernels_fixture.h"

namespace millrace::cuda {
namespace {

TEST(Blend, MovesTheCopyAndWritesItBackWhereItIsAskedTo) {
  for (const bool write_back : {false, true}) {
    TestMap<float> value(7, 8), copy(7, 8);
    TestMap<Bf16> bf16(7, 8);
    value.fill(1), copy.fill(2), bf16.fill(3);
    const TestMap<float> old_value = value, old_copy = copy;
    const TestMap<Bf16> old_bf16 = bf16;
    expect_names_its_memory(Blend{value.data(), copy.data(), bf16.data(), 7, 0.75F, write_back},
                            {value.bytes(), copy.bytes(), bf16.bytes()});
    const auto blended = [&](auto p, auto c) { return 0.75 * old_copy.at(p, c) + 0.25 * old_value.at(p, c); };
    copy.expect_near(blended);
    value.expect_near([&](auto p, auto c) { return write_back ? blended(p, c) : old_value.at(p, c); });
    bf16.expect_near([&](auto p, auto c) { return write_back ? blended(p, c) : old_bf16.at(p, c); });
  }
}

}  // namespace
}  // namespace millrace::cuda
