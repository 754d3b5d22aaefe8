#include "screen.h"

#include <fmt/format.h>
#include <wchar.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cwchar>
#include <utility>

#include "millrace/util/text.h"

namespace millrace::top {

namespace {

constexpr std::size_t kMessages = 4;
constexpr std::size_t kScale = 9;  // columns in front of a plot
constexpr const char *kBlue = "\x1b[34m", *kOrange = "\x1b[33m", *kBold = "\x1b[1m", *kDim = "\x1b[2m", *kPlain = "\x1b[0m";

// A UTF-8 character, or a colour sequence.
struct Glyph {
  std::size_t bytes = 1;
  std::size_t columns = 1;  // on a terminal: 2 for a Chinese character, 0 for a combining accent
};

// The terminal's output is independent of the program's locale, "C".
class Utf8 {
 public:
  Utf8() : before_(uselocale(locale())) {}
  ~Utf8() { uselocale(before_); }
  Utf8(const Utf8&) = delete;
  Utf8& operator=(const Utf8&) = delete;

  static Glyph glyph(std::string_view text) {  // at the beginning of the text
    if (text[0] == '\x1b') return {std::min(text.find('m'), text.size() - 1) + 1, 0};
    wchar_t character = 0;
    std::mbstate_t state{};
    const std::size_t bytes = std::mbrtowc(&character, text.data(), text.size(), &state);
    if (bytes == 0 || bytes > text.size()) return {};  // invalid UTF-8
    return {bytes, static_cast<std::size_t>(std::max(wcwidth(character), 0))};
  }

 private:
  static locale_t locale() {
    static const locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
    return utf8;  // null if the system has none, which changes nothing
  }
  const locale_t before_;
};

std::size_t columns_of(std::string_view text) {
  const Utf8 utf8;
  std::size_t count = 0;
  while (!text.empty()) {
    const Glyph next = Utf8::glyph(text);
    count += next.columns;
    text.remove_prefix(next.bytes);
  }
  return count;
}

// The part that fits into `most` columns; resets colours.
std::string cut(const std::string& text, std::size_t most) {
  if (columns_of(text) <= most) return text;
  const Utf8 utf8;
  std::string out;
  for (std::string_view rest = text; !rest.empty();) {
    const Glyph next = Utf8::glyph(rest);
    if (next.columns > most) break;
    most -= next.columns;
    out += rest.substr(0, next.bytes);
    rest.remove_prefix(next.bytes);
  }
  return out + (text.find('\x1b') == std::string::npos ? "" : kPlain);
}

std::string padded(const std::string& text, std::size_t columns) {
  std::string fits = cut(text, columns);
  return fits.append(columns - columns_of(fits), ' ');
}

std::string bar(double part, std::size_t columns) {
  static constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const auto eighths = static_cast<std::size_t>(std::lround(std::clamp(part, 0.0, 1.0) * 8 * static_cast<double>(columns)));
  std::string text;
  for (std::size_t i = 0; i < eighths / 8; ++i) text += "█";
  text += kEighths[eighths % 8];
  return padded(text, columns);
}

std::string figure_text(const Figure& figure) {
  return figure.percent ? fmt::format("{} {:.1f} %", figure.name, 100 * figure.value)
                        : fmt::format("{} {:.4g}", figure.name, figure.value);
}

// One curve with its scale at the left and a title above.
std::vector<std::string> draw(const std::string& name, const Course& course, bool percent, std::size_t columns,
                              std::size_t rows) {
  const std::vector<Course::Point>& points = course.points();
  Braille dots(static_cast<int>(columns - kScale), static_cast<int>(rows - 1));
  double low = points.front().smooth, high = low;
  for (const Course::Point& point : points) {
    low = std::min(low, point.smooth);
    high = std::max(high, point.smooth);
  }
  if (high - low < 1e-12) high = low + 1;
  const auto first = static_cast<double>(points.front().step), last = static_cast<double>(points.back().step);
  int x0 = -1, y0 = -1;
  for (const Course::Point& point : points) {
    const double across = last > first ? (static_cast<double>(point.step) - first) / (last - first) : 1;
    const int x = static_cast<int>(std::lround(across * (dots.width() - 1)));
    const int y = static_cast<int>(std::lround((point.smooth - low) / (high - low) * (dots.height() - 1)));
    dots.line(x0 < 0 ? x : x0, y0 < 0 ? y : y0, x, y);
    x0 = x;
    y0 = y;
  }
  std::vector<std::string> lines = {padded(name, columns)};
  const std::vector<std::string> drawn = dots.rows();
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    const double value = i == 0 ? high : low;
    const bool labelled = i == 0 || i + 1 == drawn.size();
    const std::string label = !labelled ? "" : percent ? fmt::format("{:.1f} %", 100 * value) : fmt::format("{:.4g}", value);
    lines.push_back(fmt::format("{:>{}} {}", label, kScale - 1, drawn[i]));
  }
  return lines;
}

}  // namespace

