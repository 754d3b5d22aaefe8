// SHA-256, HMAC-SHA256 and MD5, from OpenSSL's libcrypto.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace millrace::s3 {

using Digest = std::array<std::uint8_t, 32>;

Digest sha256(const void* data, std::size_t size);
inline Digest sha256(std::string_view text) { return sha256(text.data(), text.size()); }
Digest hmac_sha256(std::string_view key, std::string_view text);

// Of ETags. No check of contents rests on it. Empty where libcrypto has no MD5, as in its FIPS mode.
std::string md5_hex(std::string_view bytes);

std::string hex(const std::uint8_t* data, std::size_t size);
inline std::string hex(const Digest& digest) { return hex(digest.data(), digest.size()); }

}  // namespace millrace::s3
