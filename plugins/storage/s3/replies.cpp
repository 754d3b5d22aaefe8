#include "replies.h"

#include "digest.h"
#include "millrace/error.h"
#include "uri.h"
#include "xml.h"

namespace millrace::s3 {

namespace {

[[noreturn]] void inconsistent(std::string_view what) { fail(ErrorKind::storage, "the listing is not consistent: {}", what); }

ListedObject read_object(const XmlElement& element, bool encoded) {
  ListedObject object;
  const XmlElement* key = element.child("Key");
  if (!key) inconsistent("an object without a key");
  std::optional<std::string> name = encoded ? percent_decode(key->text, true) : key->text;
  if (!name || name->empty()) inconsistent("a key that is not URL-encoded as asked");
  object.key = std::move(*name);
  const auto bytes = parse_number(element.text_of("Size"));
  if (!bytes) inconsistent("an object without a size");
  object.bytes = checked_size(*bytes);
  object.etag = unquoted(element.text_of("ETag"));
  return object;
}

}  // namespace

ListPage parse_list_page(std::string_view xml) {
  const XmlElement root = parse_xml(xml);
  if (root.name != "ListBucketResult") {
    fail(ErrorKind::storage, "the reply to a listing is a '{}' instead of a 'ListBucketResult'", printable(root.name));
  }
  const std::string_view encoding = root.text_of("EncodingType");
  if (!encoding.empty() && encoding != "url") inconsistent("an unknown encoding of keys");
  ListPage page;
  for (const XmlElement& element : root.children) {
    if (element.name == "Contents") page.objects.push_back(read_object(element, encoding == "url"));
  }
  if (root.child("KeyCount") && parse_number(root.text_of("KeyCount")) != page.objects.size()) {
    inconsistent("it holds another number of keys than it says");
  }
  const std::string_view truncated = root.text_of("IsTruncated");
  if (truncated != "true" && truncated != "false") inconsistent("it does not say whether more follows");
  if (truncated == "true") {
    page.next = root.text_of("NextContinuationToken");
    if (page.next.empty()) inconsistent("more follows, and there is no token to go on with");
  }
  return page;
}

std::string parse_upload_id(std::string_view xml) {
  const XmlElement root = parse_xml(xml);
  const std::string id(root.text_of("UploadId"));
  if (root.name != "InitiateMultipartUploadResult" || id.empty()) {
    fail(ErrorKind::storage, "the reply to the beginning of an upload is a '{}' without an UploadId", printable(root.name));
  }
  return id;
}

void check_completed(std::string_view xml) {
  const XmlElement root = parse_xml(xml);
  if (root.name == "CompleteMultipartUploadResult") return;
  fail(ErrorKind::storage, "the reply to the end of an upload is a '{}': {} {}", printable(root.name),
       printable(root.text_of("Code")), printable(root.text_of("Message")));
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
    std::string escaped;  // "%0a%1b", which is how URLs have bytes
    for (std::size_t i = 0; i < etag.size(); i += 2) escaped.append("%").append(etag, i, 2);
    sums += percent_decode(escaped).value();
  }
  const std::string sum = md5_hex(sums);
  return sum.empty() ? sum : fmt::format("{}-{}", sum, etags.size());
}

ServerError parse_server_error(std::string_view xml) {
  try {
    const XmlElement root = parse_xml(xml);
    if (root.name != "Error") return {};
    return {printable(root.text_of("Code")), printable(root.text_of("Message")), printable(root.text_of("Region")),
            printable(root.text_of("Endpoint"))};
  } catch (const Error&) {
    return {};  // of a proxy, in HTML; the status has to do
  }
}

}  // namespace millrace::s3
