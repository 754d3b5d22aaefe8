// The image files below a folder, in the order that defines their indices: sorted bytewise by path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

// All names lie in one array of characters: a million files take about 30 MB. Filled by list_images(), read-only then.
class ImageListing {
 public:
  struct Entry {
    std::string_view folder;  // relative to the root, "cat/young"
    std::string_view name;    // "0001.jpg"
    std::int32_t label = 0;
  };

  std::size_t size() const { return files_.size(); }
  Entry operator[](std::size_t index) const;                                // REQUIRES: index < size()
  std::size_t largest() const { return largest_; }                          // bytes of the largest file
  std::size_t memory() const;                                               // bytes of the listing itself
  const std::vector<std::string>& classes() const { return classes_; }      // by label
  const std::vector<std::size_t>& class_counts() const { return counts_; }  // images by label

 private:
  friend class Lister;
  struct Folder {
    std::string path;
    std::int32_t label = 0;
  };
  struct File {
    std::uint64_t name : 40;    // where it starts in names_; it ends with a zero
    std::uint64_t folder : 24;  // index into folders_
  };

  std::vector<char> names_;
  std::vector<Folder> folders_;
  std::vector<File> files_;
  std::vector<std::string> classes_;
  std::vector<std::size_t> counts_;
  std::size_t largest_ = 0;
};

struct ListingOptions {
  std::string root;
  std::vector<std::string> extensions;  // lower case, with the dot
  std::vector<std::string> classes;     // empty: the folders' names, sorted bytewise
};

// Hidden files and folders (".git", "._photo.jpg") are passed over; links are followed.
// Throws ErrorKind::data when there is nothing to train on, ErrorKind::storage when a folder cannot be read.
ImageListing list_images(const ListingOptions& options);

// Throws ErrorKind::data, naming the nearest parent that exists, when `path` is no folder.
void require_folder(const std::string& path);

}  // namespace millrace
