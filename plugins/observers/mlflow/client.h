// MLflow's REST API, version 2.0: the part that recording a run needs. https://mlflow.org/docs/latest/rest-api.html
#pragma once

#include <web/http.h>

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace millrace::mlflow {

// A name that MLflow accepts: at most 250 letters, digits and _-. :/
std::string key_of(std::string_view name);

struct Metric {
  std::string key;  // key_of()
  double value = 0;
  std::int64_t milliseconds = 0;  // since 1970
  std::uint64_t step = 0;
};

// How requests are authorised. Each may be empty.
struct Access {
  std::string authorization;  // a header: "Bearer ...", or "Basic ..."
  std::string authorities;    // a file of certificates to trust
};
std::string basic_authorization(std::string_view user, std::string_view password);  // RFC 7617

using Texts = std::vector<std::pair<std::string, std::string>>;

// Each call is one request, or a few. Throws Error(storage) with the server's answer, within kPatience per request, and within
// about a second of a stop request. Not thread-safe.
class Client {
 public:
  static constexpr web::Milliseconds kPatience{5'000};
  static constexpr std::size_t kMostMetrics = 1000, kMostTexts = 100;  // MLflow's limits per request

  Client(std::string uri, Access access) : uri_(std::move(uri)), access_(std::move(access)) {}

  void stop_at(std::stop_token stop) { stop_ = std::move(stop); }

  std::string experiment(const std::string& name);  // its identifier; created if missing
  std::string create_run(const std::string& experiment, const std::string& name, std::int64_t milliseconds, const Texts& tags);
  void reopen_run(const std::string& run) { update(run, "RUNNING", 0); }
  std::map<std::string, std::uint64_t> newest_steps(const std::string& run);  // by metric
  void log_params(const std::string& run, const Texts& params);
  void log_metrics(const std::string& run, std::span<const Metric> metrics);  // REQUIRES: at most kMostMetrics
  // `status`: FINISHED, FAILED or KILLED. `patience`: instead of kPatience.
  void end_run(const std::string& run, const std::string& status, std::int64_t milliseconds, web::Milliseconds patience);

 private:
  nlohmann::json call(const std::string& method, const std::string& path, const nlohmann::json& body,
                      web::Milliseconds patience = kPatience);
  void update(const std::string& run, const std::string& status, std::int64_t milliseconds,
              web::Milliseconds patience = kPatience);

  web::Http http_;
  const std::string uri_;
  const Access access_;
  std::stop_token stop_;
};

}  // namespace millrace::mlflow
