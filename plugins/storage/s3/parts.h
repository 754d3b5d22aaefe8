// Large reads, as several ranges at once.
#pragma once

#include <cstdint>
#include <string>

#include "client.h"

namespace millrace {
class ByteBuffer;
}

namespace millrace::s3 {

// All of an object. The first part's reply tells its size; the others have to be of the same version.
Part read_whole(Client& client, const std::string& url, ByteBuffer& out);

// Exactly these bytes; ErrorKind::storage when the object ends before.
Part read_range(Client& client, const std::string& url, std::uint64_t offset, std::size_t size, std::uint8_t* out);

}  // namespace millrace::s3
