#include "signer.h"

#include <fmt/chrono.h>

#include <algorithm>

#include "digest.h"
#include "millrace/error.h"
#include "millrace/util/bytes.h"

namespace millrace::s3 {

namespace {

constexpr char kAlgorithm[] = "AWS4-HMAC-SHA256";

// Trims the value and collapses runs of blanks.
std::string trimmed(const std::string& value) {
  std::string text;
  for (const char c : value) {
    if (c != ' ' || (!text.empty() && text.back() != ' ')) text += c;
  }
  if (text.ends_with(' ')) text.pop_back();
  return text;
}

std::string_view view(const Sha256Sum& digest) { return {reinterpret_cast<const char*>(digest.data()), digest.size()}; }

std::string joined_names(const Headers& headers) {
  std::string names;
  for (const auto& [name, value] : headers) names.append(names.empty() ? "" : ";").append(name);
  return names;
}

std::string canonical_request(const Signable& request, const Headers& sorted) {
  std::string text = request.method + "\n" + request.path + "\n" + canonical_query(request.query) + "\n";
  for (const auto& [name, value] : sorted) text += name + ":" + trimmed(value) + "\n";
  return text + "\n" + joined_names(sorted) + "\n" + request.payload_hash;
}

}  // namespace

std::string authorization(const Signable& request, const Credentials& credentials, const SigningScope& scope) {
  Headers headers = request.headers;
  std::sort(headers.begin(), headers.end());
  const auto date = std::find_if(headers.begin(), headers.end(), [](const auto& header) { return header.first == "x-amz-date"; });
  if (date == headers.end()) fail(ErrorKind::run, "a request without x-amz-date cannot be signed");
  const std::string& time = date->second;
  const std::string day = time.substr(0, 8);

  const std::string where = day + "/" + scope.region + "/" + scope.service + "/aws4_request";
  const std::string to_sign =
      std::string(kAlgorithm) + "\n" + time + "\n" + where + "\n" + hex_text(sha256(canonical_request(request, headers)));
  Sha256Sum key = hmac_sha256("AWS4" + credentials.secret, day);
  for (const std::string_view part :
       {std::string_view(scope.region), std::string_view(scope.service), std::string_view("aws4_request")}) {
    key = hmac_sha256(view(key), part);
  }
  return fmt::format("{} Credential={}/{}, SignedHeaders={}, Signature={}", kAlgorithm, credentials.id, where,
                     joined_names(headers), hex_text(hmac_sha256(view(key), to_sign)));
}

Headers sign(const std::string& method, const std::string& host, const std::string& path, const Query& query,
             const Credentials& credentials, const SigningScope& scope, std::chrono::system_clock::time_point now,
             const std::string& body_hash) {
  Signable request{method, path, query, {}, body_hash.empty() ? hex_text(sha256("")) : body_hash};
  const auto seconds = std::chrono::time_point_cast<std::chrono::seconds>(now);
  request.headers = {{"host", host},
                     {"x-amz-content-sha256", request.payload_hash},
                     {"x-amz-date", fmt::format("{:%Y%m%dT%H%M%SZ}", fmt::gmtime(seconds))}};
  if (!credentials.token.empty()) request.headers.emplace_back("x-amz-security-token", credentials.token);
  std::string value = authorization(request, credentials, scope);
  request.headers.emplace_back("authorization", std::move(value));
  return std::move(request.headers);
}

}  // namespace millrace::s3
