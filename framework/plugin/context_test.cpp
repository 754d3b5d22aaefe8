// A stage's context has exactly the data available at its position.
#include <gtest/gtest.h>

#include "millrace/error.h"
#include "millrace/plugin.h"

namespace millrace {
namespace {

// Data that a context lacks cannot be read too early: such a stage does not compile (tests/author_headers).
template <class Context>
constexpr bool kTellsData = requires(const Context& context) {
  context.image;
};
template <class Context>
constexpr bool kTellsSteps = requires(const Context& context) {
  context.replicas;
};
static_assert(!kTellsData<StageSite> && !kTellsSteps<StageSite>);
static_assert(kTellsData<DataContext> && !kTellsSteps<DataContext>);
static_assert(kTellsData<StepContext> && kTellsSteps<StepContext>);

template <class Context>
class Takes : public Stage {
 public:
  struct Params {};
  static void describe(StageDescription<Params>& d) { d.name("takes").text("Does nothing."); }
  Takes(const Params&, const Context& context) : name(context.name) {}
  void process(int, Packet, Output&) override {}
  const std::string name;
};

template <class Context>
std::string refusal(AnyContext given) {
  Diagnostics errors;
  try {
    StageTypeAccess::make<Takes<Context>>().create(Value(), given, errors);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    return error.message();
  }
  return "";
}

TEST(Context, IsMadeWhereTheStageStandsOrTheStageIsRefused) {
  const char* const data = "this stage needs to know the samples that arrive: put it after a source";
  const char* const steps = "this stage needs to know replicas and steps: put it after 'batch' in flow";
  const StepContext step;
  const DataContext& behind_source = step;
  const StageSite& site = step;
  EXPECT_EQ(refusal<StageSite>(site), "");
  EXPECT_EQ(refusal<DataContext>(site), data);
  EXPECT_EQ(refusal<StepContext>(site), steps);
  EXPECT_EQ(refusal<StageSite>(behind_source), "");
  EXPECT_EQ(refusal<DataContext>(behind_source), "");
  EXPECT_EQ(refusal<StepContext>(behind_source), steps);
  EXPECT_EQ(refusal<StageSite>(step), "");
  EXPECT_EQ(refusal<DataContext>(step), "");
  EXPECT_EQ(refusal<StepContext>(step), "");
}

}  // namespace
}  // namespace millrace
