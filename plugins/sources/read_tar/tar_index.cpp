#include "tar_index.h"

#include <algorithm>
#include <limits>

#include "millrace/error.h"
#include "millrace/sample.h"

namespace millrace {

namespace {

constexpr char kMagic[8] = {'M', 'R', 'T', 'A', 'R', '0', '3', '\n'};
constexpr std::size_t kMaxClassNames = 100'000;
constexpr std::size_t kHashed = sizeof(kMagic) + sizeof(std::uint64_t);  // the checksum covers the bytes after it

[[noreturn]] void damaged(const char* what) { fail(ErrorKind::data, "the index is damaged: {}", what); }

}  // namespace

TarIndex::TarIndex(std::vector<std::uint8_t> bytes, const IndexKey& key) : bytes_(std::move(bytes)) {
  check_sizes(key);
  check_samples();
  check_passed_over();
}

void TarIndex::check_sizes(const IndexKey& key) {
  if (bytes_.size() < sizeof(Header)) damaged("its header is truncated");
  header_ = load<Header>(0, 0);
  if (std::memcmp(header_.magic, kMagic, sizeof(kMagic)) != 0)
    fail(ErrorKind::data, "this is not an index, or it has another version");
  if (std::memcmp(&header_.key, &key, sizeof(key)) != 0)
    fail(ErrorKind::data, "the index belongs to another shard, or was made with other settings");
  if (header_.checksum != hash_bytes(bytes_.data() + kHashed, bytes_.size() - kHashed)) damaged("its checksum is wrong");

  const std::uint64_t rest = bytes_.size() - sizeof(Header);
  const std::uint64_t most = std::numeric_limits<std::uint32_t>::max();
  if (header_.samples > most || header_.numbers > most / sizeof(float) || header_.has_targets > 1)
    damaged("its counts are invalid");
  const std::uint64_t each = sizeof(Entry) + header_.has_targets * sizeof(Target) + header_.numbers * sizeof(float);
  if (header_.samples > rest / each) damaged("it is truncated");
  const std::uint64_t text = rest - header_.samples * each;
  if (header_.name_bytes > text || header_.class_bytes > text - header_.name_bytes ||
      header_.example_bytes != text - header_.name_bytes - header_.class_bytes)
    damaged("its sizes are inconsistent");
  targets_ = sizeof(Header) + size() * sizeof(Entry);
  numbers_ = targets_ + size() * header_.has_targets * sizeof(Target);
  names_ = numbers_ + size() * header_.numbers * sizeof(float);
}

// Checks everything once, so that reading samples needs no checks.
void TarIndex::check_samples() {
  std::string_view classes(reinterpret_cast<const char*>(bytes_.data()) + names_ + header_.name_bytes, header_.class_bytes);
  while (!classes.empty()) {
    const std::size_t end = classes.find('\0');
    if (end == classes.npos || class_names_.size() == kMaxClassNames) damaged("its class names are not a list");
    class_names_.emplace_back(classes.substr(0, end));
    classes.remove_prefix(end + 1);
  }
  const auto check = [this](std::uint64_t offset, std::uint32_t bytes) {
    const std::uint64_t shard = header_.key.shard_bytes;
    if (offset > shard || bytes > shard - offset) damaged("a member lies outside the shard");
  };
  std::uint32_t name_end = 0;
  const auto names = static_cast<std::int64_t>(class_names_.size());
  for (std::size_t i = 0; i < size(); ++i) {
    const Entry sample = entry(i);
    const Member target_member = target(i);
    check(sample.offset, sample.bytes);
    check(target_member.offset, target_member.bytes);
    if (sample.name_end < name_end || sample.name_end > header_.name_bytes) damaged("its names are out of order");
    const bool is_name = sample.label <= kFirstName;
    if (sample.label > kLargestLabel || (is_name && std::int64_t{kFirstName} - sample.label >= names)) damaged("a label is none");
    name_end = sample.name_end;
    largest_label_ = std::max(largest_label_, sample.label);
    largest_ = std::max<std::size_t>(largest_, std::size_t{sample.bytes} + target_member.bytes);
  }
}

void TarIndex::check_passed_over() {
  const std::size_t begin = names_ + header_.name_bytes + header_.class_bytes;
  std::string_view examples(reinterpret_cast<const char*>(bytes_.data()) + begin, header_.example_bytes);
  for (std::size_t reason = 0; reason < PassedOver::kReasons; ++reason) {
    const std::size_t end = examples.find('\0');
    if (end == examples.npos) damaged("an example is missing");
    passed_over_.members[reason] = {header_.passed_over[reason], std::string(examples.substr(0, end))};
    examples.remove_prefix(end + 1);
  }
  passed_over_.zeros = header_.zeros;
}

TarIndex::Member TarIndex::target(std::size_t at) const {
  if (header_.has_targets == 0) return {};
  const auto target = load<Target>(targets_, at);
  return {target.offset, target.bytes};
}

std::string_view TarIndex::name(std::size_t at) const {
  const std::uint32_t begin = at == 0 ? 0 : entry(at - 1).name_end;
  return {reinterpret_cast<const char*>(bytes_.data()) + names_ + begin, entry(at).name_end - begin};
}

void TarIndex::numbers(std::size_t at, std::vector<float>& out) const {
  out.resize(header_.numbers);
  if (out.empty()) return;
  std::memcpy(out.data(), bytes_.data() + numbers_ + at * out.size() * sizeof(float), out.size() * sizeof(float));
}

void IndexWriter::add(const Sample& sample) {
  names_ += sample.name;
  if (names_.size() > std::numeric_limits<std::uint32_t>::max())
    fail(ErrorKind::data, "more than 4 GiB of names: make smaller shards");
  entries_.push_back({sample.image.offset, sample.image.bytes, static_cast<std::uint32_t>(names_.size()), code(sample.label), 0});
  targets_.push_back({sample.target.offset, sample.target.bytes, 0});
  numbers_.insert(numbers_.end(), sample.numbers.begin(), sample.numbers.end());
}

std::int32_t IndexWriter::code(const Label& label) {
  switch (label.kind) {
    case Label::Kind::none: return TarIndex::kNoLabel;
    case Label::Kind::unreadable: return TarIndex::kUnreadable;
    case Label::Kind::number: return label.number;
    case Label::Kind::name: break;
  }
  const auto [at, added] =
      class_codes_.try_emplace(label.name, TarIndex::kFirstName - static_cast<std::int32_t>(class_codes_.size()));
  if (added) class_names_.append(label.name).append(1, '\0');
  if (class_codes_.size() > kMaxClassNames)
    fail(ErrorKind::data, "more than {} different labels: they cannot be classes", kMaxClassNames);
  return at->second;
}

TarIndex IndexWriter::finish(const IndexKey& key, bool with_targets, const PassedOver& passed_over) && {
  std::string examples;
  TarIndex::Header header{};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.key = key;
  header.samples = entries_.size();
  header.name_bytes = names_.size();
  header.class_bytes = class_names_.size();
  for (std::size_t reason = 0; reason < PassedOver::kReasons; ++reason) {
    header.passed_over[reason] = passed_over.members[reason].count;
    examples.append(passed_over.members[reason].example).append(1, '\0');
  }
  header.example_bytes = examples.size();
  header.zeros = passed_over.zeros;
  header.numbers = static_cast<std::uint32_t>(entries_.empty() ? 0 : numbers_.size() / entries_.size());
  header.has_targets = with_targets ? 1 : 0;

  std::vector<std::uint8_t> bytes;
  const auto append = [&bytes](const void* data, std::size_t size) {
    const auto* first = static_cast<const std::uint8_t*>(data);
    bytes.insert(bytes.end(), first, first + size);
  };
  append(&header, sizeof(header));
  append(entries_.data(), entries_.size() * sizeof(TarIndex::Entry));
  if (with_targets) append(targets_.data(), targets_.size() * sizeof(TarIndex::Target));
  append(numbers_.data(), numbers_.size() * sizeof(float));
  append(names_.data(), names_.size());
  append(class_names_.data(), class_names_.size());
  append(examples.data(), examples.size());
  header.checksum = hash_bytes(bytes.data() + kHashed, bytes.size() - kHashed);
  std::memcpy(bytes.data() + sizeof(kMagic), &header.checksum, sizeof(header.checksum));
  return {std::move(bytes), key};
}

}  // namespace millrace
