// Large reads, split into several simultaneous ranges.
#pragma once

#include <cstdint>
#include <string>

#include "client.h"

namespace millrace {
class ByteBuffer;
}

namespace millrace::s3 {

// All of an object. The first part's reply has its size; the others must be of the same version.
Part read_whole(Client& client, const std::string& url, ByteBuffer& out);

// Exactly these bytes; ErrorKind::storage if the object ends before.
Part read_range(Client& client, const std::string& url, std::uint64_t offset, std::size_t size, std::uint8_t* out);

}  // namespace millrace::s3
