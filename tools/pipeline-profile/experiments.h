// The options of pipeline-profile that predict or try: --what-if, --suggest, --forecast, --scaling, --autotune.
#pragma once

#include <string>
#include <vector>

#include "calibration_run.h"
#include "common/arguments.h"
#include "millrace/plugin.h"
#include "rank_group.h"

namespace millrace {

class Experiments {
 public:
  void declare(Arguments& arguments);  // the options; outlives `arguments`
  bool is_asked() const;
  bool scales() const { return !scaling_.empty(); }
  // Measures `what` and prints the requested results. `steps`: minimum number. `pictures`: prefix of their files' names; "" for
  // none. Throws Error. REQUIRES: one thread if it scales().
  void run(const ProfiledFile& what, const Registry& registry, std::uint64_t steps, const std::string& pictures,
           Leave leave) const;

 private:
  void answer(const ProfiledFile& what, const Registry& registry, const CalibrationOptions& options) const;
  void foretell(const ProfiledFile& what, const Registry& registry, CalibrationOptions options) const;
  void scale(const ProfiledFile& what, const Registry& registry, const CalibrationOptions& options, const std::string& pictures,
             Leave leave) const;
  void tune(const ProfiledFile& what, const Registry& registry) const;

  std::vector<std::string> questions_;
  bool suggests_ = false, tunes_ = false;
  std::string forecast_, csv_, out_, seconds_;
  std::string scaling_, over_, network_, to_accuracy_;
};

}  // namespace millrace
