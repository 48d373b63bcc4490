// The hierarchy of errors that the library raises. Texts read `[subject] expected … but got … at
// layer N 'label'`.
#pragma once

#include <stdexcept>
#include <string>

#include <traingraph/export.h>

namespace traingraph {

class TRAINGRAPH_API Error : public std::runtime_error {
 public:
  explicit Error(const std::string& text);
  ~Error() override;
  const char* what() const noexcept override { return text_.c_str(); }
  // Says more, behind what it says.
  virtual void add(const std::string& text) { text_ += text; }

 private:
  std::string text_;
};

// The caller's mistake, found while building, binding or compiling (Python: ValueError).
class TRAINGRAPH_API InvalidArgument : public Error {
 public:
  using Error::Error;
  ~InvalidArgument() override;
};

// Extents that do not fit (Python: ValueError).
class TRAINGRAPH_API ShapeError : public InvalidArgument {
 public:
  using InvalidArgument::InvalidArgument;
  ~ShapeError() override;
};

// A data type that does not fit and must not be converted (Python: TypeError).
class TRAINGRAPH_API DataTypeError : public InvalidArgument {
 public:
  using InvalidArgument::InvalidArgument;
  ~DataTypeError() override;
};

// A valid graph that the chosen device cannot run; lists the reasons (Python: NotImplementedError).
class TRAINGRAPH_API Unsupported : public Error {
 public:
  using Error::Error;
  ~Unsupported() override;
};

// Memory asked for, available, and what holds the rest (Python: MemoryError).
class TRAINGRAPH_API OutOfMemory : public Error {
 public:
  using Error::Error;
  ~OutOfMemory() override;
};

// A vendor's call failed: the call, its code, its text (Python: RuntimeError).
class TRAINGRAPH_API DeviceError : public Error {
 public:
  using Error::Error;
  ~DeviceError() override;
};

// Ranks that train together cannot go on: one has ended or is elsewhere, or nothing connects them
// (Python: RuntimeError).
class TRAINGRAPH_API DistributedError : public Error {
 public:
  using Error::Error;
  ~DistributedError() override;
};

// NaN or infinity under kCheckNumerics: the layer, the phase, the step, the tensor (Python:
// FloatingPointError).
class TRAINGRAPH_API NumericError : public Error {
 public:
  using Error::Error;
  ~NumericError() override;
};

// A file cannot be read or written: the path, the call, the system's text (Python: OSError).
class TRAINGRAPH_API FileError : public Error {
 public:
  // `code` is what errno says.
  FileError(const std::string& path, const std::string& reason, int code);
  ~FileError() override;
  void add(const std::string& text) override;
  const std::string& path() const { return path_; }
  const std::string& reason() const { return reason_; }
  int code() const { return code_; }

 private:
  std::string path_;
  std::string reason_;
  int code_;
};

// A defect of this library (Python: RuntimeError).
class TRAINGRAPH_API InternalError : public Error {
 public:
  using Error::Error;
  ~InternalError() override;
};

}  // namespace traingraph
