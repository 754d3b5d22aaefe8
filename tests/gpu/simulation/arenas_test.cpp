// Lifetimes within an arena: the logic alone, and on a machine.
#include "simulation/arenas.h"

#include <algorithm>
#include <cmath>

#include "millrace/error.h"
#include "simulation/simulation_fixture.h"

namespace millrace::cuda {
namespace {

ArenaDeclaration arena_of(std::vector<ArenaTensor> tensors) { return {nullptr, "arena", 0, std::move(tensors)}; }

TEST(ArenaLogic, FindsTheTensorThatIsAliveAndHoldsAll) {
  const ArenaDeclaration arena = arena_of({{0, 64, 0, 2, "early"}, {0, 32, 3, 5, "late"}, {64, 64, 0, 5, "beside"}});
  EXPECT_EQ(tensor_at(arena, 1, 0, 64), 0);
  EXPECT_EQ(tensor_at(arena, 3, 0, 32), 1);
  EXPECT_EQ(tensor_at(arena, 3, 0, 33), kNoTensor);
  EXPECT_EQ(tensor_at(arena, 0, 32, 96), kNoTensor) << "across two tensors";
  EXPECT_EQ(tensor_at(arena, 6, 64, 65), kNoTensor);
  EXPECT_EQ(tensors_near(arena, 60, 70), "'early' (0..64, alive from 0 to 2), 'beside' (64..128, alive from 0 to 5)");
  EXPECT_EQ(tensors_near(arena, 128, 130), "no tensor");
}

TEST(ArenaLogic, TensorsCollideInPlaceAndTime) {
  using Pairs = std::vector<std::pair<int, int>>;
  EXPECT_EQ(collisions(arena_of({{0, 64, 0, 2, "a"}, {0, 64, 3, 4, "b"}, {64, 64, 0, 4, "c"}})), Pairs());
  EXPECT_EQ(collisions(arena_of({{0, 64, 0, 2, "a"}, {32, 64, 2, 4, "b"}})), (Pairs{{0, 1}}));
  EXPECT_EQ(collisions(arena_of({{32, 8, 0, 2, "a"}, {0, 256, 0, 0, "b"}, {100, 1, 0, 9, "c"}, {64, 0, 0, 9, "d"}})),
            (Pairs{{1, 0}, {1, 2}}));
}

TEST(ArenaLogic, APassBeginsWhenTheFirstQueueGoesBack) {
  Arenas arenas;
  const auto plan = std::make_shared<const ArenaDeclaration>(
      arena_of({{0, 8, 0, 9, "input"}, {8, 8, 1, 2, "early"}, {16, 8, 5, 9, "late"}, {24, 8, -1, 99, "always"}}));
  arenas.declare(plan);
  const auto write_all = [&] {
    for (int i = 0; i < 4; ++i) arenas.set_written(plan, i);
  };
  const auto written = [&] {
    std::string text;
    for (int i = 0; i < 4; ++i) text += arenas.written(plan, i) ? 'w' : '-';
    return text;
  };
  EXPECT_EQ(written(), "----");
  arenas.set_time(plan, 1, 0);
  arenas.set_time(plan, 2, 4);
  arenas.set_time(plan, 1, 9);
  write_all();
  arenas.set_time(plan, 1, 1);
  EXPECT_EQ(written(), "w--w") << "what began before and has not ended goes on";
  write_all();
  arenas.set_time(plan, 2, 0);
  EXPECT_EQ(written(), "wwww") << "the second queue follows into the same pass";
  arenas.set_time(plan, 2, 9);
  arenas.set_time(plan, 2, 0);
  EXPECT_EQ(written(), "---w");
  arenas.restore(plan);
  EXPECT_EQ(written(), "---w") << "it is in force";
  arenas.declare(std::make_shared<const ArenaDeclaration>(arena_of({})));
  arenas.restore(plan);
  EXPECT_EQ(written(), "----");
}

class Lifetimes : public SimulationTest {
 protected:
  // x alive at 0 and 1, y at 1 and 2, z where x was at 2 and 3.
  void declare() {
    arena = machine->allocate(256, "activations");
    const auto bytes = std::size_t{32};
    machine->declare_arena(arena, {{0, bytes, 0, 1, "x"}, {bytes, bytes, 1, 2, "y"}, {0, bytes, 2, 3, "z"}});
    x = z = reinterpret_cast<float*>(arena);
    y = x + 8;
  }
  void at(int time) { machine->set_time(*a, arena, time); }
  void step() {
    at(0);
    a->zero(x, 32);
    at(1);
    a->run(doubling(x, y));
    at(2);
    a->run(doubling(y, z));
    at(3);
    a->run(doubling(z, z));
  }
  std::byte* arena = nullptr;
  float *x = nullptr, *y = nullptr, *z = nullptr;
};

TEST_F(Lifetimes, AStepThatKeepsThemIsClean) {
  declare();
  for (int i = 0; i < 5; ++i) step();
  machine->finish();
  expect_clean();
}

TEST_F(Lifetimes, ReportsUseAfterDeath) {
  declare();
  step();
  a->copy(y, y, 32);
  ASSERT_EQ(kinds(), std::vector<std::string>(2, "wrong lifetime"));
  EXPECT_EQ(
      texts()[0],
      "wrong lifetime: a.copy (work 4): reads bytes 32..64 of 'activations' at time 3, where there is 'y' (32..64, alive from "
      "1 to 2)");
}

TEST_F(Lifetimes, ReportsUseBeforeBirthAndOutside) {
  declare();
  at(0);
  a->zero(y, 32);
  a->zero(arena + 128, 8);
  a->zero(arena, 33);
  expect_only("wrong lifetime", 3);
}

TEST_F(Lifetimes, WorkInAnArenaNeedsATime) {
  declare();
  a->zero(x, 32);
  expect_only("wrong lifetime");
  EXPECT_NE(texts()[0].find("at no time that was set"), std::string::npos);
  EXPECT_THROW(machine->set_time(*a, machine->allocate(8, "no arena"), 1), Error);
}

TEST_F(Lifetimes, ReportsReadsOfWhatNobodyWrote) {
  declare();
  at(1);
  a->run(doubling(x, y));
  expect_only("read before written");
  EXPECT_EQ(texts()[0], "read before written: a.scale (work 1): 'x' (0..32, alive from 0 to 1) of 'activations'");
}

TEST_F(Lifetimes, WhatALastPassLeftIsNotWritten) {
  declare();
  step();
  at(1);
  a->run(doubling(x, y));
  expect_only("read before written");
}

TEST_F(Lifetimes, TheFirstToWriteATensorFindsNothingOfWhatLayThere) {
  declare();
  step();
  at(0);
  a->zero(x, 16);
  machine->finish();
  EXPECT_EQ(x[3], 0);
  EXPECT_TRUE(std::isnan(x[4]));
  a->zero(x + 4, 16);
  machine->finish();
  EXPECT_EQ(x[3], 0);
  EXPECT_EQ(x[4], 0);
  expect_clean();
}

TEST_F(Lifetimes, AFirstWriteClaimsTheWholeTensor) {
  declare();
  machine->set_time(*b, arena, 0);
  at(0);
  a->zero(x, 8);
  b->zero(x + 4, 8);
  expect_only("missing wait");
}

TEST_F(Lifetimes, ReportsCollisionsWhenDeclared) {
  std::byte* memory = machine->allocate(256, "arena");
  machine->declare_arena(memory, {{0, 64, 0, 2, "a"}, {32, 64, 2, 3, "b"}});
  expect_only("wrong lifetime");
  EXPECT_EQ(
      texts()[0],
      "wrong lifetime: declare_arena (work 0): 'a' (0..64, alive from 0 to 2) and 'b' (32..96, alive from 2 to 3) of 'arena' "
      "share bytes while both are alive");
  machine->declare_arena(memory, {{0, 257, 0, 2, "a"}});
  EXPECT_EQ(kinds()[1], "illegal address");
}

TEST_F(Lifetimes, PlantedFaultsAreFound) {
  for (const SimulationOptions& options :
       {SimulationOptions{.end_lifetime_early = 1}, SimulationOptions{.end_lifetime_early = 2},
        SimulationOptions{.end_lifetime_early = 3}, SimulationOptions{.begin_lifetime_late = 1},
        SimulationOptions{.begin_lifetime_late = 2}, SimulationOptions{.begin_lifetime_late = 3},
        SimulationOptions{.share_place = 2}, SimulationOptions{.share_place = 3}}) {
    start(options);
    declare();
    step();
    machine->finish();
    const std::vector<std::string> found = kinds();
    EXPECT_GE(std::count(found.begin(), found.end(), "wrong lifetime"), 1)
        << options.end_lifetime_early << options.begin_lifetime_late << options.share_place;
    EXPECT_EQ(simulation->count(Count::tensors), 3U);
  }
}

}  // namespace
}  // namespace millrace::cuda
