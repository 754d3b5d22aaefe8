#include "millrace/plugin.h"
#include "sha256.h"

MILLRACE_PLUGIN("digest_sha256", "1.0", "SHA-256 of files.") {
  registry.add(millrace::DigestType{"sha256", "SHA-256, 64 digits", {}, [] { return std::make_unique<millrace::Sha256>(); }});
}
