// A small local HTTP server that misbehaves on request, for tests.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace millrace::observer_test {

// One connection after the other. answer() returns the body of a 200; it may be replaced at any time.
class HttpServer {
 public:
  struct Request {
    std::string line, head, body;  // "POST /status HTTP/1.1"; the whole head, in lower case
  };

  HttpServer() {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ::bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    ::listen(listener_, 16);
    socklen_t size = sizeof address;
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    url_ = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    thread_ = std::thread([this] { serve(); });
  }
  ~HttpServer() {
    closing_ = true;
    thread_.join();
    ::close(listener_);
  }
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  const std::string& url() const { return url_; }
  std::function<std::string(const Request&)> answer = [](const Request&) { return "{}"; };  // set before the first request
  std::atomic<int> status{200};
  std::atomic<bool> silent{false};  // requests are read but not answered

  std::vector<Request> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  // Waits until there are this many, at most a minute.
  std::vector<Request> wait_for(std::size_t count) const {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::minutes(1), [&] { return requests_.size() >= count; });
    return requests_;
  }

 private:
  bool readable(int file) const {
    while (!closing_) {
      pollfd look{file, POLLIN, 0};
      if (::poll(&look, 1, 20) > 0) return true;
    }
    return false;
  }

  void serve() {
    while (readable(listener_)) {
      const int connection = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      while (one_request(connection)) continue;
      ::close(connection);
    }
  }

  bool one_request(int connection) {
    std::string text;
    std::size_t head = 0, needed = std::string::npos;
    while (text.size() < needed) {
      char bytes[4096];
      const ssize_t got = readable(connection) ? ::recv(connection, bytes, sizeof bytes, 0) : 0;
      if (got <= 0) return false;
      text.append(bytes, static_cast<std::size_t>(got));
      head = text.find("\r\n\r\n");
      if (head == std::string::npos || needed != std::string::npos) continue;
      head += 4;
      for (std::size_t i = 0; i < head; ++i) text[i] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[i])));
      const std::size_t length = text.find("content-length: ");
      needed = head + (length < head ? std::stoul(text.substr(length + 16)) : 0);
      head_ = head;
    }
    const Request request{text.substr(0, text.find("\r\n")), text.substr(0, head_), text.substr(head_)};
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(request);
    }
    changed_.notify_all();
    if (silent) {
      while (readable(connection)) {
        char byte = 0;
        if (::recv(connection, &byte, 1, 0) <= 0) break;
      }
      return false;
    }
    const std::string body = status == 200 ? answer(request) : "{}";
    const std::string reply = "HTTP/1.1 " + std::to_string(status) +
                              " x\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
                              "\r\n\r\n" + body;
    return ::send(connection, reply.data(), reply.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(reply.size());
  }

  int listener_ = -1;
  std::size_t head_ = 0;
  std::string url_;
  std::atomic<bool> closing_{false};
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<Request> requests_;
  std::thread thread_;
};

}  // namespace millrace::observer_test
