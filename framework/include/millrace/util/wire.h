// Encodes values as bytes, between processes of one run. Both ends are the same program on machines with the same byte order.
#pragma once

#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "millrace/error.h"

namespace millrace {

class WireWriter {
 public:
  template <class T>
  requires std::is_trivially_copyable_v<T> WireWriter& put(const T& value) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), bytes, bytes + sizeof value);
    return *this;
  }
  WireWriter& put(std::string_view text) {
    put(text.size());
    const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
    bytes_.insert(bytes_.end(), bytes, bytes + text.size());
    return *this;
  }
  template <class T>
  WireWriter& put(const std::vector<T>& values) {
    put(values.size());
    for (const T& value : values) put(value);
    return *this;
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

// Throws Error(peer) if the bytes end too soon: the processes have different versions.
class WireReader {
 public:
  explicit WireReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  bool is_done() const { return rest_.empty(); }
  template <class T>
  T get() {
    if constexpr (std::is_same_v<T, std::string>) {
      const std::span<const std::byte> bytes = take(get<std::size_t>());
      return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    } else {
      static_assert(std::is_trivially_copyable_v<T>);
      T value;
      std::memcpy(&value, take(sizeof value).data(), sizeof value);
      return value;
    }
  }
  template <class T>
  std::vector<T> list() {
    const auto count = get<std::size_t>();
    std::vector<T> values;
    for (std::size_t i = 0; i < count; ++i) values.push_back(get<T>());
    return values;
  }

 private:
  std::span<const std::byte> take(std::size_t count) {
    if (count > rest_.size()) fail(ErrorKind::peer, "a message of another process is cut short: the processes differ in version");
    const std::span<const std::byte> taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }
  std::span<const std::byte> rest_;
};

}  // namespace millrace
