#include "listing.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include "millrace/error.h"
#include "millrace/value.h"

namespace millrace {

namespace {

constexpr int kDeepest = 32;  // folders below one another; more can only be a link that leads back

struct CloseFolder {
  void operator()(DIR* folder) const { closedir(folder); }
};

bool is_image(std::string_view name, const std::vector<std::string>& extensions) {
  const auto same = [](char a, char b) { return a == (b >= 'A' && b <= 'Z' ? static_cast<char>(b - 'A' + 'a') : b); };
  return std::any_of(extensions.begin(), extensions.end(), [&](const std::string& extension) {
    return name.size() > extension.size() &&
           std::equal(extension.begin(), extension.end(), name.end() - static_cast<std::ptrdiff_t>(extension.size()), same);
  });
}

}  // namespace

ImageListing::Entry ImageListing::operator[](std::size_t index) const {
  const File file = files_[index];
  const Folder& folder = folders_[file.folder];
  return {folder.path, names_.data() + file.name, folder.label};
}

std::size_t ImageListing::memory() const {
  std::size_t bytes = names_.capacity() + files_.capacity() * sizeof(File) + folders_.capacity() * sizeof(Folder);
  for (const Folder& folder : folders_) bytes += folder.path.capacity();
  return bytes;
}

class Lister {
 public:
  explicit Lister(const ListingOptions& options) : options_(options) {}

  ImageListing list() {
    const std::vector<Found> top = scan("");
    std::vector<std::string> folders;
    for (const Found& found : top) {
      if (!found.is_folder) {
        fail(ErrorKind::data, "image '{}/{}' lies beside the class folders: move it into the folder of its class", options_.root,
             found.name);
      }
      folders.push_back(found.name.substr(0, found.name.size() - 1));
    }
    name_classes(folders);
    for (const std::string& folder : folders) {
      const auto at = std::find(listing_.classes_.begin(), listing_.classes_.end(), folder);
      add(folder, static_cast<std::int32_t>(at - listing_.classes_.begin()), 1);
    }
    if (listing_.files_.empty()) {
      fail(ErrorKind::data, "no image in the {} class folder{} of '{}': files that end in {} are looked for", folders.size(),
           folders.size() == 1 ? "" : "s", options_.root, fmt::join(options_.extensions, ", "));
    }
    listing_.names_.shrink_to_fit();
    listing_.files_.shrink_to_fit();
    return std::move(listing_);
  }

 private:
  struct Found {
    std::string name;  // a folder's ends in '/', which makes the order that of whole paths
    bool is_folder = false;
    std::size_t bytes = 0;
  };

  // Sub-folders and images in one folder, sorted.
  std::vector<Found> scan(const std::string& folder) {
    const std::string path = folder.empty() ? options_.root : options_.root + "/" + folder;
    const std::unique_ptr<DIR, CloseFolder> handle(opendir(path.c_str()));
    if (!handle) fail(ErrorKind::storage, "cannot open folder '{}': {}", path, std::strerror(errno));
    std::vector<Found> result;
    errno = 0;
    while (const dirent* entry = readdir(handle.get())) {
      const std::string_view name = entry->d_name;
      const bool may_be_folder = entry->d_type == DT_DIR || entry->d_type == DT_LNK || entry->d_type == DT_UNKNOWN;
      if (name.front() == '.' || (!may_be_folder && !is_image(name, options_.extensions))) continue;
      struct stat status {};
      if (fstatat(dirfd(handle.get()), entry->d_name, &status, 0) != 0) {
        fail(ErrorKind::storage, "cannot look at '{}/{}': {}", path, name, std::strerror(errno));
      }
      if (S_ISDIR(status.st_mode)) {
        result.push_back({std::string(name) + '/', true, 0});
      } else if (S_ISREG(status.st_mode) && is_image(name, options_.extensions)) {
        result.push_back({std::string(name), false, static_cast<std::size_t>(status.st_size)});
      }
      errno = 0;
    }
    if (errno != 0) fail(ErrorKind::storage, "cannot list folder '{}': {}", path, std::strerror(errno));
    std::sort(result.begin(), result.end(), [](const Found& a, const Found& b) { return a.name < b.name; });
    return result;
  }

  void name_classes(const std::vector<std::string>& folders) {
    if (folders.empty()) {
      fail(ErrorKind::data, "folder '{}' is empty: expected one folder for each class, with images in it", options_.root);
    }
    listing_.classes_ = options_.classes.empty() ? folders : options_.classes;
    // A folder's order among whole paths is that of "name/", a class's that of its name alone.
    if (options_.classes.empty()) std::sort(listing_.classes_.begin(), listing_.classes_.end());
    listing_.counts_.resize(listing_.classes_.size());
    for (const std::string& folder : folders) {
      if (std::find(listing_.classes_.begin(), listing_.classes_.end(), folder) != listing_.classes_.end()) continue;
      const auto nearest = nearest_name(folder, listing_.classes_);
      fail(ErrorKind::data, "folder '{}/{}' is not among `classes`{}", options_.root, folder,
           nearest ? fmt::format(": did you mean '{}'?", *nearest) : "");
    }
  }

  void add(const std::string& folder, std::int32_t label, int depth) {
    if (depth > kDeepest) fail(ErrorKind::data, "folder '{}/{}' is too deep: does a link lead back?", options_.root, folder);
    const std::size_t number = listing_.folders_.size();
    listing_.folders_.push_back({folder, label});
    for (const Found& found : scan(folder)) {
      if (found.is_folder) {
        add(folder + "/" + found.name.substr(0, found.name.size() - 1), label, depth + 1);
        continue;
      }
      listing_.files_.push_back({listing_.names_.size() & ((std::uint64_t{1} << 40) - 1), number & 0xffffffU});
      listing_.names_.insert(listing_.names_.end(), found.name.c_str(), found.name.c_str() + found.name.size() + 1);
      listing_.largest_ = std::max(listing_.largest_, found.bytes);
      ++listing_.counts_[static_cast<std::size_t>(label)];
    }
  }

  const ListingOptions& options_;
  ImageListing listing_;
};

ImageListing list_images(const ListingOptions& options) { return Lister(options).list(); }

void require_folder(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return;
  if (fs::exists(path, ignored)) fail(ErrorKind::data, "path: '{}' is not a folder", path);
  fs::path parent = fs::absolute(path).lexically_normal();
  std::string missing;
  while (parent.has_relative_path() && !fs::exists(parent, ignored)) {
    missing = parent.filename().string();
    parent = parent.parent_path();
  }
  std::vector<std::string> names;
  for (fs::directory_iterator entry(parent, ignored), end; !ignored && entry != end; entry.increment(ignored)) {
    names.push_back(entry->path().filename().string());
  }
  const auto nearest = nearest_name(missing, names);
  fail(ErrorKind::data, "path: folder '{}' does not exist: there is no '{}' in '{}'{}", path, missing, parent.string(),
       nearest ? fmt::format(", but a '{}'", *nearest) : "");
}

}  // namespace millrace
