// A metric as runs report it. Part of observer.h, and of stage.h for stages that measure.
#pragma once

#include <string>

namespace millrace {

struct Figure {
  std::string name;  // "loss", "accuracy"
  double value = 0;
  bool percent = false;  // a share from 0 to 1, shown in percent
  bool higher_is_better = false;
  bool is_detail = false;  // one of many, as the recall of one class: records have it, lines and plots for people do not
};

}  // namespace millrace
