// Serves a run's page. Viewers never delay the run.
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
// One thread serves all. Each change is formatted once, and each listener has a position in the queue of changes: a slow one gets
// the whole state again, and one that does not read is closed. Headers and their time, bodies, connections and idle time are
// limited, so memory does not depend on the clients; with too many connections, the oldest is closed. A failed request loses its
// connection; a failed server closes with a warning.
class Server {
 public:
  // The server's data source. Called on the server's thread.
  struct Source {
    std::function<std::string()> snapshot, changes, metrics;
    std::function<std::vector<Picture>()> pictures;
    std::function<std::string()> trouble;  // "" if none; "stuck" or "failed" if the run needs attention
    // Executes /ask/WHAT; false if it does not exist or the body is invalid.
    std::function<bool(std::string_view what, std::string_view body)> ask;
    std::function<void(std::string_view message)> warn;
    std::filesystem::path folder;
  };
  struct Setting {
    std::string address = "127.0.0.1:0";  // or "[::]:8080"; port 0: any free one
    std::vector<std::string> hosts;       // other host names of this server
  };

  // Throws Error(usage) for an invalid address, Error(run) if it cannot listen there.
  Server(const Setting& setting, Source source);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server();  // close()

  std::string url() const;  // with the token
  // Gives listeners the last changes and half a second to read them, then ends. The source is not called afterwards.
  void close();

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace millrace::page