Braille::Braille(int columns, int rows)
    : columns_(columns), rows_(rows), cells_(static_cast<std::size_t>(columns) * static_cast<std::size_t>(rows)) {}

void Braille::dot(int x, int y) {
  // U+2800 and a bit for each dot, by [row from the top][column].
  static constexpr unsigned char kBits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
  if (x < 0 || x >= width() || y < 0 || y >= height()) return;
  const int from_top = height() - 1 - y;
  cells_[static_cast<std::size_t>(from_top / 4 * columns_ + x / 2)] |= kBits[from_top % 4][x % 2];
}

void Braille::line(int x0, int y0, int x1, int y1) {
  const int steps = std::max({std::abs(x1 - x0), std::abs(y1 - y0), 1});
  for (int i = 0; i <= steps; ++i) {
    const double part = static_cast<double>(i) / steps;
    dot(static_cast<int>(std::lround(x0 + part * (x1 - x0))), static_cast<int>(std::lround(y0 + part * (y1 - y0))));
  }
}

std::vector<std::string> Braille::rows() const {
  std::vector<std::string> lines(static_cast<std::size_t>(rows_));
  for (std::size_t i = 0; i < cells_.size(); ++i) {
    std::string& line = lines[i / static_cast<std::size_t>(columns_)];
    line += '\xe2';
    line += static_cast<char>(0xa0 | cells_[i] >> 6);
    line += static_cast<char>(0x80 | (cells_[i] & 0x3f));
  }
  return lines;
}

void Screen::begin(const RunStart& start) {
  run_ = start;
  say(start.resumed ? fmt::format("resumes from step {}", start.first_step - 1)
                    : fmt::format("begins in {}", start.folder.string()));
}

void Screen::add(const StepEvent& event) {
  const double memory = std::clamp(static_cast<double>(run_.steps) / 100, 5.0, 500.0);
  for (const Figure& figure : event.figures) {
    curves_.try_emplace(figure.name, memory).first->second.add(event.step, figure.value);
  }
  for (const auto& [name, value] : event.scalars) scalars_[name] = value;
}

void Screen::say(const std::string& line) {
  messages_.push_back(line_text(line));
  if (messages_.size() > kMessages) messages_.erase(messages_.begin());
}

std::vector<std::string> Screen::head(std::size_t columns) const {
  const double done = tick_.steps > 0 ? static_cast<double>(tick_.step) / static_cast<double>(tick_.steps) : 0;
  const std::string left = fmt::format("{}  epoch {:.0f}/{:g}  step {}/{}  {:3.0f} % ", line_text(run_.name),
                                       std::min(std::floor(tick_.epoch) + 1, std::ceil(tick_.epochs)), tick_.epochs, tick_.step,
                                       tick_.steps, 100 * done);
  const std::string right = tick_.seconds_left > 0 ? fmt::format(" {} left", duration_text(tick_.seconds_left)) : "";
  const std::size_t taken = columns_of(left) + columns_of(right);
  std::vector<std::string> items = {fmt::format("{:.0f} images/s", tick_.images_per_second)};
  for (const Figure& figure : tick_.figures) items.push_back(figure_text(figure));
  for (const auto& [name, value] : scalars_) items.push_back(fmt::format("{} {:.4g}", name, value));
  if (rates_.now().resident_bytes > 0)
    items.push_back(fmt::format("{:.0f} MiB", static_cast<double>(rates_.now().resident_bytes) / 0x1p20));
  std::string figures;
  for (const std::string& item : items) {  // a truncated number would be another one
    if (!figures.empty() && columns_of(figures) + 2 + columns_of(item) > columns) continue;
    figures += (figures.empty() ? "" : "  ") + item;
  }
  std::replace(figures.begin(), figures.end(), '_', ' ');
  return {left + (columns > taken + 4 ? bar(done, columns - taken) : "") + right, figures};
}

