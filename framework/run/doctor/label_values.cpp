// A few label images: their values and palettes, which otherwise go unnoticed, as with masks of 0 and 255 and classes 0 and 1.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/sample_order.h"
#include "millrace/detail/random.h"
#include "millrace/error.h"
#include "millrace/sample.h"
#include "millrace/util/label_values.h"
#include "millrace/util/sample_cache.h"
#include "millrace/util/text.h"
#include "run/doctor/doctor.h"

namespace millrace {

namespace {

using Bytes = std::span<const std::uint8_t>;

bool is(Bytes bytes, std::string_view text) {
  return std::ranges::equal(bytes, text, [](std::uint8_t a, char b) { return a == static_cast<std::uint8_t>(b); });
}

constexpr std::size_t kSignature = 8, kColourType = 25;
constexpr std::uint8_t kGrey = 0, kPalette = 3;

std::optional<std::uint8_t> colour_type(Bytes png) {
  if (png.size() <= kColourType || !is(png.first(kSignature), "\x89PNG\r\n\x1a\n")) return std::nullopt;
  return png[kColourType];
}

// The colours of a PNG's palette, three bytes each; empty if it has none. The file is untrusted.
Bytes palette_of(Bytes png) {
  constexpr std::size_t kFrame = 12;
  png = png.subspan(kSignature);
  while (png.size() >= kFrame) {  // length, type, data, checksum
    std::size_t length = 0;
    for (const std::uint8_t byte : png.first(4)) length = length << 8U | byte;
    const Bytes type = png.subspan(4, 4);
    if (length > png.size() - kFrame || is(type, "IDAT")) return {};
    if (is(type, "PLTE")) return png.subspan(8, length);
    png = png.subspan(kFrame + length);
  }
  return {};
}

constexpr std::size_t kMaxNamed = 5;                // values or classes
constexpr std::uint64_t kLeastBeforeRefusal = 256;  // images, if the listing has that many

// What a few label images hold. A value is an index into its own file's palette: programs that sort or shorten palettes give one
// colour different indices, so that one value means several classes. If classes have colours, a value may have another class's.
struct Look {
  struct Seen {
    std::string colour, place;
  };
  std::uint64_t images = 0, pixels = 0;
  std::array<std::uint64_t, 256> counts{};    // by value
  std::uint64_t unread = 0;                   // images that could not be decoded
  std::string first_cause;                    // the first such cause
  std::array<std::optional<Seen>, 256> seen;  // colours of palettes, by value
  std::string difference;                     // the first value with two colours; "": none
  // The first value whose colour belongs to another class: in a palette, in a grey image. Grey values are seldom colours, unless
  // no class has the value, or other files are in colours.
  std::string contradiction, grey;
  bool has_colours = false;  // some files have colours
};

void add_colour(const GraphData& data, std::size_t value, const Look::Seen& here, bool is_grey, Look& look) {
  const auto colour = std::ranges::find(data.colours, here.colour);
  const std::uint8_t own = data.target.classes[value];
  const bool is_own = own < data.colours.size() && data.colours[own] == here.colour;
  std::string& text = is_grey && own != data.target.ignored ? look.grey : look.contradiction;
  if (colour != data.colours.end() && data.colours.size() <= data.classes.size() && !is_own && text.empty()) {
    text = fmt::format("value {} is {} in '{}', which is the colour of class '{}'", value, here.colour, here.place,
                       line_text(data.classes[static_cast<std::size_t>(colour - data.colours.begin())]));
  }
  if (is_grey) return;
  if (!look.seen[value]) look.seen[value] = here;
  const Look::Seen& before = *look.seen[value];
  if (before.colour == here.colour || !look.difference.empty()) return;
  look.difference =
      fmt::format("value {} is {} in '{}' and {} in '{}'", value, before.colour, before.place, here.colour, here.place);
}

// Adds the colours of the values in `labels` if `file` is a PNG that is read by values: one with a palette, or grey.
void add_colours(const GraphData& data, Bytes file, ImageView labels, const std::string& place, Look& look) {
  const auto type = colour_type(file);
  const bool is_grey = type == kGrey;
  if (!is_grey && (type != kPalette || reads_palettes_by_colour(data.target, data.colours.size()))) {
    look.has_colours = look.has_colours || type.has_value();
    return;
  }
  const Bytes palette = is_grey ? Bytes() : palette_of(file);
  std::array<bool, 256> has{};
  for (std::size_t pixel = 0; pixel < labels.shape.bytes(); ++pixel) has[labels.data[pixel]] = true;
  for (std::size_t value = 0; value < has.size(); ++value) {
    if (!has[value] || (!is_grey && 3 * value + 2 >= palette.size())) continue;
    const auto channel = [&](std::size_t c) { return is_grey ? static_cast<std::uint8_t>(value) : palette[3 * value + c]; };
    const std::string colour = fmt::format("#{:02x}{:02x}{:02x}", channel(0), channel(1), channel(2));
    add_colour(data, value, {colour, line_text(place)}, is_grey, look);
  }
}

// The decoding stage at the graph's beginning; null if there is none. A cache of files may precede it.
SampleTransform* decoder_of(const GraphBuild& build) {
  for (const auto& instances : build.stages()) {
    if (instances.empty()) break;
    if (dynamic_cast<SampleCache*>(instances.front().get()) != nullptr) continue;
    if (auto* transform = dynamic_cast<SampleTransform*>(instances.front().get())) return transform;
  }
  return nullptr;
}

Look look_at(const GraphBuild& build, std::uint64_t seed, std::uint64_t most) {
  Look look;
  Source& source = *build.data().source;
  SampleTransform* const decoder = decoder_of(build);
  if (decoder == nullptr) return look;
  TargetSpec as_stored = build.data().target;
  for (std::size_t value = 0; value < as_stored.classes.size(); ++value)
    as_stored.classes[value] = static_cast<std::uint8_t>(value);
  const SampleOrder order(source, seed);
  const std::uint64_t count = std::min(most, order.listed());
  Sample sample;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t at = i * order.listed() / count;
    try {
      sample.reset({0, at, order.listed(at), 0}, {}, as_stored);
      source.read(sample);
      Draw draw(seed, sample.key, 0);
      decoder->process(sample, draw);
    } catch (const Error& error) {
      if (look.unread++ == 0) look.first_cause = fmt::format("sample '{}': {}", line_text(sample.place()), error.what());
      continue;
    }
    const ImageView target = sample.target();
    for (std::size_t pixel = 0; pixel < target.shape.bytes(); ++pixel) ++look.counts[target.data[pixel]];
    look.pixels += target.shape.bytes();
    ++look.images;
    add_colours(build.data(), {sample.encoded_target.data(), sample.encoded_target.size()}, target,
                sample.target_url.empty() ? sample.place() : sample.target_url, look);
  }
  return look;
}

// "255 (41.3 %), 7 (0.2 %) and 3 more", the most frequent first.
std::string values_text(std::vector<std::uint8_t> values, const Look& look) {
  std::stable_sort(values.begin(), values.end(), [&](auto a, auto b) { return look.counts[a] > look.counts[b]; });
  std::string text;
  for (std::size_t i = 0; i < std::min(values.size(), kMaxNamed); ++i) {
    text += fmt::format("{}{} ({:.3g} %)", i == 0 ? "" : ", ", values[i],
                        100.0 * static_cast<double>(look.counts[values[i]]) / static_cast<double>(look.pixels));
  }
  return values.size() > kMaxNamed ? fmt::format("{} and {} more", text, values.size() - kMaxNamed) : text;
}

// Values of the label images that belong to no class and are not ignored.
std::vector<std::uint8_t> unnamed_values(const GraphBuild& build, const Look& look) {
  const auto* names = dynamic_cast<const NamesLabelValues*>(build.data().source);
  const TargetSpec& spec = build.data().target;
  std::vector<std::uint8_t> values;
  for (std::size_t value = 0; value < look.counts.size(); ++value) {
    const auto byte = static_cast<std::uint8_t>(value);
    const bool named = names != nullptr ? names->names(byte) : spec.classes[value] != spec.ignored || byte == spec.ignored;
    if (look.counts[value] > 0 && !named) values.push_back(byte);
  }
  return values;
}

// Classes without a pixel.
std::vector<std::string> lacking_classes(const std::vector<std::string>& classes, const TargetSpec& spec, const Look& look) {
  std::vector<bool> seen(256);
  for (std::size_t value = 0; value < look.counts.size(); ++value)
    seen[spec.classes[value]] = seen[spec.classes[value]] || look.counts[value] > 0;
  std::vector<std::string> lacking;
  for (std::size_t label = 0; label < classes.size() && label < seen.size(); ++label) {
    if (!seen[label]) lacking.push_back(line_text(classes[label]));
  }
  return lacking;
}

// "classes 'object', 'sky' have no pixel in them"
std::string lacking_text(const std::vector<std::string>& lacking) {
  if (lacking.empty()) return {};
  const bool one = lacking.size() == 1;
  const std::size_t named = std::min(lacking.size(), kMaxNamed);
  const auto end = lacking.begin() + static_cast<std::ptrdiff_t>(named);
  return fmt::format("class{} '{}'{} {} no pixel in them", one ? "" : "es", fmt::join(lacking.begin(), end, "', '"),
                     lacking.size() > named ? fmt::format(" and {} more", lacking.size() - named) : "", one ? "has" : "have");
}

// Whether any pixel belongs to a class.
bool has_class(const TargetSpec& spec, const Look& look) {
  for (std::size_t value = 0; value < look.counts.size(); ++value) {
    if (look.counts[value] > 0 && spec.classes[value] != spec.ignored) return true;
  }
  return false;
}

// If colours define classes, this value stands for all other colours.
bool is_other_colour(const GraphBuild& build, const std::vector<std::uint8_t>& unnamed) {
  return !build.data().colours.empty() && unnamed.size() == 1 && unnamed[0] == build.data().classes.size();
}

[[noreturn]] void refuse_without_class(const GraphBuild& build, const Look& look) {
  std::vector<std::uint8_t> found;
  for (std::size_t value = 0; value < look.counts.size(); ++value) {
    if (look.counts[value] > 0) found.push_back(static_cast<std::uint8_t>(value));
  }
  const std::vector<std::uint8_t> unnamed = unnamed_values(build, look);
  const bool by_colour = is_other_colour(build, unnamed);
  fail(ErrorKind::data,
       "{}: no pixel of {} label images is of a class, so nothing would be trained: they hold the value{} {}, which {}; {}",
       place_of_source(build), look.images, found.size() == 1 ? "" : "s", values_text(found, look),
       unnamed.empty() ? "`ignored` names"
       : by_colour     ? "stands for all colours that no class has"
                       : "no class has",
       by_colour ? "palettes are read by their colours where each class has a `colour`, and by their indices with `ids`"
                 : "`ids` of a class names its values");
}

// Doubts about the values; "" if there are none.
std::string text_of_values(const GraphBuild& build, const Look& look) {
  const std::vector<std::uint8_t> unnamed = unnamed_values(build, look);
  const std::vector<std::string> lacking = lacking_classes(build.data().classes, build.data().target, look);
  if (unnamed.empty()) {
    // A rare class may be missing from a few images, but not all classes except one; predictions may be of one class.
    const bool is_no_chance = look.images >= build.data().samples_per_epoch || lacking.size() + 1 >= build.data().classes.size();
    return lacking.empty() || !is_no_chance || only_predicts(build.plan()) ? "" : lacking_text(lacking);
  }
  const bool has_colours = is_other_colour(build, unnamed);
  return fmt::format(
      "no class has the value{} {}{}, so such pixels are not counted{}; {} of a class names its values, and `ignored` those that "
      "should not be counted",
      unnamed.size() == 1 ? "" : "s", values_text(unnamed, look),
      has_colours ? ", which stands for all colours in label images that no class has" : "",
      lacking.empty() ? "" : "; " + lacking_text(lacking), has_colours ? "`colour` or `ids`" : "`ids`");
}

// Doubts about the palettes' colours.
std::string text_of_palettes(const Look& look) {
  const std::string& contradiction = look.contradiction.empty() && look.has_colours ? look.grey : look.contradiction;
  if (!contradiction.empty()) {
    return contradiction +
           ", and here values distinguish classes, not colours: if colours are meant, remove `ids` and save all label images in "
           "RGB or with a palette";
  }
  if (look.difference.empty()) return {};
  return look.difference + ", and values distinguish classes, not colours: if colours are meant, give each class its `colour`";
}

}  // namespace

