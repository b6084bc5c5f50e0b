// Which process is it? A pid alone is reused; a pid with its start time is not.
#pragma once

#include <cstdint>

namespace pyslash {

struct ProcessId {
  int32_t pid;
  uint64_t start_time;  // clock ticks since boot: field 22 of /proc/PID/stat
};

ProcessId current_process();
// False once the process has exited (a zombie has), also if its pid now belongs to another one.
bool is_alive(const ProcessId& process);

}  // namespace pyslash
