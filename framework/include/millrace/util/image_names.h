// Finds images by the names that labelling tools give them: paths of another machine, with or without folders.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace millrace {

// Finds only images that were added, so that no name leads out of their folder.
class ImageNames {
 public:
  void add(std::string path);  // below the folder of images, parts separated by '/'
  std::size_t size() const { return paths_.size(); }
  const std::string& operator[](std::size_t image) const { return paths_[image]; }

  struct Found {
    std::optional<std::uint32_t> image;
    std::string other;  // another image that the name fits as well; then `image` is empty
  };
  // A name fits a path if one is the end of the other, part by part; the longest common end wins. Of absolute paths, and those
  // with "..", the last part alone suffices. A name without an image's extension fits paths with any.
  Found find(std::string_view name) const;

  // The name as a path that stays below its folder: '/' between parts, without drive, "." and "..".
  static std::string path_of(std::string_view name);

 private:
  Found find_in(const std::unordered_multimap<std::string, std::uint32_t>& images, const std::string& last,
                const std::string& name, bool last_suffices, bool without_ending) const;

  std::vector<std::string> paths_;
  std::unordered_multimap<std::string, std::uint32_t> by_last_, by_stem_;  // by the last part, and by it without extension
};

}  // namespace millrace
