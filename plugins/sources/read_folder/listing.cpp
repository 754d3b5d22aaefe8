#include "listing.h"

#include <algorithm>

#include "millrace/error.h"
#include "millrace/random.h"

namespace millrace {

namespace {

class Lister {
 public:
  explicit Lister(const ListingOptions& options) : options_(options), numbers_(options.classes) {}

  void add(const Storage::Object& object) {
    const bool image = options_.extensions.match(object.name);
    if (by_folder()) enter(object.name, image);
    if (!image) return leave_out(object);
    if (options_.label) match(object.name);
    listing_.paths.add(object.name);
    listing_.labels.push_back(number_);
    listing_.fingerprint = combine(listing_.fingerprint, fingerprint_of(object));
    listing_.largest = std::max(listing_.largest, static_cast<std::size_t>(object.bytes));
  }

  ImageListing finish() {
    const std::string& root = options_.root;
    if (by_folder() && class_folders_ == 0) {
      fail(ErrorKind::data, "folder '{}' is empty: expected one folder for each class, with images in it", root);
    }
    if (listing_.labels.empty()) {
      const std::string where =
          !by_folder() ? "" : fmt::format("the {} class folder{} of ", class_folders_, class_folders_ == 1 ? "" : "s");
      fail(ErrorKind::data, "no image in {}'{}': files that end in {} are looked for", where, root, options_.extensions.text());
    }
    listing_.paths.finish();
    listing_.labels.shrink_to_fit();
    numbers_.finish(listing_.labels);
    listing_.classes = numbers_.names();
    listing_.counts = numbers_.counts();
    return std::move(listing_);
  }

 private:
  bool by_folder() const { return options_.labelled && !options_.label; }

  // The class folder that an object lies in; folders count as classes even with no image in them.
  void enter(const std::string& name, bool image) {
    const std::size_t slash = name.find('/');
    if (slash == name.npos) {
      if (!image) return;
      fail(ErrorKind::data,
           "image '{}' lies beside the class folders: move it into the folder of its class, or say with `label` "
           "which part of a path names the class; labels = \"none\" reads images that have none",
           join_url(options_.root, name));
    }
    if (name.compare(0, slash, folder_) == 0) return;  // all of a folder come in a row
    folder_.assign(name, 0, slash);
    ++class_folders_;
    number_ = numbers_.add(folder_);
    if (number_ < 0) {
      fail(ErrorKind::data, "folder '{}' is not among `classes`{}", join_url(options_.root, folder_), numbers_.hint(folder_));
    }
  }

  void leave_out(const Storage::Object& object) {
    if (object.is_dangling && listing_.dangling++ == 0) listing_.dangling_name = object.name;
    if (object.is_dangling || !other_images_.match(object.name)) return;
    if (listing_.left_out++ == 0) listing_.left_out_name = object.name;
  }

  void match(const std::string& name) {
    re2::StringPiece parts[2];  // the whole, and the first group; null where the match leaves it out
    if (!options_.label->Match(name, 0, name.size(), RE2::UNANCHORED, parts, 2) || parts[1].data() == nullptr) {
      fail(ErrorKind::data, "label: the path '{}' in '{}' does not match", name, options_.root);
    }
    const std::string found(parts[1]);
    number_ = numbers_.add(found);
    if (number_ < 0) {
      fail(ErrorKind::data, "'{}' is of class '{}', which is not among `classes`{}", join_url(options_.root, name), found,
           numbers_.hint(found));
    }
  }

  const ListingOptions& options_;
  // What a folder of photos may hold besides JPEG and PNG, and JPEG under its rarer names.
  const Extensions other_images_{
      {"avif", "bmp", "gif", "heic", "jfif", "jp2", "jpe", "jxl", "pbm", "pgm", "ppm", "tga", "tif", "tiff", "webp"}};
  ClassNumbers numbers_;
  ImageListing listing_;
  std::string folder_;
  std::size_t class_folders_ = 0;
  std::int32_t number_ = -1;
};

}  // namespace

ImageListing list_images(Storage& storage, const ListingOptions& options) {
  Lister lister(options);
  storage.list(options.root, [&lister](const Storage::Object& object) { lister.add(object); });
  return lister.finish();
}

}  // namespace millrace
