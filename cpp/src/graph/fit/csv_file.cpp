// The file of a CSVLog: its columns, and its rows when a fit goes on.
#include "graph/fit/csv_file.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <utility>

#include <traingraph/errors.h>
#include <traingraph/message_text.h>

#include "graph/fit/metrics.h"
#include "runtime/files/file.h"

namespace traingraph {
namespace {

// Of a file that is there and can be read twice; "" without one.
std::string content_of(const std::string& path, std::uint64_t first, std::uint64_t most) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return {};
  const InputFile file(path);
  const std::uint64_t begin = std::min(first, file.size());
  std::string text(std::min(most, file.size() - begin), '\0');
  file.read(begin, std::as_writable_bytes(std::span(text)));
  return text;
}

constexpr std::uint64_t kAll = ~std::uint64_t{0};
// A longer first line is no header of ours.
constexpr std::uint64_t kMostHeader = 1 << 16;

}  // namespace

std::vector<std::string> csv_columns(bool validates, const std::vector<std::string>& metrics) {
  std::vector<std::string> columns{"epoch", "loss", "seconds", "learning_rate"};
  if (!validates) return columns;
  columns.insert(columns.end(), {"validation_loss", "validation_accuracy"});
  for (const std::string& name : metrics) {
    if (name != "accuracy" && name != kConfusionMatrix) columns.push_back("validation_" + name);
  }
  return columns;
}

std::string csv_row(const std::vector<std::string>& cells) {
  std::string row;
  for (const std::string& cell : cells) row += (row.empty() ? "" : ",") + cell;
  return row;
}

CsvFile read_csv(const std::string& path) {
  std::string header = content_of(path, 0, kMostHeader);
  if (header.empty()) return {};
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  const std::string last = error ? "" : content_of(path, size - 1, 1);
  header.resize(std::min(header.find_first_of("\r\n"), header.size()));
  return {header, last != "\n", header.starts_with(csv_row(csv_columns(false, {})))};
}

void keep_rows_before(const std::string& path, int epoch) {
  const std::string before = content_of(path, 0, kAll);
  std::string kept;
  bool is_header = true;
  std::ptrdiff_t cells = 0;
  for (std::size_t begin = 0, end = 0; begin < before.size(); begin = end + 1) {
    end = std::min(before.find('\n', begin), before.size());
    const std::string_view row(before.data() + begin, end - begin);
    const std::ptrdiff_t own = std::ranges::count(row, ',');
    if (is_header) cells = own;
    if (own < cells) continue;  // the process was killed amid it
    const std::size_t digits = std::min(row.find(','), row.size());
    std::int64_t number = 0;
    const auto [last, error] = std::from_chars(row.data(), row.data() + digits, number);
    const bool is_row = error == std::errc() && number < epoch;
    if (std::exchange(is_header, false) || is_row) kept.append(row).append("\n");
  }
  if (kept != before) replace_file(path, {std::as_bytes(std::span(kept))});
}

void check_is_log(const std::string& path, const CsvFile& there) {
  if (there.is_log) return;
  throw InvalidArgument("[CSVLog] expected a file of its rows, or none, but got '" + path +
                        "', a file that is no CSV log of this library; pass another path");
}

void check_same_columns(const std::string& path, const CsvFile& there, const std::string& header) {
  check_is_log(path, there);
  if (there.header.empty() || there.header == header) return;
  throw InvalidArgument("[CSVLog] expected the columns of '" + path + "', " +
                        shortened(there.header, 500) + ", but got " + header +
                        "; pass another path, or the validation and metrics of its rows");
}

}  // namespace traingraph
