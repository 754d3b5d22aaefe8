// Requirements of every stage: its description, its response to wrong tables, and that it can be made, stopped and resumed.
#include "testkit/conformance_stage.h"

#include <fmt/format.h>

#include <algorithm>
#include <latch>
#include <thread>

#include "millrace/error.h"
#include "plugin/optimizer_params.h"

namespace millrace::conformance {

namespace {

using Role = StageType::Role;

const char* in_words(Role role) {
  switch (role) {
    case Role::source: return "sources";
    case Role::sample_transform: return "stages that change one sample at a time";
    case Role::batcher: return "batchers";
    case Role::stage: break;
  }
  return "stages after 'batch'";
}

}  // namespace

Workable::Workable(const Registry& registry, const StageType& type, const StageExample* example)
    : type_(type), bench_(registry, type.role == Role::stage, example != nullptr ? example->image : kImage) {
  if (example == nullptr) {
    table_ = workable_table(type_, bench_.context(), why_);
    return;
  }
  folder_.emplace(example->files);
  Value table;
  why_ = read_example(*example, folder_->path(), table);
  if (why_.empty()) why_ = refusal(type_, table, bench_.context());
  if (why_.empty()) table_ = std::move(table);
}

void for_each_example(const Registry& registry, const std::string& name, std::initializer_list<Role> roles, ExampleCheck check,
                      Report& report) {
  const StageType& type = *registry.stages().find(name);
  if (roles.size() > 0 && std::find(roles.begin(), roles.end(), type.role) == roles.end()) {
    std::vector<const char*> asked;
    for (const Role role : roles) asked.push_back(in_words(role));
    return report.not_applicable(fmt::format("only {} are asked this", fmt::join(asked, " and ")));
  }
  if (type.examples.empty()) {
    const Workable guessed(registry, type, nullptr);
    if (guessed.why_not().empty()) return check(guessed, report);
    return report.not_applicable(
        fmt::format("no table that can be guessed is accepted, and describe() gives no example(): {}", guessed.why_not()));
  }
  std::string left_out;
  bool is_applicable = false;
  for (const StageExample& example : type.examples) {
    Report found;
    const Workable stage(registry, type, &example);
    if (stage.why_not().empty()) {
      try {
        check(stage, found);
      } catch (...) {
        found.add(fmt::format("it threw: {}", current_error().what()));
      }
    } else {
      found.add(fmt::format("it is refused: {}", stage.why_not()));
    }
    report.add_all(fmt::format("example '{}': ", example.table), found);
    if (found.verdict() == Verdict::not_applicable) left_out = found.text();
    is_applicable = is_applicable || found.verdict() != Verdict::not_applicable;
  }
  if (!is_applicable) report.not_applicable(left_out);
}

std::string_view Workable::input() const {
  return type_.inputs.empty() ? std::string_view() : std::string_view(type_.inputs.front().payload);
}

void on_threads(const std::function<void(unsigned)>& work, Report& report) {
  std::vector<std::thread> threads;
  std::vector<std::string> failures(kThreads);
  std::latch all_there(kThreads);  // on a busy machine the first thread could finish before the last one begins
  for (unsigned thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      all_there.arrive_and_wait();
      try {
        work(thread);
      } catch (...) {
        failures[thread] = current_error().what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& failure : failures) report.expect(failure.empty(), fmt::format("on one of its threads: {}", failure));
}

void Jitter::pause() { std::this_thread::sleep_for(std::chrono::microseconds(below(3) == 0 ? below(300) : 0)); }

namespace {

// Whether a message quotes the key, or an element of its list.
bool names(const std::string& message, const std::string& key) { return message.find(fmt::format("'{}", key)) != message.npos; }

// The stage's response to a table.
std::string answer(const Registry& registry, const StageType& type, const Value& table) {
  Diagnostics errors;
  const std::string owner = fmt::format("[test.{}]", type.name);
  type.check(table, owner, errors);
  if (type.takes_optimizer) check_optimizer(type, table, registry, owner, errors);
  return errors.text();
}

std::string answer(const Registry& registry, const StageType& type, const std::string& key, Value value) {
  Value table = required_of(type.params);
  table.set(key, std::move(value));
  return answer(registry, type, table);
}

void stage_description(const Registry& registry, const std::string& name, Report& report) {
  const StageType& type = *registry.stages().find(name);
  check_description(type.name, type.text, type.plugin, type.params, report);
  report.expect(!type.inputs.empty() || !type.outputs.empty(), "it has no port");
  for (const std::vector<Port>& ports : {type.inputs, type.outputs}) {
    for (const Port& port : ports) report.expect(!port.name.empty() && !port.payload.empty(), "a port has no name or no payload");
  }
}

void stage_defaults(const Registry& registry, const std::string& name, Report& report) {
  const StageType& type = *registry.stages().find(name);
  const auto check = [&](const Value& table) {
    Diagnostics errors;
    type.check(table, fmt::format("[test.{}]", name), errors);
    return errors.text();
  };
  check_defaults(type.params, type.defaults, check, report);
}

void unknown_key(const Registry& registry, const std::string& name, Report& report) {
  const StageType& type = *registry.stages().find(name);
  check_unknown_key(
      type.params, [&](const Value& table) { return answer(registry, type, table); }, report);
  const std::string said = answer(registry, type, "no_such_key_at_all", Value(true));
  report.expect(said.find(fmt::format("[test.{}]", name)) != said.npos, fmt::format("it does not name its table: {}", said));
}

void wrong_type(const Registry& registry, const std::string& name, Report& report) {
  const StageType& type = *registry.stages().find(name);
  for (const ParamInfo& param : type.params) {
    if (param.type == "any") continue;
    // No parameter accepts a date; a list of a list of a table comes closest to one here.
    const Value odd(Array{Value(Array{Value()}), Value(Array{Value()}), Value(Array{Value()})});
    const std::string said = answer(registry, type, param.name, odd);
    bool named = names(said, param.name);
    for (const ParamInfo& member : param.members) named = named || names(said, member.name);
    report.expect(named, fmt::format("'{}' of a wrong type is not refused by its name: {}", param.name, said));
  }
}

void wrong_choice(const Registry& registry, const std::string& name, Report& report) {
  const StageType& type = *registry.stages().find(name);
  for (const ParamInfo& param : type.params) {
    if (param.choices.empty()) continue;
    const Value wrong(std::string("no such choice"));
    const std::string said = answer(registry, type, param.name, param.type.starts_with("list") ? Value(Array{wrong}) : wrong);
    report.expect(names(said, param.name) && said.find(param.choices.front()) != said.npos,
                  fmt::format("a choice of '{}' that there is not is not refused with the choices: {}", param.name, said));
  }
}

void out_of_range(const Registry& registry, const std::string& name, Report& report) {
  const StageType& type = *registry.stages().find(name);
  for (const ParamInfo& param : type.params) {
    const bool integers = param.type.find("integer") != std::string::npos || param.type == "[height, width]";
    const auto is_refused = [&](double value) {
      const Value one = integers ? Value(static_cast<std::int64_t>(value)) : Value(value);
      return names(answer(registry, type, param.name, param.type.starts_with("list") ? Value(Array{one}) : one), param.name);
    };
    report.expect(!param.low || is_refused(*param.low - 1), fmt::format("'{}' below its range is not refused", param.name));
    report.expect(!param.high || is_refused(*param.high + 1), fmt::format("'{}' above its range is not refused", param.name));
  }
}

void missing_key(const Registry& registry, const std::string& name, Report& report) {
  const StageType& type = *registry.stages().find(name);
  Diagnostics errors;
  type.check(Value(), fmt::format("[test.{}]", name), errors);
  for (const ParamInfo& param : type.params) {
    report.expect(!param.required || names(errors.text(), param.name),
                  fmt::format("'{}' is required, and a table without it is accepted", param.name));
  }
}

void wrong_table(const Workable& stage, Report& report) {
  Value wrong = stage.table();
  wrong.set("no_such_key_at_all", Value(true));
  Diagnostics errors;
  StepContext context = stage.context();
  context.name = "instance";
  report.expect(stage.type().create(wrong, context, errors) == nullptr, "it is made of a table with a key that it does not have");
  report.expect(errors.text().find("[test.instance] has no key 'no_such_key_at_all'") != std::string::npos,
                fmt::format("it does not name the key and its table: {}", errors.text()));
}

void stops_unopened(const Workable& stage, Report&) {
  testkit::Harness unopened = stage.harness();
  unopened.stage().stop();
  unopened.stage().stop();
}

void stops_twice(const Workable& stage, Report&) {
  testkit::Harness opened = stage.harness();
  opened.stage().open();
  opened.stage().stop();
  opened.stage().stop();
}

void construction(const Workable& stage, Report& report) {
  const auto make = [&](unsigned thread) {
    const Bench own(*stage.context().registry, stage.type().role == Role::stage, stage.image());  // a replica has one optimizer
    Jitter jitter(thread);
    for (int i = 0; i < 8; ++i) {
      testkit::Harness made(stage.type(), stage.table(), own.context());
      jitter.pause();
      made.stage().open();
      made.stage().stop();
    }
  };
  on_threads(make, report);
}

// A new stage restores a saved state, and saves it again.
void stage_state(const Workable& stage, Report& report) {
  testkit::Harness first = stage.harness();
  first.stage().open();
  const std::string saved = first.stage().save();
  first.stage().stop();
  if (saved.empty()) return report.not_applicable("it saves nothing");
  testkit::Harness second = stage.harness();
  second.stage().open();
  second.stage().restore(saved);
  report.expect(second.stage().save() == saved, "what it saves is another text after a new stage has restored it");
}

constexpr Check kStageChecks[] = {{"stage", "description", stage_description},
                                  {"stage", "defaults", stage_defaults},
                                  {"stage", "unknown key", unknown_key},
                                  {"stage", "wrong type", wrong_type},
                                  {"stage", "wrong choice", wrong_choice},
                                  {"stage", "out of range", out_of_range},
                                  {"stage", "missing key", missing_key},
                                  {"stage", "wrong table", of_each_example<wrong_table>},
                                  {"stage", "stop before open", of_each_example<stops_unopened>},
                                  {"stage", "stop twice", of_each_example<stops_twice>},
                                  {"stage", "construction", of_each_example<construction>},
                                  {"stage", "state", of_each_example<stage_state>}};

std::vector<Check> with_sample_checks() {
  std::vector<Check> all(std::begin(kStageChecks), std::end(kStageChecks));
  const std::span<const Check> more = sample_checks();
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace

std::span<const Check> stage_checks() {
  static const std::vector<Check> all = with_sample_checks();
  return all;
}

}  // namespace millrace::conformance
