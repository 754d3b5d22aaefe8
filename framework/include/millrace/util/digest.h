// Checksums of files. The framework has none of its own: a plugin brings the library that computes them.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace millrace {

// The checksum of the bytes that it was given, one after the other. Not thread-safe.
class Digest {
 public:
  virtual ~Digest() = default;
  virtual void add(const void* data, std::size_t bytes) = 0;
  virtual std::string finish() = 0;  // lower-case hexadecimal digits; nothing may follow
};

// What a plugin registers: registry.add(DigestType{"sha256", "...", {}, [] { return std::make_unique<Sha256>(); }}).
struct DigestType {
  std::string name, text, plugin;
  std::function<std::unique_ptr<Digest>()> create;
};

}  // namespace millrace
