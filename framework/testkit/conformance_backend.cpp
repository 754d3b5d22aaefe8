// Requirements of every backend, compared with testkit/plain.h: a small network of linear layers, float32.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "millrace/error.h"
#include "millrace/optimizer.h"
#include "testkit/conformance.h"
#include "testkit/gradient_check.h"
#include "testkit/losses.h"
#include "testkit/optimizers.h"
#include "testkit/plain.h"
#include "testkit/synthetic.h"

namespace millrace::conformance {
namespace {

constexpr std::uint32_t kCount = 8;
constexpr std::int32_t kClasses = 3;
constexpr double kMaxDifference = 5e-3;  // relative difference of norms: leaves room for tf32

double difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double far = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    far += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    norm += std::pow(static_cast<double>(b[i]), 2);
  }
  return norm > 0 ? std::sqrt(far / norm) : std::sqrt(far);
}

// One device, and a small network to compile for it.
class BackendBench {
 public:
  explicit BackendBench(std::shared_ptr<Backend> backend)
      : network_(testkit::small_network(kImage, 6, kClasses)), backend_(std::move(backend)), device_(backend_->open(0, {})) {}
  // Empty if the backend has no device; the report has the reason.
  static std::optional<BackendBench> of(const Registry& registry, const std::string& name, Report& report) {
    std::shared_ptr<Backend> backend = registry.backends().find(name)->create();
    if (!backend->devices().empty()) return BackendBench(std::move(backend));
    report.not_applicable(fmt::format("there is no device: {}", backend->unavailable_reason()));
    return std::nullopt;
  }
  static BackendBench plain() { return BackendBench(testkit::make_plain_backend()); }

  const Network& network() const { return network_; }
  Device& device() const { return *device_; }
  std::unique_ptr<Replica> started() const {
    CompileOptions options;
    options.train_batch = options.infer_batch = kCount;
    options.request.update = testkit::sgd(network_, 0.9);
    options.request.losses = {testkit::cross_entropy()};
    std::unique_ptr<Replica> replica = device_->compile(network_, options);
    replica->start();
    testkit::randomise(network_, *replica, 1);
    return replica;
  }
  Ref<Batch> batch() const {
    Ref<Batch> batch = testkit::make_batch(kCount, network_.input);
    testkit::fill_at_random(*batch, kClasses, 2);
    return batch;
  }
  int parameters() const { return static_cast<int>(network_.parameters.size()); }
  const std::string& name_of(int parameter) const { return network_.parameters[static_cast<std::size_t>(parameter)].name; }

 private:
  Network network_;
  std::shared_ptr<Backend> backend_;  // before its device, which is destroyed first
  std::unique_ptr<Device> device_;
};

bool can_train(const Registry& registry, Report& report) {
  const bool can = registry.losses().find("cross_entropy") != nullptr && registry.optimizers().find("sgd") != nullptr;
  if (!can) report.not_applicable("there is nothing to train with: the loss 'cross_entropy' or the optimizer 'sgd' is missing");
  return can;
}

void submit(Replica& replica, const Ref<Batch>& batch, std::uint64_t step, StepSums& sums,
            std::vector<std::pair<int, Ref<Event>>>& filled) {
  replica.ingest(batch, 0, batch->count);
  replica.forward(step);
  replica.loss(testkit::cross_entropy(), batch->weight, sums);
  replica.backward([&filled](int bucket, Ref<Event> event) { filled.emplace_back(bucket, std::move(event)); });
}

// One training step; returns the sum of the losses.
double train(Replica& replica, const Ref<Batch>& batch, std::uint64_t done) {
  StepSums sums;
  std::vector<std::pair<int, Ref<Event>>> filled;
  submit(replica, batch, done, sums, filled);
  replica.finish();  // a backend may fill buckets on its own thread
  UpdateStep update;
  update.step = update.updates_done = done;
  update.learning_rate = 0.1;
  for (const auto& [bucket, event] : filled) replica.update(bucket, update, event);
  replica.finish();
  return sums.loss();
}

