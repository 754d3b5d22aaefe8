// What a reply means: done, try again, or never. Pure logic, apart from connections and clocks.
#pragma once

#include <string>

#include "millrace/error.h"
#include "shared.h"

namespace millrace::s3 {

struct Asked {
  std::string bucket, host, region, key_id;
  bool ranged = false;   // 416 is an answer then
  bool writes = false;   // 204 is an answer then
  bool removes = false;  // that there is no such object is an answer then, as some servers have it
};

struct Verdict {
  enum class What { good, again, never } what = What::good;
  ErrorKind kind = ErrorKind::storage;  // of never, and of again when the retries are used up
  std::string cause;                    // of again and never
  bool expired = false;                 // of never: other credentials may cure it
};

Verdict judge(const HttpReply& reply, const Asked& asked);

}  // namespace millrace::s3
