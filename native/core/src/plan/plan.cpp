#include "pyslash/plan.h"

#include <charconv>

#include "pyslash/aggregate.h"
#include "pyslash/error.h"
#include "pyslash/hash.h"
#include "pyslash/states.h"

namespace pyslash {
namespace {

constexpr int64_t max_row_bits = 12;  // more than there are cores to own the buckets

// One line of a plan: its words, and its number for messages.
class Line {
 public:
  Line(std::string_view text, size_t number) : number_(number) {
    while (true) {
      const size_t space = text.find(' ');
      words_.push_back(text.substr(0, space));
      if (space == std::string_view::npos) break;
      text.remove_prefix(space + 1);
    }
  }

  std::string_view name() const { return words_[0]; }
  std::string_view word(size_t index) const { return words_[index]; }

  void expect(size_t words) const {
    if (words_.size() != words)
      fail("it has " + std::to_string(words_.size()) + " words instead of " + std::to_string(words));
  }
  size_t words() const { return words_.size(); }
  int64_t number(size_t index) const { return number(words_[index]); }
  int64_t number(std::string_view text) const {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) fail("'" + std::string(text) + "' is no number");
    return value;
  }
  bool flag(size_t index) const {
    const int64_t value = number(index);
    if (value != 0 && value != 1) fail("a flag is 0 or 1");
    return value == 1;
  }
  int column(size_t index, size_t columns) const { return column(words_[index], columns); }
  int column(std::string_view text, size_t columns) const {
    const int64_t value = number(text);
    if (value < 1 || static_cast<uint64_t>(value) >= columns) fail("there is no column " + std::to_string(value));
    return static_cast<int>(value);
  }
  // Numbers with commas between them; `-`: none.
  std::vector<int> columns(size_t index, size_t columns) const {
    std::vector<int> found;
    if (words_[index] == "-") return found;
    std::string_view rest = words_[index];
    while (true) {
      const size_t comma = rest.find(',');
      found.push_back(column(rest.substr(0, comma), columns));
      if (comma == std::string_view::npos) return found;
      rest.remove_prefix(comma + 1);
    }
  }
  [[noreturn]] void fail(const std::string& why) const {
    throw Error(Status::invalid_plan, "line " + std::to_string(number_) + " of the plan: " + why);
  }

 private:
  std::vector<std::string_view> words_;
  size_t number_;
};

std::vector<Line> split(std::string_view text) {
  if (!text.ends_with('\n')) throw Error(Status::invalid_plan, "a plan ends with a line feed");
  std::vector<Line> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines.emplace_back(text.substr(0, end), lines.size() + 1);
    text.remove_prefix(end + 1);
  }
  return lines;
}

// What the columns of a join's rows have to be.
bool are_of_join(const std::vector<Column>& columns) {
  const Column number{{TypeId::int64, 0, 0}, false};
  const Column bytes{{TypeId::binary, 0, 0}, false};
  const Column side{{TypeId::int8, 0, 0}, false};
  const Column time{{TypeId::timestamp, 0, 0}, true};
  return columns == std::vector<Column>{time, side, number, number, number, bytes, bytes};
}

SessionPlace place_of(std::string_view text) {
  const std::vector<Line> lines = split(text);
  const Line& line = lines[0];
  line.expect(3);
  if (lines.size() != 1) line.fail("a place ends a plan");
  return {line.number(1), line.number(2)};
}

}  // namespace

