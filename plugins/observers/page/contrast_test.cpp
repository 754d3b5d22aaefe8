// Readability of the page: its colours by WCAG 2.2, in both themes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>

#include "document.h"

namespace millrace::page {
namespace {

using Rgb = std::array<double, 3>;
using Theme = std::map<std::string, Rgb>;

// The colours "--name: #rrggbb;" of the block that begins at `from`.
Theme theme_at(const std::string& css, std::size_t from) {
  Theme theme;
  const std::string block = css.substr(from, css.find('}', from) - from);
  for (std::size_t at = block.find("--"); at != std::string::npos; at = block.find("--", at + 2)) {
    const std::size_t colon = block.find(':', at);
    if (colon == std::string::npos || block.compare(colon, 3, ": #") != 0) continue;
    const unsigned long code = std::stoul(block.substr(colon + 3, 6), nullptr, 16);
    theme[block.substr(at + 2, colon - at - 2)] = {static_cast<double>(code >> 16), static_cast<double>(code >> 8 & 255),
                                                   static_cast<double>(code & 255)};
  }
  return theme;
}

Rgb mixed(const Rgb& over, const Rgb& under, double part) {
  Rgb colour{};
  for (std::size_t i = 0; i < colour.size(); ++i) colour[i] = part * over[i] + (1 - part) * under[i];
  return colour;
}

double luminance(const Rgb& colour) {
  constexpr std::array<double, 3> kWeights = {0.2126, 0.7152, 0.0722};
  double sum = 0;
  for (std::size_t i = 0; i < colour.size(); ++i) {
    const double value = colour[i] / 255;
    sum += kWeights[i] * (value <= 0.04045 ? value / 12.92 : std::pow((value + 0.055) / 1.055, 2.4));
  }
  return sum;
}

double contrast(const Rgb& a, const Rgb& b) {
  const auto [dark, bright] = std::minmax({luminance(a), luminance(b)});
  return (bright + 0.05) / (dark + 0.05);
}

TEST(Contrast, OfTextAndMarksIsEnoughInBothThemes) {
  const std::string css = live_document("");
  const std::size_t light = css.find(":root"), dark = css.find(":root", light + 1);
  for (const Theme& theme : {theme_at(css, light), theme_at(css, dark)}) {
    ASSERT_GE(theme.size(), 14U);
    const auto expect = [&](double least, const char* front, const char* ground, double part) {
      const Rgb& under = theme.at(ground);
      EXPECT_GE(contrast(mixed(theme.at(front), under, part), under), least) << fmt::format("{} on {}, {}", front, ground, part);
    };
    for (const char* ground : {"back", "card", "soft", "band", "warn-soft"}) {
      expect(4.5, "ink", ground, 1);
      expect(4.5, "muted", ground, 1);
    }
    for (const char* front : {"good", "bad", "warn", "ok"}) expect(4.5, front, "card", 1);
    expect(4.5, "warn", "warn-soft", 1);
    constexpr double kRaw = 0.8;  // for a curve that is not smoothed, and for an edge of the graph
    for (const char* ground : {"card", "band"}) {
      for (const char* front : {"good", "loss", "muted"}) expect(3, front, ground, kRaw);
      for (const char* front : {"ok", "mark", "bad"}) expect(3, front, ground, 1);
    }
    for (const char* ground : {"back", "soft", "line"}) expect(3, "good", ground, 1);  // the focus ring, and meters
    expect(3, "warn", "line", 1);
  }
}

}  // namespace
}  // namespace millrace::page
