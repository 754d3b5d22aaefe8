#include "config/data_parts.h"

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

bool is_list(const std::string& path) {
  return std::ranges::any_of(kListEndings, [name = lower_case(path)](std::string_view ending) { return name.ends_with(ending); });
}
bool is_shard(const std::string& path) { return lower_case(path).ends_with(".tar"); }

void Parts::add(const std::string& name, const std::string& path, bool is_folder) {
  const auto part = part_name(name);
  if (!part || part->part == DataPart::other) return;
  found_.push_back({{part->rank, !is_folder, !part->is_word}, *part, path, is_folder});
}

void Parts::add_unread(const std::string& name, const std::string& path, std::string why, Unread::Sort sort) {
  const auto part = part_name(name);
  if (part && part->part != DataPart::other) unread_.push_back({*part, path, std::move(why), sort});
}

bool Parts::has_both() const {
  const auto has = [this](DataPart part) {
    return std::ranges::any_of(found_, [part](const Found& each) { return each.name.part == part; });
  };
  return has(DataPart::train) && has(DataPart::validate);
}

std::pair<std::string, std::string> Parts::pair() const {
  const Found* const train = first(DataPart::train, nullptr);
  const Found* const validate = first(DataPart::validate, train);
  return {train == nullptr ? "" : train->path, validate == nullptr ? "" : validate->path};
}

std::vector<std::string> Parts::siblings(const std::string& read) const {
  const Found* const chosen = at(read);
  std::vector<std::string> others;
  for (const Found& each : found_) {
    const bool is_same = chosen != nullptr && each.name.part == chosen->name.part && is_test(each) == is_test(*chosen);
    if (is_same && each.is_folder && each.path != read) others.push_back(each.path);
  }
  std::ranges::sort(others);
  return others;
}

std::string Parts::list_next_to(const std::string& folder) const {
  const Found* const chosen = at(folder);
  for (const Found& each : found_) {
    const bool is_same = chosen != nullptr && each.name.part == chosen->name.part && each.name.rest == chosen->name.rest;
    if (is_same && !each.is_folder) return each.path;
  }
  return {};
}

const Unread* Parts::meant(DataPart part, const std::string& read, const std::string& other) const {
  const Found *const chosen = at(read), *const partner = at(other);
  for (const Unread& each : unread_) {
    const bool fits = each.part.part == part && (partner == nullptr || partner->name.rest == each.part.rest);
    const bool comes_first = chosen == nullptr || (each.sort == Unread::Sort::broken && each.part.rank < chosen->name.rank);
    if (fits && comes_first) return &each;
  }
  return nullptr;
}

bool Parts::is_test(const Found& found) {
  return lower_case(fs::path(found.path).filename().string()).find("test") != std::string::npos;
}

const Parts::Found* Parts::first(DataPart part, const Found* sibling) const {
  const Found* first = nullptr;
  bool is_alone = true;  // unlike train2014 and train2017
  for (const Found& each : found_) {
    if (each.name.part != part || (sibling != nullptr && each.name.rest != sibling->name.rest)) continue;
    if (first == nullptr || each.order < first->order) {
      first = &each;
      is_alone = true;
    } else if (each.order == first->order) {
      is_alone = false;
    }
  }
  return is_alone ? first : nullptr;
}

const Parts::Found* Parts::at(const std::string& path) const {
  const auto found = std::ranges::find(found_, path, &Found::path);
  return found == found_.end() ? nullptr : &*found;
}

Parts parts_of(const std::string& folder, const std::vector<DataEntry>& entries) {
  Parts parts;
  for (const DataEntry& entry : entries) {
    const std::string path = join_url(folder, entry.name), stem = entry.name.substr(0, entry.name.find('.'));
    const std::string remedy = remedy_for(entry.name);
    if (!entry.fault.empty())
      parts.add_unread(stem, path, entry.fault, Unread::Sort::broken);
    else if (entry.is_folder || is_list(entry.name))
      parts.add(entry.is_folder ? entry.name : fs::path(entry.name).stem().string(), path, entry.is_folder);
    else if (is_shard(entry.name))
      parts.add_unread(stem, path, "is an archive: unpack it, or name it itself", Unread::Sort::packed);
    else if (remedy.find("unpack") != std::string::npos)
      parts.add_unread(stem, path, "is " + remedy, Unread::Sort::packed);
    else if (!remedy.empty() && !seems_to_be_an_image(entry.name))
      parts.add_unread(stem, path, "is " + remedy, Unread::Sort::text);
    else if (stem == entry.name)  // links become such files on systems without links
      parts.add_unread(stem, path, "is a file, neither a folder nor a list", Unread::Sort::broken);
  }
  return parts;
}

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMaxImages = 2000;  // per folder: enough to know their endings

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
        !entry.is_folder && entry.fault.empty() && usual_images().match(entry.name) && ++images > kMaxImages;
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
    const bool is_reachable = found.is_folder || (!unknown && !entry->is_symlink(unknown));
    if (!is_reachable) found.fault = why_unreachable(entry->path());
    all.push_back(std::move(found));
  }
  if (error && error != std::errc::no_such_file_or_directory && error != std::errc::not_a_directory)
    fail(ErrorKind::data, "cannot read the folder '{}': {}", line_text(folder), error.message());
  return all;
}

std::vector<DataEntry> DataPlaces::list_remote(const std::string& folder) const {
  std::set<std::string> names;
  try {
    Storage& storage = storage_of(registry_, folder);
    if (storage.kind(folder) == Storage::Kind::object) return {};
    const auto found = [&](const Storage::Object& object) {
      const std::size_t slash = object.name.find('/');
      names.insert(slash == std::string::npos ? object.name : object.name.substr(0, slash + 1));
    };
    auto* const lists = dynamic_cast<ListsNames*>(&storage);
    lists != nullptr ? lists->list_names(folder, found) : storage.list(folder, found);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::usage && !means_absent(error, folder)) throw;
    return {};  // a web server, which lists nothing, or an object; its reader reports other errors
  }
  std::vector<DataEntry> all;
  for (const std::string& name : names) {
    const bool is_folder = name.ends_with('/');
    all.push_back({name.substr(0, name.size() - (is_folder ? 1 : 0)), is_folder, {}});
  }
  return all;
}

}  // namespace millrace
