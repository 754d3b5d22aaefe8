#include "digest.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>
#include <cstdint>

#include "millrace/error.h"
#include "millrace/util/bytes.h"

namespace millrace::s3 {

Sha256Sum hmac_sha256(std::string_view key, std::string_view text) {
  Sha256Sum digest;
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  if (!HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), bytes, text.size(), digest.data(), nullptr)) {
    fail(ErrorKind::run, "libcrypto has no HMAC-SHA256");
  }
  return digest;
}

std::string md5_hex(std::string_view bytes) {
  std::array<std::uint8_t, 16> digest;
  if (EVP_Digest(bytes.data(), bytes.size(), digest.data(), nullptr, EVP_md5(), nullptr) != 1) return {};
  return hex_text(digest);
}

}  // namespace millrace::s3
