#include "findings.h"

#include <fstream>

#include "millrace/error.h"

namespace millrace::gpu {

void write_json(const std::filesystem::path& file, const Json& json) {
  const std::filesystem::path part = file.string() + ".part";
  {
    std::ofstream stream(part);
    stream << json.dump(1, ' ', false, Json::error_handler_t::replace) << '\n';  // logs may hold any bytes
    stream.close();
    if (!stream) fail(ErrorKind::storage, "'{}' could not be written", part.string());
  }
  std::error_code error;
  std::filesystem::rename(part, file, error);
  if (error) fail(ErrorKind::storage, "'{}' could not be written: {}", file.string(), error.message());
}

void Findings::write(const char* key, const std::string& text) const {
  Json json;
  if (!text.empty()) json[key] = text;
  json["answer"] = answer;
  write_json(file_, json);
}

void Findings::doing(const std::string& what) {
  doing_ = what;
  save();
}

void Findings::save() const { write("doing", doing_); }

void Findings::done() { doing({}); }

void Findings::failed(const std::string& why) { write("error", doing_.empty() ? why : doing_ + ": " + why); }

double Findings::left() const {
  return seconds_ - std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

}  // namespace millrace::gpu
