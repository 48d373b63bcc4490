#include <traingraph/errors.h>

// Out of line, so that each class has one home and exceptions cross library borders.
namespace traingraph {

// Not inline: files of several instruction levels would each have a copy.
Error::Error(const std::string& text) : std::runtime_error(text), text_(text) {}
Error::~Error() = default;
InvalidArgument::~InvalidArgument() = default;
ShapeError::~ShapeError() = default;
DataTypeError::~DataTypeError() = default;
Unsupported::~Unsupported() = default;
OutOfMemory::~OutOfMemory() = default;
DeviceError::~DeviceError() = default;
NumericError::~NumericError() = default;
FileError::FileError(const std::string& path, const std::string& reason, int code)
    : Error("[file '" + path + "'] " + reason), path_(path), reason_(reason), code_(code) {}
FileError::~FileError() = default;
InternalError::~InternalError() = default;

}  // namespace traingraph
