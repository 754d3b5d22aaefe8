#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "millrace/util/image_facts.h"

namespace millrace {
namespace {

constexpr std::string_view kOrigin = "Millrace pack: made of ";

}  // namespace

std::string origin_comment(const ImageFacts::Origin& origin) {
  return fmt::format("{}{} {} {} {};", kOrigin, origin.height, origin.width, origin.channels, origin.bits);
}

ImageFacts::Origin origin_in(std::span<const std::uint8_t> file) {
  constexpr std::size_t kHead = 256;  // the comment is the first segment behind that of JFIF
  std::string_view rest(reinterpret_cast<const char*>(file.data()), std::min(file.size(), kHead));
  const std::size_t at = rest.find(kOrigin);
  if (!rest.starts_with("\xff\xd8") || at == rest.npos) return {};
  rest.remove_prefix(at + kOrigin.size());
  std::array<int, 4> numbers{};
  for (int& number : numbers) {
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
    if (error != std::errc() || number < 1 || end == rest.data() + rest.size()) return {};
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()) + 1);
  }
  return {numbers[0], numbers[1], numbers[2], numbers[3]};
}

}  // namespace millrace