void backend_description(const Registry& registry, const std::string& name, Report& report) {
  const BackendType& type = *registry.backends().find(name);
  check_description(type.name, type.text, type.plugin, {}, report);
  const std::shared_ptr<Backend> backend = type.create();
  report.expect(backend->name() == name, fmt::format("it calls itself '{}'", backend->name()));
  const std::vector<DeviceInfo> devices = backend->devices();
  report.expect(!devices.empty() || !backend->unavailable_reason().empty(), "it has no device and does not say why");
  for (int index = 0; const DeviceInfo& info : devices) {
    report.expect(info.backend == name, fmt::format("device {} says that it is of backend '{}'", index, info.backend));
    report.expect(info.index == index, fmt::format("device {} says that it is number {}", index, info.index));
    report.expect(!info.name.empty(), fmt::format("device {} has no name", index));
    report.expect(info.memory > 0, fmt::format("device {} has no memory", index));
    ++index;
  }
  if (devices.empty()) return;
  const std::unique_ptr<Device> device = backend->open(0, {});
  report.expect(device->info().name == devices[0].name && device->info().index == 0, "open(0) gives another device");
  const std::shared_ptr<std::uint8_t[]> memory = device->host_buffer(1000);
  report.expect(reinterpret_cast<std::uintptr_t>(memory.get()) % 64 == 0, "host_buffer() is not aligned to 64 bytes");
  report.expect(std::all_of(memory.get(), memory.get() + 1000, [](std::uint8_t byte) { return byte == 0; }),
                "host_buffer() is not zeroed");
}

// Expects an Error of kind `usage` (or any kind, with `any_kind`) that names `named`.
void expect_refused(const char* what, const std::string& named, bool any_kind, const std::function<void()>& call,
                    Report& report) {
  try {
    call();
    report.add(fmt::format("{} is not refused", what));
  } catch (const Error& error) {
    const std::string said = error.what();
    report.expect(any_kind || error.kind() == ErrorKind::usage,
                  fmt::format("{} is an error of kind {}, expected usage: {}", what, to_string(error.kind()), said));
    report.expect(said.find(named) != std::string::npos, fmt::format("{}: the message does not name {}: {}", what, named, said));
  }
}

void backend_refusals(const Registry& registry, const std::string& name, Report& report) {
  const auto bench = BackendBench::of(registry, name, report);
  if (!bench || !can_train(registry, report)) return;
  const std::shared_ptr<Backend> backend = registry.backends().find(name)->create();
  expect_refused(
      "a device that is not there", "1000", true, [&] { backend->open(1000, {}); }, report);
  Network unknown = bench->network();
  unknown.layers.front().op = "no_such_op";
  CompileOptions options;
  options.train_batch = kCount;
  expect_refused(
      "a layer that nobody knows", "no_such_op", false, [&] { bench->device().compile(unknown, options); }, report);
  const std::unique_ptr<Replica> replica = bench->started();
  expect_refused(
      "a state that no parameter has", "no_such_state", false, [&] { replica->read("no_such_state", 0); }, report);
}

void backend_logits(const Registry& registry, const std::string& name, Report& report) {
  const auto bench = BackendBench::of(registry, name, report);
  if (!bench || !can_train(registry, report)) return;
  const auto logits = [](const BackendBench& of) {
    const std::unique_ptr<Replica> replica = of.started();
    StepSums sums;
    const View plain;
    replica->infer(of.batch(), 0, kCount, {&plain, 1}, nullptr, sums);
    replica->finish();
    return replica->logits();
  };
  const double far = difference(logits(*bench), logits(BackendBench::plain()));
  report.expect(far < kMaxDifference, fmt::format("the outputs of a small network differ from those of plain loops by {:.2e} of "
                                                  "their norm, expected below {:.0e}",
                                                  far, kMaxDifference));
}

