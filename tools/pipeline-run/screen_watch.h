// Who speaks where --top has turned the console off.
#pragma once

#include "millrace/observer.h"
#include "millrace/util/standard_error.h"

namespace millrace {

// Prints warnings from the one on that says that the screen has failed: nobody else would show them.
class ScreenWatch final : public RunObserver {
 public:
  void warning(const WarningEvent& event) override {
    failed_ = failed_ || event.text.starts_with("observer 'top' ");  // failed, or is left alone
    if (failed_) print_to_stderr("warning: {}\n", event.text);
  }

 private:
  bool failed_ = false;
};

}  // namespace millrace
