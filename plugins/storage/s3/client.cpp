#include "client.h"

#include <algorithm>

#include "millrace/error.h"
#include "millrace/util/bytes.h"
#include "millrace/util/sha256.h"
#include "millrace/util/text.h"

namespace millrace::s3 {

namespace {

[[noreturn]] void refuse(std::string_view cause) { throw Error(ErrorKind::storage, std::string(cause)); }

// Parses the head of a reply to a request for `size` bytes from `offset`. Throws if it does not match.
Part promised(const HttpHead& head, std::uint64_t offset, std::size_t size, const std::string& etag) {
  Part part;
  part.etag = head.header("etag");
  if (!etag.empty() && part.etag != etag) refuse("the object was replaced while it was being read: its ETag has changed");
  const std::string_view length = head.header("content-length");
  const auto bytes = parse_number(length);
  if (!length.empty() && !bytes) refuse(fmt::format("the reply's Content-Length is '{}'", shown(length)));
  if (head.status == 200) {  // the whole object, a valid reply
    if (offset != 0 || !bytes || *bytes > size) refuse("the server does not support ranges");
    part.total = *bytes;
    part.bytes = static_cast<std::size_t>(*bytes);
    return part;
  }
  const std::string_view header = head.header("content-range");
  const auto range = parse_content_range(header);
  if (!range || !range->inside) refuse(fmt::format("the reply's Content-Range is '{}'", shown(header)));
  const std::uint64_t last = std::min<std::uint64_t>(offset + size, range->total) - 1;
  if (range->first != offset || range->last != last) {
    refuse(fmt::format("bytes {} to {} were requested, the reply's Content-Range is '{}'", offset, offset + size - 1,
                       shown(header)));
  }
  part.total = checked_size(range->total);
  part.bytes = static_cast<std::size_t>(last - offset + 1);
  if (bytes && *bytes != part.bytes) {
    refuse(fmt::format("the reply's Content-Length {} and Content-Range '{}' disagree", *bytes, shown(header)));
  }
  return part;
}

}  // namespace

Client::Client(Settings settings, Environment environment)
    : settings_(std::move(settings)),
      environment_(std::move(environment)),
      endpoint_(make_endpoint(settings_.endpoint, settings_.region)),
      credentials_(find_credentials(environment_)) {}

std::string Client::http_url(const ObjectUrl& object) const {
  return endpoint_.scheme + "://" + endpoint_.host_of(object.bucket) + endpoint_.path_of(object.bucket, object.key);
}

ListPage Client::list(const std::string& url, const std::string& bucket, const std::string& prefix, const std::string& token,
                      bool one_level) {
  ListPage page;
  Call call{.verb = "list", .url = url, .object = {bucket, ""}, .query = {{"encoding-type", "url"}, {"list-type", "2"}}};
  if (!prefix.empty()) call.query.emplace_back("prefix", prefix);
  if (one_level) call.query.emplace_back("delimiter", "/");
  if (!token.empty()) call.query.emplace_back("continuation-token", token);
  call.check = [&](const HttpReply& reply) { page = parse_list_page(reply.text); };
  send(call);
  return page;
}

Part Client::stat(const std::string& url) {
  Part part;
  Call call{.verb = "access", .url = url, .object = parse_object_url(url), .head = true};
  call.check = [&](const HttpReply& reply) {
    const auto bytes = parse_number(reply.head.header("content-length"));
    if (!bytes) refuse("the reply has no Content-Length");
    part.total = checked_size(*bytes);
    part.etag = reply.head.header("etag");
  };
  send(call);
  return part;
}

Part Client::read(const std::string& url, std::uint64_t offset, std::size_t size, const std::string& etag, const Room& room,
                  const std::stop_token& stop) {
  Part part;
  Call call{.verb = "read", .url = url, .object = parse_object_url(url), .ranged = true};
  call.headers.emplace_back("range", fmt::format("bytes={}-{}", offset, offset + size - 1));
  if (!etag.empty()) call.headers.emplace_back("if-match", etag);
  call.stop = stop;
  call.place = [&](const HttpHead& head) {
    part = promised(head, offset, size, etag);
    return room(part);
  };
  if (send(call).head.status != 416) return part;
  part = stat(url);
  if (part.total > offset)
    fail(ErrorKind::storage, "cannot read '{}': the server refuses the bytes from {} on of {}", url, offset, part.total);
  return part;
}

HttpReply Client::send(Call call) {
  if (!call.body.empty()) call.body_hash = hex_text(sha256(call.body.data(), call.body.size()));
  Retry retry(settings_.retry);
  while (true) {
    const Credentials used = credentials();
    Attempt attempt = try_once(call, used, retry.left());
    const Verdict& verdict = attempt.verdict;
    if (verdict.what == Verdict::What::good) return std::move(attempt.reply);
    const bool renewed = verdict.expired && renew(used);
    if (verdict.what == Verdict::What::never && !renewed) {
      fail(verdict.kind, "cannot {} '{}': {}", call.verb, call.url, verdict.cause);
    }
    const auto time = retry.pause(attempt.reply.retry_after);
    if (!time || call.once || call.stop.stop_requested()) give_up(call, retry, verdict);
    web::wait(*time, call.stop);
  }
}

Client::Attempt Client::try_once(const Call& call, const Credentials& used, Milliseconds left) {
  Attempt attempt;
  const Asked asked{
      call.object.bucket,     endpoint_.host_of(call.object.bucket), settings_.region, used.id, call.ranged, !call.method.empty(),
      call.method == "DELETE"};
  try {
    attempt.reply = http_.perform(prepare(call, used, left));
    attempt.verdict = judge(attempt.reply, asked);
    if (attempt.verdict.what == Verdict::What::good && call.check) call.check(attempt.reply);
    if (call.head && attempt.verdict.what == Verdict::What::never && attempt.reply.broken.empty()) {
      // A reply to HEAD has no body with the reason.
      Call again{.verb = call.verb, .url = call.url, .object = call.object, .headers = {{"range", "bytes=0-0"}}};
      const HttpReply reply = http_.perform(prepare(again, used, std::min(left, settings_.connect)));
      if (Verdict better = judge(reply, asked); better.what == Verdict::What::never) attempt.verdict = std::move(better);
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::storage && error.kind() != ErrorKind::data) throw;
    const auto what = error.kind() == ErrorKind::data ? Verdict::What::never : Verdict::What::again;
    attempt.verdict = {what, error.kind(), error.message(), false};
  }
  return attempt;
}

HttpRequest Client::prepare(const Call& call, const Credentials& used, Milliseconds left) const {
  const std::string host = endpoint_.host_of(call.object.bucket);
  const std::string path = endpoint_.path_of(call.object.bucket, call.object.key);
  HttpRequest request;
  request.head = call.head;
  request.method = call.method;
  request.body = call.body;
  request.url = endpoint_.scheme + "://" + host + path;
  if (!call.query.empty()) request.url.append("?").append(canonical_query(call.query));
  const std::string method = !call.method.empty() ? call.method : call.head ? "HEAD" : "GET";
  request.headers =
      sign(method, host, path, call.query, used, {settings_.region, "s3"}, std::chrono::system_clock::now(), call.body_hash);
  request.headers.insert(request.headers.end(), call.headers.begin(), call.headers.end());
  request.authorities = settings_.authorities;
  request.connect = settings_.connect;
  request.stall = settings_.stall;
  request.total = std::max(left, Milliseconds(1));
  request.place = call.place;
  request.stop = call.stop;
  return request;
}

void Client::give_up(const Call& call, const Retry& retry, const Verdict& verdict) {
  fail(verdict.kind, "cannot {} '{}': {}{}", call.verb, call.url, verdict.cause, retry.gave_up("MILLRACE_S3_TIMEOUT"));
}

Credentials Client::credentials() {
  const std::lock_guard lock(mutex_);
  return credentials_;
}

// True if credentials differ from the ones used.
bool Client::renew(const Credentials& used) {
  const std::lock_guard lock(mutex_);
  if (credentials_ != used) return true;  // by another thread
  try {
    credentials_ = find_credentials(environment_);
  } catch (const Error& error) {
    refuse(error.what());  // not the requested object's fault
  }
  return credentials_ != used;
}

void Client::put(const std::string& url, Bytes bytes) {
  send({.verb = "write", .url = url, .object = parse_object_url(url), .method = "PUT", .body = bytes});
}

void Client::remove(const std::string& url) {
  send({.verb = "remove", .url = url, .object = parse_object_url(url), .method = "DELETE"});
}

std::string Client::begin(const std::string& url) {
  std::string upload;
  Call call{.verb = "write", .url = url, .object = parse_object_url(url), .query = {{"uploads", ""}}, .method = "POST"};
  call.check = [&](const HttpReply& reply) { upload = parse_upload_id(reply.text); };
  send(call);
  return upload;
}

std::string Client::put_part(const std::string& url, const std::string& upload, std::size_t number, Bytes bytes) {
  std::string etag;
  Call call{.verb = "write", .url = url, .object = parse_object_url(url), .method = "PUT", .body = bytes};
  call.query = {{"partNumber", fmt::format("{}", number)}, {"uploadId", upload}};
  call.check = [&](const HttpReply& reply) {
    etag = unquoted(reply.head.header("etag"));
    if (etag.empty()) fail(ErrorKind::storage, "the reply to part {} has no ETag", number);
  };
  send(call);
  return etag;
}

void Client::complete(const std::string& url, const std::string& upload, const std::vector<std::string>& etags) {
  const std::string xml = completion(etags);
  Call call{.verb = "write", .url = url, .object = parse_object_url(url), .query = {{"uploadId", upload}}, .method = "POST"};
  call.body = {reinterpret_cast<const std::uint8_t*>(xml.data()), xml.size()};
  call.check = [](const HttpReply& reply) { check_completed(reply.text); };
  try {
    send(call);
  } catch (const Error& error) {
    // A server discards an upload once it is complete: if its reply was lost, the second attempt finds no upload.
    const std::string whole = etag_of_parts(etags);
    if (error.kind() != ErrorKind::data || whole.empty() || unquoted(stat(url).etag) != whole) throw;
  }
}

void Client::abandon(const std::string& url, const std::string& upload) {
  Call call{.verb = "give up writing", .url = url, .object = parse_object_url(url), .query = {{"uploadId", upload}}};
  call.method = "DELETE";
  call.once = true;
  send(call);
}

}  // namespace millrace::s3
