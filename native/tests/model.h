// What an aggregation must give, computed the slow way: a map of groups, one row at a time, each aggregate by itself.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "pyslash/plan.h"
#include "table.h"

namespace pyslash {

struct AggregateLine {
  std::string function;
  int column = -1;
  bool ansi = false;
  int second = -1;  // of functions of two columns
  std::string parameter = {};

  std::string text() const {
    const std::string columns =
        column < 0 ? "-" : std::to_string(column) + (second < 0 ? "" : "," + std::to_string(second));
    return "aggregate " + function + " " + columns + (ansi ? " 1" : " 0") + (parameter.empty() ? "" : " ") + parameter;
  }
};

// {pane, texts of the keys} -> texts of the aggregates
using Groups = std::map<std::pair<int64_t, std::vector<std::string>>, std::vector<std::string>>;

// A sum of decimals beyond 128 bits: high * 10^19 + low.
class WideSum {
 public:
  void add(int128_t value) {
    high_ += value / base();
    low_ += value % base();
  }
  // The sum if its magnitude is below 10^38.
  std::optional<int128_t> value() const {
    const int128_t high = high_ + low_ / base();
    if (high > base() || high < -base()) return std::nullopt;
    const int128_t sum = high * base() + low_ % base();
    return sum < power_of_ten(38) && sum > -power_of_ten(38) ? std::optional(sum) : std::nullopt;
  }

 private:
  static int128_t base() { return power_of_ten(19); }
  int128_t high_ = 0;
  int128_t low_ = 0;
};

inline bool fits(int128_t value, int digits) { return value < power_of_ten(digits) && value > -power_of_ten(digits); }

// dividend * 10^digits / divisor, half up, by long division; nothing if it has more than 38 digits.
inline std::optional<int128_t> divide_half_up(int128_t dividend, int64_t divisor, int digits) {
  const bool negative = dividend < 0;
  if (negative) dividend = -dividend;
  int128_t quotient = dividend / divisor;
  int128_t rest = dividend % divisor;
  for (int i = 0; i < digits; ++i) {
    if (quotient >= power_of_ten(37)) return std::nullopt;
    quotient = quotient * 10 + rest * 10 / divisor;
    rest = rest * 10 % divisor;
  }
  if (rest * 2 >= divisor) ++quotient;
  return negative ? -quotient : quotient;
}

// One aggregate of one group.
class ModelAggregate {
 public:
  ModelAggregate(const AggregateLine& line, const Plan& plan)
      : line_(line), type_(type_of(plan, line.column)), order_type_(type_of(plan, line.second)) {}

  void add(const std::vector<Cell>& row) {
    if (line_.column < 0) {
      ++count_;
      return;
    }
    const Cell& cell = row[static_cast<size_t>(line_.column)];
    choose(cell, line_.second < 0 ? cell : row[static_cast<size_t>(line_.second)]);
    if (cell.null) return;
    ++count_;
    and_ &= cell.integer;
    or_ |= cell.integer;
    xor_ ^= cell.integer;
    sum_.add(cell.integer);
    floating_sum_ += cell.floating;
    if (count_ == 1 || precedes(type_, cell, least_)) least_ = cell;
    if (count_ == 1 || precedes(type_, greatest_, cell)) greatest_ = cell;
  }

  // "overflow" where ANSI arithmetic must raise.
  std::string result() const {
    if (line_.function == "count") return std::to_string(count_);
    if (has_order() || line_.function == "first" || line_.function == "last") return text_of(type_, chosen_);
    if (count_ == 0) return "null";
    if (line_.function == "bit_and") return decimal_text(and_);
    if (line_.function == "bit_or") return decimal_text(or_);
    if (line_.function == "bit_xor") return decimal_text(xor_);
    if (line_.function == "min") return text_of(type_, least_);
    if (line_.function == "max") return text_of(type_, greatest_);
    return line_.function == "sum" ? sum() : average();
  }

 private:
  static Type type_of(const Plan& plan, int column) {
    return column < 0 ? Type{} : plan.columns()[static_cast<size_t>(column)].type;
  }
  bool has_order() const { return line_.function == "max_by" || line_.function == "min_by"; }

