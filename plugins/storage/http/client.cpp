#include "client.h"

#include <web/fields.h>

#include <algorithm>
#include <optional>

#include "millrace/storage.h"
#include "millrace/util/text.h"
#include "url.h"

namespace millrace::http {

namespace {

constexpr int kMaxRedirects = 5;
constexpr std::uint64_t kProgress = 1 << 20;                // bytes; slower progress means a server that trickles
constexpr std::size_t kLongestText = std::size_t{1} << 34;  // for a file whose server does not send its size

bool is_redirect(int status) { return status == 301 || status == 302 || status == 303 || status == 307 || status == 308; }

// Explains a broken exchange that retries cannot fix.
std::string explained(const std::string& broken) {
  const bool is_untrusted = broken.find("certificate problem") != std::string::npos;
  return broken + (is_untrusted ? "; CURL_CA_BUNDLE or SSL_CERT_FILE names a file of the certificates to trust" : "");
}

// Judges a complete reply. Throws Refusal; otherwise returns the reason for another attempt, or "".
std::string judged(int status) {
  if (status == 200 || status == 206 || status == 416) return {};
  const std::string text = fmt::format("HTTP {}", status);
  if (web::is_passing(status)) return text;
  if (status == 404 || status == 410) throw Refusal{ErrorKind::data, text + " (no such file)"};
  if (status == 401)
    throw Refusal{ErrorKind::data, text + " (the server requires a name and a password: put them into ~/.netrc)"};
  if (status == 403) throw Refusal{ErrorKind::data, text + " (the server does not allow it)"};
  if (status == 407) throw Refusal{ErrorKind::data, text + " (the proxy requires a name and a password)"};
  throw Refusal{ErrorKind::storage, text};
}

}  // namespace

Settings read_settings(const web::Environment& environment) {
  Settings settings;
  settings.retry.attempts = static_cast<int>(
      web::number(environment, "MILLRACE_HTTP_ATTEMPTS", settings.retry.attempts, 1, 1000, "a number of attempts"));
  settings.retry.deadline = web::seconds(environment, "MILLRACE_HTTP_TIMEOUT", settings.retry.deadline);
  settings.connect = web::seconds(environment, "MILLRACE_HTTP_CONNECT_TIMEOUT", settings.connect);
  settings.stall = web::seconds(environment, "MILLRACE_HTTP_STALL_TIMEOUT", settings.stall);
  settings.authorities = environment("CURL_CA_BUNDLE");
  if (settings.authorities.empty()) settings.authorities = environment("SSL_CERT_FILE");
  return settings;
}

// Each request consists of its URL alone, so that no header follows a redirect to another host.
web::HttpReply Client::follow(web::HttpRequest request, std::string& at) {
  const std::string first = at;
  web::Reach nearest = web::Reach::network;  // limit for redirects to other hosts
  for (int redirects = 0;; ++redirects) {
    request.url = at;
    request.use_netrc = is_same_origin(first, at);
    request.nearest = request.use_netrc ? web::Reach::link : nearest;
    const web::Reach reach = web::reach_of(host_of(at)).value_or(web::Reach::world);
    if (reach < request.nearest) throw Refusal{ErrorKind::storage, web::refused_redirect(reach)};  // a proxy would do it
    web::HttpReply reply = http_.perform(request);
    nearest = std::max(nearest, reply.from);
    const int status = reply.head.status;
    if (!reply.broken.empty() || !is_redirect(status)) return reply;
    if (redirects == kMaxRedirects) {
      throw Refusal{ErrorKind::storage, fmt::format("HTTP {}, after {} redirects already", status, kMaxRedirects)};
    }
    const std::string location(reply.head.header("location"));
    const std::string next = resolved(at, location);
    if (next.empty()) {
      throw Refusal{ErrorKind::storage,
                    fmt::format("HTTP {} redirects to '{}', which is not an http or https URL", status, shown(location))};
    }
    if (at.starts_with("https:") && !next.starts_with("https:")) {
      throw Refusal{ErrorKind::storage, fmt::format("HTTP {} redirects from https to '{}'", status, next)};
    }
    at = next;
  }
}

// `left`: time until the deadline without progress.
Client::Attempt Client::try_once(const std::string& url, Task& task, web::Milliseconds left) {
  Attempt attempt;
  std::string at = url;
  web::HttpRequest request;
  request.headers = task.headers();
  request.authorities = settings_.authorities;
  request.connect = std::min(settings_.connect, left);
  request.stall = settings_.stall;
  request.progress = {kProgress, left};
  request.longest_text = kLongestText;
  request.place = [&](const web::HttpHead& head) { return task.place(head); };
  const auto where = [&] { return at == url ? std::string() : fmt::format(", redirected to '{}'", at); };
  try {
    attempt.reply = follow(std::move(request), at);
    if (!attempt.reply.broken.empty()) {
      if (!attempt.reply.can_recover) throw Refusal{ErrorKind::storage, explained(attempt.reply.broken)};
      attempt.cause = attempt.reply.broken;
    } else {
      attempt.cause = judged(attempt.reply.head.status);
    }
    task.take(attempt.reply, attempt.cause.empty());
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::data) throw Refusal{error.kind(), error.message() + where()};
    if (error.kind() != ErrorKind::storage) throw;
    attempt.cause = error.message();
    attempt.kind = error.kind();
  } catch (Refusal& refusal) {
    throw Refusal{refusal.kind, refusal.cause + where()};
  }
  if (!attempt.cause.empty()) attempt.cause += where();
  return attempt;
}

void Client::run(const std::string& url, Task& task) {
  const std::string sent = sendable(url);
  std::optional<web::Retry> retry(settings_.retry);
  std::uint64_t done = 0;
  try {
    while (true) {
      const Attempt attempt = try_once(sent, task, std::max(retry->left(), web::Milliseconds(1)));
      if (attempt.cause.empty()) return;
      if (task.done() >= done + kProgress) {
        done = task.done();
        retry.emplace(settings_.retry);
      }
      const auto time = retry->pause(attempt.reply.retry_after);
      if (!time) throw Refusal{attempt.kind, attempt.cause + retry->gave_up("MILLRACE_HTTP_TIMEOUT")};
      web::wait(*time);
    }
  } catch (const Refusal& refusal) {
    fail(refusal.kind, "cannot {} '{}': {}", task.verb(), url, refusal.cause);
  }
}

}  // namespace millrace::http