Plan Plan::parse(std::string_view text) {
  Plan plan;
  bool is_placed = false;
  if (const size_t at = text.rfind("\nplace "); at != std::string_view::npos) {
    plan.place_ = place_of(text.substr(at + 1));
    is_placed = true;
    text = text.substr(0, at + 1);
  }
  plan.text_ = text;
  plan.fingerprint_ = hash_bytes(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  plan.columns_.push_back({{TypeId::timestamp, 0, 0}, true});
  plan.states_.push_back({&rows_state, {}, {}});
  const std::vector<Line> lines = split(text);
  bool has_window = false;
  for (size_t i = 0; i < lines.size(); ++i) {
    const Line& line = lines[i];
    try {
      if (i == 0) {
        line.expect(2);
        if (line.name() != "pyslash-plan" || line.number(1) != 1) line.fail("it is not 'pyslash-plan 1'");
      } else if (line.name() == "window" && !has_window) {
        line.expect(4);
        plan.window_ = Window(line.number(1), line.number(2), line.number(3));
        has_window = true;
      } else if (line.name() == "moments" && has_window && !plan.of_moments_ && plan.columns_.size() == 1) {
        line.expect(1);
        plan.of_moments_ = true;
      } else if (line.name() == "deduplicate" && has_window && !plan.of_moments_ && plan.columns_.size() == 1) {
        line.expect(1);
        plan.of_moments_ = true;
        plan.deduplicates_ = true;
      } else if (line.name() == "join" && has_window && !plan.joins_ && plan.columns_.size() == 1) {
        line.expect(1);
        plan.joins_ = true;
      } else if (line.name() == "session" && has_window && !plan.session_ && plan.columns_.size() == 1) {
        line.expect(3);
        plan.session_ = SessionRule{line.number(1), line.flag(2)};
        if (plan.session_->gap_us < 0 || plan.session_->gap_us > Window::max_size) line.fail("no session is that long");
        if (plan.window_.size_us() != 1) line.fail("the window of sessions is 1 microsecond long");
        plan.states_.push_back({&session_state, {}, {}});
      } else if (line.name() == "column" && plan.keys_.empty() && plan.aggregates_.empty() && !plan.row_bits_) {
        line.expect(3);
        plan.columns_.push_back({Type::parse(line.word(1)), line.flag(2)});
      } else if (line.name() == "key" && plan.aggregates_.empty() && !plan.row_bits_) {
        line.expect(2);
        plan.keys_.push_back(line.column(1, plan.columns_.size()));
      } else if (line.name() == "rows" && plan.aggregates_.empty() && !plan.row_bits_) {
        line.expect(2);
        const int64_t bits = line.number(1);
        if (bits < 0 || bits > max_row_bits) line.fail("rows have 2^0 to 2^12 buckets");
        plan.row_bits_ = static_cast<uint32_t>(bits);
        plan.states_.clear();
      } else if (line.name() == "aggregate" && !plan.row_bits_) {
        if (line.words() != 5) line.expect(4);
        AggregateCall call{line.word(1), {}, line.flag(3), line.words() == 5 ? line.word(4) : ""};
        for (const int column : line.columns(2, plan.columns_.size())) {
          call.inputs.push_back({column, plan.columns_[static_cast<size_t>(column)]});
        }
        StateRequests states(plan.columns_, plan.states_);
        plan.aggregates_.push_back(make_aggregate(call, states));
        plan.needs_.push_back(states.needed());
      } else {
        line.fail("'" + std::string(line.name()) + "' has no place here");
      }
    } catch (const Error& error) {
      if (std::string_view(error.what()).starts_with("line ")) throw;
      line.fail(error.what());
    }
  }
  if (!has_window) throw Error(Status::invalid_plan, "the plan has no window");
  if (plan.session_) {
    const bool has_end = plan.columns_.size() > 1 && plan.columns_[1].type.is_timestamp();
    if (plan.session_->gap_us == 0 && !has_end) {
      throw Error(Status::invalid_plan, "sessions without a gap need their ends, timestamps, as the first column");
    }
    if (plan.keys_.empty()) throw Error(Status::invalid_plan, "sessions need a key");
  } else if (is_placed) {
    throw Error(Status::invalid_plan, "only sessions are placed");
  }
  if (plan.joins_) {
    const bool has_columns = are_of_join(plan.columns_) && plan.keys_ == std::vector<int>{join_key};
    if (!has_columns || !plan.row_bits_) throw Error(Status::invalid_plan, "these are not the columns of a join");
  }
  if (plan.aggregates_.empty() && !plan.row_bits_) throw Error(Status::invalid_plan, "the plan has no aggregate");
  return plan;
}

size_t Plan::fixed_row_bytes() const {
  for (const Column& column : columns_) {
    if (column.type.is_variable() || column.type.width() > 8) return 0;
  }
  return (columns_.size() + 63) / 64 * 8 + columns_.size() * 8;
}

}  // namespace pyslash
