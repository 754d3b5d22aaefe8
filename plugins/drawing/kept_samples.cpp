#include "kept_samples.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

namespace millrace::drawing {
namespace {

template <class T>
std::string_view bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

void put(WireWriter& writer, const KeptSample& sample) {
  writer.put(sample.loss).put(sample.position).put(sample.row).put(bytes_of(sample.classes));
  writer.put(sample.cell.is_bad).put(sample.cell.images.size()).put(sample.cell.captions.size());
  for (const KeptImage& image : sample.cell.images) writer.put(image.shape).put(bytes_of(image.pixels));
  for (const Caption& caption : sample.cell.captions) writer.put(caption.text).put(caption.colour);
}

std::vector<std::uint8_t> list(WireReader& reader) {
  const auto bytes = reader.get<std::string>();
  return {bytes.begin(), bytes.end()};
}

KeptSample sample_in(WireReader& reader) {
  KeptSample sample;
  sample.loss = reader.get<double>();
  sample.position = reader.get<std::uint64_t>();
  sample.row = reader.get<std::string>();
  sample.classes = list(reader);
  sample.cell.is_bad = reader.get<bool>();
  const auto images = reader.get<std::size_t>(), captions = reader.get<std::size_t>();
  for (std::size_t i = 0; i < images; ++i) {
    KeptImage& image = sample.cell.images.emplace_back();
    image.shape = reader.get<ImageShape>();
    image.pixels = list(reader);
  }
  for (std::size_t i = 0; i < captions; ++i) {
    Caption& caption = sample.cell.captions.emplace_back();
    caption.text = reader.get<std::string>();
    caption.colour = reader.get<Colour>();
  }
  return sample;
}

}  // namespace

bool KeptSamples::comes_first(const Place& one, const Place& other) {
  return one.loss != other.loss ? one.loss > other.loss : one.position < other.position;
}

bool KeptSamples::takes(double loss, std::uint64_t position) const {
  if (samples_.size() < most_) return true;
  return most_ > 0 && comes_first({loss, position}, {samples_.back().loss, samples_.back().position});
}

void KeptSamples::add(KeptSample sample) {
  if (!takes(sample.loss, sample.position)) return;
  const auto behind =
      std::upper_bound(samples_.begin(), samples_.end(), sample, [](const KeptSample& one, const KeptSample& other) {
        return comes_first({one.loss, one.position}, {other.loss, other.position});
      });
  samples_.insert(behind, std::move(sample));
  if (samples_.size() > most_) samples_.pop_back();
}

void KeptSamples::join(JointSink& processes) {
  std::vector<Place> places;
  for (const KeptSample& sample : samples_) places.push_back({sample.loss, sample.position});
  processes.gather(WireWriter().put(count_).put(places), [&](WireReader& other) {
    count_ += other.get<double>();
    const std::vector<Place> more = other.list<Place>();
    places.insert(places.end(), more.begin(), more.end());
  });
  std::ranges::sort(places, comes_first);
  if (places.size() > most_) places.resize(most_);
  // The last kept place; unused if there are no samples.
  std::vector<std::byte> last(sizeof(Place));
  if (!places.empty()) std::memcpy(last.data(), &places.back(), sizeof(Place));
  processes.share(last);
  Place kept;
  std::memcpy(&kept, last.data(), sizeof kept);
  std::erase_if(samples_, [&](const KeptSample& sample) { return comes_first(kept, {sample.loss, sample.position}); });
  WireWriter mine;
  for (const KeptSample& sample : samples_) put(mine, sample);
  processes.gather(mine, [this](WireReader& other) {
    while (!other.is_done()) add(sample_in(other));
  });
}

Sheet KeptSamples::sheet() const {
  Sheet sheet;
  for (const KeptSample& sample : samples_) sheet.cells.push_back(sample.cell);
  return sheet;
}

std::string KeptSamples::rows() const {
  std::string text;
  for (const KeptSample& sample : samples_) text += sample.row;
  return text;
}

std::string file_of(const Predictions::Sample& sample) {
  std::string place = sample.member;
  if (place.empty()) sample.append_place(place);
  return place.substr(place.rfind('/') + 1);  // none: rfind() + 1 is 0
}

KeptImage kept_image(const Predictions& share, std::size_t sample) {
  const ImageShape window = share.batch->window;
  std::vector<std::uint8_t> seen(window.bytes());
  share.copy_image(sample, seen.data());
  return kept({seen.data(), window});
}

std::vector<bool> KeptSamples::classes() const {
  std::vector<bool> occur(256);
  for (const KeptSample& sample : samples_) {
    for (const std::uint8_t of : sample.classes) occur[of] = true;
  }
  return occur;
}

}  // namespace millrace::drawing
