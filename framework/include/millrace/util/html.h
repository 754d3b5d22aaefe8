// Texts that others chose, inside pages that we write.
#pragma once

#include <string>
#include <string_view>

namespace millrace {

// Text between elements or in an attribute: & < > " and ' become references.
std::string html_text(std::string_view text);

// JSON inside <script>, where no reference is read: "<" becomes \u003c, so that it neither ends the element nor begins a comment.
std::string json_in_html(std::string_view json);

// The page with `part` in the place of `mark`, such as "<!--data-->".
std::string with_part(std::string page, std::string_view mark, std::string_view part);

}  // namespace millrace
