// For builds without OpenSSL.
#include "millrace/error.h"
#include "millrace/util/sha256.h"

namespace millrace {

bool has_sha256() { return false; }

void Sha256::Free::operator()(evp_md_ctx_st*) const {}

Sha256::Sha256() { fail(ErrorKind::run, "this build computes no SHA-256: it was made without OpenSSL"); }

void Sha256::add(const void*, std::size_t) {}

Sha256Sum Sha256::finish() { return {}; }

}  // namespace millrace
