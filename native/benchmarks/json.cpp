// Records of JSON as a topic has them, into rows of the fields that a query uses: cycles and nanoseconds a record.
#include "pyslash/json.h"

#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "rows.h"

namespace pyslash {
namespace {

constexpr size_t records_of_json = 4096;

std::vector<std::string> events() {
  std::vector<std::string> found;
  std::mt19937_64 random(1);
  for (size_t i = 0; i < records_of_json; ++i) {
    const auto draw = [&](uint64_t bound) { return std::to_string(random() % bound); };
    const std::string time =
        "2023-11-14T22:13:" + std::to_string(10 + i % 50) + "." + std::to_string(100 + i % 900) + "Z";
    found.push_back(R"({"event_time":")" + time + R"(","user_id":"user-)" + draw(10000) + R"(","page_id":"page-)" +
                    draw(997) + R"(","event_type":"purchase","address":"10.0.0.1","amount":)" + draw(1000) +
                    R"(,"price":)" + draw(100) + "." + draw(100) + "}");
  }
  return found;
}

void read_json(benchmark::State& state, const char* fields) {
  JsonReader reader(std::string("pyslash-json 1\nzone 0\n") + fields);
  const std::vector<std::string> records = events();
  size_t bytes = 0;
  const Measured measured(state);
  for (auto _ : state) {
    for (const std::string& record : records) {
      const auto row = reader.read({reinterpret_cast<const uint8_t*>(record.data()), record.size()});
      if (!row) return state.SkipWithError("a record was left to Spark");
      benchmark::DoNotOptimize(row->data());
      bytes += record.size();
    }
  }
  measured.done(records.size());
  state.SetBytesProcessed(static_cast<int64_t>(bytes));
}

// The same as lines of a page, into rows as the accumulator takes them.
void read_json_lines(benchmark::State& state, const char* fields) {
  JsonReader reader(std::string("pyslash-json 1\nzone 0\n") + fields, true);
  std::string text;
  for (const std::string& record : events()) text += record + "\n";
  size_t bytes = 0;
  const Measured measured(state);
  for (auto _ : state) {
    for (size_t at = 0; at < text.size();) {
      const Bytes page{reinterpret_cast<const uint8_t*>(text.data()) + at, text.size() - at};
      const auto& lines = reader.read_lines(page, page.size(), false, true);
      if (lines.left != 0) return state.SkipWithError("a record was left to Spark");
      benchmark::DoNotOptimize(lines.rows.data());
      at += lines.consumed;
    }
    bytes += text.size();
  }
  measured.done(records_of_json);
  state.SetBytesProcessed(static_cast<int64_t>(bytes));
}

// "event_time", "user_id", "amount"; then all seven fields.
BENCHMARK_CAPTURE(read_json, three_of_seven_fields,
                  "field timestamp 6576656e745f74696d65\nfield string 757365725f6964\nfield int64 616d6f756e74\n");
BENCHMARK_CAPTURE(read_json, seven_fields,
                  "field timestamp 6576656e745f74696d65\nfield string 757365725f6964\nfield string 706167655f6964\n"
                  "field string 6576656e745f74797065\nfield string 61646472657373\nfield int64 616d6f756e74\n"
                  "field float64 7072696365\n");
BENCHMARK_CAPTURE(read_json_lines, three_of_seven_fields,
                  "field timestamp 6576656e745f74696d65\nfield string 757365725f6964\nfield int64 616d6f756e74\n");

}  // namespace
}  // namespace pyslash
