#include "read_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>

#include "millrace/plugin.h"
#include "millrace/run.h"

namespace millrace {

namespace {

class File {
 public:
  explicit File(int handle) : handle_(handle) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (handle_ >= 0) close(handle_);
  }
  int handle() const { return handle_; }

 private:
  int handle_;
};

[[noreturn]] void storage_error(const char* what, const std::string& path) {
  fail(ErrorKind::storage, "cannot {} '{}': {}", what, path, std::strerror(errno));
}

// Reads up to the buffer's size; a file that has become shorter gives fewer bytes, and the decoder says so.
void read_whole(int handle, const std::string& path, ByteBuffer& bytes) {
  std::size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t got = ::read(handle, bytes.data() + have, bytes.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) storage_error("read", path);
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
  }
  bytes.resize(have);
}

}  // namespace

void ReadFolder::describe(StageDescription<Params>& d) {
  d.name("read_folder").text("Reads image files; the folder they lie in is their class.");
  d.params.add("path", &Params::path).required().text("the folder that holds one folder for each class");
  d.params.add("extensions", &Params::extensions).text("which files are images; upper and lower case are the same");
  d.params.add("classes", &Params::classes)
      .text(
          "names and order of the classes; default: the folders' names, sorted bytewise. To be given when a data set lacks "
          "folders that another one has");
  SourceParams::describe(d.params);
}

ReadFolder::ReadFolder(const Params& params, const StageContext& context) : Source(params), run_(context.run) {
  options_.root = params.path;
  while (options_.root.size() > 1 && options_.root.back() == '/') options_.root.pop_back();
  for (std::string extension : params.extensions) {
    std::transform(extension.begin(), extension.end(), extension.begin(),
                   [](char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); });
    if (extension.empty() || extension == ".") fail(ErrorKind::usage, "extensions: an empty one would match every file");
    options_.extensions.push_back(extension.front() == '.' ? extension : "." + extension);
  }
  if (options_.extensions.empty()) fail(ErrorKind::usage, "extensions: expected at least one, such as [\"jpg\"]");
  options_.classes = params.classes;
  if (options_.root.empty()) fail(ErrorKind::usage, "path: expected a folder, found an empty text");
  require_folder(options_.root);
}

ReadFolder::~ReadFolder() {
  if (root_ >= 0) close(root_);
}

void ReadFolder::open() {
  listing_ = list_images(options_);
  if (root_ < 0) root_ = ::open(options_.root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (root_ < 0) storage_error("open folder", options_.root);
  for (std::size_t label = 0; run_ && label < listing_.classes().size(); ++label) {
    if (listing_.class_counts()[label] > 0) continue;
    run_->warn(fmt::format("class '{}' has no image in '{}'", listing_.classes()[label], options_.root));
  }
}

void ReadFolder::read(Sample& sample) {
  const ImageListing::Entry entry = listing_[sample.key.index];
  sample.label = entry.label;
  std::string& url = sample.url;
  url.assign(options_.root).append(1, '/');
  const std::size_t relative = url.size();
  url.append(entry.folder).append(1, '/').append(entry.name);

  const File file(::openat(root_, url.c_str() + relative, O_RDONLY | O_CLOEXEC));
  if (file.handle() < 0) storage_error("open", url);
  struct stat status {};
  if (fstat(file.handle(), &status) != 0) storage_error("look at", url);
  sample.encoded.resize(static_cast<std::size_t>(status.st_size));
  read_whole(file.handle(), url, sample.encoded);
  if (sample.encoded.size() == 0) fail(ErrorKind::content, "the file is empty");
}

}  // namespace millrace

MILLRACE_PLUGIN("read_folder", "1.0", "Images in folders named after their classes.") {
  registry.add_stage<millrace::ReadFolder>();
}
