#include "pyslash/process.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "pyslash/error.h"

namespace pyslash {
namespace {

struct Stat {
  bool exists = false;
  bool readable = false;
  char state = '?';
  uint64_t start_time = 0;
};

Stat read_stat(int32_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {.exists = errno != ENOENT && errno != ESRCH};
  char text[1024];
  const ssize_t length = ::read(fd, text, sizeof text - 1);
  const int read_errno = errno;
  ::close(fd);
  if (length <= 0) return {.exists = !(length < 0 && read_errno == ESRCH)};
  text[length] = '\0';
  // The command name (field 2) may hold blanks and parentheses: the fields proper start after its last ')'.
  const char* p = std::strrchr(text, ')');
  if (p == nullptr || p[1] == '\0') return {.exists = true};
  Stat stat{.exists = true, .readable = true, .state = p[2]};
  p += 2;
  for (int field = 3; field < 22 && p != nullptr; ++field) {
    p = std::strchr(p, ' ');
    if (p != nullptr) ++p;
  }
  if (p == nullptr) return {.exists = true};
  stat.start_time = std::strtoull(p, nullptr, 10);
  return stat;
}

}  // namespace

ProcessId current_process() {
  const auto pid = static_cast<int32_t>(::getpid());
  const Stat stat = read_stat(pid);
  if (!stat.readable) throw Error(Status::internal, "cannot read /proc/" + std::to_string(pid) + "/stat");
  return {.pid = pid, .start_time = stat.start_time};
}

bool is_alive(const ProcessId& process) {
  const Stat stat = read_stat(process.pid);
  if (!stat.exists) return false;
  if (!stat.readable) return true;  // hidden from us: to hold on to its memory is the safe side
  return stat.start_time == process.start_time && stat.state != 'Z' && stat.state != 'X';
}

}  // namespace pyslash
