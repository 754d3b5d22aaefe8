// A metric in a run's reports. Part of observer.h, and of stage.h for stages that measure.
#pragma once

#include <string>

namespace millrace {

struct Figure {
  std::string name;  // "loss", "accuracy"
  double value = 0;
  bool percent = false;  // a share from 0 to 1, printed as a percentage
  bool higher_is_better = false;
  bool is_detail = false;  // one of many, such as the recall of one class: kept in records, but left out of lines and plots for
                           // people
};

}  // namespace millrace
