#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <traingraph/graph.h>

#include "runtime/file.h"

// The safetensors format: eight bytes of header length (little endian), a JSON header that says of
// each tensor its type, shape and place, then the tensors' bytes without gaps.
namespace traingraph {

// One tensor of a file; `data` points into the file's bytes and keeps them.
struct StoredTensor {
  std::string name;
  std::string type;  // as the file says it: "F32"
  TensorData data;   // data_type is kInvalid where tensors have no such type
};

struct Safetensors {
  std::map<std::string, std::string> metadata;
  std::vector<StoredTensor> tensors;  // in the order of the header
};

// Raises InvalidArgument that says what is wrong with the file of this name.
Safetensors parse_safetensors(const FileBytes& file, const std::string& path);

// Writes dense tensors; atomic as replace_file is. Raises InvalidArgument for a name that is not
// UTF-8, FileError.
void write_safetensors(const std::string& path, const NamedData& tensors,
                       const std::map<std::string, std::string>& metadata);

}  // namespace traingraph
