#include "millrace/storage.h"

#include "millrace/error.h"
#include "millrace/util/paths.h"

namespace millrace {

namespace {

[[noreturn]] void only_reads(const std::string& url) {
  fail(ErrorKind::usage, "'{}' cannot be written: the storage of {}:// is read-only", url, url_scheme(url));
}

}  // namespace

void Storage::list_without(const std::string& url, const std::function<bool(std::string_view name)>& leaves_out,
                           const std::function<void(Object)>& found) {
  list(url, [&](Object object) {
    const std::string_view name = object.name;
    for (std::size_t end = name.find('/'); end < name.size(); end = name.find('/', end + 1)) {
      if (leaves_out(name.substr(0, end))) return;
    }
    if (!leaves_out(name)) found(std::move(object));
  });
}

std::unique_ptr<Storage::Writer> Storage::write(const std::string& url) { only_reads(url); }

void Storage::remove(const std::string& url) { only_reads(url); }

bool Storage::is_empty(const std::string& url) { only_reads(url); }

bool means_absent(const Error& error, std::string_view url) {
  if (error.kind() != ErrorKind::data) return false;
  const std::string_view scheme = url_scheme(url), message = error.message();
  if (scheme == "file") return is_absent(file_url_path(url));
  constexpr std::string_view kBeforeStatus = "': HTTP ";
  const std::size_t at = message.find(kBeforeStatus);
  if (scheme == "http" || scheme == "https" || at == message.npos) return true;
  const std::string_view status = message.substr(at + kBeforeStatus.size(), 3);
  return status == "404" || status == "410";
}

std::string_view url_scheme(std::string_view url) {
  const std::size_t at = url.find("://");
  return at == url.npos ? std::string_view("file") : url.substr(0, at);
}

std::string join_url(std::string_view folder, std::string_view name) {
  std::string url(folder);
  if (!url.empty() && url.back() != '/') url += '/';
  return url.append(name);
}

}  // namespace millrace
