// Small data sets of every layout that a source reads, with drawn images.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "drawn_images.h"
#include "millrace/detail/random.h"

namespace millrace::generator {

// The task that a network learns from a data set.
enum class Task { classes, numbers, pixels, images };

// FOLDER/photos/{ant,bee,cow}/00.jpg ...; lists of them with classes and two numbers from 0 to 1; the same samples in the same
// order as shards; pairs of images with label images, and with larger images; CIFAR's and IDX's files.
struct DataSet {
  std::filesystem::path folder;
  int scale = 1;          // scale of pairs' target images
  bool one_size = false;  // all images of photos and pairs have `size`
  ImageSize size{20, 24};

  static inline const std::vector<std::string> kClasses = {"ant", "bee", "cow"};

  std::string path(const std::string& name) const { return (folder / name).string(); }
};

DataSet drawn_data(Draw& draw, const std::filesystem::path& folder);

}  // namespace millrace::generator
