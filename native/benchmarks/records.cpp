// Records of JSON and CSV as a topic or a file has them, into rows of the fields that a query uses: cycles and
// nanoseconds a record.
#include "pyslash/records.h"

#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "rows.h"

namespace pyslash {
namespace {

constexpr size_t records_in_all = 4096;

// The same values as JSON and as a line of CSV.
struct Event {
  std::string json;
  std::string csv;
};

std::vector<Event> events() {
  std::vector<Event> found;
  std::mt19937_64 random(1);
  for (size_t i = 0; i < records_in_all; ++i) {
    const auto draw = [&](uint64_t bound) { return std::to_string(random() % bound); };
    const std::string time =
        "2023-11-14T22:13:" + std::to_string(10 + i % 50) + "." + std::to_string(100 + i % 900) + "Z";
    const std::string user = "user-" + draw(10000);
    const std::string page = "page-" + draw(997);
    const std::string amount = draw(1000);
    const std::string price = draw(100) + "." + draw(100);
    found.push_back({R"({"event_time":")" + time + R"(","user_id":")" + user + R"(","page_id":")" + page +
                         R"(","event_type":"purchase","address":"10.0.0.1","amount":)" + amount + R"(,"price":)" +
                         price + "}",
                     time + "," + user + "," + page + ",purchase,10.0.0.1," + amount + "," + price});
  }
  return found;
}

void read_json(benchmark::State& state, const char* fields) {
  RecordReader reader(std::string("pyslash-json 1\nzone 0\n") + fields);
  const std::vector<Event> records = events();
  size_t bytes = 0;
  const Measured measured(state);
  for (auto _ : state) {
    for (const auto& [record, csv] : records) {
      const auto row = reader.read({reinterpret_cast<const uint8_t*>(record.data()), record.size()});
      if (!row) return state.SkipWithError("a record was left to Spark");
      benchmark::DoNotOptimize(row->data());
      bytes += record.size();
    }
  }
  measured.done(records.size());
  state.SetBytesProcessed(static_cast<int64_t>(bytes));
}

// The lines of a page, into rows as the accumulator takes them.
void read_lines(benchmark::State& state, const std::string& schema, std::string Event::* record) {
  RecordReader reader(schema, true);
  std::string text;
  for (const Event& event : events()) text += event.*record + "\n";
  size_t bytes = 0;
  const Measured measured(state);
  for (auto _ : state) {
    for (size_t at = 0; at < text.size();) {
      const Bytes page{reinterpret_cast<const uint8_t*>(text.data()) + at, text.size() - at};
      const auto& lines = reader.read_lines({.bytes = page, .last_start = page.size(), .is_end = true});
      if (lines.left != 0) return state.SkipWithError("a record was left to Spark");
      benchmark::DoNotOptimize(lines.rows.data());
      at += lines.consumed;
    }
    bytes += text.size();
  }
  measured.done(records_in_all);
  state.SetBytesProcessed(static_cast<int64_t>(bytes));
}

void read_json_lines(benchmark::State& state, const char* fields) {
  read_lines(state, std::string("pyslash-json 1\nzone 0\n") + fields, &Event::json);
}

void read_csv_lines(benchmark::State& state, const char* fields) {
  read_lines(state, std::string("pyslash-csv 1\nzone 0\nseparator 2c\nescape 5c\nnull -\nfields ") + fields,
             &Event::csv);
}

constexpr const char* seven_fields_by_name =
    "field string 61646472657373\nfield int64 616d6f756e74\nfield timestamp 6576656e745f74696d65\n"
    "field string 6576656e745f74797065\nfield string 706167655f6964\nfield float64 7072696365\n"
    "field string 757365725f6964\n";

// "event_time", "user_id", "amount"; then all seven fields, and these in another order than the records have them.
BENCHMARK_CAPTURE(read_json, three_of_seven_fields,
                  "field timestamp 6576656e745f74696d65\nfield string 757365725f6964\nfield int64 616d6f756e74\n");
BENCHMARK_CAPTURE(read_json, seven_fields,
                  "field timestamp 6576656e745f74696d65\nfield string 757365725f6964\nfield string 706167655f6964\n"
                  "field string 6576656e745f74797065\nfield string 61646472657373\nfield int64 616d6f756e74\n"
                  "field float64 7072696365\n");
BENCHMARK_CAPTURE(read_json, seven_fields_by_name, seven_fields_by_name);
BENCHMARK_CAPTURE(read_json_lines, three_of_seven_fields,
                  "field timestamp 6576656e745f74696d65\nfield string 757365725f6964\nfield int64 616d6f756e74\n");
BENCHMARK_CAPTURE(read_json_lines, seven_fields_by_name, seven_fields_by_name);
BENCHMARK_CAPTURE(read_csv_lines, three_of_seven_fields, "-\nfield timestamp 0\nfield string 1\nfield int64 5\n");
BENCHMARK_CAPTURE(read_csv_lines, seven_fields,
                  "7\nfield timestamp 0\nfield string 1\nfield string 2\nfield string 3\nfield string 4\n"
                  "field int64 5\nfield float64 6\n");

}  // namespace
}  // namespace pyslash
