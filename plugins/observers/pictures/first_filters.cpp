#include "first_filters.h"

#include <fmt/format.h>
#include <sheet.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

namespace millrace::pictures {
namespace {

static_assert(std::endian::native == std::endian::little);  // the byte order of the file's values

constexpr std::uint64_t kLargestHeader = 64 << 20;
constexpr int kMostFilters = 256, kLargestFilter = 64;

struct Filters {
  std::string name;
  int count = 0, channels = 0, height = 0, width = 0;
  std::vector<float> values;  // (count, channels, height, width)
};

// The shape of a tensor in the header if it has displayable filters.
std::optional<Filters> filters_of(const std::string& name, const nlohmann::json& tensor) {
  if (!tensor.is_object() || tensor.value("dtype", "") != "F32") return {};
  const auto shape = tensor.find("shape");
  if (shape == tensor.end() || !shape->is_array() || shape->size() != 4) return {};
  std::vector<int> extents;
  for (const nlohmann::json& extent : *shape) {
    if (!extent.is_number_unsigned() || extent.get<std::uint64_t>() > 1'000'000) return {};
    extents.push_back(extent.get<int>());
  }
  const bool has_colours = extents[1] == 1 || extents[1] == 3;
  if (!has_colours || extents[0] < 1 || std::min(extents[2], extents[3]) < 2 || std::max(extents[2], extents[3]) > kLargestFilter)
    return {};
  return Filters{name, std::min(extents[0], kMostFilters), extents[1], extents[2], extents[3], {}};
}

std::optional<Filters> read_filters(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return {};
  std::ifstream file(path, std::ios::binary);
  std::uint64_t length = 0;
  if (!file.read(reinterpret_cast<char*>(&length), sizeof length) || length > kLargestHeader) return {};
  std::string header(length, '\0');
  if (!file.read(header.data(), static_cast<std::streamsize>(length))) return {};
  // In file order, which is that of the layers.
  const auto json = nlohmann::ordered_json::parse(header, nullptr, false);
  if (!json.is_object()) return {};
  for (const auto& [name, tensor] : json.items()) {
    std::optional<Filters> filters = filters_of(name, nlohmann::json(tensor));
    const auto offsets = tensor.is_object() ? tensor.find("data_offsets") : tensor.end();
    if (!filters || offsets == tensor.end() || !offsets->is_array() || offsets->empty() || !offsets->front().is_number_unsigned())
      continue;
    const std::uint64_t begin = sizeof length + length + offsets->front().get<std::uint64_t>();
    filters->values.resize(static_cast<std::size_t>(filters->count) * static_cast<std::size_t>(filters->channels) *
                           static_cast<std::size_t>(filters->height * filters->width));
    file.seekg(static_cast<std::streamoff>(begin));
    const auto bytes = static_cast<std::streamsize>(filters->values.size() * sizeof(float));
    if (!file.read(reinterpret_cast<char*>(filters->values.data()), bytes)) return {};
    return filters;
  }
  return {};
}

// As pixels, all on one scale: `most` is white, and 0 mid-grey.
drawing::SheetCell cell_of(const Filters& filters, int filter, float most) {
  const auto places = static_cast<std::size_t>(filters.height * filters.width);
  const auto channels = static_cast<std::size_t>(filters.channels);
  const float* values = filters.values.data() + static_cast<std::size_t>(filter) * channels * places;
  std::vector<std::uint8_t> pixels(places * channels);
  for (std::size_t place = 0; place < places; ++place) {
    for (std::size_t c = 0; c < channels; ++c) {
      const float value = values[c * places + place], level = std::isfinite(value) && most > 0 ? 127.5F * (1 + value / most) : 0;
      pixels[place * channels + c] = static_cast<std::uint8_t>(std::lround(level));
    }
  }
  drawing::SheetCell cell;
  cell.images.push_back(drawing::kept({pixels.data(), {filters.height, filters.width, filters.channels}}));
  return cell;
}

}  // namespace

std::optional<drawing::Picture> first_filters(const std::filesystem::path& weights) {
  const std::optional<Filters> filters = read_filters(weights);
  if (!filters) return {};
  float most = 0;
  for (const float value : filters->values) {
    if (std::isfinite(value)) most = std::max(most, std::abs(value));
  }
  drawing::Sheet sheet;
  sheet.title = fmt::format("Filters of the first convolution, {}", filters->name);
  sheet.subtitle = fmt::format("{} of {} x {} x {}, all on one scale: black {:.3g}, grey 0, white {:.3g}", filters->count,
                               filters->channels, filters->height, filters->width, -most, most);
  for (int filter = 0; filter < filters->count; ++filter) sheet.cells.push_back(cell_of(*filters, filter, most));
  sheet.largest = 48;
  sheet.smallest_cell = 0;
  sheet.apart = 8;
  return drawing::draw(sheet);
}

}  // namespace millrace::pictures
