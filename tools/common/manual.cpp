#include "common/manual.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>

namespace millrace {
namespace {

// Escapes text for troff: no commands, and minus signs that can be copied.
std::string plain(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\') {
      result += "\\e";
    } else if (c == '-') {
      result += "\\-";
    } else if ((c == '.' || c == '\'') && (result.empty() || result.back() == '\n')) {
      result += "\\&";
      result += c;
    } else {
      result += c;
    }
  }
  return result;
}

// "Runs the pipeline that a TOML file describes": up to the end of the sentence or the beginning of a list.
std::string purpose(std::string text) {
  text.resize(std::min({text.find_first_of(":(\n"), text.find(". "), text.find(", "), text.size()}));
  while (!text.empty() && (text.back() == '.' || text.back() == ' ')) text.pop_back();
  if (!text.empty()) text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  return text;
}

// The forms of a command line, "FILE [options] | --predict IMAGES"; outside brackets one line each.
std::string synopsis(const ProgramText& text) {
  std::string result;
  int depth = 0;
  std::string form;
  const auto end_form = [&] {
    while (!form.empty() && form.back() == ' ') form.pop_back();
    result += fmt::format("{}.B {}\n{}\n", result.empty() ? "" : ".br\n", plain(text.program), plain(form));
    form.clear();
  };
  for (const char c : text.usage) {
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (c == '|' && depth == 0) {
      end_form();
    } else if (c != ' ' || !form.empty()) {
      form += c;
    }
  }
  end_form();
  return result;
}

std::string option_list(const std::vector<OptionText>& options) {
  std::string result;
  for (const OptionText& option : options) {
    const std::string value = option.value_name.empty() ? "" : fmt::format(" \\fI{}\\fR", plain(option.value_name));
    result += fmt::format(".TP\n\\fB{}\\fR{}\n{}\n", plain(option.name), value, plain(option.text));
  }
  return result;
}

std::string others(const std::string& program) {
  std::string result;
  for (const char* name : {"pipeline-run", "pipeline-data", "pipeline-inspect", "pipeline-profile", "pipeline-report"}) {
    if (program != name) result += fmt::format("{}.BR {} (1)", result.empty() ? "" : ",\n", plain(name));
  }
  return result + "\n";
}

}  // namespace

std::string manual_start(const ProgramText& text) {
  std::string title = text.program;
  std::ranges::transform(title, title.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return fmt::format(
      ".TH {} 1 \"\" \"Millrace {}\" \"User Commands\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n{}.SH DESCRIPTION\n{}\n", plain(title),
      MILLRACE_VERSION, plain(text.program), plain(purpose(text.text)), synopsis(text), plain(text.text));
}

std::string manual_end(const std::string& program) {
  std::string end = ".SH EXIT STATUS\n";
  for (const ExitText& exit : kExits) end += fmt::format(".TP\n.B {}\n{}\n", exit.code, exit.text);
  return end + ".SH SEE ALSO\n" + others(program);
}

std::string manual_page(const ProgramText& text) {
  const std::string options = text.options.empty() ? "" : ".SH OPTIONS\n" + option_list(text.options);
  return manual_start(text) + options + manual_end(text.program);
}

std::string manual_section(const ProgramText& verb) {
  return fmt::format(".SS {} {}\n{}\n{}", plain(verb.program), plain(verb.usage), plain(verb.text), option_list(verb.options));
}

}  // namespace millrace
