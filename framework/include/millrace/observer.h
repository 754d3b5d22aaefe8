// A run tells, others listen: the progress line, metrics.jsonl, results.csv and the ledger of bad samples are observers.
//
//   class Bell : public millrace::RunObserver {
//    public:
//     struct Params { std::string sound = "\a"; };
//     static void describe(millrace::ObserverDescription<Params>& d) {
//       d.name("bell").text("Rings at the end of each epoch.").delivery(millrace::Delivery::latest);
//       d.params.add("sound", &Params::sound).text("what is written to standard output");
//     }
//     explicit Bell(const Params& params) : params_(params) {}
//     void epoch(const millrace::EpochEvent&) override { std::fputs(params_.sound.c_str(), stdout); }
//    private:
//     Params params_;
//   };
//   MILLRACE_PLUGIN("bell", "1.0", "Rings a bell.") { registry.add_observer<Bell>(); }
//
// In a pipeline, [observe.bell] turns it on and holds its parameters.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "millrace/detail/make_from_table.h"
#include "millrace/detail/type_description.h"
#include "millrace/error.h"
#include "millrace/params.h"
#include "millrace/run_events.h"

namespace millrace {

// ---- What may be asked of a run ----

// Every call returns at once; what is asked for happens at the next step's end, and a RequestEvent says so. What comes too late,
// or cannot be done, is refused by a RequestEvent that says why. Thread-safe.
class RunControl {
 public:
  virtual ~RunControl() = default;
  virtual void stop() = 0;      // ends the run in good order; the weights are saved
  virtual void save() = 0;      // writes the weights into the run's folder
  virtual void validate() = 0;  // runs every other graph once
  // The learning rate becomes that of the schedule times `factor`, until the next call. REQUIRES: factor is finite and at least
  // 0.
  virtual void rate_factor(double factor) = 0;
  virtual void warn(std::string_view message) = 0;  // told to all observers as a WarningEvent
  virtual void checkpoint() = 0;                    // writes one; refused where the pipeline has no [checkpoint]
};

// ---- Who listens ----

enum class Delivery {
  all,     // nothing but ticks is lost: the run waits where the observer is 1,024 events behind, and says so
  latest,  // the run never waits: steps and ticks are dropped where the observer is slow
};
const char* to_string(Delivery delivery);

// Each observer has a thread of its own, and is called on that thread alone, in the order of what happened. start() comes first
// and end() last, except that warning() may come before and after. Each may throw: an error in start() of an observer with
// Delivery::all ends the run, and one in its end() makes a run fail that was done; after any other error the run warns once,
// names the observer, and tells it nothing more.
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  virtual void start(const RunStart&, RunControl&) {}  // the control is valid until the observer is destroyed
  virtual void step(const StepEvent&) {}
  virtual void epoch(const EpochEvent&) {}
  virtual void pass(const PassEvent&) {}
  virtual void checkpoint(const CheckpointEvent&) {}
  virtual void bad_sample(const BadSampleEvent&) {}
  virtual void warning(const WarningEvent&) {}
  virtual void request(const RequestEvent&) {}
  virtual void tick(const TickEvent&) {}
  virtual void end(const RunEnd&) {}
  // All that was told so far can be seen by others when it returns, and outlives a killed process. Called with Delivery::all at
  // the end of each epoch, before other graphs run, and before end().
  virtual void flush() {}
  // All that was told so far outlives a loss of power when it returns. Called with Delivery::all before a checkpoint that stands
  // behind it becomes the newest, while training goes on.
  virtual void sync() {}
};

struct ObserverType : TypeDescription {
  Delivery delivery = Delivery::all;
  bool by_default = false;  // listens unless `observe.NAME = false`
  // Reads the table as create() does and constructs nothing. `owner` names the table in messages: "[observe.metrics]".
  std::function<void(const Value& table, const std::string& owner, Diagnostics& errors)> check;
  // Mistakes go to `errors`, those of the constructor too, and the result is null then.
  std::function<std::shared_ptr<RunObserver>(const Value& table, const std::string& owner, Diagnostics& errors)> create;
};

// What an observer says about itself, in `static void describe(ObserverDescription<Params>&)`.
template <class Params>
class ObserverDescription {
 public:
  ObserverDescription& name(std::string_view value) { return name_ = value, *this; }
  ObserverDescription& text(std::string_view value) { return text_ = value, *this; }
  ObserverDescription& delivery(Delivery value) { return delivery_ = value, *this; }
  ObserverDescription& by_default() { return by_default_ = true, *this; }
  ParamSet<Params> params;

 private:
  friend struct ObserverMaker;
  std::string name_, text_;
  Delivery delivery_ = Delivery::all;
  bool by_default_ = false;
};

struct ObserverMaker {
  template <class T>
  static ObserverType make() {
    using Params = typename T::Params;
    auto description = std::make_shared<ObserverDescription<Params>>();
    T::describe(*description);
    ObserverType type{detail::description_of(description->name_, description->text_, description->params),
                      description->delivery_,
                      description->by_default_,
                      {},
                      {}};
    type.check = [description](const Value& table, const std::string& owner, Diagnostics& errors) {
      read_struct(description->params, table, owner, errors);
    };
    type.create = [description](const Value& table, const std::string& owner,
                                Diagnostics& errors) -> std::shared_ptr<RunObserver> {
      return detail::make_from_table(description->params, table, owner, errors, &detail::constructed<T, Params>);
    };
    return type;
  }
};

// The type of an observer's class. For Registry::add_observer().
template <class T>
ObserverType observer_type() {
  return ObserverMaker::make<T>();
}

}  // namespace millrace
