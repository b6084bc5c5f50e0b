// Random queries: columns of any types, keys and aggregates over them, and the plan's text.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model.h"
#include "pyslash/plan.h"
#include "table.h"

namespace pyslash {

inline const std::vector<std::string> all_types{
    "boolean",       "int8",          "int16",          "int32",         "int64",         "float32",
    "float64",       "date",          "timestamp",      "timestamp_ntz", "string",        "decimal(5,2)",
    "decimal(18,0)", "decimal(19,3)", "decimal(38,36)", "binary",        "decimal(38,0)", "decimal(10,10)"};

inline bool is_numeric(const std::string& type) {
  return type.starts_with("int") || type.starts_with("float") || type.starts_with("decimal");
}

struct Query {
  std::vector<std::string> types;
  std::vector<bool> nullable;
  std::vector<int> keys;
  std::vector<AggregateLine> lines;
  std::string window = "20 10 3";
  std::string kind = "";  // a line of its own, if it is of one

  std::shared_ptr<const Plan> plan() const {
    std::string text = "pyslash-plan 1\nwindow " + window + "\n" + kind;
    for (size_t i = 0; i < types.size(); ++i) text += "column " + types[i] + " " + (nullable[i] ? "1" : "0") + "\n";
    for (const int key : keys) text += "key " + std::to_string(key) + "\n";
    for (const AggregateLine& line : lines) text += line.text() + "\n";
    return std::make_shared<const Plan>(Plan::parse(text));
  }
};

inline Query random_query(RandomCells& random) {
  Query query;
  const size_t columns = 1 + random.below(4);
  for (size_t i = 0; i < columns; ++i) {
    query.types.push_back(all_types[random.below(all_types.size())]);
    query.nullable.push_back(random.one_in(2));
  }
  for (size_t i = random.below(4); i > 0; --i) query.keys.push_back(static_cast<int>(1 + random.below(columns)));
  if (random.one_in(2)) query.lines.push_back({"count", -1, false});
  for (size_t i = 0; i < columns; ++i) {
    std::vector<std::string> functions{"count", "min", "max", "first", "last"};
    if (query.types[i].starts_with("int")) functions.insert(functions.end(), {"bit_and", "bit_or", "bit_xor"});
    if (is_numeric(query.types[i])) functions.insert(functions.end(), {"sum", "avg"});
    for (const std::string& function : functions) {
      if (!random.one_in(3)) query.lines.push_back({function, static_cast<int>(i + 1), false});
    }
    for (const std::string function : {"max_by", "min_by"}) {
      const int order = static_cast<int>(1 + random.below(columns));
      if (random.one_in(3)) query.lines.push_back({function, static_cast<int>(i + 1), false, order});
    }
    if (random.one_in(3)) query.lines.push_back({"first", static_cast<int>(i + 1), false, -1, "ignore_nulls"});
  }
  if (query.lines.empty()) query.lines.push_back({"count", -1, false});
  if (random.one_in(4)) {
    query.kind = random.one_in(2) ? "deduplicate\n" : "moments\n";
    query.window = random.one_in(2) ? "20 20 0" : "576460752303423488 576460752303423488 0";
  }
  return query;
}

}  // namespace pyslash
