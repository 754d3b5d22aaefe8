#include "records.h"

#include "millrace/error.h"
#include "millrace/util/text.h"

namespace millrace {

namespace {

constexpr std::int32_t kCoarse = 20, kFine = 100;

CifarFormat cifar100(bool fine) { return {2, fine ? 1U : 0U, fine ? kFine : kCoarse}; }

}  // namespace

CifarFormat cifar_format(std::string_view url, std::uint64_t bytes, bool fine) {
  const CifarFormat ten, hundred = cifar100(fine);
  const bool fits_ten = bytes % ten.record() == 0, fits_hundred = bytes % hundred.record() == 0;
  if (bytes == 0 || (!fits_ten && !fits_hundred)) {
    fail(ErrorKind::data,
         "'{}' has {} bytes: neither whole records of CIFAR-10 ({} bytes each) nor of CIFAR-100 ({}); is it cut off?", url, bytes,
         ten.record(), hundred.record());
  }
  if (fits_ten != fits_hundred) return fits_ten ? ten : hundred;
  return url.find("_batch") != url.npos ? ten : hundred;
}

void cifar_labels(const CifarFormat& format, std::span<const std::uint8_t> records, std::vector<std::int8_t>& labels) {
  for (std::size_t at = format.label_at; at < records.size(); at += format.record()) {
    labels.push_back(records[at] < format.classes ? static_cast<std::int8_t>(records[at]) : std::int8_t{-1});
  }
}

void interleave_planes(const std::uint8_t* planes, std::uint8_t* pixels) {
  constexpr std::size_t kPlane = 32 * 32;
  for (std::size_t i = 0; i < kPlane; ++i) {
    for (std::size_t c = 0; c < 3; ++c) pixels[3 * i + c] = planes[c * kPlane + i];
  }
}

std::vector<std::string> name_lines(std::span<const std::uint8_t> text) {
  std::string_view rest(reinterpret_cast<const char*>(text.data()), text.size());
  std::vector<std::string> names;
  while (!rest.empty()) {
    if (const std::string_view line = next_line(rest); !line.empty()) names.push_back(utf8_text(line));
  }
  return names;
}

}  // namespace millrace
