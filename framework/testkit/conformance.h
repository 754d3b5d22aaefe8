// The requirements of plugins, as checks without a test framework: tests/conformance runs them on every plugin found, and
// `pipeline-inspect --conformance PLUGIN.so` on one.
//
//   Registry registry;
//   load_all_plugins(registry);  // millrace/util/load_plugins.h
//   load_plugin(registry, "build/sepia.so");
//   for (const Subject& subject : registered_by(registry, "sepia")) {
//     for (const Check& check : checks_of(subject.kind)) {
//       const Report report = ask(registry, subject.kind, check.name, subject.name);
//     }
//   }
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/plugin.h"

namespace millrace::conformance {

enum class Verdict { passed, failed, not_applicable };

// The result of a check.
class Report {
 public:
  void expect(bool holds, const std::string& complaint) {
    if (!holds) add(complaint);
  }
  void add(const std::string& complaint);
  void not_applicable(const std::string& why) { reason_ = why; }
  // Adds the complaints of another report, each prefixed by `frame`.
  void add_all(const std::string& frame, const Report& other);

  Verdict verdict() const;
  std::string text() const;  // complaints, or why the check does not apply; "" if it passed

 private:
  std::vector<std::string> complaints_;
  std::string reason_;
};

struct Check {
  const char* kind;  // "stage", "layer", "loss", "optimizer", "observer", "backend", "storage"
  const char* name;  // "determinism"
  void (*run)(const Registry& registry, const std::string& name, Report& report);
};

// A registered type. The name of a storage is its scheme.
struct Subject {
  std::string kind, name;
};
std::vector<Subject> registered_by(const Registry& registry, std::string_view plugin);

std::span<const Check> stage_checks();
std::span<const Check> compute_checks();  // for layers and losses
std::span<const Check> optimizer_checks();
std::span<const Check> observer_checks();
std::span<const Check> backend_checks();
std::span<const Check> service_checks();  // for storages
std::vector<Check> checks_of(std::string_view kind);

// Runs one check. Exceptions become complaints.
Report ask(const Registry& registry, std::string_view kind, std::string_view check, const std::string& name);

// Common checks of all kinds of tables: names, types and texts of the parameters; valid defaults that survive writing as TOML;
// and an unknown key that is refused by name.
using Answer = std::function<std::string(const Value& table)>;  // the mistakes in the table
void check_description(std::string_view name, std::string_view text, std::string_view plugin,
                       const std::vector<ParamInfo>& params, Report& report);
void check_defaults(const std::vector<ParamInfo>& params, const Value& defaults, const Answer& answer, Report& report);
void check_unknown_key(const std::vector<ParamInfo>& params, const Answer& answer, Report& report);
Value required_of(const std::vector<ParamInfo>& params);  // a table with plausible values of required parameters

}  // namespace millrace::conformance
