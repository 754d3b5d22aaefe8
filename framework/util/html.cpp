#include "millrace/util/html.h"

#include "millrace/util/text.h"

namespace millrace {

std::string html_text(std::string_view text) {
  std::string out;
  for (const char c : utf8_text(text)) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string json_in_html(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  for (const char c : json) c == '<' ? out += "\\u003c" : out += c;
  return out;
}

std::string with_part(std::string page, std::string_view mark, std::string_view part) {
  if (const std::size_t at = page.find(mark); at != std::string::npos) page.replace(at, mark.size(), part);
  return page;
}

}  // namespace millrace
