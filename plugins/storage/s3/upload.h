// Writes an object of any size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "client.h"
#include "millrace/storage.h"

namespace millrace::s3 {

// Holds one part in memory. A small object is put at once, at commit(); a larger one is sent in parts, one after the other, then
// completed. commit() then requests the object's size. Without commit() the parts are aborted; those of a killed process stay on
// the server, invisible, until a lifecycle rule of the bucket removes them.
class Upload final : public Storage::Writer {
 public:
  // S3 accepts no smaller part except the last, and at most 10,000 parts: they grow.
  static constexpr std::size_t kLeastPart = std::size_t{5} << 20;
  static constexpr std::size_t kPartsOfASize = 2000;

  Upload(Client& client, std::string url, std::function<void()> done);  // `done`: called when the object changes
  Upload(const Upload&) = delete;
  Upload& operator=(const Upload&) = delete;
  ~Upload() override;

  void write(const void* data, std::size_t bytes) override;
  void commit() override;

 private:
  std::size_t part_bytes() const;
  void send_part();

  Client& client_;
  const std::string url_;
  const std::function<void()> done_;
  std::vector<std::uint8_t> part_;  // not sent yet
  std::string upload_;              // the id; empty if none is open
  std::vector<std::string> etags_;  // by part already sent
  std::uint64_t bytes_ = 0;         // total
};

}  // namespace millrace::s3
