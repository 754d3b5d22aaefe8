// Holds the lambdas of parameters and types. It works like std::function, but <functional> would add 18,000 lines to every
// plugin.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace millrace::detail {

template <class Signature>
class Function;

// A callable of this signature, or empty. Copies share the callable.
template <class R, class... Args>
class Function<R(Args...)> {
 public:
  Function() = default;
  template <class F>
  requires std::is_invocable_r_v<R, F&, Args...> Function(F callable)  // NOLINT(google-explicit-constructor): as std::function
      : callable_(std::make_shared<F>(std::move(callable))), call_(&call<F>) {}

  R operator()(Args... args) const { return call_(callable_.get(), std::forward<Args>(args)...); }  // REQUIRES: not empty
  explicit operator bool() const { return call_ != nullptr; }

 private:
  template <class F>
  static R call(void* callable, Args... args) {
    return static_cast<R>((*static_cast<F*>(callable))(std::forward<Args>(args)...));
  }

  std::shared_ptr<void> callable_;
  R (*call_)(void* callable, Args... args) = nullptr;
};

}  // namespace millrace::detail
