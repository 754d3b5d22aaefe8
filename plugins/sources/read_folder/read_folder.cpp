#include "read_folder.h"

#include "millrace/error.h"
#include "millrace/plugin.h"
#include "millrace/random.h"
#include "millrace/run.h"

namespace millrace {

namespace {

// What is wrong with a pattern, where, and what to do if other dialects know it.
std::string fault_of(const RE2& pattern) {
  std::string text = pattern.error();
  if (pattern.error_arg() != pattern.pattern())
    text += fmt::format(" at character {}", pattern.pattern().find(pattern.error_arg()) + 1);
  if (pattern.error_code() == RE2::ErrorBadPerlOp || pattern.error_code() == RE2::ErrorBadEscape)
    text += "; lookahead, lookbehind and backreferences are not known, and a named group is (?P<name>...)";
  return text;
}

// RE2 looks at each byte of a path once, whatever the pattern: no pattern can make a listing hang.
std::unique_ptr<const RE2> label_pattern(const std::optional<std::string>& text) {
  if (!text) return nullptr;
  auto pattern = std::make_unique<const RE2>(*text, RE2::Quiet);
  if (!pattern->ok()) fail(ErrorKind::usage, "label: '{}' is no regular expression: {}", *text, fault_of(*pattern));
  if (pattern->NumberOfCapturingGroups() == 0) {
    fail(ErrorKind::usage, "label: '{}' has no group: put parentheses around the part that names the class, as in '(cat|dog)'",
         *text);
  }
  return pattern;
}

}  // namespace

void ReadFolder::describe(StageDescription<Params>& d) {
  d.name("read_folder").text("Reads image files; the folder they lie in, or a part of their path, is their class.");
  d.params.add("path", &Params::path).required().text("the folder that holds one folder for each class; a path or a URL");
  d.params.add("extensions", &Params::extensions).text("which files are images; upper and lower case are the same");
  d.params.add("classes", &Params::classes)
      .text(
          "names and order of the classes; default: the folders' names, sorted bytewise. To be given when a data set lacks "
          "folders that another one has");
  d.params.add("label", &Params::label)
      .text(
          "a regular expression (RE2's syntax); its first group in the path below the folder is the class, wherever the file "
          "lies");
  d.params.add("labels", &Params::labels)
      .choices({"path", "none"})
      .text("where classes come from: the path (its first folder, or `label`); none: images lie anywhere and have no class");
  SourceParams::describe(d.params);
}

ReadFolder::ReadFolder(const Params& params, const StageContext& context)
    : Source(params),
      options_{params.path, Extensions(params.extensions), params.classes, label_pattern(params.label), params.labels == "path"},
      root_(join_url(params.path, "")),
      run_(context.run),
      storage_(storage_for(context, "path", params.path, Storage::Kind::folder)) {
  ClassNumbers twice(params.classes);  // throws
  if (!options_.labelled && options_.label) {
    fail(ErrorKind::usage, "`label` and labels = \"none\" exclude each other: take one of them out");
  }
}

void ReadFolder::open() {
  listing_ = list_images(storage_, options_);
  if (run_ && listing_.left_out > 0) {
    run_->warn(fmt::format("{} file{} such as '{}' in '{}' {} left out: `extensions` are {}", listing_.left_out,
                           listing_.left_out == 1 ? "" : "s", listing_.left_out_name, options_.root,
                           listing_.left_out == 1 ? "is" : "are", options_.extensions.text()));
  }
  if (run_ && listing_.dangling > 0) {
    run_->warn(fmt::format("{} link{} such as '{}' in '{}' {} nowhere and {} left out", listing_.dangling,
                           listing_.dangling == 1 ? "" : "s", listing_.dangling_name, options_.root,
                           listing_.dangling == 1 ? "leads" : "lead", listing_.dangling == 1 ? "is" : "are"));
  }
  for (std::size_t label = 0; run_ && options_.labelled && label < listing_.classes.size(); ++label) {
    if (listing_.counts[label] > 0) continue;
    run_->warn(fmt::format("class '{}' has no image in '{}'", listing_.classes[label], options_.root));
  }
}

std::uint64_t ReadFolder::listing_hash() const { return combine(listing_.paths.hash(), Source::listing_hash()); }

void ReadFolder::read(Sample& sample) {
  const std::uint64_t index = sample.key.index;
  sample.label = listing_.labels[index];
  sample.url.assign(root_);
  listing_.paths.append(index, sample.url);
  read_sample_file(storage_, sample.url, sample.encoded);
}

}  // namespace millrace

MILLRACE_PLUGIN("read_folder", "1.1", "Images in folders named after their classes.") {
  registry.add_stage<millrace::ReadFolder>();
}
