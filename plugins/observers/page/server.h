// Serves a run's page. Looking at a run never holds it up.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "story.h"

namespace millrace::page {

// GET  /               the page
// GET  /events         server-sent events: `state`, all of it, then `change` a few times a second, and `end` as the last
// GET  /state          the same as the event `state`, at most a fifth of a second old
// GET  /pictures/NAME  a picture of the run's folder
// GET  /metrics        for Prometheus
// GET  /healthz        200 "alive", or 503 "stuck" or "failed"; for everybody
// POST /ask/stop, /ask/validate, /ask/save, /ask/checkpoint; /ask/rate_factor with a number from 0.001 to 1000 as its body
//
// One thread serves all. A change is written down once, whoever listens, and each listener has a place in the row of changes: one
// that reads slowly is given the whole state again, and one that does not read is closed. Headers and the time for them, bodies,
// connections and idle time are limited, so memory does not depend on who connects; where many connect, the oldest connection
// makes room. A request that fails loses its connection; a server that cannot go on closes, and warns.
class Server {
 public:
  // What it serves. Called on the server's thread.
  struct Source {
    std::function<std::string()> snapshot, changes, metrics;
    std::function<std::vector<Picture>()> pictures;
    std::function<std::string()> trouble;  // "": none; "stuck" or "failed": the run needs somebody
    // What was asked for in /ask/WHAT; false: there is no such thing to ask for, or the body does not fit.
    std::function<bool(std::string_view what, std::string_view body)> ask;
    std::function<void(std::string_view message)> warn;
    std::filesystem::path folder;
  };
  struct Setting {
    std::string address = "127.0.0.1:0";  // or "[::]:8080"; port 0: a free one
    std::vector<std::string> hosts;       // further names by which it is reached
  };

  // Throws Error(usage) for an address that is none, Error(run) where nothing can listen there.
  Server(const Setting& setting, Source source);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server();  // close()

  std::string url() const;  // with the token
  // Gives listeners the last changes and half a second to read them, and ends. The source is not called afterwards.
  void close();

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace millrace::page
