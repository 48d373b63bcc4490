#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

// Texts of JSON, which headers of safetensors and archives of kernels have in common.
namespace traingraph {

// Whether every byte belongs to a well-formed UTF-8 sequence.
bool is_utf8(std::string_view text);

// Reads the text whose opening quote is at `at`, and moves that behind its end. `fail` is told what
// is wrong, with `at` where it was seen, and raises.
std::string read_json_text(std::string_view json, std::size_t& at,
                           const std::function<void(const char*)>& fail);

// In quotes; control characters, quotes and backslashes are escaped.
std::string json_text(std::string_view text);

}  // namespace traingraph
