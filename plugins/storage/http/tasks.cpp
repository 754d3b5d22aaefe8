#include "tasks.h"

#include <web/fields.h>
#include <web/sizes.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "millrace/util/text.h"

namespace millrace::http {

namespace {

[[noreturn]] void again(std::string cause) { throw Error(ErrorKind::storage, std::move(cause)); }
[[noreturn]] void never(std::string cause) { throw Refusal{ErrorKind::storage, std::move(cause)}; }

std::optional<std::uint64_t> length_of(const web::HttpHead& head) {
  const std::string_view text = head.header("content-length");
  const auto bytes = web::parse_number(text);
  if (!text.empty() && !bytes) again(fmt::format("the reply's Content-Length is '{}'", shown(text)));
  if (bytes) web::checked_size(*bytes);
  return bytes;
}

web::ContentRange range_of(const web::HttpHead& head) {
  const std::string_view text = head.header("content-range");
  const auto range = web::parse_content_range(text);
  if (!range) again(fmt::format("the reply's Content-Range is '{}'", shown(text)));
  web::checked_size(range->total);
  return *range;
}

// The value for If-Range: a strong ETag, or else a date. The file may change again within the second of that date, so a reply
// sent in that second has no known version (RFC 9110, 8.8.2.2).
std::string validator_of(const web::HttpHead& head) {
  const std::string_view etag = head.header("etag");
  if (!etag.empty() && !etag.starts_with("W/")) return std::string(etag);
  const std::string changed(head.header("last-modified")), sent(head.header("date"));
  const auto changed_at = web::parse_date(changed), sent_at = web::parse_date(sent);
  return changed_at && sent_at && *sent_at > *changed_at ? changed : std::string();
}

}  // namespace

web::Room Look::place(const web::HttpHead& head) {
  const std::string_view etag = web::unquoted(head.header("etag"));
  version_ = etag.empty() ? head.header("last-modified") : etag;
  if (head.status == 206) {
    const web::ContentRange range = range_of(head);
    if (!range.inside || range.first != 0 || range.last != 0) again("the first byte was requested, the reply has others");
    bytes_ = range.total;
    return std::span<std::uint8_t>(first_);
  }
  const auto length = length_of(head);
  if (!length) never("the server does not report its size");
  bytes_ = *length;
  web::Room room = std::span<std::uint8_t>();
  room.cut = true;
  return room;
}

void Look::take(web::HttpReply& reply, bool is_good) {
  if (!is_good || reply.head.status != 416) return;
  if (const web::ContentRange range = range_of(reply.head); range.inside || range.total != 0) {
    never("HTTP 416: the server refuses the first byte");
  }
  bytes_ = 0;
}

Download::Download(std::uint64_t offset, std::size_t size, std::uint8_t* out)
    : offset_(offset), size_(size), out_(out), room_(size) {}

std::vector<std::pair<std::string, std::string>> Download::headers() const {
  if (!size_ && done_ == 0) return {};
  const std::string end = size_ ? std::to_string(offset_ + *size_ - 1) : "";
  std::vector<std::pair<std::string, std::string>> headers = {{"Range", fmt::format("bytes={}-{}", offset_ + done_, end)}};
  if (done_ > 0) headers.emplace_back("If-Range", validator_);
  return headers;
}

web::Room Download::place(const web::HttpHead& head) { return head.status == 206 ? part(head) : whole(head); }

void Download::begin_again() {
  done_ = 0;
  total_ = 0;
  validator_.clear();
}

void Download::require(std::uint64_t total) const {
  if (!size_ || total >= offset_ + *size_) return;
  never(fmt::format("it has {} bytes, and its bytes up to {} were requested", total, offset_ + *size_));
}

web::Room Download::room_for(std::uint64_t size) {
  if (allocate_ && (out_ == nullptr || room_ != size)) {
    out_ = allocate_(size);
    room_ = size;
  }
  return std::span(out_ + done_, static_cast<std::size_t>(room_ - done_));
}

// The file from its first byte: as requested, or because the server ignores ranges or now has another version.
web::Room Download::whole(const web::HttpHead& head) {
  begin_again();
  const auto length = length_of(head);
  if (length) require(*length);
  validator_ = validator_of(head);
  total_ = length.value_or(0);
  is_text_ = !length && !size_;
  if (is_text_) {
    web::Room room = std::span<std::uint8_t>();
    room.is_text = true;
    return room;
  }
  web::Room room = room_for(size_ ? *size_ : *length);
  room.skip = offset_;
  room.cut = size_.has_value();
  return room;
}

web::Room Download::part(const web::HttpHead& head) {
  const web::ContentRange range = range_of(head);
  const std::string validator = validator_of(head);
  if (done_ > 0 && (range.total != total_ || (!validator.empty() && validator != validator_))) {
    begin_again();
    again("the file was replaced while it was being read");
  }
  require(range.total);
  const std::uint64_t first = offset_ + done_, end = size_ ? offset_ + *size_ : range.total;
  if (!range.inside || range.first != first || range.last + 1 != end) {
    again(fmt::format("bytes {} to {} were requested, the reply's Content-Range is '{}'", first, end - 1,
                      shown(head.header("content-range"))));
  }
  if (const auto length = length_of(head); length && *length != end - first) {
    again(fmt::format("the reply's Content-Length {} and Content-Range '{}' disagree", *length,
                      shown(head.header("content-range"))));
  }
  validator_ = validator;
  total_ = range.total;
  is_text_ = false;
  return room_for(end - offset_);
}

void Download::take(web::HttpReply& reply, bool is_good) {
  const int status = reply.head.status;
  if (is_good && status == 416) {
    if (done_ > 0) {
      begin_again();
      again("HTTP 416: the file was replaced while it was being read");
    }
    const auto range = web::parse_content_range(reply.head.header("content-range"));
    if (range) require(range->total);
    never(fmt::format("HTTP 416: the server refuses the bytes from {} on", offset_));
  }
  if (status != 200 && status != 206) return;
  if (is_text_) {
    if (is_good && !reply.text.empty()) std::memcpy(allocate_(reply.text.size()), reply.text.data(), reply.text.size());
    if (is_good && reply.text.empty()) allocate_(0);
    out_ = nullptr;
    return;
  }
  done_ += reply.received;
  if (!is_good && validator_.empty()) begin_again();  // the rest may belong to another version
}

}  // namespace millrace::http
