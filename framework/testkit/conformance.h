// The promises of plugins, as checks that need no test framework: tests/conformance asks them of every plugin that is found, and
// `pipeline-inspect --conformance PLUGIN.so` of one.
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

// What a check found.
class Report {
 public:
  void expect(bool holds, const std::string& complaint) {
    if (!holds) add(complaint);
  }
  void add(const std::string& complaint);
  void not_applicable(const std::string& why) { reason_ = why; }
  // Its complaints, each as `frame` + complaint.
  void add_all(const std::string& frame, const Report& other);

  Verdict verdict() const;
  std::string text() const;  // complaints, or why it is not applicable; "" when it passed

 private:
  std::vector<std::string> complaints_;
  std::string reason_;
};

struct Check {
  const char* kind;  // "stage", "layer", "loss", "optimizer", "observer", "backend", "storage"
  const char* name;  // "determinism"
  void (*run)(const Registry& registry, const std::string& name, Report& report);
};

// What a plugin registered. The name of a storage is its scheme.
struct Subject {
  std::string kind, name;
};
std::vector<Subject> registered_by(const Registry& registry, std::string_view plugin);

std::span<const Check> stage_checks();
std::span<const Check> compute_checks();  // of layers and losses
std::span<const Check> optimizer_checks();
std::span<const Check> observer_checks();
std::span<const Check> backend_checks();
std::span<const Check> service_checks();  // of storages
std::vector<Check> checks_of(std::string_view kind);

// Asks one check. What it throws is a complaint.
Report ask(const Registry& registry, std::string_view kind, std::string_view check, const std::string& name);

// The same for all kinds of tables: names, types and texts of the parameters; defaults that the table accepts and that can be
// written as TOML and read again; an unknown key that is refused by name.
using Answer = std::function<std::string(const Value& table)>;  // the mistakes in the table
void check_description(std::string_view name, std::string_view text, std::string_view plugin,
                       const std::vector<ParamInfo>& params, Report& report);
void check_defaults(const std::vector<ParamInfo>& params, const Value& defaults, const Answer& answer, Report& report);
void check_unknown_key(const std::vector<ParamInfo>& params, const Answer& answer, Report& report);
Value required_of(const std::vector<ParamInfo>& params);  // a table with plausible values of what is required

}  // namespace millrace::conformance
