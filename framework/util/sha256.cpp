#include "millrace/util/sha256.h"

#include <openssl/evp.h>

#include "millrace/error.h"

namespace millrace {

namespace {

void require(int result) {
  if (result != 1) fail(ErrorKind::run, "libcrypto has no SHA-256");
}

}  // namespace

bool has_sha256() { return true; }

void Sha256::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

Sha256::Sha256() : context_(EVP_MD_CTX_new()) { require(context_ ? EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) : 0); }

void Sha256::add(const void* data, std::size_t bytes) { require(EVP_DigestUpdate(context_.get(), data, bytes)); }

Sha256Sum Sha256::finish() {
  Sha256Sum sum{};
  require(EVP_DigestFinal_ex(context_.get(), sum.data(), nullptr));
  return sum;
}

}  // namespace millrace
