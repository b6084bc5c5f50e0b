// One exception type for the whole core. Both faces name it by the class of `pyslash.errors` that users see.
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

// The class of `pyslash.errors` for it.
constexpr const char* class_name(Status status) {
  switch (status) {
    case Status::invalid_plan:
      return "InvalidPlanError";
    case Status::invalid_input:
      return "InvalidInputError";
    case Status::corrupt_block:
      return "CorruptBlockError";
    case Status::stale_incarnation:
      return "StaleIncarnationError";
    case Status::arena_full:
      return "ArenaFullError";
    case Status::arena_busy:
      return "ArenaBusyError";
    case Status::arithmetic_overflow:
      return "ArithmeticOverflowError";
    case Status::internal:
      break;
  }
  return "NativeError";
}

class Error : public std::runtime_error {
 public:
  Error(Status status, const std::string& message) : std::runtime_error(message), status_(status) {}
  Status status() const noexcept { return status_; }

 private:
  Status status_;
};

}  // namespace pyslash
