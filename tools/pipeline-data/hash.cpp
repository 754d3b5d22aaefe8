// pipeline-data hash: a manifest of a data set's files, for comparing another copy with it.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <vector>

#include "base/secrets.h"
#include "common/arguments.h"
#include "common/last_words.h"
#include "counter.h"
#include "data_parts.h"
#include "millrace/detail/random.h"
#include "millrace/error.h"
#include "millrace/storage.h"
#include "millrace/util/bytes.h"
#include "millrace/util/cache_folder.h"
#include "millrace/util/on_threads.h"
#include "millrace/util/output_file.h"
#include "millrace/util/paths.h"
#include "millrace/util/sha256.h"
#include "millrace/util/standard_error.h"
#include "millrace/util/text.h"
#include "stop_signal.h"
#include "verbs.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

using Manifest = std::map<std::string, std::string>;  // SHA-256 in hexadecimal digits by name

constexpr std::size_t kDigits = 64;

// The format of sha256sum, which reads it with -c.
std::string text_of(const Manifest& manifest) {
  std::string text;
  for (const auto& [name, sum] : manifest) text += fmt::format("{}  {}\n", sum, line_text(name));
  return text;
}

Manifest read_manifest(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(ErrorKind::usage, "--compare: '{}' cannot be read", path);
  Manifest manifest;
  std::size_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    const bool is_entry = line.size() > kDigits + 2 && line.find_first_not_of("0123456789abcdef") == kDigits &&
                          line[kDigits] == ' ' && (line[kDigits + 1] == ' ' || line[kDigits + 1] == '*');
    if (!is_entry)
      fail(ErrorKind::data, "{}:{}: expected 64 hexadecimal digits, two blanks and a name, as sha256sum prints them", path,
           number);
    manifest[line.substr(kDigits + 2)] = line.substr(0, kDigits);
  }
  return manifest;
}

// "SUM BYTES VERSION" of already hashed files, by name. The version is a file's time.
using Known = std::map<std::string, std::string>;

std::string known_text(const std::string& sum, const Storage::Object& object) {
  return fmt::format("{} {} {:016x}", sum, object.bytes, hash_text(object.version));
}

// The stored sums of a folder; "" without a place for them.
fs::path file_of_known(const std::string& url) {
  const fs::path folder = cache_folder("manifests");
  const bool is_remote = url.find("://") != std::string::npos;
  const std::string place = is_remote ? url : fs::absolute(url).lexically_normal().string();
  return folder.empty() ? folder : folder / fmt::format("{:016x}.txt", hash_text(place));
}

Known read_known(const fs::path& path) {
  Known known;
  std::ifstream file(path, std::ios::binary);
  for (std::string line; std::getline(file, line);) {
    const std::size_t name = line.find("  ");
    if (name != std::string::npos && name > kDigits) known[line.substr(name + 2)] = line.substr(0, name);
  }
  return known;
}

// If it cannot be written, everything is read again next time.
void keep_known(const fs::path& path, const std::vector<Storage::Object>& objects, const Manifest& manifest) {
  if (path.empty()) return;
  try {
    OutputFile file(path.string());
    for (const Storage::Object& object : objects) {
      if (object.name.find('\n') == std::string::npos)
        file.write(fmt::format("{}  {}\n", known_text(manifest.at(object.name), object), object.name));
    }
    file.commit();
  } catch (const Error&) {
  }
}

std::string sum_of(Storage& storage, const std::string& url, std::uint64_t bytes) {
  constexpr std::uint64_t kReadAtOnce = std::uint64_t{8} << 20;
  std::vector<std::uint8_t> piece(static_cast<std::size_t>(std::min(kReadAtOnce, bytes)));
  Sha256 sum;
  for (std::uint64_t at = 0; at < bytes && stop_signal == 0; at += kReadAtOnce) {
    const auto size = static_cast<std::size_t>(std::min(kReadAtOnce, bytes - at));
    storage.read(url, at, size, piece.data());
    sum.add(piece.data(), size);
  }
  return hex_text(sum.finish());
}

// Hashes every file below a folder.
Manifest hash_folder(const std::string& url, unsigned threads) {
  Registry registry;
  load_plugins(registry);
  Storage& storage = storage_of(registry, url);
  std::vector<Storage::Object> objects;
  storage.list(url, [&](Storage::Object object) {
    if (object.is_dangling) print_to_stderr("warning: '{}' is a broken link\n", line_text(object.name));
    if (!object.is_dangling && !object.name.ends_with('/')) objects.push_back(std::move(object));
  });
  if (objects.empty()) fail(ErrorKind::data, "'{}' contains no files", without_secrets(url));
  const fs::path kept = file_of_known(url);
  const Known known = read_known(kept);
  std::vector<std::string> sums(objects.size());
  Counter counter("hashed", objects.size());
  on_threads(objects.size(), threads, [&](std::size_t i) {
    const auto before = known.find(objects[i].name);
    if (before != known.end()) sums[i] = before->second.substr(0, kDigits);
    if (sums[i].empty() || known_text(sums[i], objects[i]) != before->second)
      sums[i] = stop_signal != 0 ? "" : sum_of(storage, join_url(url, objects[i].name), objects[i].bytes);
    counter.add();
  });
  Manifest manifest;
  for (std::size_t i = 0; i < objects.size(); ++i) manifest[objects[i].name] = sums[i];
  if (stop_signal == 0) keep_known(kept, objects, manifest);
  return manifest;
}

