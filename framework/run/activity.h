// What a run is doing, for a thread that has to say what is waited for.
#pragma once

#include <mutex>
#include <string>

namespace millrace {

// Thread-safe.
class Activity {
 public:
  void set(std::string text, bool something_to_save) {
    const std::lock_guard lock(mutex_);
    text_ = std::move(text);
    something_to_save_ = something_to_save;
  }
  std::string text() const {  // "compiling the network for cpu:0"
    const std::lock_guard lock(mutex_);
    return text_;
  }
  // Whether an end now would lose something: false until the first training step, and behind the last write.
  bool something_to_save() const {
    const std::lock_guard lock(mutex_);
    return something_to_save_;
  }

 private:
  mutable std::mutex mutex_;
  std::string text_ = "starting";
  bool something_to_save_ = false;
};

}  // namespace millrace
