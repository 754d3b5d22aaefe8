// What is asked of a server: how large a file is, and its bytes.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "client.h"

namespace millrace::http {

// Size and version, from a reply to "give me the first byte": some servers refuse HEAD, or answer it without a size.
class Look final : public Task {
 public:
  const char* verb() const override { return "look at"; }
  std::vector<std::pair<std::string, std::string>> headers() const override { return {{"Range", "bytes=0-0"}}; }
  web::Room place(const web::HttpHead& head) override;
  void take(web::HttpReply& reply, bool is_good) override;

  std::uint64_t bytes() const { return bytes_; }
  const std::string& version() const { return version_; }  // ETag or Last-Modified; empty when the server gives neither

 private:
  std::uint64_t bytes_ = 0;
  std::string version_;
  std::array<std::uint8_t, 1> first_{};
};

// The bytes of a file: all of them, or those of a range. Where an exchange breaks, the next one asks for what is missing (Range),
// provided that the file has not changed (If-Range). Where the server gives no version that says so, or does not answer ranges,
// it begins again.
class Download final : public Task {
 public:
  // Asked once the size is known, and again when it turns out to be another: where all the bytes go. Refuses by throwing.
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
  void require(std::uint64_t total) const;  // that the file has the bytes of the range

  Allocate allocate_;
  std::uint64_t offset_ = 0;
  std::optional<std::uint64_t> size_;  // of the range; none: the whole file
  std::uint8_t* out_ = nullptr;
  std::uint64_t room_ = 0;   // bytes at out_
  std::uint64_t done_ = 0;   // bytes there that are good
  std::uint64_t total_ = 0;  // of the whole file, where done_ > 0 and the server said it
  std::string validator_;    // of the version that they are of: for If-Range; empty when there is none
  bool is_text_ = false;     // the reply under way goes to HttpReply::text
};

}  // namespace millrace::http
