// Handles of C libraries that release themselves: std::unique_ptr<cairo_t, Release<cairo_destroy>>.
#pragma once

namespace millrace::drawing {

template <auto kRelease>
struct Release {
  template <class T>
  void operator()(T* handle) const {
    kRelease(handle);
  }
};

}  // namespace millrace::drawing
