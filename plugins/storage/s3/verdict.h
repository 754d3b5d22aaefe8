// Classifies a reply: done, try again, or never. Pure logic, without connections or clocks.
#pragma once

#include <string>

#include "millrace/error.h"
#include "shared.h"

namespace millrace::s3 {

struct Asked {
  std::string bucket, host, region, key_id;
  bool ranged = false;   // accepts 416
  bool writes = false;   // accepts 204
  bool removes = false;  // accepts a missing object, which some servers report
};

struct Verdict {
  enum class What { good, again, never } what = What::good;
  ErrorKind kind = ErrorKind::storage;  // for never, and for again when the retries are used up
  std::string cause;                    // for again and never
  bool expired = false;                 // for never: other credentials may help
};

Verdict judge(const HttpReply& reply, const Asked& asked);

}  // namespace millrace::s3
