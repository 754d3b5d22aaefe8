// Client's requests that write.
#include "client.h"
#include "millrace/error.h"

namespace millrace::s3 {

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
