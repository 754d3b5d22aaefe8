#include "document.h"

#include <fmt/format.h>

#include <assets.h>  // made by embed.cmake
#include "millrace/util/html.h"

namespace millrace::page {
namespace {

// `attributes` of the elements of style and script.
std::string document(std::string_view policy, std::string_view attributes, std::string_view data) {
  std::string text(kPageHtml);
  text = with_part(std::move(text), "<!--policy-->", policy);
  text = with_part(std::move(text), "<!--style-->", fmt::format("<style{}>\n{}</style>", attributes, kPageCss));
  text = with_part(std::move(text), "<!--script-->",
                   fmt::format("<script{0}>\n{1}</script>\n<script{0}>\n{2}</script>", attributes, kPlotJs, kPageJs));
  return with_part(std::move(text), "<!--data-->", data);
}

}  // namespace

std::string policy_of(std::string_view nonce) {
  return fmt::format(
      "default-src 'none'; script-src 'nonce-{0}'; style-src 'nonce-{0}'; img-src 'self' data:; connect-src 'self'; base-uri "
      "'none'; "
      "form-action 'none'; frame-ancestors 'none'",
      nonce);
}

std::string live_document(std::string_view nonce) { return document("", fmt::format(" nonce=\"{}\"", nonce), ""); }

std::string kept_document(std::string_view state, std::string_view pictures) {
  const std::string data = fmt::format(
      "<script type=\"application/json\" id=\"state-kept\">{}</script>\n<script type=\"application/json\" "
      "id=\"pictures-kept\">{}</script>",
      json_in_html(state), json_in_html(pictures));
  return document(
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'unsafe-inline'; "
      "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'\">",
      "", data);
}

}  // namespace millrace::page