// The names relative to their common folder.
Manifest below_common_folder(const Manifest& manifest) {
  if (manifest.empty()) return manifest;
  const std::string& first = manifest.begin()->first;
  std::size_t common = std::min(first.rfind('/') + 1, first.size());  // npos + 1 is 0
  for (const auto& [name, sum] : manifest) {
    while (common > 0 && name.compare(0, common, first, 0, common) != 0)
      common = common < 2 ? 0 : first.rfind('/', common - 2) + 1;
  }
  Manifest below;
  for (const auto& [name, sum] : manifest) below[name.substr(common)] = sum;
  return below;
}

// Hashes a graph's samples: a file, or the part of an archive, and the file of its target.
void hash_samples(const DataSet& data, unsigned threads, Manifest& manifest) {
  const SampleOrder& order = data.line().order();
  std::vector<Sample> samples(threads);
  std::mutex mutex;
  Counter counter("hashed", order.listed());
  for_each_sample(order.listed(), threads, [&](std::uint64_t i, unsigned thread) {
    if (stop_signal != 0) return;
    Sample& sample = samples[thread];
    data.load({0, i, order.listed(i), 0}, DataLine::Depth::encoded, sample);
    counter.add();
    if (sample.fault) fail(ErrorKind::data, "'{}': {}", line_text(sample.place()), sample.fault->cause);
    const std::string sum = hex_text(sha256(sample.encoded.data(), sample.encoded.size()));
    const std::string name =
        sample.member.empty() && sample.offset > 0 ? fmt::format("{}#{}", sample.url, sample.offset) : sample.place();
    const std::string target = hex_text(sha256(sample.encoded_target.data(), sample.encoded_target.size()));
    const std::lock_guard lock(mutex);
    manifest[name] = sum;
    if (!sample.target_url.empty()) manifest[sample.target_url] = target;
  });
}

Manifest hash_data(DataSetOptions options) {
  Manifest manifest;
  std::vector<std::string> others;
  {
    const DataSet data(options, DataSet::Stages::source);
    if (options.graph.empty()) {
      for (const GraphPlan* part : other_parts(data)) others.push_back(part->name);
    }
    hash_samples(data, options.thread_count(), manifest);
  }
  for (const std::string& graph : others) {
    options.graph = graph;
    if (stop_signal == 0) hash_samples(DataSet(options, DataSet::Stages::source), options.thread_count(), manifest);
  }
  return below_common_folder(manifest);
}

// Prints the differences. Returns true if there are any.
bool compare(const Manifest& then, const Manifest& found, const std::string& file) {
  Manifest now;  // with names in the form of text_of()
  for (const auto& [name, sum] : found) now[line_text(name)] = sum;
  std::size_t other = 0, gone = 0, added = 0;
  const auto say = [](std::size_t& counter, const char* what, const std::string& name) {
    ++counter;
    fmt::print("{}: {}\n", what, name);
  };
  for (const auto& [name, sum] : now) {
    const auto was = then.find(name);
    if (was == then.end()) say(added, "new", name);
    if (was != then.end() && was->second != sum) say(other, "other bytes", name);
  }
  for (const auto& [name, sum] : then) {
    if (!now.contains(name)) say(gone, "gone", name);
  }
  if (other + gone + added == 0) {
    print_to_stderr("all {} files match '{}'\n", now.size(), file);
    return false;
  }
  print_to_stderr("of {} files that '{}' names {} hold other bytes and {} are gone; {} are new\n", then.size(), file, other, gone,
                  added);
  return true;
}

bool is_folder(const std::string& path) {
  std::error_code ignored;
  return path.find("://") != std::string::npos ? path.ends_with('/') : fs::is_directory(path, ignored);
}

}  // namespace

int hash_verb(int count, const char* const* arguments) {
  DataSetOptions options;
  std::string out, with;
  std::vector<std::string> rest;
  Arguments reader(
      "pipeline-data hash", "FOLDER | PIPELINE.toml | DATA [options]",
      "Prints the SHA-256 of every file below a folder (a URL ends with /), of every sample of a pipeline's graphs,\n"
      "or of the images in a list or in shards, as sha256sum does; or compares them with an earlier manifest, and\n"
      "exits with code 3 if they differ. Files whose size and time are unchanged since the last call are not reread.");
  reader.option("--out", "FILE", "file for the manifest", out)
      .option("--compare", "FILE", "a manifest: print the differences", with);
  options.declare(reader, "all but those with every = \"never\"");
  options.declare_threads(reader);
  if (!reader.read(count, arguments, rest)) return 0;
  if (rest.size() != 1)
    fail(ErrorKind::usage, "expected a folder, a list or a pipeline, found {}; see pipeline-data hash --help", rest.size());
  out = local_path("--out", out);
  if (!out.empty() && !with.empty()) fail(ErrorKind::usage, "--out and --compare exclude each other: choose one");
  install_signal_handlers();
  const Manifest then = with.empty() ? Manifest() : read_manifest(with);
  Manifest now;
  if (is_folder(rest[0])) {
    const LastWords last_words("pipeline-data");
    now = hash_folder(rest[0], options.thread_count());
  } else {
    options.file = rest[0];
    if (!rest[0].ends_with(".toml")) {
      options.file = "classify";
      options.overrides.insert(options.overrides.begin(), "data.path=" + to_toml(Value(rest[0])));
      options.whole = true;
    }
    now = hash_data(options);
  }
  if (stop_signal != 0) {
    print_to_stderr("stopped: nothing is printed\n");
    return 128 + stop_signal;
  }
  if (!with.empty()) return compare(then, now, with) ? exit_code(ErrorKind::data) : 0;
  if (out.empty()) {
    fmt::print("{}", text_of(now));
    return 0;
  }
  OutputFile file(out);
  file.write(text_of(now));
  file.commit();
  print_to_stderr("{} files: '{}'\n", now.size(), out);
  return 0;
}

}  // namespace millrace
