#include "verdict.h"

#include "millrace/util/text.h"
#include "replies.h"

namespace millrace::s3 {

namespace {

using What = Verdict::What;

// "HTTP 503 SlowDown: Please reduce your request rate."
std::string described(int status, const ServerError& error) {
  std::string text = fmt::format("HTTP {}", status);
  if (!error.code.empty()) text += " " + error.code;
  if (!error.message.empty()) text += ": " + error.message;
  return text;
}

bool may_pass(int status, const std::string& code) {
  static constexpr std::string_view kCodes[] = {"RequestTimeout", "RequestTimeoutException", "SlowDown",
                                                "Throttling",     "ThrottlingException",     "RequestLimitExceeded",
                                                "InternalError",  "ServiceUnavailable"};
  for (const std::string_view one : kCodes) {
    if (code == one) return true;
  }
  return web::is_passing(status);
}

// The bucket's region according to the server; empty if it equals the one used.
std::string other_region(const HttpReply& reply, const ServerError& error, const Asked& asked) {
  std::string region = error.region.empty() ? shown(reply.head.header("x-amz-bucket-region")) : error.region;
  return region == asked.region ? std::string() : region;
}

// True if it rejects the credentials or the clock, and so every request.
bool refuses_all(const std::string& code) { return code == "InvalidAccessKeyId" || code == "RequestTimeTooSkewed"; }

std::string forbidden_hint(const HttpReply& reply, const ServerError& error, const Asked& asked) {
  if (error.code == "SignatureDoesNotMatch") {
    return fmt::format("the server computes another signature for the key id '{}': is the secret key right?", asked.key_id);
  }
  if (error.code == "InvalidAccessKeyId") return fmt::format("the key id '{}' is unknown to the server", asked.key_id);
  if (error.code == "RequestTimeTooSkewed") {
    return fmt::format("this machine's clock is wrong; the server's time is {}", shown(reply.head.header("date")));
  }
  if (error.code == "InvalidObjectState") return "it is archived, and must be restored first";
  if (asked.writes) return fmt::format("the key id '{}' may not write there", asked.key_id);
  return fmt::format("the key id '{}' may not read it, or it does not exist and the key may not list the bucket", asked.key_id);
}

Verdict never(ErrorKind kind, std::string cause) { return {What::never, kind, std::move(cause), false}; }

}  // namespace

Verdict judge(const HttpReply& reply, const Asked& asked) {
  if (!reply.broken.empty()) {
    if (!reply.can_recover) return never(ErrorKind::storage, reply.broken);
    return {What::again, ErrorKind::unreachable, reply.broken, false};
  }
  const int status = reply.head.status;
  if (status == 200 || status == 206 || (status == 416 && asked.ranged) || (status == 204 && asked.writes)) return {};

  const ServerError error = parse_server_error(reply.text);
  const std::string text = described(status, error);
  if (asked.removes && status == 404 && error.code == "NoSuchKey") return {};
  if (may_pass(status, error.code)) return {What::again, ErrorKind::unreachable, text, false};
  if (error.code == "ExpiredToken" || error.code == "TokenRefreshRequired") {
    return {What::never, ErrorKind::storage, text + " (the temporary credentials have run out)", true};
  }
  const bool redirected = status == 301 || status == 302 || status == 307 || status == 308;
  if (redirected || status == 400 || status == 403) {
    const std::string region = other_region(reply, error, asked);
    if (!region.empty()) {
      return never(ErrorKind::data, fmt::format("{} (the bucket '{}' is in the region '{}', but '{}' is set: set AWS_REGION={})",
                                                text, asked.bucket, region, asked.region, region));
    }
  }
  if (redirected) {
    const std::string where = error.endpoint.empty() ? shown(reply.head.header("location")) : error.endpoint;
    return never(ErrorKind::data, fmt::format("{} ({} redirects{}: is AWS_REGION or AWS_ENDPOINT_URL right?)", text, asked.host,
                                              where.empty() ? "" : ", to " + where));
  }
  if (status == 401 || status == 403) {
    return never(refuses_all(error.code) ? ErrorKind::storage : ErrorKind::data,
                 text + " (" + forbidden_hint(reply, error, asked) + ")");
  }
  if (status == 404 || status == 410) {
    const char* what = error.code == "NoSuchBucket"   ? "no such bucket"
                       : error.code == "NoSuchUpload" ? "no such upload"
                                                      : "no such object";
    return never(ErrorKind::data, fmt::format("{} ({} at {})", text, what, asked.host));
  }
  if (status == 412) return never(ErrorKind::storage, text + " (the object was replaced while it was being read)");
  return never(ErrorKind::storage, text);
}

}  // namespace millrace::s3
