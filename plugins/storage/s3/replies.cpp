#include "replies.h"

#include <pugixml.hpp>

#include "digest.h"
#include "millrace/error.h"
#include "millrace/util/paths.h"
#include "millrace/util/text.h"

namespace millrace::s3 {

namespace {

std::string_view local_name(const pugi::xml_node& element) {
  const std::string_view full = element.name();
  return full.substr(full.find(':') + 1);  // npos + 1 is 0
}

pugi::xml_node child(const pugi::xml_node& element, std::string_view name) {
  return element.find_child([&](const pugi::xml_node& each) { return local_name(each) == name; });
}

// All text of the element; comments and CDATA sections may be in between.
std::string text_in(const pugi::xml_node& element) {
  std::string text;
  for (const pugi::xml_node& part : element) {
    if (part.type() == pugi::node_pcdata || part.type() == pugi::node_cdata) text += part.value();
  }
  return text;
}

std::string text_of(const pugi::xml_node& element, std::string_view name) { return text_in(child(element, name)); }

// A reply that is one complete document. Throws ErrorKind::storage otherwise, and for a document type, which S3 never uses. Only
// XML's five named references and numeric ones are expanded.
class Reply {
 public:
  explicit Reply(std::string_view xml) {
    constexpr unsigned kOptions = pugi::parse_default | pugi::parse_doctype | pugi::parse_ws_pcdata_single;
    const pugi::xml_parse_result result = document_.load_buffer(xml.data(), xml.size(), kOptions, pugi::encoding_utf8);
    if (!result) wrong(result.description(), result.offset, xml.size());
    root_ = document_.document_element();
    for (const pugi::xml_node& part : document_) {
      if (part.type() == pugi::node_doctype) wrong("a document type", part.offset_debug(), xml.size());
      if (part.type() == pugi::node_element && part != root_) wrong("a second root element", part.offset_debug(), xml.size());
    }
  }
  const pugi::xml_node& root() const { return root_; }

 private:
  [[noreturn]] static void wrong(std::string_view what, std::ptrdiff_t at, std::size_t size) {
    fail(ErrorKind::storage, "the reply is not XML: {} at byte {} of {}", what, at, size);
  }

  pugi::xml_document document_;
  pugi::xml_node root_;
};

[[noreturn]] void inconsistent(std::string_view what) { fail(ErrorKind::storage, "the listing is not consistent: {}", what); }

std::string read_key(const pugi::xml_node& element, const char* kind, bool encoded) {
  const pugi::xml_node key = child(element, kind);
  if (!key) inconsistent("an object without a key");
  std::optional<std::string> name = encoded ? percent_decode(text_in(key), true) : text_in(key);
  if (!name || name->empty()) inconsistent("a key that is not URL-encoded as requested");
  return *std::move(name);
}

ListedObject read_object(const pugi::xml_node& element, bool encoded) {
  ListedObject object;
  object.key = read_key(element, "Key", encoded);
  const auto bytes = parse_number(text_of(element, "Size"));
  if (!bytes) inconsistent("an object without a size");
  object.bytes = checked_size(*bytes);
  object.etag = unquoted(text_of(element, "ETag"));
  return object;
}

}  // namespace

ListPage parse_list_page(std::string_view xml) {
  const Reply reply(xml);
  const pugi::xml_node& root = reply.root();
  if (local_name(root) != "ListBucketResult") {
    fail(ErrorKind::storage, "the reply to a listing is a '{}' instead of a 'ListBucketResult'", shown(local_name(root)));
  }
  const std::string encoding = text_of(root, "EncodingType");
  if (!encoding.empty() && encoding != "url") inconsistent("an unknown encoding of keys");
  ListPage page;
  for (const pugi::xml_node& element : root) {
    if (local_name(element) == "Contents") page.objects.push_back(read_object(element, encoding == "url"));
    if (local_name(element) == "CommonPrefixes") page.folders.push_back(read_key(element, "Prefix", encoding == "url"));
  }
  if (child(root, "KeyCount") && parse_number(text_of(root, "KeyCount")) != page.objects.size() + page.folders.size()) {
    inconsistent("its number of keys is wrong");
  }
  const std::string truncated = text_of(root, "IsTruncated");
  if (truncated != "true" && truncated != "false") inconsistent("it does not state whether more follows");
  if (truncated == "true") {
    page.next = text_of(root, "NextContinuationToken");
    if (page.next.empty()) inconsistent("more follows, but the token to continue is missing");
  }
  return page;
}

std::string parse_upload_id(std::string_view xml) {
  const Reply reply(xml);
  const pugi::xml_node& root = reply.root();
  std::string id = text_of(root, "UploadId");
  if (local_name(root) != "InitiateMultipartUploadResult" || id.empty()) {
    fail(ErrorKind::storage, "the reply to the beginning of an upload is a '{}' without an UploadId", shown(local_name(root)));
  }
  return id;
}

void check_completed(std::string_view xml) {
  const Reply reply(xml);
  const pugi::xml_node& root = reply.root();
  if (local_name(root) == "CompleteMultipartUploadResult") return;
  fail(ErrorKind::storage, "the reply to the end of an upload is a '{}': {} {}", shown(local_name(root)),
       shown(text_of(root, "Code")), shown(text_of(root, "Message")));
}

std::string completion(const std::vector<std::string>& etags) {
  std::string xml = "<CompleteMultipartUpload>";
  for (std::size_t i = 0; i < etags.size(); ++i) {
    xml += fmt::format("<Part><PartNumber>{}</PartNumber><ETag>&quot;{}&quot;</ETag></Part>", i + 1, etags[i]);
  }
  return xml + "</CompleteMultipartUpload>";
}

std::string etag_of_parts(const std::vector<std::string>& etags) {
  std::string sums;
  for (const std::string& etag : etags) {
    if (etag.size() != 32 || etag.find_first_not_of("0123456789abcdef") != std::string::npos) return {};
    std::string escaped;  // "%0a%1b", bytes in URL form
    for (std::size_t i = 0; i < etag.size(); i += 2) escaped.append("%").append(etag, i, 2);
    sums += percent_decode(escaped).value();
  }
  const std::string sum = md5_hex(sums);
  return sum.empty() ? sum : fmt::format("{}-{}", sum, etags.size());
}

ServerError parse_server_error(std::string_view xml) {
  try {
    const Reply reply(xml);
    const pugi::xml_node& root = reply.root();
    if (local_name(root) != "Error") return {};
    return {shown(text_of(root, "Code")), shown(text_of(root, "Message")), shown(text_of(root, "Region")),
            shown(text_of(root, "Endpoint"))};
  } catch (const Error&) {
    return {};  // HTML from a proxy; the status must do
  }
}

}  // namespace millrace::s3
