// Learning rate schedules compared with PyTorch's schedulers over 100 steps: make_schedules.py.
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "millrace/util/schedule.h"

namespace millrace {
namespace {

Value value_of(const nlohmann::json& json) {
  if (json.is_boolean()) return Value(json.get<bool>());
  if (json.is_string()) return Value(json.get<std::string>());
  if (json.is_number_integer()) return Value(json.get<std::int64_t>());
  if (json.is_number()) return Value(json.get<double>());
  Array list;
  for (const nlohmann::json& member : json) list.push_back(value_of(member));
  return Value(std::move(list));
}

ScheduleParams params_of(const nlohmann::json& json) {
  Value table;
  for (const auto& [key, member] : json.items()) {
    table.set(key, value_of(member));
  }
  ParamSet<ScheduleParams> set;
  ScheduleParams::describe(set);
  Diagnostics errors;
  const ScheduleParams params = read_struct(set, table, "learning_rate", errors);
  EXPECT_TRUE(errors.empty()) << errors.text();
  return params;
}

TEST(Schedule, AgreesWithPyTorchOverAHundredSteps) {
  const nlohmann::json file = nlohmann::json::parse(std::ifstream(MILLRACE_SOURCE_DIR "/tests/reference/schedules.json"));
  ASSERT_GE(file["cases"].size(), 12U);
  for (const nlohmann::json& entry : file["cases"]) {
    SCOPED_TRACE(entry["scheduler"].get<std::string>());
    const Schedule schedule(params_of(entry["learning_rate"]), file["steps_per_epoch"], file["steps"]);
    const auto rates = entry["rates"].get<std::vector<double>>();
    ASSERT_EQ(rates.size(), file["steps"].get<std::size_t>());
    for (std::size_t step = 0; step < rates.size(); ++step)
      EXPECT_NEAR(schedule.rate(step), rates[step], 1e-6) << "step " << step;
    const auto momenta = entry.value("momenta", std::vector<double>());
    if (momenta.empty()) {
      EXPECT_EQ(schedule.momentum(0), std::nullopt);
    }
    for (std::size_t step = 0; step < momenta.size(); ++step)
      EXPECT_NEAR(schedule.momentum(step).value(), momenta[step], 1e-9) << "step " << step;
  }
}

}  // namespace
}  // namespace millrace
