#pragma once

#include <memory>

#include "millrace/util/digest.h"

struct evp_md_ctx_st;

namespace millrace {

// SHA-256 (FIPS 180-4), from OpenSSL's libcrypto: 64 digits. Throws Error(run) where libcrypto has none.
class Sha256 final : public Digest {
 public:
  Sha256();
  void add(const void* data, std::size_t bytes) override;
  std::string finish() override;

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

}  // namespace millrace
