#include "sha256.h"

#include <openssl/evp.h>

#include <array>

#include "millrace/error.h"

namespace millrace {

namespace {

void check(int result) {
  if (result != 1) fail(ErrorKind::run, "libcrypto has no SHA-256");
}

}  // namespace

void Sha256::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

Sha256::Sha256() : context_(EVP_MD_CTX_new()) { check(context_ ? EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) : 0); }

void Sha256::add(const void* data, std::size_t bytes) { check(EVP_DigestUpdate(context_.get(), data, bytes)); }

std::string Sha256::finish() {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::array<unsigned char, 32> digest{};
  check(EVP_DigestFinal_ex(context_.get(), digest.data(), nullptr));
  std::string text;
  for (const unsigned char byte : digest) text.append({kDigits[byte >> 4], kDigits[byte & 15]});
  return text;
}

}  // namespace millrace
