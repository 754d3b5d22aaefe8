// Streams and events of the plain backend: work is done when a call returns.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <span>

#include "millrace/backend/backend.h"

namespace millrace::testkit {

class Done : public Event {
 public:
  bool complete() const override { return true; }
  void wait() const override {}
  void then(Callback done) override { done(nullptr); }
};

class PlainStream : public Stream {
 public:
  void wait(const Ref<Event>&) override {}
  Ref<Event> record() override { return make_ref<Done>(); }
  void sum(float* destination, std::span<const float* const> sources, std::size_t count) override {
    for (std::size_t i = 0; i < count; ++i) {
      float total = sources[0][i];
      for (std::size_t s = 1; s < sources.size(); ++s) total += sources[s][i];
      destination[i] = total;
    }
  }
  void copy(float* destination, const float* source, std::size_t count) override { std::copy_n(source, count, destination); }
  void run(const Kernel& kernel, const void* element) override { kernel.run_on_host(element, 0, kernel.units(element)); }
  void copy_to_host(void* host, const void* device, std::size_t bytes) override { std::memcpy(host, device, bytes); }
};

}  // namespace millrace::testkit