void backend_training(const Registry& registry, const std::string& name, Report& report) {
  const auto bench = BackendBench::of(registry, name, report);
  if (!bench || !can_train(registry, report)) return;
  const BackendBench plain_bench = BackendBench::plain();
  const std::unique_ptr<Replica> replica = bench->started(), plain = plain_bench.started();
  for (std::uint64_t done = 0; done < 2; ++done) {  // the second step has momentum
    const double loss = train(*replica, bench->batch(), done), expected = train(*plain, plain_bench.batch(), done);
    report.expect(std::abs(loss - expected) < kMaxDifference * std::abs(expected),
                  fmt::format("step {} has the loss {:.6g}, and {:.6g} by plain loops", done + 1, loss, expected));
    for (const std::string_view state : {kGradient, kValue}) {
      for (int p = 0; p < bench->parameters(); ++p) {
        const double far = difference(replica->read(state, p), plain->read(state, p));
        report.expect(far < kMaxDifference,
                      fmt::format("after step {} the {} of '{}' differs from that of plain loops by {:.2e} of "
                                  "its norm",
                                  done + 1, state, bench->name_of(p), far));
      }
    }
  }
}

void backend_state(const Registry& registry, const std::string& name, Report& report) {
  const auto bench = BackendBench::of(registry, name, report);
  if (!bench || !can_train(registry, report)) return;
  const std::unique_ptr<Replica> first = bench->started(), second = bench->started();
  const Ref<Batch> batch = bench->batch();
  train(*first, batch, 0);
  const std::vector<std::string> states = first->states();
  for (const std::string_view needed : {kValue, kGradient}) {
    report.expect(std::find(states.begin(), states.end(), needed) != states.end(),
                  fmt::format("states() does not list '{}'", needed));
  }
  const auto each = [&](const auto& look) {
    for (const std::string& state : states) {
      for (int p = 0; p < bench->parameters(); ++p) {
        if (first->has_state(state, p)) look(state, p);
      }
    }
  };
  each([&](const std::string& state, int p) {
    const std::vector<float> values = first->read(state, p);
    second->write(state, p, values);
    report.expect(second->read(state, p) == values,
                  fmt::format("'{}' of '{}' is read otherwise than it was written", state, bench->name_of(p)));
  });
  train(*first, batch, 1);
  train(*second, batch, 1);
  each([&](const std::string& state, int p) {
    report.expect(first->read(state, p) == second->read(state, p),
                  fmt::format("a replica with the states of another does not go on to the same bits: '{}' of '{}'", state,
                              bench->name_of(p)));
  });
}

// A run that ends in the middle of a step destroys its replicas without waiting for them.
void backend_cancellation(const Registry& registry, const std::string& name, Report& report) {
  const auto bench = BackendBench::of(registry, name, report);
  if (!bench || !can_train(registry, report)) return;
  const Ref<Batch> batch = bench->batch();
  for (std::uint64_t step = 0; step < 3; ++step) {
    std::vector<std::pair<int, Ref<Event>>> filled;
    StepSums sums;  // both outlive the replica
    const std::unique_ptr<Replica> replica = bench->started();
    submit(*replica, batch, step, sums, filled);
  }
  report.expect(batch->in_flight == 0, "a batch is still in flight when the replica that read it is gone");
  const std::unique_ptr<Replica> next = bench->started();
  report.expect(std::isfinite(train(*next, batch, 0)), "a replica that comes after one that was dropped does not train");
}

constexpr Check kBackendChecks[] = {{"backend", "description", backend_description},
                                    {"backend", "refusals", backend_refusals},
                                    {"backend", "logits", backend_logits},
                                    {"backend", "training", backend_training},
                                    {"backend", "state", backend_state},
                                    {"backend", "cancellation", backend_cancellation}};

}  // namespace

std::span<const Check> backend_checks() { return kBackendChecks; }

}  // namespace millrace::conformance
