#include "client.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "millrace/error.h"
#include "millrace/util/text.h"

namespace millrace::mlflow {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kLongestKey = 250, kLongestValue = 500;  // 6,000 from MLflow 2.9 on

// JSON cannot express non-finite values; MLflow reads these texts.
Json value_of(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

std::string percent_encoded(std::string_view text) {
  std::string encoded;
  for (const char c : text) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
    encoded += is_plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return encoded;
}

Json texts(const Texts& all) {
  Json list = Json::array();
  for (const auto& [key, value] : all)
    list.push_back({{"key", key_of(key)}, {"value", shown(utf8_text(value), kLongestValue - 3)}});
  return list;
}

// MLflow's message about a refused request: {"error_code":"...","message":"..."}.
std::string refusal(const web::HttpReply& reply) {
  const Json body = Json::parse(reply.text, nullptr, false);
  const bool is_said = body.is_object() && body.contains("message") && body["message"].is_string();
  const std::string said = is_said ? body["message"].get<std::string>() : reply.text;
  return fmt::format("HTTP {}: {}", reply.head.status, shown(said));
}

}  // namespace

std::string key_of(std::string_view name) {
  std::string key(name.substr(0, kLongestKey));
  std::ranges::replace_if(
      key,
      [](char c) {
        const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        return !is_plain && std::string_view("_-. :/").find(c) == std::string_view::npos;
      },
      '_');
  return key;
}

std::string basic_authorization(std::string_view user, std::string_view password) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text = fmt::format("{}:{}", user, password), encoded = "Basic ";
  const std::size_t padding = (3 - text.size() % 3) % 3;
  text.append(padding, '\0');
  for (std::size_t at = 0; at < text.size(); at += 3) {
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 3; ++i) bits = bits << 8U | static_cast<std::uint8_t>(text[at + i]);
    for (unsigned shift = 24; shift > 0; shift -= 6) encoded += kDigits[bits >> (shift - 6) & 63U];
  }
  return encoded.replace(encoded.size() - padding, padding, padding, '=');
}

Json Client::call(const std::string& method, const std::string& path, const Json& body, web::Milliseconds patience) {
  if (stop_.stop_requested()) fail(ErrorKind::storage, "'{}': there is no time left for it", path);
  const std::string text = body.is_null() ? "" : body.dump();
  web::HttpRequest request;
  if (method != "GET") request.method = method;
  request.url = fmt::format("{}/api/2.0/mlflow/{}", uri_, path);
  request.body = {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
  request.headers = {{"Content-Type", "application/json"}};
  if (!access_.authorization.empty()) request.headers.emplace_back("Authorization", access_.authorization);
  request.authorities = access_.authorities;
  request.stop = stop_;
  request.connect = request.stall = request.total = patience;
  const web::HttpReply reply = http_.perform(request);
  if (!reply.broken.empty()) fail(ErrorKind::storage, "'{}': {}", request.url, reply.broken);
  if (reply.head.status == 404 && method == "GET") return nullptr;
  if (reply.head.status != 200) fail(ErrorKind::storage, "'{}': {}", request.url, refusal(reply));
  Json answer = Json::parse(reply.text.empty() ? "{}" : reply.text, nullptr, false);
  if (!answer.is_object()) fail(ErrorKind::storage, "'{}': the answer is no JSON: {}", request.url, shown(reply.text));
  return answer;
}

// Two runs may begin at once: if another one has just created it, it is found then.
std::string Client::experiment(const std::string& name) {
  const auto find = [&]() -> std::string {
    const Json found = call("GET", "experiments/get-by-name?experiment_name=" + percent_encoded(name), nullptr);
    return found.is_null() ? "" : found.at("experiment").at("experiment_id").get<std::string>();
  };
  if (const std::string found = find(); !found.empty()) return found;
  try {
    return call("POST", "experiments/create", {{"name", name}}).at("experiment_id").get<std::string>();
  } catch (const Error&) {
    if (const std::string found = find(); !found.empty()) return found;
    throw;
  }
}

std::string Client::create_run(const std::string& experiment, const std::string& name, std::int64_t milliseconds,
                               const Texts& tags) {
  const Json made =
      call("POST", "runs/create",
           {{"experiment_id", experiment}, {"run_name", name}, {"start_time", milliseconds}, {"tags", texts(tags)}});
  return made.at("run").at("info").at("run_id").get<std::string>();
}

std::map<std::string, std::uint64_t> Client::newest_steps(const std::string& run) {
  std::map<std::string, std::uint64_t> steps;
  const Json found = call("GET", "runs/get?run_id=" + percent_encoded(run), nullptr);
  if (found.is_null()) fail(ErrorKind::storage, "'{}' has no run {}", uri_, run);
  const Json& data = found.at("run").at("data");
  if (!data.contains("metrics")) return steps;
  for (const Json& metric : data["metrics"]) steps[metric.at("key")] = metric.value("step", std::uint64_t{0});
  return steps;
}

void Client::log_params(const std::string& run, const Texts& params) {
  for (std::size_t at = 0; at < params.size(); at += kMostTexts) {
    const auto begin = params.begin() + static_cast<std::ptrdiff_t>(at);
    const auto end = begin + static_cast<std::ptrdiff_t>(std::min(kMostTexts, params.size() - at));
    call("POST", "runs/log-batch", {{"run_id", run}, {"params", texts({begin, end})}});
  }
}

void Client::log_metrics(const std::string& run, std::span<const Metric> metrics) {
  Json list = Json::array();
  for (const Metric& each : metrics) {
    list.push_back({{"key", each.key}, {"value", value_of(each.value)}, {"timestamp", each.milliseconds}, {"step", each.step}});
  }
  call("POST", "runs/log-batch", {{"run_id", run}, {"metrics", std::move(list)}});
}

void Client::update(const std::string& run, const std::string& status, std::int64_t milliseconds, web::Milliseconds patience) {
  Json body = {{"run_id", run}, {"status", status}};
  if (milliseconds > 0) body["end_time"] = milliseconds;
  call("POST", "runs/update", body, patience);
}

void Client::end_run(const std::string& run, const std::string& status, std::int64_t milliseconds, web::Milliseconds patience) {
  update(run, status, milliseconds, patience);
}

}  // namespace millrace::mlflow
