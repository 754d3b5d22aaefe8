// Services for stages outside a run: everything reported is dropped.
#pragma once

#include "millrace/stage.h"

namespace millrace {

class SilentServices : public RunServices {
 public:
  void report(const StepReport&) override {}
  void scalar(std::string_view, std::uint64_t, std::string_view, double) override {}
  void promise_scalar(std::string_view, std::uint64_t, std::string_view) override {}
  void not_finite(std::string_view, std::uint64_t, std::string_view) override {}
  void bad_sample(std::string_view, const Sample&, std::string_view) override {}
  std::string output_folder() const override { return {}; }
  void warn(std::string_view) override {}
};

}  // namespace millrace
