// SHA-256 (FIPS 180-4), from OpenSSL's libcrypto.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

struct evp_md_ctx_st;

namespace millrace {

// Whether this build has libcrypto. Everything below throws Error(run) without it, or if libcrypto fails.
bool has_sha256();

using Sha256Sum = std::array<std::uint8_t, 32>;

// Hashes bytes added one after the other. Not thread-safe.
class Sha256 {
 public:
  Sha256();
  void add(const void* data, std::size_t bytes);
  Sha256Sum finish();  // must be the last call

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

inline Sha256Sum sha256(const void* data, std::size_t bytes) {
  Sha256 sum;
  sum.add(data, bytes);
  return sum.finish();
}
inline Sha256Sum sha256(std::string_view text) { return sha256(text.data(), text.size()); }

}  // namespace millrace
