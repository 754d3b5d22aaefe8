// Writing an object of any size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "client.h"
#include "millrace/storage.h"

namespace millrace::s3 {

// Holds one part in memory. An object of no more than that is put at once, at commit(); a larger one is sent in parts, one after
// the other, and completed last. commit() then asks the server for the object's size. Without commit() the parts are given up;
// of a process that was killed they stay on the server, unseen, until a lifecycle rule of the bucket removes them.
class Upload final : public Storage::Writer {
 public:
  // S3 takes no smaller part but the last one, and 10,000 parts at most: they grow.
  static constexpr std::size_t kLeastPart = std::size_t{5} << 20;
  static constexpr std::size_t kPartsOfASize = 2000;

  Upload(Client& client, std::string url, std::function<void()> done);  // `done`: the object is another one from here on
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
  std::string upload_;              // the id; empty: none is open
  std::vector<std::string> etags_;  // of the parts sent
  std::uint64_t bytes_ = 0;         // of all
};

}  // namespace millrace::s3
