#include "millrace/error.h"

#include <new>
#include <system_error>

#include "util/out_of_memory.h"
#include "util/secrets.h"

namespace millrace {

const char* to_string(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::usage: return "usage";
    case ErrorKind::data: return "data";
    case ErrorKind::content: return "content";
    case ErrorKind::storage: return "storage";
    case ErrorKind::device: return "device";
    case ErrorKind::peer: return "peer";
    case ErrorKind::run: return "run";
    case ErrorKind::interrupted: return "interrupted";
    case ErrorKind::unreachable: return "unreachable";
  }
  return "unknown";
}

int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::usage: return 2;
    case ErrorKind::data:
    case ErrorKind::content: return 3;
    case ErrorKind::device: return 4;
    case ErrorKind::peer: return 138;
    case ErrorKind::storage:  // a disk or a server, as opposed to its content
    case ErrorKind::run: return 1;
    case ErrorKind::interrupted: return 130;
    case ErrorKind::unreachable: return 75;  // EX_TEMPFAIL in sysexits.h
  }
  return 1;
}

Error::Error(ErrorKind kind, std::string message) : kind_(kind), message_(without_secrets(std::move(message))), text_(message_) {}

void detail::fail(ErrorKind kind, fmt::string_view format, fmt::format_args arguments) {
  throw Error(kind, fmt::vformat(format, arguments));
}

Error& Error::in(std::string frame) {
  frame = without_secrets(std::move(frame));
  text_ = frame + ": " + text_;
  context_.push_back(std::move(frame));
  return *this;
}

Error current_error() {
  try {
    throw;
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return Error(ErrorKind::run, kOutOfMemory);
  } catch (const std::system_error& error) {
    return Error(ErrorKind::run, error.code() == std::errc::resource_unavailable_try_again ? kNoThread : error.what());
  } catch (const std::exception& error) {
    return Error(ErrorKind::run, error.what());
  } catch (...) {
    return Error(ErrorKind::run, "an exception of unknown type");
  }
}

}  // namespace millrace
