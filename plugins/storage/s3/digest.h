// HMAC-SHA256 and MD5, from OpenSSL's libcrypto. SHA-256 itself is the framework's (millrace/util/sha256.h).
#pragma once

#include <string>
#include <string_view>

#include "millrace/util/sha256.h"

namespace millrace::s3 {

Sha256Sum hmac_sha256(std::string_view key, std::string_view text);

// The digest of ETags; not used to verify contents. Empty if libcrypto has no MD5, as in its FIPS mode.
std::string md5_hex(std::string_view bytes);

}  // namespace millrace::s3
