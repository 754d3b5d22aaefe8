#include <gtest/gtest.h>

#include <string>

#include "millrace/util/image_facts.h"

namespace millrace {
namespace {

ImageFacts::Origin origin_of_text(const std::string& text) {
  return origin_in({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
}

TEST(ImageOrigin, IsReadFromTheCommentOfAJpegAlone) {
  const std::string comment = origin_comment({.height = 1080, .width = 1920, .channels = 1, .bits = 16});
  const ImageFacts::Origin read = origin_of_text("\xff\xd8\xff\xe0 JFIF \xff\xfe" + comment + "\xff\xdb");
  EXPECT_EQ(read.height, 1080);
  EXPECT_EQ(read.width, 1920);
  EXPECT_EQ(read.channels, 1);
  EXPECT_EQ(read.bits, 16);
  EXPECT_EQ(origin_of_text(comment).height, 0);
  EXPECT_EQ(origin_of_text("\xff\xd8" + comment.substr(0, comment.size() - 1)).height, 0) << "cut off";
  EXPECT_EQ(origin_of_text("\xff\xd8 nothing").height, 0);
  EXPECT_EQ(origin_of_text("").height, 0);
}

}  // namespace
}  // namespace millrace
