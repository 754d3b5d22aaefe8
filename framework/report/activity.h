// The current activity of a run, for a thread that reports what the run waits for.
#pragma once

#include <functional>
#include <string>
#include <utility>

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
  // Whether ending now would lose work: false until the first training step, and after the last write.
  bool something_to_save() const {
    const Lock lock(mutex_);
    return something_to_save_;
  }

  // While it exists, status() returns the result of `say`, which any thread may call and which must not use the activity. The
  // innermost one applies. `activity` may be null.
  class Status {
   public:
    Status(Activity* activity, std::function<std::string()> text_of) : activity_(activity), outer_(std::move(text_of)) { swap(); }
    ~Status() { swap(); }
    Status(const Status&) = delete;
    Status& operator=(const Status&) = delete;

   private:
    void swap() {
      if (activity_ == nullptr) return;
      const Lock lock(activity_->mutex_);
      std::swap(activity_->text_of_, outer_);
    }
    Activity* const activity_;
    std::function<std::string()> outer_;
  };
  std::string status() const {  // what everything waits for now
    const Lock lock(mutex_);
    return text_of_ ? text_of_() : text_;
  }

 private:
  mutable Mutex mutex_;
  std::string text_ MILLRACE_GUARDED_BY(mutex_) = "starting";
  bool something_to_save_ MILLRACE_GUARDED_BY(mutex_) = false;
  std::function<std::string()> text_of_ MILLRACE_GUARDED_BY(mutex_);
};

}  // namespace millrace
