// Requests to a server: a file's size, and its bytes.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "client.h"

namespace millrace::http {

// Size and version, from a request for the first byte: some servers refuse HEAD, or answer it without a size.
class Look final : public Task {
 public:
  const char* verb() const override { return "access"; }
  std::vector<std::pair<std::string, std::string>> headers() const override { return {{"Range", "bytes=0-0"}}; }
  web::Room place(const web::HttpHead& head) override;
  void take(web::HttpReply& reply, bool is_good) override;

  std::uint64_t bytes() const { return bytes_; }
  const std::string& version() const { return version_; }  // ETag or Last-Modified; empty if the server sends neither

 private:
  std::uint64_t bytes_ = 0;
  std::string version_;
  std::array<std::uint8_t, 1> first_{};
};

// The bytes of a file: all, or a range. After a broken exchange the next one requests the missing bytes (Range) if the file has
// not changed (If-Range). Without such a version from the server, or without range support, it starts over.
class Download final : public Task {
 public:
  // Called when the size becomes known, and again if it changes: returns the place for all bytes. Throws to refuse.
  using Allocate = std::function<std::uint8_t*(std::uint64_t bytes)>;
  explicit Download(Allocate allocate) : allocate_(std::move(allocate)) {}  // the whole file
  Download(std::uint64_t offset, std::size_t size, std::uint8_t* out);      // REQUIRES: size > 0

  const char* verb() const override { return "read"; }
  std::vector<std::pair<std::string, std::string>> headers() const override;
  web::Room place(const web::HttpHead& head) override;
  void take(web::HttpReply& reply, bool is_good) override;
  std::uint64_t done() const override { return done_; }

 private:
  web::Room whole(const web::HttpHead& head);
  web::Room part(const web::HttpHead& head);
  web::Room room_for(std::uint64_t size);
  void begin_again();
  void require(std::uint64_t total) const;  // checks that the file contains the range

  Allocate allocate_;
  std::uint64_t offset_ = 0;
  std::optional<std::uint64_t> size_;  // size of the range; empty: the whole file
  std::uint8_t* out_ = nullptr;
  std::uint64_t room_ = 0;   // size of out_ in bytes
  std::uint64_t done_ = 0;   // valid bytes there
  std::uint64_t total_ = 0;  // file size, if done_ > 0 and the server sent it
  std::string validator_;    // their version, for If-Range; empty if none
  bool is_text_ = false;     // the current reply goes to HttpReply::text
};

}  // namespace millrace::http
