// Counts a prediction's images, and those that it could not use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "millrace/observer.h"

namespace millrace {

// Observes one run after the other; read it when they are over.
class ImageCount final : public RunObserver {
 public:
  std::size_t passes() const { return passes_; }  // complete ones
  double used() const { return used_; }
  std::uint64_t bad() const { return bad_; }
  const std::string& first_bad() const { return first_bad_; }  // its name, and the reason

  void pass(const PassEvent& event) override {
    ++passes_;
    used_ += event.samples;
  }
  void bad_sample(const BadSampleEvent& event) override {
    if (bad_++ == 0) first_bad_ = "'" + event.place + "': " + event.cause;
  }

 private:
  std::size_t passes_ = 0;
  double used_ = 0;
  std::uint64_t bad_ = 0;
  std::string first_bad_;
};

}  // namespace millrace
