#include <traingraph/errors.h>

#include <algorithm>
#include <string_view>

#include <traingraph/message_text.h>

// Out of line, so that each class has one home and exceptions cross library borders.
namespace traingraph {
namespace {

// A label, a path or a value of the caller's may be as long as it likes: what a long message quotes
// is shortened.
std::string readable(const std::string& text) {
  constexpr std::size_t kLong = 2000, kLongPart = 500;
  if (text.size() <= kLong) return text;
  std::string result;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find_first_of("'\"\n", begin), text.size());
    const std::string_view part = std::string_view(text).substr(begin, end - begin);
    result += part.size() > kLongPart ? shortened(part, kMostShown) : std::string(part);
    if (end < text.size()) result += text[end];
    begin = end + 1;
  }
  return result;
}

}  // namespace

// Not inline: files of several instruction levels would each have a copy.
Error::Error(const std::string& text) : std::runtime_error(text), text_(readable(text)) {}
Error::~Error() = default;
InvalidArgument::~InvalidArgument() = default;
ShapeError::~ShapeError() = default;
DataTypeError::~DataTypeError() = default;
Unsupported::~Unsupported() = default;
OutOfMemory::~OutOfMemory() = default;
DeviceError::~DeviceError() = default;
DistributedError::~DistributedError() = default;
NumericError::~NumericError() = default;
FileError::FileError(const std::string& path, const std::string& reason, int code)
    : Error("[file '" + path + "'] " + reason), path_(path), reason_(reason), code_(code) {}
FileError::~FileError() = default;
void FileError::add(const std::string& text) {
  Error::add(text);
  reason_ += text;
}
InternalError::~InternalError() = default;

}  // namespace traingraph
