#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "decode/record_format.h"
#include "pyslash/error.h"
#include "pyslash/records.h"

namespace pyslash {
namespace {

constexpr size_t most_bytes =
    (1 << 20) - 1;  // of a record: Spark's parsers have bounds of their own for what is longer
constexpr size_t page_of_rows = 1 << 20;

// Where the lines of a page end: at \n, \r or its end. Each of both is looked for once, however rare the other one is.
class LineEnds {
 public:
  explicit LineEnds(Bytes page) : page_(page), feed_(find('\n', 0)), carriage_(find('\r', 0)) {}

  size_t from(size_t start) {
    if (feed_ < start) feed_ = find('\n', start);
    if (carriage_ < start) carriage_ = find('\r', start);
    return std::min(feed_, carriage_);
  }

 private:
  size_t find(char wanted, size_t start) const {
    const auto* const begin = page_.data() + start;
    const auto* const found = static_cast<const uint8_t*>(std::memchr(begin, wanted, page_.size() - start));
    return found == nullptr ? page_.size() : static_cast<size_t>(found - page_.data());
  }

  Bytes page_;
  size_t feed_;
  size_t carriage_;
};

std::unique_ptr<RecordFormat> format_of(std::string_view schema, bool as_values) {
  if (schema.starts_with("pyslash-json ")) return json_format(schema, as_values);
  if (schema.starts_with("pyslash-csv ")) return csv_format(schema);
  if (schema.starts_with("pyslash-avro ")) return avro_format(schema);
  throw Error(Status::invalid_plan, std::string(schema.substr(0, schema.find('\n'))) + " is no format of records");
}

}  // namespace

class RecordReader::Impl {
 public:
  Impl(std::string_view schema, bool sized)
      : format_(format_of(schema, !sized)),
        sized_(sized),
        beyond_text_(format_->most_beyond_text() + sizeof(int64_t)) {}

  std::optional<Bytes> read(Bytes record) {
    uint64_t present = 0;
    rows_.clear();
    rows_.make_room(beyond_text_ + record.size());
    if (format_->append(record, record.data() + record.size(), rows_, present) != Reading::row) return std::nullopt;
    return rows_.from(0);
  }

  const Lines& read_lines(const Page& page) {
    rows_.clear();
    lines_.lines.clear();
    lines_.header = {};
    lines_.is_full = false;
    lines_.left = 0;
    const Bytes text = page.bytes;
    const uint8_t* const readable = text.data() + text.size();
    bool skips_first = page.skips_first;
    LineEnds ends(text);
    size_t start = 0;
    while (start <= page.last_start && start < text.size()) {
      const size_t end = ends.from(start);
      const bool has_two = end + 1 < text.size() && text[end] == '\r' && text[end + 1] == '\n';
      // Only what follows tells whether a line ends here, or with which bytes.
      if (!page.is_end && (end == text.size() || (text[end] == '\r' && end + 1 == text.size()))) break;
      const Bytes line = text.subspan(start, end - start);
      if (skips_first) {
        skips_first = false;
      } else if (page.has_header && lines_.header.empty()) {
        if (!is_blank(line)) lines_.header = line;
      } else if (!has_room(line.size())) {
        lines_.is_full = true;
        break;
      } else if (!line.empty()) {
        read_line(line, readable);
      }
      start = std::min(end + (has_two ? 2 : 1), text.size());
    }
    lines_.consumed = start;
    lines_.rows = rows_.from(0);
    return lines_;
  }

 private:
  // Rows stay where they are until all lines of the page are read.
  bool has_room(size_t line) {
    const size_t wanted = beyond_text_ + std::min(line, most_bytes);
    if (rows_.capacity() - rows_.size() >= wanted) return true;
    if (rows_.size() != 0) return false;
    rows_.make_room(std::max(wanted, page_of_rows));
    return true;
  }

  void read_line(Bytes line, const uint8_t* readable) {
    const size_t begin = rows_.size();
    const size_t row = sized_ ? rows_.begin_sized() : begin;
    uint64_t present = 0;
    const Reading found = line.size() > most_bytes ? Reading::sparks : format_->append(line, readable, rows_, present);
    if (found == Reading::row) {
      if (sized_) rows_.end_sized(row);
      lines_.lines.push_back({line, rows_.from(row), present});
      return;
    }
    rows_.cut(begin);
    if (found == Reading::none) return;
    ++lines_.left;
    lines_.lines.push_back({line, {}, 0});
  }

  std::unique_ptr<RecordFormat> format_;
  bool sized_;
  size_t beyond_text_;
  RowBuilder rows_;
  Lines lines_;
};

RecordReader::RecordReader(std::string_view schema, bool sized) : impl_(std::make_unique<Impl>(schema, sized)) {}
RecordReader::~RecordReader() = default;
RecordReader::RecordReader(RecordReader&&) noexcept = default;
RecordReader& RecordReader::operator=(RecordReader&&) noexcept = default;

std::optional<Bytes> RecordReader::read(Bytes record) { return impl_->read(record); }

const RecordReader::Lines& RecordReader::read_lines(const Page& page) { return impl_->read_lines(page); }

}  // namespace pyslash
