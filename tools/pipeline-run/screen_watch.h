// Replaces the console when --top has turned it off.
#pragma once

#include "millrace/observer.h"
#include "millrace/util/standard_error.h"

namespace millrace {

// Prints warnings once the screen has failed: nothing else would show them.
class ScreenWatch final : public RunObserver {
 public:
  void warning(const WarningEvent& event) override {
    failed_ = failed_ || event.text.starts_with("observer 'top' ");  // failed, or is disabled
    if (failed_) print_to_stderr("warning: {}\n", event.text);
  }

 private:
  bool failed_ = false;
};

}  // namespace millrace
