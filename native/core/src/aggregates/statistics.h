// What moments and comoments share: how Spark merges partial results, and what it answers where there is no result.
//
// Their arithmetic is Spark's, operation by operation, so that overflow, underflow and NaN come where they come there;
// both files are compiled without fused multiplications, which would round once where Spark rounds twice. Only the
// order in which partial results are merged is left open, by Spark too.
#pragma once

#include <algorithm>
#include <limits>
#include <optional>
#include <string>

#include "pyslash/error.h"
#include "table.h"

namespace pyslash {

// How far the mean of `from` is from that of `to`. Spark takes nothing off a partial result without rows since 4.3.
// Before (`guarded` is false) it squares the other mean there, times no rows: NaN where a mean exceeds 1e154.
template <bool guarded>
double distance(double to_count, double to_mean, double from_count, double from_mean) {
  return guarded && (to_count == 0 || from_count == 0) ? 0 : from_mean - to_mean;
}

template <bool guarded>
double merged_mean(double to_count, double to_mean, double from_count, double from_mean, double step) {
  if (guarded && to_count == 0) return from_mean;
  return guarded && from_count == 0 ? to_mean : to_mean + step * from_count;
}

// `Rule::add` merges two records. Before 4.3 each of them, and what is finished, shows that Spark has merged it with an
// empty state: once when it comes from a task, and once more in each later micro-batch and at the end.
template <typename Rule, bool guarded>
struct Merging {
  template <typename Record>
  static Record through_nothing(const Record& record) {
    if constexpr (guarded) return record;
    Record merged{};
    Rule::add(merged, record);
    return merged;
  }
  template <typename Record>
  static void merge(Record& to, const Record& from) {
    if constexpr (!guarded) to = through_nothing(to);
    Rule::add(to, through_nothing(from));
  }
};

// The parameter of a function: `nan`, `unguarded`, `own`, with commas between them.
class Answers {
 public:
  explicit Answers(const AggregateCall& call) : function_(call.function), ansi_(call.ansi) {
    std::string_view rest = call.parameter;
    while (!rest.empty()) {
      const std::string_view word = rest.substr(0, rest.find(','));
      if (word == "nan") {
        nan_ = true;
      } else if (word == "unguarded") {
        guarded_ = false;
      } else if (word == "own") {
        own_ = true;
      } else {
        throw Error(Status::invalid_plan, function_ + " has no parameter '" + std::string(word) + "'");
      }
      rest.remove_prefix(std::min(word.size() + 1, rest.size()));
    }
  }

  bool guarded() const { return guarded_; }
  // Whether slope and intercept have a state of their own: plans from before they had share that of the others.
  bool own() const { return own_; }

  // Where Spark itself looks for a divisor of zero: null, or NaN with spark.sql.legacy.statisticalAggregate.
  std::optional<double> undefined() const {
    if (nan_) return std::numeric_limits<double>::quiet_NaN();
    return std::nullopt;
  }

  // Spark's division by what may have become zero by underflow: null there, or an error with ANSI.
  std::optional<double> quotient(double dividend, double divisor) const {
    if (divisor != 0) return dividend / divisor;
    if (ansi_) divide_by_zero(function_);
    return std::nullopt;
  }

 private:
  std::string function_;
  bool ansi_;
  bool nan_ = false;
  bool guarded_ = true;
  bool own_ = false;
};

}  // namespace pyslash
