#include <gtest/gtest.h>

#include "loss_fixture.h"
#include "testkit/files.h"

namespace millrace::losses {
namespace {

Value parameters(double smooth, const char* over) {
  return testkit::table({{"smooth", Value(smooth)}, {"over", Value(std::string(over))}});
}

TEST(Dice, IsNothingWhereAllIsFound) {
  LossTrial trial(testkit::make_loss("dice"), {3, 1, 4}, 1);
  trial.targets = {0, 1, 1, -1};  // the third class is neither present nor predicted
  trial.outputs = {200, 0, 0, 0, 200, 0, 0, 200, 0, 5, 6, 7};
  const std::vector<double> sums = trial.run();
  EXPECT_NEAR(sums[kLoss], 0, 1e-6);
  for (const float gradient : trial.gradient) EXPECT_NEAR(gradient, 0, 1e-6);
}

TEST(Dice, OfAnImageWithoutAPixelThatCountsIsNothing) {
  for (const char* over : {"all", "present"}) {
    LossTrial trial(testkit::make_loss("dice", parameters(1, over)), {3, 2, 2}, 1);
    trial.targets = {-1, -1, -1, -1};
    EXPECT_EQ(trial.run()[kLoss], 0);
    for (const float gradient : trial.gradient) EXPECT_EQ(gradient, 0);
  }
}

TEST(Dice, HasTheFiguresOfPixels) {
  const auto dice = testkit::make_loss("dice"), cross_entropy = testkit::make_loss("pixel_cross_entropy");
  LossTrial trial(dice, {5, 20, 30}, 4), other(cross_entropy, {5, 20, 30}, 4);
  const std::vector<double> sums = trial.run(), expected = other.run();
  for (std::size_t f = 1; f < dice->info().figures.size(); ++f) {
    const LossFigure &mine = dice->info().figures[f], &theirs = cross_entropy->info().figures[f];
    EXPECT_EQ(mine.name, theirs.name);
    EXPECT_EQ(mine.finish(sums), theirs.finish(expected)) << mine.name;
  }
}

// Requests that a loss must not make.
class Wrong final : public Loss {
 public:
  enum class Mistake { unwritten, gradient_twice };
  struct Params {};
  static void describe(LossDescription<Params>& d) { d.name("wrong").target(LossTarget::classes).example("", {3, 2, 2}); }
  void compute(LossPass& pass) const override {
    pass.row(SumOfRow{}, {pass.output()}, {pass.figure(kLoss), pass.figure(kWeight)});
    if (mistake == Mistake::unwritten) pass.each(Same{}, pass.map(0), pass.d_output());
    if (mistake == Mistake::gradient_twice) {
      pass.each(Same{}, pass.output(), pass.d_output());
      pass.each(Same{}, pass.output(), pass.d_output());
    }
  }
  static Mistake mistake;

 private:
  struct SumOfRow {
    static constexpr int kReads = 1, kWrites = 2;
    template <class Row>
    MILLRACE_KERNEL void operator()(Row& row) const {
      row.place_out(0, row.sum([&](auto c) { return row.in(0, c); }));
      row.place_out(1, 1.0F);
    }
  };
  struct Same {
    MILLRACE_KERNEL float operator()(float x) const { return x; }
  };
};
Wrong::Mistake Wrong::mistake = Wrong::Mistake::unwritten;

TEST(LossPlan, RefusesTensorsInTheWrongOrder) {
  const LossType type = loss_type<Wrong>();
  Diagnostics errors;
  const std::shared_ptr<const Loss> loss = type.create(Value(Table{}), "wrong", errors);
  for (const auto mistake : {Wrong::Mistake::unwritten, Wrong::Mistake::gradient_twice}) {
    Wrong::mistake = mistake;
    const Error error = testkit::error_of(ErrorKind::usage, [&] { const LossPlan plan(loss, {3, 2, 2}); });
    const bool unwritten = mistake == Wrong::Mistake::unwritten;
    EXPECT_NE(error.message().find(unwritten ? "reads a tensor that no kernel before it writes" : "is written by one kernel"),
              std::string::npos)
        << error.message();
  }
}

}  // namespace
}  // namespace millrace::losses
