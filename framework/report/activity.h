// What a run is doing, for a thread that has to say what is waited for.
#pragma once

#include <string>

#include "base/mutex.h"

namespace millrace {

// Thread-safe.
class Activity {
 public:
  void set(std::string text, bool something_to_save) {
    const Lock lock(mutex_);
    text_ = std::move(text);
    something_to_save_ = something_to_save;
  }
  std::string text() const {  // "compiling the network for cpu:0"
    const Lock lock(mutex_);
    return text_;
  }
  // Whether an end now would lose something: false until the first training step, and behind the last write.
  bool something_to_save() const {
    const Lock lock(mutex_);
    return something_to_save_;
  }

 private:
  mutable Mutex mutex_;
  std::string text_ MILLRACE_GUARDED_BY(mutex_) = "starting";
  bool something_to_save_ MILLRACE_GUARDED_BY(mutex_) = false;
};

}  // namespace millrace
