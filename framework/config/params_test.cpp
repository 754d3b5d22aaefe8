#include "millrace/params.h"

#include <gtest/gtest.h>

#include <memory>

#include "millrace/error.h"
#include "testkit/files.h"
#include "testkit/messages.h"

namespace millrace {
namespace {

struct Window {
  Range x, y;
};

struct Group {
  std::string match;
  double rate_factor = 1;
};

struct Blur {
  double sigma = 2;
};

struct Params {
  double flip_x = 0.25;
  std::int64_t size = 8;
  std::int64_t threads = 4;
  bool cache = true;
  std::string border = "reflect";
  std::string path = "data";
  Size kernel{3, 3};
  Window translate;
  std::vector<double> load;
  std::optional<double> clip;
  std::vector<Group> groups;
  std::optional<Blur> blur;
  Value rest;

  static void describe(ParamSet<Params>& set) {
    set.add("flip_x", &Params::flip_x).range(0, 1).text("chance of mirroring");
    set.add("size", &Params::size).range(1);
    set.add("threads", &Params::threads).range(0).choices({"auto"});
    set.add("cache", &Params::cache);
    set.add("border", &Params::border).choices({"reflect", "constant"});
    set.add("path", &Params::path).required().text("folder of the data set");
    set.add("kernel", &Params::kernel).range(1, 11);
    set.add_table("translate", &Params::translate, [](ParamSet<Window>& w) {
      w.add("x", &Window::x).range(-128, 127).unit("pixels");
      w.add("y", &Window::y).range(-128, 127).unit("pixels");
    });
    set.add("load", &Params::load).range(0, 1);
    set.add("clip", &Params::clip).range(0);
    set.add_list("groups", &Params::groups, [](ParamSet<Group>& g) {
      g.add("match", &Group::match).required();
      g.add("rate_factor", &Group::rate_factor).range(0);
    });
    set.add_table("blur", &Params::blur, [](ParamSet<Blur>& b) { b.add("sigma", &Blur::sigma).range(0); });
    set.add("rest", &Params::rest);
  }
};

const ParamSet<Params>& declared() {
  static const ParamSet<Params> set = [] {
    ParamSet<Params> made;
    Params::describe(made);
    return made;
  }();
  return set;
}

Value table(std::vector<std::pair<std::string, Value>> entries) {
  Value out;
  for (auto& [key, value] : entries) out.set(key, std::move(value));
  return out;
}

Value good() { return table({{"path", Value("here")}}); }

std::string mistakes(const Value& value) {
  Diagnostics errors;
  read_struct(declared(), value, "[train.augment]", errors);
  return errors.text();
}

std::string mistake(const std::string& key, Value value) {
  Value all = good();
  all.set(key, std::move(value));
  return mistakes(all);
}

TEST(Params, AbsentKeysKeepTheirDefaults) {
  Diagnostics errors;
  const Params params = read_struct(declared(), good(), "[train.augment]", errors);
  EXPECT_EQ(errors.text(), "");
  EXPECT_EQ(params.path, "here");
  EXPECT_EQ(params.flip_x, 0.25);
  EXPECT_FALSE(params.clip.has_value());
}

TEST(Params, EveryTypeIsRead) {
  Value value = good();
  value.set("flip_x", Value(1));  // integers are accepted as numbers
  value.set("size", Value(12));
  value.set("cache", Value(false));
  value.set("border", Value("constant"));
  value.set("kernel", Value(Array{Value(5), Value(7)}));
  value.set("translate", table({{"x", Value(Array{Value(-4), Value(4)})}, {"y", Value(2.5)}}));
  value.set("load", Value(Array{Value(1), Value(0.5)}));
  value.set("clip", Value(3.0));
  value.set("groups", Value(Array{table({{"match", Value("bn")}, {"rate_factor", Value(64)}})}));
  value.set("rest", table({{"anything", Value(1)}}));
  Diagnostics errors;
  const Params params = read_struct(declared(), value, "[train.augment]", errors);
  ASSERT_EQ(errors.text(), "");
  EXPECT_EQ(params.flip_x, 1.0);
  EXPECT_EQ(params.size, 12);
  EXPECT_FALSE(params.cache);
  EXPECT_EQ(params.border, "constant");
  EXPECT_EQ(params.kernel.height, 5);
  EXPECT_EQ(params.kernel.width, 7);
  EXPECT_EQ(params.translate.x.low, -4);
  EXPECT_EQ(params.translate.y.high, 2.5);
  EXPECT_EQ(params.load, (std::vector<double>{1, 0.5}));
  EXPECT_EQ(params.clip, 3.0);
  ASSERT_EQ(params.groups.size(), 1U);
  EXPECT_EQ(params.groups[0].rate_factor, 64);
  EXPECT_EQ(params.rest.find("anything")->integer(), 1);
}

TEST(Params, WhatIsWrittenCanBeReadBack) {
  Params params;
  params.clip = 0.5;
  params.load = {0.5, 0.5};
  params.groups = {{"bias", 2}};
  const Value written = write_params(declared().infos(), &params);
  EXPECT_EQ(to_toml(written),
            "flip_x = 0.25\nsize = 8\nthreads = 4\ncache = true\nborder = \"reflect\"\npath = \"data\"\nkernel = [3, 3]\n"
            "load = [0.5, 0.5]\nclip = 0.5\ngroups = [{ match = \"bias\", rate_factor = 2.0 }]\n\n"
            "[translate]\nx = [0.0, 0.0]\ny = [0.0, 0.0]\n");
  EXPECT_EQ(mistakes(written), "");
}

TEST(Params, AnAbsentOptionalIsNotWritten) {
  const Params params;
  EXPECT_EQ(write_params(declared().infos(), &params).find("clip"), nullptr);
}

TEST(Params, ATableMaySaySomethingByBeingThere) {
  Diagnostics errors;
  EXPECT_FALSE(read_struct(declared(), good(), "[train.augment]", errors).blur.has_value());
  Value value = good();
  value.set("blur", Value());
  const Params params = read_struct(declared(), value, "[train.augment]", errors);
  EXPECT_EQ(errors.text(), "");
  ASSERT_TRUE(params.blur.has_value());
  EXPECT_EQ(params.blur->sigma, 2);
  EXPECT_EQ(write_params(declared().infos(), &params).find("blur")->find("sigma")->number(), 2);
  const Params none;
  EXPECT_EQ(write_params(declared().infos(), &none).find("blur"), nullptr);
  EXPECT_EQ(declared().infos()[11].member_defaults.find("sigma")->number(), 2);  // for texts that explain possible values
}

TEST(Params, AKeyWithoutTheOneThatItBelongsToIsAMistake) {
  struct Average {
    double decay = 0;
    std::int64_t every = 1;
  };
  ParamSet<Average> set;
  set.add("decay", &Average::decay);
  set.add("every", &Average::every).only_with("decay");
  Diagnostics errors;
  read_struct(set, table({{"decay", Value(0.5)}, {"every", Value(2)}}), "'ema'", errors);
  EXPECT_EQ(errors.text(), "");
  read_struct(set, table({{"every", Value(2)}}), "'ema'", errors);
  EXPECT_MESSAGE(errors.text());
}

TEST(Params, KeysOfATextThatIsOverruledAreDropped) {
  struct Rate {
    std::string schedule = "constant";
    double peak = 0.5;
  };
  struct Rates {
    Rate rate;
  };
  ParamSet<Rates> set;
  set.add_table("rate", &Rates::rate, [](ParamSet<Rate>& rate) {
    rate.add("schedule", &Rate::schedule).choices({"constant", "cosine", "triangular"});
    rate.add("peak", &Rate::peak).only_with("schedule", {"triangular"});
  });
  const Position base{std::make_shared<const std::string>("base.toml"), 3, 1},
      own{std::make_shared<const std::string>("own.toml"), 1, 1};
  const auto left = [&](const char* schedule, const Position& at) {
    Value all = table({{"rate", Value(Table{{"schedule", at, Value(schedule, at)}, {"peak", base, Value(0.3, base)}})}});
    drop_overruled(set.infos(), all,
                   [&](const Position& text, const Position& key) { return text.file == own.file && key.file != own.file; });
    return all.find("rate")->table().size();
  };
  EXPECT_EQ(left("cosine", own), 1U);
  EXPECT_EQ(left("triangular", own), 2U) << "it has its effect";
  EXPECT_EQ(left("cosine", base), 2U) << "a mistake of that file";
}

struct Drops {
  std::string schedule = "constant";
  std::int64_t epochs = 0, steps = 0, other = 0;

