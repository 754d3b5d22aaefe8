// Drawn images with their label images, and a briefly trained small U-Net: for tests of later steps.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <png_file.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "command.h"

namespace millrace::test {

// FOLDER/images/{0,1,...}.png and FOLDER/labels: squares of 4 x 4 pixels, each of one class and its grey level, with noise.
// `first`: the number of the first image. Eleven images per class all differ.
inline void draw_pairs(const std::string& folder, int count, int height, int width, int classes, int first = 0) {
  for (const char* part : {"images", "labels"}) std::filesystem::create_directories(std::filesystem::path(folder) / part);
  for (int number = first; number < first + count; ++number) {
    std::vector<std::uint8_t> pixels, labels;
    for (int place = 0; place < height * width; ++place) {
      const int row = place / width / 4, column = place % width / 4, of = (row * 5 + column * 3 + number) % classes;
      labels.push_back(static_cast<std::uint8_t>(of));
      for (int c = 0; c < 3; ++c)
        pixels.push_back(static_cast<std::uint8_t>(20 + 200 * of / classes + (place * 7 + c + number / classes * 3) % 11));
    }
    const auto write = [&](const char* part, const std::vector<std::uint8_t>& values, int channels) {
      std::ofstream(fmt::format("{}/{}/{}.png", folder, part, number), std::ios::binary)
          << png_bytes({values.data(), {height, width, channels}});
    };
    write("images", pixels, 3);
    write("labels", labels, 1);
  }
}

// A U-Net of three classes on images of 20 x 32: two steps, and a validation of the same four images.
inline std::string maps_pipeline(const std::string& folder) {
  const auto read = [&](const std::string& graph) {
    return fmt::format(
        "[{0}.read]\nstage   = \"read_pairs\"\nimages  = \"{1}/images\"\nlabels  = \"{1}/labels\"\n"
        "classes = [{{ name = \"sky\", colour = \"#0000ff\" }}, {{ name = \"road\", colour = \"#808080\" }}, "
        "{{ name = \"tree\", colour = \"#00ff00\" }}]\nignored = [3]\n"
        "[{0}.decode_image]\nsize = [20, 32]\nfit  = \"exact\"\n[{0}.pad]\nmargin = [2, 0]\nfill   = [105, 107, 110]\n"
        "[{0}.batch]\nsize = 2\n",
        graph, folder);
  };
  return "[run]\nname = \"maps\"\nepochs = 1\nprecision = \"fp32\"\ndevices = \"cpu\"\nfolder = \"" + folder +
         "/runs\"\n[network]\nuse = \"unet\"\nfilters = 4\nclasses = 3\nheight = 24\nwidth = 32\n"
         "[train]\nflow = [\"read\", \"decode_image\", \"pad\", \"batch\", \"forward_backward\", \"optimizer\"]\n" +
         read("train") +
         "[train.forward_backward]\nloss = \"pixel_cross_entropy\"\n"
         "[train.optimizer]\nlearning_rate = 0.01\n"
         "[validate]\nevery = \"end\"\nflow = [\"read\", \"decode_image\", \"pad\", \"batch\", \"forward\", \"metrics\"]\n" +
         read("validate") + "[validate.forward]\nloss = \"pixel_cross_entropy\"\n";
}

// Draws four images, writes FOLDER/maps.toml and trains it; returns the file of weights.
inline std::string train_maps(const std::string& folder) {
  draw_pairs(folder, 4, 20, 32, 4);
  std::ofstream(folder + "/maps.toml") << maps_pipeline(folder);
  const Outcome trained = run_command({tool("pipeline-run"), folder + "/maps.toml", "--quiet"});
  EXPECT_EQ(trained.code, 0) << trained.err;
  return find_file(folder + "/runs", "weights.safetensors").string();
}

}  // namespace millrace::test
