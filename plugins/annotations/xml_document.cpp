#include "xml_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "millrace/error.h"
#include "millrace/util/text.h"
#include "text_values.h"

namespace millrace {

namespace {

double number_in(const char* text, const char* name) {
  const auto value = parsed_number(text);
  if (!value) fail(ErrorKind::data, "'{}' must be a number, found '{}'", name, shown(text, 40));
  return *value;
}

}  // namespace

XmlDocument::XmlDocument(std::string_view text, std::string file) : text_(text), file_(std::move(file)) {
  const pugi::xml_parse_result result = document_.load_buffer(text.data(), text.size());
  if (!result) fail(ErrorKind::data, "{}: this is not XML: {}", place_of(result.offset), result.description());
}

std::string XmlDocument::place_of(std::ptrdiff_t offset) const {
  const std::string_view before = text_.substr(0, static_cast<std::size_t>(std::max<std::ptrdiff_t>(offset, 0)));
  return fmt::format("{}:{}", file_, std::ranges::count(before, '\n') + 1);
}

std::string XmlDocument::place(const pugi::xml_node& node) const { return place_of(node.offset_debug()); }

double attribute_number(const pugi::xml_node& node, const char* name) {
  const pugi::xml_attribute attribute = node.attribute(name);
  if (!attribute) fail(ErrorKind::data, "<{}> has no '{}'", node.name(), name);
  return number_in(attribute.value(), name);
}

double child_number(const pugi::xml_node& node, const char* name) {
  const pugi::xml_node child = node.child(name);
  if (!child) fail(ErrorKind::data, "<{}> has no <{}>", node.name(), name);
  return number_in(child.text().get(), name);
}

}  // namespace millrace