  static ParamSet<Drops> set() {
    ParamSet<Drops> set;
    set.add("schedule", &Drops::schedule).choices({"constant", "piecewise"});
    set.add("epochs", &Drops::epochs).alternative("drops").only_with("schedule", {"piecewise"});
    set.add("steps", &Drops::steps).alternative("drops");
    set.add("other", &Drops::other);
    return set;
  }
};

TEST(Params, AnAlternativeInALaterTextTakesThePlaceOfTheOthers) {
  const ParamSet<Drops> set = Drops::set();
  const Position base{std::make_shared<const std::string>("base.toml"), 3, 1},
      own{std::make_shared<const std::string>("own.toml"), 1, 1};
  const auto left = [&](const char* key, const Position& at) {
    Value table(Table{{"schedule", base, Value("piecewise", base)}, {"epochs", base, Value(1, base)}, {key, at, Value(2, at)}});
    drop_overruled(set.infos(), table,
                   [&](const Position& text, const Position& other) { return text.file == own.file && other.file != own.file; });
    std::vector<std::string> keys;
    for (const Member& member : table.table()) keys.push_back(member.key);
    return keys;
  };
  EXPECT_EQ(left("steps", own), (std::vector<std::string>{"schedule", "steps"}));
  EXPECT_EQ(left("other", own), (std::vector<std::string>{"schedule", "epochs", "other"}));
  EXPECT_EQ(left("steps", base), (std::vector<std::string>{"schedule", "epochs", "steps"})) << "a mistake of that file";
}

TEST(Params, TwoAlternativesInOneTextAreAMistakeOfTheSecond) {
  const Position at{std::make_shared<const std::string>("p.toml"), 3, 1};
  const auto read = [&](const char* first, const char* second) {
    Diagnostics errors;
    const Value table(Table{{"schedule", {}, Value("piecewise")}, {first, {}, Value(1)}, {second, at, Value(2)}});
    read_struct(Drops::set(), table, "[plan]", errors);
    return errors.text();
  };
  EXPECT_MESSAGE(read("steps", "epochs"));
  EXPECT_EQ(read("steps", "other"), "");
}

TEST(Params, TwoAlternativesInAnObjectAreAMistake) {
  EXPECT_NO_THROW(require_one_alternative(Drops::set(), {.steps = 1, .other = 1}, "[plan]"));
  EXPECT_MESSAGE(testkit::error_of(ErrorKind::usage, [&] {
                   require_one_alternative(Drops::set(), {.epochs = 1, .steps = 1}, "[plan]");
                 }).what());
}

TEST(Params, UnknownKeyIsAnsweredWithTheNearest) { EXPECT_MESSAGE(mistake("flipx", Value(0.5))); }

TEST(Params, ALongKeyIsCut) {
  const std::string said = mistake(std::string(3000, 'x'), Value(1));
  EXPECT_EQ(said.find("has no key '" + std::string(200, 'x') + "...'"), said.find("has no key '")) << said;
}

TEST(Params, UnknownKeyNearNothingIsAnsweredWithAllThereAre) {
  EXPECT_MESSAGE(mistake("translate", table({{"horizontal", Value(1)}})));
}

TEST(Params, ValueOutOfRange) {
  EXPECT_MESSAGE(mistake("flip_x", Value(1.5)));
  EXPECT_MESSAGE(mistake("size", Value(0)));
  EXPECT_MESSAGE(mistake("flip_x", Value(std::numeric_limits<double>::quiet_NaN())));
  EXPECT_MESSAGE(mistake("clip", Value(1e39)));
}

TEST(Params, WrongType) {
  EXPECT_MESSAGE(mistake("flip_x", Value("half")));
  EXPECT_MESSAGE(mistake("flip_x", Value(".5")));
  EXPECT_MESSAGE(mistake("size", Value("016")));
  EXPECT_MESSAGE(mistake("size", Value("1.5")));
  EXPECT_MESSAGE(mistake("size", Value(2.0)));
  EXPECT_MESSAGE(mistake("cache", Value(1)));
  EXPECT_MESSAGE(mistake("path", Value()));
  EXPECT_MESSAGE(mistake("translate", Value(4)));
  EXPECT_MESSAGE(mistake("load", Value(1)));
  EXPECT_MESSAGE(mistake("groups", Value("all")));
}

TEST(Params, WrongPairs) {
  EXPECT_MESSAGE(mistake("kernel", Value(Array{Value(3), Value(13)})));
  EXPECT_MESSAGE(mistake("translate", table({{"x", Value(Array{Value(4), Value(-4)})}})));
}

TEST(Params, AListNamesTheElement) { EXPECT_MESSAGE(mistake("load", Value(Array{Value(1), Value(2)}))); }

TEST(Params, ChoiceNotInTheList) { EXPECT_MESSAGE(mistake("border", Value("reflct"))); }

TEST(Params, AWrongTextMayBeAnsweredWithAHint) {
  ParamSet<Drops> set;
  Diagnostics errors;
  set.add("schedule", &Drops::schedule).choices({"constant", "piecewise"}).hint("plateau", "that is [plateau]");
  read_struct(set, table({{"schedule", Value("OnPlateau")}}), "[rate]", errors);
  EXPECT_MESSAGE(errors.text());
}

TEST(Params, AnIntegerMayBeAWord) {
  Diagnostics errors;
  Value value = good();
  value.set("threads", Value("auto"));
  EXPECT_EQ(read_struct(declared(), value, "[train.augment]", errors).threads, 0);
  EXPECT_MESSAGE(mistake("threads", Value("atuo")));
}

TEST(Params, MissingRequiredKey) {
  EXPECT_MESSAGE(mistakes(Value()));
  EXPECT_EQ(mistake("groups", Value(Array{Value()})), "'groups' needs 'match'");
}

TEST(Params, AWrongValueLeavesTheFieldAlone) {
  Diagnostics errors;
  Value value = good();
  value.set("load", Value(Array{Value(1), Value(2)}));
  value.set("clip", Value(-1));
  const Params params = read_struct(declared(), value, "[train.augment]", errors);
  EXPECT_EQ(errors.size(), 2U);
  EXPECT_TRUE(params.load.empty());
  EXPECT_FALSE(params.clip.has_value());
}

TEST(Diagnostics, AreSortedByPosition) {
  const auto file = std::make_shared<const std::string>("a.toml");
  Diagnostics errors;
  errors.add({file, 10, 2}, "third");
  errors.add({file, 2, 9}, "second");
  errors.add({file, 2, 1}, "first");
  errors.add({file, 10, 2}, "third");
  EXPECT_EQ(errors.text(), "a.toml:2:1: first\na.toml:2:9: second\na.toml:10:2: third");
  const Error error = testkit::error_of(ErrorKind::usage, [&] { errors.throw_if_any(); });
  EXPECT_EQ(error.message(), errors.text());
}

// ---- Lists ----

struct Entry {
  double factor = 1;
  Value others;
};
struct Lists {
  std::vector<std::string> names;
  std::vector<Entry> entries;

