#include "digest.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "millrace/error.h"

namespace millrace::s3 {

Digest sha256(const void* data, std::size_t size) {
  Digest digest;
  if (EVP_Digest(data, size, digest.data(), nullptr, EVP_sha256(), nullptr) != 1)
    fail(ErrorKind::run, "libcrypto has no SHA-256");
  return digest;
}

Digest hmac_sha256(std::string_view key, std::string_view text) {
  Digest digest;
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  if (!HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), bytes, text.size(), digest.data(), nullptr)) {
    fail(ErrorKind::run, "libcrypto has no HMAC-SHA256");
  }
  return digest;
}

std::string md5_hex(std::string_view bytes) {
  std::array<std::uint8_t, 16> digest;
  if (EVP_Digest(bytes.data(), bytes.size(), digest.data(), nullptr, EVP_md5(), nullptr) != 1) return {};
  return hex(digest.data(), digest.size());
}

std::string hex(const std::uint8_t* data, std::size_t size) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * size);
  for (std::size_t i = 0; i < size; ++i) text.append({kDigits[data[i] >> 4], kDigits[data[i] & 15]});
  return text;
}

}  // namespace millrace::s3
