// One exception type for the whole core. Each face maps a Status to its own exception class in one table.
#pragma once

#include <stdexcept>
#include <string>

namespace pyslash {

enum class Status {
  invalid_plan,         // the plan text does not parse, or names what the core does not know
  invalid_input,        // rows or columns that do not fit the plan
  corrupt_block,        // magic, length or CRC32C of a block is wrong
  stale_incarnation,    // the arena or block belongs to an agent that is gone
  arena_full,           // no gap in the arena is large enough
  arena_busy,           // another process has held the arena's lock for too long
  arithmetic_overflow,  // with ANSI: a sum does not fit its result type, or a divisor has become zero by underflow
  internal,             // a system call failed; the message names it
};

class Error : public std::runtime_error {
 public:
  Error(Status status, const std::string& message) : std::runtime_error(message), status_(status) {}
  Status status() const noexcept { return status_; }

 private:
  Status status_;
};

}  // namespace pyslash