  static const ParamSet<Lists>& declared() {
    static const ParamSet<Lists> set = [] {
      ParamSet<Lists> made;
      made.add("names", &Lists::names).or_one();
      const auto describe = [](ParamSet<Entry>& entry) { entry.add("factor", &Entry::factor); };
      made.add_list("entries", &Lists::entries, describe, &Entry::others);
      return made;
    }();
    return set;
  }
};

TEST(Params, AListMayBeOneOfIts) {
  Diagnostics errors;
  const auto names = [&](Value value) {
    return read_struct(Lists::declared(), table({{"names", std::move(value)}}), "", errors).names;
  };
  EXPECT_EQ(names(Value("a")), std::vector<std::string>{"a"});
  EXPECT_EQ(names(Value(Array{Value("a"), Value("b")})), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(errors.text(), "");
  EXPECT_TRUE(names(Value(3)).empty());
  EXPECT_MESSAGE(errors.text());
}

TEST(Params, TablesOfAListKeepTheKeysOfAnotherReader) {
  Diagnostics errors;
  const Value entry = table({{"factor", Value(2)}, {"theirs", Value(3)}});
  const Lists lists = read_struct(Lists::declared(), table({{"entries", Value(Array{entry})}}), "", errors);
  EXPECT_EQ(errors.text(), "");
  ASSERT_EQ(lists.entries.size(), 1U);
  EXPECT_EQ(lists.entries[0].factor, 2);
  ASSERT_NE(lists.entries[0].others.find("theirs"), nullptr);
  EXPECT_EQ(lists.entries[0].others.find("factor"), nullptr);
}

}  // namespace
}  // namespace millrace
