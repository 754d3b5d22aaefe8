// Files of annotations, each read by the format that recognises it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "millrace/annotation.h"
#include "millrace/storage.h"

namespace millrace {

class FoundAnnotations {
 public:
  // `url`: a file, or a folder with files; a .yaml file stands for its folder. Throws ErrorKind::data if no file there has a
  // known format, and the storage's errors.
  FoundAnnotations(const Registry& registry, const std::string& url);

  void read(AnnotationSink& sink) const;  // all files, format by format
  bool list_empty_images() const;         // AnnotationFormat::lists_empty_images() of all

  std::uint64_t fingerprint() const { return fingerprint_; }  // changes whenever the files may have changed
  std::uint64_t unknown() const { return unknown_; }          // number of other files that could hold annotations
  const std::string& first_unknown() const { return first_unknown_; }

 private:
  void sort_in(const std::string& name, const Storage::Object& object);

  const Catalogue<AnnotationType>& formats_;
  Storage& storage_;
  std::string folder_;                                     // empty: a single file
  std::map<std::string, std::vector<std::string>> names_;  // by format, below the folder
  std::uint64_t fingerprint_ = 1, unknown_ = 0;
  std::string first_unknown_;
};

}  // namespace millrace
