// The options of pipeline-profile that predict or try: --what-if, --suggest, --forecast, --scaling, --autotune.
#pragma once

#include <string>
#include <vector>

#include "common/arguments.h"
#include "measure.h"
#include "millrace/plugin.h"

namespace millrace {

class Experiments {
 public:
  void declare(Arguments& arguments);  // the options; outlives `arguments`
  bool is_asked() const;
  // Measures `what` and prints what was asked for. `steps`: at least so many. Throws Error.
  void run(const ProfiledFile& what, const Registry& registry, std::uint64_t steps) const;

 private:
  void answer(const ProfiledFile& what, const Registry& registry, const MeasureOptions& options) const;
  void foretell(const ProfiledFile& what, const Registry& registry, MeasureOptions options) const;
  void scale(const ProfiledFile& what, const Registry& registry, const MeasureOptions& options) const;
  void tune(const ProfiledFile& what, const Registry& registry) const;

  std::vector<std::string> questions_;
  bool suggests_ = false, tunes_ = false;
  std::string forecast_, scaling_, csv_, out_, seconds_;
};

}  // namespace millrace
