#include "testkit/conformance.h"

#include <fmt/format.h>

#include <algorithm>

#include "millrace/detail/types.h"
#include "millrace/error.h"
#include "millrace/observer.h"
#include "millrace/optimizer.h"
#include "millrace/storage.h"
#include "testkit/synthetic.h"
#include "toml/document.h"

namespace millrace::conformance {
namespace {

// Names in pipeline files: lower case, digits, underscores.
bool is_plain_name(std::string_view name) {
  return !name.empty() && name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string_view::npos;
}

void check_texts(const std::vector<ParamInfo>& params, const std::string& owner, Report& report) {
  for (const ParamInfo& param : params) {
    const std::string name = fmt::format("{}.{}", owner, param.name);
    report.expect(is_plain_name(param.name), fmt::format("the parameter '{}' is not named in lower case, digits and _", name));
    report.expect(!param.type.empty(), fmt::format("the parameter '{}' has no type", name));
    report.expect(!param.text.empty(), fmt::format("the parameter '{}' has no text: say what it does with .text()", name));
    check_texts(param.members, name, report);
  }
}

void append(std::vector<Subject>& all, const char* kind, const auto& types, std::string_view plugin) {
  for (const auto& [name, type] : types) {
    if (type.plugin == plugin) all.push_back({kind, name});
  }
}

}  // namespace

void Report::add(const std::string& complaint) {
  if (std::find(complaints_.begin(), complaints_.end(), complaint) == complaints_.end()) complaints_.push_back(complaint);
}

void Report::add_all(const std::string& frame, const Report& other) {
  for (const std::string& complaint : other.complaints_) add(frame + complaint);
}

Verdict Report::verdict() const {
  if (!complaints_.empty()) return Verdict::failed;
  return reason_.empty() ? Verdict::passed : Verdict::not_applicable;
}

std::string Report::text() const {
  constexpr std::size_t kMax = 5;
  if (complaints_.empty()) return reason_;
  const std::span<const std::string> first(complaints_.data(), std::min(kMax, complaints_.size()));
  std::string text = fmt::format("{}", fmt::join(first.begin(), first.end(), "; "));
  if (complaints_.size() > kMax) text += fmt::format("; and {} more", complaints_.size() - kMax);
  return text;
}

std::vector<Subject> registered_by(const Registry& registry, std::string_view plugin) {
  std::vector<Subject> all;
  append(all, "stage", registry.stages(), plugin);
  append(all, "layer", registry.layers(), plugin);
  append(all, "loss", registry.losses(), plugin);
  append(all, "optimizer", registry.optimizers(), plugin);
  append(all, "observer", registry.observers(), plugin);
  append(all, "backend", registry.backends(), plugin);
  append(all, "storage", registry.storages(), plugin);
  return all;
}

std::vector<Check> checks_of(std::string_view kind) {
  std::vector<Check> found;
  for (const std::span<const Check> checks :
       {stage_checks(), compute_checks(), optimizer_checks(), observer_checks(), backend_checks(), service_checks()}) {
    std::copy_if(checks.begin(), checks.end(), std::back_inserter(found), [&](const Check& check) { return check.kind == kind; });
  }
  return found;
}

Report ask(const Registry& registry, std::string_view kind, std::string_view check, const std::string& name) {
  Report report;
  const std::vector<Check> checks = checks_of(kind);
  const auto found = std::find_if(checks.begin(), checks.end(), [&](const Check& each) { return each.name == check; });
  if (found == checks.end()) {
    report.add(fmt::format("there is no check '{}' of a {}", check, kind));
    return report;
  }
  try {
    found->run(registry, name, report);
  } catch (...) {
    report.add(fmt::format("it threw: {}", current_error().what()));
  }
  return report;
}

Value required_of(const std::vector<ParamInfo>& params) {
  Value table;
  for (const ParamInfo& param : params) {
    if (param.required) table.set(param.name, plausible(param));
  }
  return table;
}

void check_description(std::string_view name, std::string_view text, std::string_view plugin,
                       const std::vector<ParamInfo>& params, Report& report) {
  report.expect(is_plain_name(name), fmt::format("'{}' is not named in lower case, digits and _", name));
  report.expect(!text.empty(), "it has no text: say what it does with .text()");
  report.expect(!plugin.empty(), "nothing says which plugin registered it");
  check_texts(params, std::string(name), report);
}

namespace {
// Adds defaults for missing keys, except keys that have no effect without others, or exclude others.
void add_defaults(const std::vector<ParamInfo>& params, const Value& defaults, Value& table) {
  for (const ParamInfo& param : params) {
    const Value* const value = defaults.find(param.name);
    const bool stands_alone = param.companions.empty() && param.alternative.empty();
    if (value == nullptr || table.find(param.name) != nullptr || !stands_alone) continue;
    Value added = *value;
    if (param.type == "table" && value->kind() == Value::Kind::table) {
      added = Value(Table{});
      add_defaults(param.members, *value, added);
    }
    table.set(param.name, std::move(added));
  }
}
}  // namespace

void check_defaults(const std::vector<ParamInfo>& params, const Value& defaults, const Answer& answer, Report& report) {
  Value table = required_of(params);
  add_defaults(params, defaults, table);
  const std::string said = answer(table);
  report.expect(said.empty(), fmt::format("it refuses its own defaults: {}", said));
  const std::string text = to_toml(defaults);
  Diagnostics errors;
  const std::optional<Value> read = parse_toml(text, "defaults.toml", errors);
  report.expect(read && to_toml(*read) == text, fmt::format("its defaults change when they are written and read: {}", text));
}

void check_unknown_key(const std::vector<ParamInfo>& params, const Answer& answer, Report& report) {
  Value table = required_of(params);
  table.set("no_such_key_at_all", Value(true));
  const std::string said = answer(table);
  report.expect(said.find("'no_such_key_at_all'") != std::string::npos,
                fmt::format("it does not refuse the key 'no_such_key_at_all', which it does not have; it says '{}'", said));
}

namespace {

void observer_description(const Registry& registry, const std::string& name, Report& report) {
  const ObserverType& type = *registry.observers().find(name);
  check_description(type.name, type.text, type.plugin, type.params, report);
}

Answer answer_of(const ObserverType& type) {
  return [&type](const Value& table) {
    Diagnostics errors;
    type.check(table, fmt::format("[observe.{}]", type.name), errors);
    return errors.text();
  };
}

void observer_defaults(const Registry& registry, const std::string& name, Report& report) {
  const ObserverType& type = *registry.observers().find(name);
  check_defaults(type.params, type.defaults, answer_of(type), report);
}

void observer_refusals(const Registry& registry, const std::string& name, Report& report) {
  const ObserverType& type = *registry.observers().find(name);
  check_unknown_key(type.params, answer_of(type), report);
}

void observer_construction(const Registry& registry, const std::string& name, Report& report) {
  const ObserverType& type = *registry.observers().find(name);
  Diagnostics errors;
  const auto made = type.create(required_of(type.params), fmt::format("[observe.{}]", name), errors);
  report.expect(made != nullptr, fmt::format("it is not made of what it requires: {}", errors.text()));
}

constexpr Check kObserverChecks[] = {{"observer", "description", observer_description},
                                     {"observer", "defaults", observer_defaults},
                                     {"observer", "refusals", observer_refusals},
                                     {"observer", "construction", observer_construction}};

}  // namespace

std::span<const Check> observer_checks() { return kObserverChecks; }

}  // namespace millrace::conformance
