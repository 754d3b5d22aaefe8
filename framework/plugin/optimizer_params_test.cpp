// The keys of optimizers in a stage's table, and the messages for mistakes.
#include "plugin/optimizer_params.h"

#include <gtest/gtest.h>

#include "millrace/batch.h"
#include "millrace/error.h"
#include "millrace/optimizer.h"
#include "testkit/messages.h"
#include "toml/document.h"

namespace millrace {
namespace {

struct Kernel1 {
  static constexpr int kStates = 1;
  MILLRACE_KERNEL void operator()(const UpdateNumbers& n, float gradient, float& value, float (&)[1]) const {
    value -= n.rate * gradient;
  }
};

class First {
 public:
  struct Params {
    double momentum = 0;
    bool nesterov = false;
  };
  static void describe(OptimizerDescription<Params>& d) {
    d.name("first").text("An optimizer.");
    d.state("momentum", 0, [](const Params& params) { return params.momentum != 0; });
    d.params.add("momentum", &Params::momentum).range(0, 1).text("share");
    d.params.add("nesterov", &Params::nesterov).text("ahead");
  }
  explicit First(const Params& params) {
    if (params.nesterov && params.momentum == 0) fail(ErrorKind::usage, "nesterov = true needs a momentum above 0");
  }
  Kernel1 kernel(const UpdateTime&) const { return {}; }
};

class Second {
 public:
  struct Params {
    double beta1 = 0.9;
  };
  static void describe(OptimizerDescription<Params>& d) {
    d.name("second").text("Another.").state("momentum");
    d.params.add("beta1", &Params::beta1).range(0, 1).text("share");
  }
  explicit Second(const Params&) {}
  Kernel1 kernel(const UpdateTime&) const { return {}; }
};

class Update : public Stage {
 public:
  struct Part {
    double factor = 1;
    std::string optimizer = {};
    Value optimizer_table = {};
  };
  struct Params : OptimizerParams {
    Params() { optimizer = "first"; }
    double weight_decay = 0;
    std::vector<Part> parts;
  };
  static void describe(StageDescription<Params>& d) {
    d.name("update").text("Updates.").input("Anything");
    OptimizerParams::describe(d.params);
    d.params.add("weight_decay", &Params::weight_decay).range(0).text("of weights");
    const auto describe_part = [](ParamSet<Part>& part) {
      part.add("factor", &Part::factor).text("a factor");
      part.add("type", &Part::optimizer).text("another optimizer");
    };
    d.params.add_list("parts", &Params::parts, describe_part, &Part::optimizer_table).text("with optimizers of their own");
  }
  static void request(const Params& params, const StageSite& context, CompileRequest& request) {
    request.update.optimizers = {make_optimizer(params, context)};
    request.update.decay = {params.weight_decay};
    for (const Part& part : params.parts) {
      if (auto optimizer = make_optimizer(OptimizerParams{part.optimizer, part.optimizer_table}, context, "parts"))
        request.update.optimizers.push_back(optimizer);
    }
  }
  Update(const Params&, const StageSite&) {}
  void process(int, Packet, Output&) override {}
};

class OptimizerTable : public testing::Test {
 protected:
  OptimizerTable() {
    registry_.add_optimizer<First>();
    registry_.add_optimizer<Second>();
    registry_.add_stage<Update>();
  }
  const StageType& type() const { return *registry_.stages().find("update"); }
  static Value parsed(const std::string& text) {
    Diagnostics errors;
    std::optional<Value> table = parse_toml(text, "p.toml", errors);
    errors.throw_if_any();
    return *table;
  }
  std::string mistakes(const std::string& text) const {
    Diagnostics errors;
    const Value table = parsed(text);
    type().check(table, "[train.update]", errors);
    check_optimizer(type(), table, registry_, "[train.update]", errors);
    return errors.text();
  }
  CompileRequest request(const std::string& text) const {
    StepContext context;
    context.graph = "train";
    context.name = "update";
    context.registry = &registry_;
    CompileRequest request;
    type().request(parsed(text), context, request);
    return request;
  }
  Registry registry_;
};

TEST_F(OptimizerTable, HoldsTheStagesKeysAndTheOptimizers) {
  EXPECT_TRUE(type().takes_optimizer);
  EXPECT_EQ(mistakes("momentum = 0.5\nweight_decay = 0.25"), "");
  EXPECT_EQ(mistakes("type = \"second\"\nbeta1 = 0.5"), "");
  const CompileRequest first = request("momentum = 0.5\nweight_decay = 0.25"), second = request("type = \"second\"");
  EXPECT_EQ(first.update.optimizers[0]->name(), "first");
  EXPECT_EQ(first.update.optimizers[0]->states().size(), 1U);
  EXPECT_EQ(first.update.decay, std::vector<double>{0.25});
  EXPECT_EQ(second.update.optimizers[0]->name(), "second");
  EXPECT_TRUE(request("").update.optimizers[0]->states().empty());
}

TEST_F(OptimizerTable, AKeyOfAnotherOptimizerIsAnsweredAsSuch) { EXPECT_MESSAGE(mistakes("weight_decay = 1\nbeta1 = 0.5")); }

TEST_F(OptimizerTable, AnUnknownKeyIsAnsweredWithTheNearest) {
  EXPECT_MESSAGE(mistakes("momentun = 0.5"));
  EXPECT_MESSAGE(mistakes("weight_decy = 0.5"));
}

TEST_F(OptimizerTable, AnUnknownOptimizerIsAnsweredWithTheNearest) {
  EXPECT_MESSAGE(mistakes("type = \"secund\""));
  EXPECT_MESSAGE(mistakes("type = \"muon\""));
}

TEST_F(OptimizerTable, ValuesAreCheckedWithTheirPlace) {
  EXPECT_MESSAGE(mistakes("momentum = 2"));
  EXPECT_MESSAGE(mistakes("momentum = \"much\""));
  EXPECT_MESSAGE(mistakes("type = 3"));
  EXPECT_MESSAGE(mistakes("nesterov = true"));
}

TEST_F(OptimizerTable, TablesOfAListMayNameOptimizersOfTheirOwn) {
  const std::string parts = "parts = [{ factor = 2 }, { type = \"second\", beta1 = 0.5 }, { type = \"first\", momentum = 0.5 }]";
  EXPECT_EQ(mistakes(parts), "");
  const CompileRequest made = request(parts);
  ASSERT_EQ(made.update.optimizers.size(), 3U);
  EXPECT_EQ(made.update.optimizers[1]->name(), "second");
  EXPECT_EQ(made.update.optimizers[2]->states().size(), 1U);
  EXPECT_TRUE(made.update.optimizers[0]->states().empty());
}

TEST_F(OptimizerTable, MistakesInSuchTablesHaveTheirPlace) {
  EXPECT_MESSAGE(mistakes("parts = [{ type = \"secund\" }]"));
  EXPECT_MESSAGE(mistakes("parts = [{ type = \"second\", momentum = 0.5 }]"));
  EXPECT_MESSAGE(mistakes("parts = [{ type = \"second\", beta1 = 2 }]"));
  EXPECT_MESSAGE(mistakes("parts = [{ momentum = 0.5 }]"));
  EXPECT_MESSAGE(mistakes("parts = [{ facto = 0.5 }]"));
  EXPECT_MESSAGE(mistakes("parts = 3"));
}

TEST_F(OptimizerTable, AStageIsNotMadeFromMistakes) {
  StepContext context;
  context.graph = "train";
  context.name = "update";
  context.registry = &registry_;
  Diagnostics errors;
  EXPECT_EQ(type().create(parsed("beta1 = 0.5"), context, errors), nullptr);
  EXPECT_MESSAGE(errors.text());
  Diagnostics none;
  EXPECT_NE(type().create(parsed("momentum = 0.5"), context, none), nullptr);
}

TEST_F(OptimizerTable, ARequestThrowsAllMistakes) { EXPECT_THROW(request("beta1 = 0.5\nmomentun = 1"), Error); }

TEST(OptimizerRegistry, HasOneOptimizerOfAName) {
  Registry registry;
  registry.add_optimizer<First>();
  EXPECT_THROW(registry.add_optimizer<First>(), Error);
  EXPECT_EQ(registry.optimizers().find("second"), nullptr);
}

}  // namespace
}  // namespace millrace