void look_at_label_values(const GraphBuild& build, std::uint64_t seed, std::uint64_t most, const Doubt& doubt) {
  if (build.data().source == nullptr || build.data().target.kind != TargetSpec::Kind::classes) return;
  Look look = look_at(build, seed, most);
  const auto is_useless = [&] {
    return look.images == 0 ? look.unread > 0 : look.pixels > 0 && !has_class(build.data().target, look);
  };
  if (is_useless() && build.trains()) {
    look = look_at(build, seed, std::max(most, kLeastBeforeRefusal));
    if (look.images > 0 && is_useless()) refuse_without_class(build, look);
  }
  if (look.images == 0 && look.unread > 0) {
    std::string text = fmt::format("{}: {} images with label images were checked, and none of them can be used; the first: {}",
                                   place_of_source(build), look.unread, look.first_cause);
    if (build.trains()) throw Error(ErrorKind::data, std::move(text));
    return doubt(std::move(text));
  }
  if (look.pixels == 0) return;
  const std::string values = text_of_values(build, look), palettes = text_of_palettes(look);
  if (values.empty() && palettes.empty()) return;
  doubt(fmt::format("{}: {} label image{} {} checked: {}{}{}", place_of_source(build), look.images, look.images == 1 ? "" : "s",
                    look.images == 1 ? "was" : "were", palettes, palettes.empty() || values.empty() ? "" : "; ", values));
}

void check_label_values(const PreparedRun& run, const Doubt& doubt) {
  constexpr std::uint64_t kLabelImages = 16;  // of each graph
  for (const auto& build : run.builds)
    look_at_label_values(*build, static_cast<std::uint64_t>(run.pipeline.run.seed), kLabelImages, doubt);
}

}  // namespace millrace
