// XML files. External entities are never read.
#pragma once

#include <string>
#include <string_view>

#include <pugixml.hpp>

namespace millrace {

class XmlDocument {
 public:
  // Throws ErrorKind::data, with the line, for what is not XML.
  XmlDocument(std::string_view text, std::string file);

  pugi::xml_node root() const { return document_.document_element(); }
  std::string place(const pugi::xml_node& node) const;  // "1.xml:12"

 private:
  std::string place_of(std::ptrdiff_t offset) const;

  const std::string_view text_;
  const std::string file_;
  pugi::xml_document document_;
};

// Values of attributes and of child elements. Throw ErrorKind::data, with the name, if they are missing or not a number.
double attribute_number(const pugi::xml_node& node, const char* name);
double child_number(const pugi::xml_node& node, const char* name);

}  // namespace millrace
