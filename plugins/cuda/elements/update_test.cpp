#include "update.h"

#include "elements_test.h"

namespace millrace::cuda {
namespace {

// Three parameters of 1, 4 and 2 packs.
struct UpdateFixture {
  UpdateFixture() {
    for (TestMap<float>* map : {&value, &velocity, &gradient}) map->fill(seed++);
  }
  const UpdateSegment& segment(std::int64_t pack) const { return segments[pack < 1 ? 0 : pack < 5 ? 1 : 2]; }
  std::vector<std::span<std::byte>> memory() {
    return {value.bytes(), velocity.bytes(), gradient.bytes(), bf16.bytes(), bytes_of(segments)};
  }

  unsigned seed = 1;
  std::vector<UpdateSegment> segments = {{0, 1, 0.01F}, {1, 2, 0}, {5, 0.5F, 0.1F}};
  TestMap<float> value{7, 8}, velocity{7, 8}, gradient{7, 8};
  TestMap<Bf16> bf16{7, 8};
};

TEST(SgdUpdate, FollowsTheRule) {
  for (const bool nesterov : {false, true}) {
    for (const bool has_velocity : {false, true}) {
      for (const bool has_copy : {false, true}) {
        UpdateFixture f;
        const UpdateFixture before = f;
        const double momentum = has_velocity ? 0.875 : 0;
        SgdUpdate element;
        element.value = f.value.data();
        element.velocity = has_velocity ? f.velocity.data() : nullptr;
        element.gradient = f.gradient.data();
        element.bf16 = has_copy ? f.bf16.data() : nullptr;
        element.segments = f.segments.data();
        element.segment_count = 3;
        element.packs = 7;
        element.learning_rate = 0.25F;
        element.momentum = static_cast<float>(momentum);
        element.nesterov = nesterov;
        expect_names_its_memory(element, f.memory());
        const auto slope = [&](auto p, auto c) {
          return before.gradient.at(p, c) + static_cast<double>(f.segment(p).decay) * before.value.at(p, c);
        };
        const auto speed = [&](auto p, auto c) { return momentum * before.velocity.at(p, c) + slope(p, c); };
        f.value.expect_near([&](auto p, auto c) {
          const double step = nesterov ? slope(p, c) + momentum * speed(p, c) : speed(p, c);
          return before.value.at(p, c) - static_cast<double>(f.segment(p).rate_factor) * 0.25 * step;
        });
        if (has_velocity) f.velocity.expect_near(speed);
        if (has_copy) f.bf16.expect_near([&](auto p, auto c) { return f.value.at(p, c); });
      }
    }
  }
}

TEST(SegmentOf, FindsTheOneThatHoldsThePack) {
  for (std::int32_t count = 1; count < 20; ++count) {
    std::vector<UpdateSegment> segments;
    for (std::int32_t s = 0; s < count; ++s) segments.push_back({std::int64_t{s} * s, static_cast<float>(s), 0});
    for (std::int64_t pack = 0; pack < 420; ++pack) {
      const auto expected = std::min<std::int64_t>(count - 1, static_cast<std::int64_t>(std::sqrt(static_cast<double>(pack))));
      ASSERT_EQ(segment_of(segments.data(), count, pack).rate_factor, static_cast<float>(expected));
    }
  }
}

TEST(BlendSlow, MovesBothToTheBlend) {
  UpdateFixture f;
  const UpdateFixture before = f;
  expect_names_its_memory(BlendSlow{f.value.data(), f.velocity.data(), f.bf16.data(), 7, 0.75F}, f.memory());
  const auto expected = [&](auto p, auto c) { return 0.75 * before.velocity.at(p, c) + 0.25 * before.value.at(p, c); };
  f.value.expect_near(expected);
  f.velocity.expect_near(expected);
  f.bf16.expect_near(expected);
}

}  // namespace
}  // namespace millrace::cuda