  // Rows come in the order of their positions.
  void choose(const Cell& cell, const Cell& order) {
    if (has_order()) {
      const bool ascending = line_.function == "max_by";
      if (order.null ||
          (chose_ && (ascending ? precedes(order_type_, order, order_) : precedes(order_type_, order_, order))))
        return;
      order_ = order;
    } else {
      if ((cell.null && line_.parameter == "ignore_nulls") || (chose_ && line_.function == "first")) return;
    }
    chose_ = true;
    chosen_ = cell;
  }

  static bool precedes(const Type& type, const Cell& a, const Cell& b) {
    if (type.is_variable()) return a.bytes < b.bytes;  // std::string compares as unsigned bytes
    if (!type.is_floating()) return a.integer < b.integer;
    return std::isnan(b.floating) ? !std::isnan(a.floating) : a.floating < b.floating;
  }
  std::string overflowed() const { return line_.ansi ? "overflow" : "null"; }

  std::string sum() const {
    if (type_.is_floating()) return floating_text(floating_sum_);
    const auto value = sum_.value();
    if (type_.is_decimal()) {
      return value && fits(*value, std::min(38, type_.precision + 10)) ? decimal_text(*value) : overflowed();
    }
    const auto wrapped = static_cast<int64_t>(*value);
    return line_.ansi && wrapped != *value ? "overflow" : decimal_text(wrapped);
  }
  std::string average() const {
    if (type_.is_floating()) return floating_text(floating_sum_ / static_cast<double>(count_));
    const auto value = sum_.value();
    if (!type_.is_decimal()) return floating_text(static_cast<double>(*value) / static_cast<double>(count_));
    if (!value || !fits(*value, std::min(38, type_.precision + 10))) return overflowed();
    const auto quotient = divide_half_up(*value, count_, std::min(38, type_.scale + 4) - type_.scale);
    return quotient && fits(*quotient, std::min(38, type_.precision + 4)) ? decimal_text(*quotient) : overflowed();
  }

  AggregateLine line_;
  Type type_;
  Type order_type_;
  int64_t count_ = 0;
  WideSum sum_;
  double floating_sum_ = 0;
  Cell least_, greatest_;
  int128_t and_ = -1, or_ = 0, xor_ = 0;
  bool chose_ = false;
  Cell chosen_ = null_cell(), order_;
};

struct ModelResult {
  Groups groups;
  int64_t late_rows = 0;
  int64_t max_event_time = INT64_MIN;
};

inline ModelResult model(const Plan& plan, const std::vector<AggregateLine>& lines, const Table& table,
                         int64_t watermark) {
  ModelResult result;
  std::map<std::pair<int64_t, std::vector<std::string>>, std::vector<ModelAggregate>> groups;
  for (const auto& row : table) {
    if (row[0].null && !plan.of_moments()) continue;
    const int64_t time = row[0].null ? Plan::timeless : static_cast<int64_t>(row[0].integer);
    if (!row[0].null) result.max_event_time = std::max(result.max_event_time, time);
    const int64_t pane = plan.window().is_all_time() ? 0 : plan.window().pane_of(time);
    if (plan.of_moments() ? time <= watermark : plan.window().is_late(pane, watermark)) {
      ++result.late_rows;
      continue;
    }
    std::vector<std::string> keys;
    for (const int key : plan.keys()) {
      const auto column = static_cast<size_t>(key);
      keys.push_back(text_of(plan.columns()[column].type, row[column]));
    }
    auto& aggregates = groups[{pane, keys}];
    if (aggregates.empty()) {
      for (const AggregateLine& line : lines) aggregates.emplace_back(line, plan);
    }
    for (ModelAggregate& aggregate : aggregates) aggregate.add(row);
  }
  for (const auto& [group, aggregates] : groups) {
    auto& texts = result.groups[group];
    for (const ModelAggregate& aggregate : aggregates) texts.push_back(aggregate.result());
  }
  return result;
}

}  // namespace pyslash