std::vector<std::string> Screen::plot(std::size_t columns, std::size_t rows, bool colours) const {
  std::vector<std::pair<std::string, const Course*>> shown;
  for (const auto& [name, course] : curves_) {
    if (course.size() > 1) shown.emplace_back(name, &course);
  }
  std::ranges::stable_sort(shown, {}, [](const auto& each) { return each.first != "loss"; });
  shown.resize(std::min(shown.size(), columns >= 76 ? std::size_t{2} : std::size_t{1}));
  constexpr std::size_t kLeast = kScale + 9;  // columns of a plot, including the gap after it
  if (shown.empty() || rows < 4 || columns / shown.size() < kLeast) return {};
  const std::size_t wide = columns / shown.size() - 1;
  std::vector<std::string> lines(rows);
  for (std::size_t i = 0; i < shown.size(); ++i) {
    const auto figure = std::ranges::find(tick_.figures, shown[i].first, &Figure::name);
    const std::vector<std::string> drawn =
        draw(shown[i].first, *shown[i].second, figure != tick_.figures.end() && figure->percent, wide, rows);
    for (std::size_t k = 0; k < rows; ++k) {
      const char* colour = k == 0 ? kBold : i == 0 ? kOrange : kBlue;
      lines[k] += colours ? colour + padded(drawn[k], wide + 1) + kPlain : padded(drawn[k], wide + 1);
    }
  }
  return lines;
}

std::vector<std::string> Screen::stages(std::size_t columns, bool colours) const {
  const TelemetryEvent &telemetry = rates_.now(), &before = rates_.before();
  const double seconds = rates_.seconds();
  constexpr std::size_t kBeside = 53;  // columns of a row without its bar
  const std::size_t wide = std::clamp<std::size_t>(columns > kBeside ? columns - kBeside : 0, 5, 30);
  const std::string& waits_for = telemetry.bottleneck.empty() ? tick_.waits_for : telemetry.bottleneck;
  std::vector<std::string> lines = {fmt::format("{:<20} {:>9}  {:<{}}  {}", "stage", "samples/s", "busy", wide + 6, "queued")};
  if (colours) lines[0] = kDim + lines[0] + kPlain;
  for (std::size_t i = 0; i < telemetry.stages.size(); ++i) {
    const StageTelemetry& now = telemetry.stages[i];
    const StageTelemetry old = entry_of(before.stages, i);
    const double threads = now.on_device ? 1 : std::max(1, telemetry.data_threads);
    const double busy = (now.on_device ? growth_rate(now.device_seconds, old.device_seconds, seconds)
                                       : growth_rate(now.busy_seconds, old.busy_seconds, seconds)) /
                        threads;
    std::int64_t waiting = 0;
    for (const EdgeTelemetry& edge : telemetry.edges) waiting += edge.to == now.name ? edge.level : 0;
    const bool is_one_of_several = now.replica >= 0 && telemetry.devices.size() > 1;
    const std::string name = line_text(is_one_of_several ? fmt::format("{}[{}]", now.name, now.replica) : now.name);
    const bool hot = waits_for.starts_with(name + " ");
    const double samples = growth_rate(static_cast<double>(now.samples), static_cast<double>(old.samples), seconds);
    std::string line =
        padded(name, 20) + fmt::format(" {:>9}  {} {:>3.0f} %  ", now.samples > 0 ? fmt::format("{:.0f}", samples) : "",
                                       bar(busy, wide), 100 * std::min(busy, 1.0));
    if (waiting > 0) line += fmt::format("{} {}", bar(std::min(static_cast<double>(waiting) / 16, 1.0), 8), waiting);
    lines.push_back(hot && colours ? kOrange + line + kPlain : line);
  }
  for (const DeviceTelemetry& now : telemetry.devices) {
    const double busy = growth_rate(now.compute_seconds, earlier_of(now, before.devices).compute_seconds, seconds);
    lines.push_back(padded("device " + now.name, 20) +
                    fmt::format(" {:>9}  {} {:>3.0f} %", "", bar(busy, wide), 100 * std::min(busy, 1.0)));
  }
  if (!waits_for.empty()) lines.push_back("waits for: " + line_text(waits_for));
  return lines;
}

// The head and the newest messages have priority, then the stages; a plot fills the rest.
std::vector<std::string> Screen::lines(std::size_t columns, std::size_t rows, bool colours) const {
  std::vector<std::string> all = head(columns);
  if (colours) all[0] = kBold + all[0] + kPlain;
  std::vector<std::string> below = stages(columns, colours);
  const std::size_t fixed = all.size() + messages_.size() + 1;
  if (fixed + below.size() > rows) below.resize(rows > fixed ? rows - fixed : 0);
  const std::size_t left = rows > fixed + below.size() + 1 ? rows - fixed - below.size() - 1 : 0;
  const std::vector<std::string> curves = plot(columns, std::min<std::size_t>(left, 14), colours);
  all.insert(all.end(), curves.begin(), curves.end());
  all.insert(all.end(), below.begin(), below.end());
  for (const std::string& message : messages_) all.push_back(colours ? kDim + message + kPlain : message);
  if (all.size() > rows) all.resize(rows);
  for (std::string& line : all) line = cut(line, columns);
  return all;
}

}  // namespace millrace::top
