// Checks that texts do not overlap, nor extend beyond the picture.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "picture.h"

namespace millrace::drawing {

inline void expect_apart(const Picture& picture) {
  const auto& texts = picture.texts();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const Area& ink = texts[i].ink;
    EXPECT_TRUE(ink.left >= 0 && ink.top >= 0 && ink.right() <= picture.width() && ink.bottom() <= picture.height())
        << "'" << texts[i].text << "' lies beyond the picture";
    for (std::size_t j = 0; j < i; ++j) {
      EXPECT_FALSE(ink.meets(texts[j].ink)) << "'" << texts[i].text << "' lies over '" << texts[j].text << "'";
    }
  }
}

// As many names as there are classes: short ones, some of forty letters and more, Greek, Chinese, accents, and no text at all.
inline std::vector<std::string> extreme_names(std::size_t classes) {
  const std::vector<std::string> some = {"cat",
                                         "a name that has exactly forty letters ok",
                                         "Ελληνικά γράμματα με τόνους",
                                         "朴素贝叶斯分类器",
                                         "Übergrößenträger",
                                         "",
                                         "WWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWW",
                                         "ni\xf1o",
                                         "กินข้าว",
                                         "g\xcc\x8a\xcc\x82 tall",
                                         "שלום"};
  std::vector<std::string> names;
  for (std::size_t c = 0; c < classes; ++c) names.push_back(some[c % some.size()] + (c < some.size() ? "" : std::to_string(c)));
  return names;
}

}  // namespace millrace::drawing
