#include "millrace/storage.h"

namespace millrace {

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
