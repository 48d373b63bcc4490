#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <traingraph/graph.h>

#include "runtime/files/file.h"

// The safetensors format: eight bytes of header length (little endian), a JSON header that says of
// each tensor its type, shape and place, then the tensors' bytes without gaps.
namespace traingraph {

// One tensor of a file, whose `data` has no bytes until they are read.
struct StoredTensor {
  std::string name;
  std::string type;         // as the file says it: "F32"
  TensorData data;          // data_type is kInvalid where tensors have no such type
  std::uint64_t begin = 0;  // of the bytes in the file
};

// A file whose header has been read, and found to describe a file of this size.
class SafetensorsFile {
 public:
  // Raises InvalidArgument that says what is wrong with the file, FileError.
  explicit SafetensorsFile(const std::string& path);
  // In the order of the header.
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  // Gives a tensor of a known type its bytes. Raises InvalidArgument, FileError.
  void read(StoredTensor& tensor) const;

 private:
  std::string subject_;  // of messages
  InputFile file_;
  std::vector<StoredTensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

// Whether the format has a type of this name.
bool is_safetensors_type(const std::string& name);

// Writes dense tensors; atomic as replace_file is. Raises InvalidArgument for a name that is not
// UTF-8, FileError.
void write_safetensors(const std::string& path, const NamedData& tensors,
                       const std::map<std::string, std::string>& metadata);

}  // namespace traingraph
