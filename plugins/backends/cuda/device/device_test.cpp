// Parts of the CUDA device that can be tested without one: messages, search for libraries, layout of grids.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <string>
#include <vector>

#include "cuda_backend.h"
#include "device_list.h"
#include "errors.h"
#include "grid.h"
#include "kernels/chunks.h"
#include "kernels/elements.h"
#include "kernels/kernel.h"
#include "library.h"
#include "marks.h"
#include "memory_table.h"
#include "testkit/files.h"
#include "testkit/messages.h"

namespace millrace::cuda {
namespace {

template <class Call>
std::string message_of(const Call& call, ErrorKind kind = ErrorKind::device) {
  return testkit::error_of(kind, [&] { call(); }).what();
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// ---- Why there is no device ----

DriverState working() {
  return {.library = true,
          .driver = "580.65.06",
          .driver_cuda = 13000,
          .runtime_cuda = 13000,
          .status = cudaSuccess,
          .count = 1,
          .visible = {},
          .visible_is_set = false};
}

TEST(WhyNoDevice, SaysNothingWhereThereIsOne) { EXPECT_EQ(why_no_device(working()), ""); }

TEST(WhyNoDevice, NamesTheMissingDriver) {
  EXPECT_MESSAGE(why_no_device(DriverState{}));
  DriverState state = working();  // the runtime's message if it cannot load libcuda.so.1
  state.status = cudaErrorInsufficientDriver;
  state.driver_cuda = 0;
  EXPECT_MESSAGE(why_no_device(state));
}

TEST(WhyNoDevice, NamesBothVersionsOfADriverThatIsTooOld) {
  DriverState state = working();
  state.driver = "535.104.05";
  state.driver_cuda = 12020;
  state.status = cudaErrorInsufficientDriver;
  EXPECT_MESSAGE(why_no_device(state));
  state.status = cudaSuccess;
  EXPECT_TRUE(contains(why_no_device(state), "is older than CUDA 13.0 needs"));
  state.driver = "";
  EXPECT_MESSAGE(why_no_device(state));
}

TEST(WhyNoDevice, TakesANewerDriverOfAnyMinorVersion) {
  DriverState state = working();
  state.driver_cuda = 13020;
  EXPECT_EQ(why_no_device(state), "");
  state.runtime_cuda = 13030;
  EXPECT_EQ(why_no_device(state), "");
}

TEST(WhyNoDevice, NamesTheVariableThatHidesDevices) {
  DriverState state = working();
  state.status = cudaErrorNoDevice;
  state.count = 0;
  EXPECT_MESSAGE(why_no_device(state));
  state.visible_is_set = true;
  state.visible = "7";
  EXPECT_MESSAGE(why_no_device(state));
}

TEST(WhyNoDevice, PassesOnWhatElseCudaSays) {
  DriverState state = working();
  state.status = cudaErrorSystemDriverMismatch;
  EXPECT_TRUE(contains(why_no_device(state), "CUDA cannot be started: ")) << why_no_device(state);
  EXPECT_TRUE(contains(why_no_device(state), "cudaErrorSystemDriverMismatch")) << why_no_device(state);
  state.status = cudaErrorStubLibrary;
  state.driver_cuda = 0;
  EXPECT_TRUE(contains(why_no_device(state), "cudaErrorStubLibrary")) << why_no_device(state);
}

TEST(DeviceText, WritesVersionsAndUuids) {
  EXPECT_EQ(cuda_version_text(13000), "13.0");
  EXPECT_EQ(cuda_version_text(12080), "12.8");
  cudaUUID_t uuid{};
  for (int i = 0; i < 16; ++i) uuid.bytes[i] = static_cast<char>(i * 17);
  EXPECT_EQ(uuid_text(uuid), "GPU-00112233-4455-6677-8899-aabbccddeeff");
  EXPECT_EQ(uuid_text(uuid, true), "MIG-00112233-4455-6677-8899-aabbccddeeff");
}

TEST(CudaBackend, SaysWhyItHasNoDeviceAndDoesNotThrow) {
  CudaBackend backend;
  EXPECT_EQ(backend.name(), "cuda");
  if (!backend.devices().empty()) GTEST_SKIP() << "this machine has a device";
  const std::string reason = backend.unavailable_reason();
  EXPECT_NE(reason, "");
  EXPECT_EQ(message_of([&] { backend.open(0, {}); }), "backend 'cuda': " + reason);
}

TEST(Marks, AreNotMadeWithoutADevice) {
  if (!DeviceList().found().empty()) GTEST_SKIP() << "this machine has a device";
  const auto marks = Marks::make(0);
  EXPECT_TRUE(contains(message_of([&] { marks->record(nullptr); }), "cudaSetDevice failed"));
  marks->close();
}

TEST(Check, NamesCallErrorAndPlace) {
  EXPECT_NO_THROW(check(cudaSuccess, "cudaMalloc"));
  const std::string text = message_of([] { check(cudaErrorInvalidValue, "cudaMemcpyAsync"); });
  EXPECT_TRUE(text.starts_with("cudaMemcpyAsync failed: invalid argument (cudaErrorInvalidValue; device_test.cpp:")) << text;
}

// ---- Libraries ----

// Sets MILLRACE_CUDA_LIBRARIES during a test; the program may need its original value.
class Variable {
 public:
  explicit Variable(const std::string& value) {
    if (const char* before = std::getenv(kName)) before_ = before;
    value.empty() ? unsetenv(kName) : setenv(kName, value.c_str(), 1);
  }
  ~Variable() { before_.empty() ? unsetenv(kName) : setenv(kName, before_.c_str(), 1); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  static constexpr const char* kName = "MILLRACE_CUDA_LIBRARIES";
  std::string before_;
};

class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / "millrace-library-XXXXXX") {
    if (mkdtemp(path_.data()) == nullptr) ADD_FAILURE() << path_ << " cannot be made";
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string path_of_libm() {
  const Library library({"libm.so.6"});
  return library.path();
}

TEST(Library, LooksInNamedFoldersThenAsTheLoaderDoesThenInTheToolkit) {
  const std::vector<std::string> expected = {"/a/x.so.2",
                                             "/a/x.so",
                                             "/b/x.so.2",
                                             "/b/x.so",
                                             "x.so.2",
                                             "x.so",
                                             "/usr/local/cuda/lib64/x.so.2",
                                             "/usr/local/cuda/lib64/x.so",
                                             "/usr/local/cuda/targets/x86_64-linux/lib/x.so.2",
                                             "/usr/local/cuda/targets/x86_64-linux/lib/x.so"};
  EXPECT_EQ(library_candidates({"x.so.2", "x.so"}, "/a::/b:"), expected);
  EXPECT_EQ(library_candidates({"x.so"}, "").front(), "x.so");
}

TEST(Library, FindsWhatTheLoaderFindsAndCallsIt) {
  const Library library({"libnothing-of-this-name.so.1", "libm.so.6"});
  EXPECT_TRUE(contains(library.path(), "/libm.so.6")) << library.path();
  EXPECT_EQ(library.symbol<double(double)>("floor")(2.5), 2.0);
}

TEST(Library, FindsAFileInANamedFolder) {
  const Folder empty, folder;
  std::filesystem::create_symlink(path_of_libm(), folder / "libof-this-test.so.9");
  const Variable variable(empty.path() + ":" + folder.path());
  EXPECT_EQ(Library({"libof-this-test.so.9"}).symbol<double(double)>("floor")(-0.5), -1.0);
}

TEST(Library, RefusesANamedFolderThatIsNotThere) {
  const Folder folder;
  const Variable variable(folder.path() + ":/no/such/folder");
  EXPECT_MESSAGE(message_of([] { Library({"libm.so.6"}); }, ErrorKind::usage));
}

TEST(Library, SaysWhatItLookedForAndWhere) {
  const Variable unset("");
  const std::string text = message_of([] { Library({"libnothing.so.3", "libnothing.so.2"}); });
  EXPECT_EQ(
      text,
      "libnothing.so.3 or libnothing.so.2 was not found: looked in MILLRACE_CUDA_LIBRARIES (not set), the loader's own folders, "
      "/usr/local/cuda/lib64 and /usr/local/cuda/targets/x86_64-linux/lib");
  const Folder folder;
  const Variable variable(folder.path());
  EXPECT_TRUE(contains(message_of([] { Library({"libnothing.so.3"}); }), "(" + folder.path() + ")"));
}

TEST(Library, PassesOnTheLoadersComplaintAboutAFileThatIsThere) {
  const Folder folder;
  std::ofstream(folder / "libbroken.so.1") << "this is no library";
  const Variable variable(folder.path());
  const std::string text = message_of([] { Library({"libbroken.so.1"}); });
  EXPECT_TRUE(contains(text, "; " + (folder / "libbroken.so.1: "))) << text;
}

TEST(Library, NamesTheSymbolThatIsMissing) {
  const Library library({"libm.so.6"});
  const std::string text = message_of([&] { library.symbol<void()>("floor_of_the_sea"); });
  EXPECT_EQ(text, library.path() + " has no function 'floor_of_the_sea': it is another version than this program needs");
}

// ---- Memory ----

TEST(MemoryTable, SaysWhoHoldsWhatTheLargestFirst) {
  MemoryTable table;
  int a = 0, b = 0, c = 0;
  table.add(&a, 10'000'000'000, "weights");
  table.add(&b, 30'000'000'000, "activations");
  table.add(&c, 20'000'000'000, "activations");
  EXPECT_EQ(table.total(), 60'000'000'000U);
  EXPECT_MESSAGE(table.out_of_memory(12'300'000'000, "workspace", 3'000'000, 80'000'000'000));
  table.remove(&b);
  table.remove(&c);
  table.remove(&a);
  EXPECT_EQ(table.total(), 0U);
  EXPECT_TRUE(contains(table.out_of_memory(1, "x", 0, 1), "this program holds 0.0 kB, "));
}

// ---- Grids ----

TEST(Grid, IsEmptyForNothingAndBoundedForMuch) {
  EXPECT_EQ(blocks_for(0, kBlockThreads, 132), 0U);
  EXPECT_EQ(blocks_for(-1, kBlockThreads, 132), 0U);
  EXPECT_EQ(blocks_for(1, kBlockThreads, 132), 1U);
  EXPECT_EQ(blocks_for(256, kBlockThreads, 132), 1U);
  EXPECT_EQ(blocks_for(257, kBlockThreads, 132), 2U);
  EXPECT_EQ(blocks_for(std::int64_t{1} << 40, kBlockThreads, 132), 132U * kBlocksPerMultiprocessor);
  EXPECT_EQ(blocks_for(9, kWarpsPerBlock, 132), 2U);
}

// The loop of run_each() in launch.cuh, thread by thread.
TEST(Grid, StridesMeetEveryElementOnce) {
  for (const std::int64_t size : {1, 255, 256, 257, 100'000}) {
    const unsigned blocks = blocks_for(size, kBlockThreads, 2);
    std::vector<int> met(static_cast<std::size_t>(size), 0);
    const std::int64_t stride = std::int64_t{blocks} * kBlockThreads;
    for (std::int64_t first = 0; first < stride; ++first) {
      for (std::int64_t i = first; i < size; i += stride) ++met[static_cast<std::size_t>(i)];
    }
    EXPECT_EQ(std::count(met.begin(), met.end(), 1), size) << size;
  }
}

TEST(Grid, ColumnBlocksArePowersOfTwoThatHoldTheRow) {
  EXPECT_EQ(column_block(1).packs, 1);
  EXPECT_EQ(column_block(3).packs, 4);
  EXPECT_EQ(column_block(8).rows(), 32);
  EXPECT_EQ(column_block(32).packs, 32);
  EXPECT_EQ(column_block(256).packs, 32);
  EXPECT_EQ(column_blocks(1), 1U);
  EXPECT_EQ(column_blocks(32), 1U);
  EXPECT_EQ(column_blocks(33), 2U);
  EXPECT_EQ(column_blocks(256), 8U);
}

// The threads of run_columns() and run_sums() in launch.cuh.
TEST(Grid, ColumnsMeetEveryPackOfEveryRowOnce) {
  using Extents = std::pair<std::int64_t, std::int64_t>;
  for (const auto& [rows, packs] : std::vector<Extents>{{1, 1}, {7, 3}, {5000, 8}, {300, 40}, {3, 257}, {900, 96}}) {
    for (const std::int64_t parts : {chunks_of(rows, packs), parts_of(rows, packs, 1)}) {
      const ColumnBlock block = column_block(packs);
      std::vector<int> met(static_cast<std::size_t>(rows * packs), 0);
      const auto take = [&](const ColumnShare& share) {
        for (std::int64_t i = 0; i < share.rows.count; ++i) {
          const std::int64_t row = share.rows.first + i * share.rows.step;
          if (share.pack < packs) ++met.at(static_cast<std::size_t>(row * packs + share.pack));
        }
      };
      for (std::int64_t part = 0; part < parts; ++part) {
        for (std::int64_t side = 0; side < column_blocks(packs); ++side) {
          for (int thread = 0; thread < kBlockThreads; ++thread) take(column_share(rows, block, {parts, part, side, thread}));
        }
      }
      EXPECT_EQ(std::count(met.begin(), met.end(), 1), rows * packs) << rows << " x " << packs << " in " << parts;
    }
  }
}

// ---- Kernels ----

std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Otherwise an element that nvcc never compiled would only be detected by a launch on a device.
TEST(DeviceCode, IsThereForEveryElement) {
  const std::filesystem::path folder = MILLRACE_SOURCE_DIR "/plugins/backends/cuda";
  std::string instances;
  for (const auto& file : std::filesystem::directory_iterator(folder / "device")) {
    if (file.path().extension() == ".cu") instances += text_of(file.path());
  }
  const std::map<std::string, std::string> other_names = {{"Convert", "FloatToBf16"}};
  const std::regex element(R"(struct (\w+) \{\n  static constexpr Form kForm)");
  int elements = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder / "kernels")) {
    if (file.path().extension() != ".h" || file.path().filename() == "portable.h") continue;
    const std::string text = text_of(file.path());
    for (std::sregex_iterator at(text.begin(), text.end(), element), end; at != end; ++at, ++elements) {
      const auto other = other_names.find((*at)[1].str());
      const std::string name = other == other_names.end() ? (*at)[1].str() : other->second;
      EXPECT_TRUE(std::regex_search(instances, std::regex("MILLRACE_INSTANTIATE\\(" + name + "\\b"))) << name;
    }
  }
  EXPECT_GE(elements, 30);
  EXPECT_NE(kernel_of<Softmax<Bf16>>.on_device, nullptr);
}

}  // namespace
}  // namespace millrace::cuda
