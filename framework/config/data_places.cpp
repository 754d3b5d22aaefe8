#include "config/data_places.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>

#include "millrace/error.h"
#include "millrace/storage.h"
#include "millrace/util/data_names.h"
#include "millrace/util/files.h"
#include "millrace/util/lists_names.h"
#include "millrace/util/paths.h"
#include "millrace/util/text.h"

namespace millrace {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMostImages = 2000;  // per folder: enough to know their endings

}  // namespace

const std::vector<DataEntry>& DataPlaces::in(const std::string& folder) {
  const auto [known, is_new] = known_.try_emplace(folder);
  if (!is_new) return known->second;
  std::vector<DataEntry> all = url_scheme(folder) != "file" ? list_remote(folder) : list(folder);
  std::ranges::sort(all, {}, &DataEntry::name);
  std::size_t images = 0;
  for (DataEntry& entry : all) {
    const bool is_hidden = entry.name.starts_with('.') || is_system_folder(entry.name);
    const bool is_one_of_many =
        !entry.is_folder && entry.fault.empty() && usual_images().match(entry.name) && ++images > kMostImages;
    if (!is_hidden && !is_one_of_many) known->second.push_back(std::move(entry));
  }
  return known->second;
}

bool DataPlaces::is_folder(const std::string& path) {
  std::error_code ignored;
  return url_scheme(path) != "file" ? !in(path).empty() : fs::is_directory(path, ignored);
}

std::vector<DataEntry> DataPlaces::list(const std::string& folder) const {
  std::vector<DataEntry> all;
  std::error_code error, unknown;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    DataEntry found{
        entry->path().filename().string(), entry->is_directory(unknown), {}};  // from the listing: there may be a million
    const bool is_looked_at = found.is_folder || (!unknown && !entry->is_symlink(unknown));
    if (!is_looked_at) found.fault = why_unreachable(entry->path());
    all.push_back(std::move(found));
  }
  if (error && error != std::errc::no_such_file_or_directory && error != std::errc::not_a_directory)
    fail(ErrorKind::data, "cannot look into the folder '{}': {}", line_text(folder), error.message());
  return all;
}

std::vector<DataEntry> DataPlaces::list_remote(const std::string& folder) const {
  std::set<std::string> names;
  try {
    Storage& storage = storage_of(registry_, folder);
    if (storage.look(folder) == Storage::Kind::object) return {};
    const auto found = [&](const Storage::Object& object) {
      const std::size_t slash = object.name.find('/');
      names.insert(slash == std::string::npos ? object.name : object.name.substr(0, slash + 1));
    };
    auto* const lists = dynamic_cast<ListsNames*>(&storage);
    lists != nullptr ? lists->list_names(folder, found) : storage.list(folder, found);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::usage && !means_absent(error, folder)) throw;
    return {};  // a web server, which lists nothing, or an object; who reads it says what else is wrong
  }
  std::vector<DataEntry> all;
  for (const std::string& name : names) {
    const bool is_folder = name.ends_with('/');
    all.push_back({name.substr(0, name.size() - (is_folder ? 1 : 0)), is_folder, {}});
  }
  return all;
}

}  // namespace millrace
