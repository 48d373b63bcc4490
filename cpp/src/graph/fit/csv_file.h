#pragma once

#include <string>
#include <vector>

namespace traingraph {

// Columns of a CSVLog: of the epoch, and of a validation with these metrics.
std::vector<std::string> csv_columns(bool validates, const std::vector<std::string>& metrics);
std::string csv_row(const std::vector<std::string>& cells);

// What a file ends a row with that is to get more of them.
struct CsvFile {
  std::string header;        // "": of no file, an empty one, or one that cannot be read twice
  bool ends_in_row = false;  // without the end of its line
  bool is_log = true;        // of ours, or none that is there
};
// Both raise FileError.
CsvFile read_csv(const std::string& path);
// Takes rows of this epoch and later ones out, and those of fewer cells than the header.
void keep_rows_before(const std::string& path, int epoch);
// Raises InvalidArgument where that file is another one's.
void check_is_log(const std::string& path, const CsvFile& there);
// Raises InvalidArgument where rows with this header do not go into that file.
void check_same_columns(const std::string& path, const CsvFile& there, const std::string& header);

}  // namespace traingraph
