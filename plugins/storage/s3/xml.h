// The part of XML that S3 servers speak: elements, text, entities; attributes, comments and the declaration are passed over.
// A document type is refused, so nothing expands and nothing is loaded.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace millrace::s3 {

struct XmlElement {
  std::string name;  // without a namespace prefix
  std::string text;  // of this element itself, as it stands
  std::vector<XmlElement> children;

  const XmlElement* child(std::string_view name) const;   // the first of this name, or null
  std::string_view text_of(std::string_view name) const;  // of a child; empty when there is none
};

// The root element. Throws ErrorKind::storage, saying what is wrong at which byte, for anything that is not one whole document.
XmlElement parse_xml(std::string_view text);

}  // namespace millrace::s3
