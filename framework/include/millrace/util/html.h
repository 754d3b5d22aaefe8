// Escapes foreign texts in generated pages.
#pragma once

#include <string>
#include <string_view>

namespace millrace {

// Text for elements or attributes: & < > " and ' become references.
std::string html_text(std::string_view text);

// JSON for <script>, where references are not decoded: "<" becomes \u003c, so that it neither ends the element nor begins a
// comment.
std::string json_in_html(std::string_view json);

// The page with `mark`, such as "<!--data-->", replaced by `part`.
std::string with_part(std::string page, std::string_view mark, std::string_view part);

}  // namespace millrace
