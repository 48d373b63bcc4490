// Serialization of kernels and descriptors: KeyedArchiver and KeyedUnarchiver write and read
// archives. An archive is JSON in UTF-8, {"class": …, "values": {name: value, …}}, the same in C++
// and in Python.
#pragma once

#include <any>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <typeinfo>
#include <utility>
#include <variant>
#include <vector>

#include <traingraph/class_description.h>
#include <traingraph/mps/convolution.h>
#include <traingraph/mps/loss.h>
#include <traingraph/optimizer.h>

namespace traingraph::mps {

using KernelPtr = std::shared_ptr<Kernel>;

// What archives consist of: nothing, a truth value, a number, a text, a list, or values by name in
// the order in which they were written.
class TRAINGRAPH_API CodedValue {
 public:
  struct Entry;
  using List = std::vector<CodedValue>;
  using Entries = std::vector<Entry>;

  // Defined below, where Entry is complete: it holds a value, and who makes a value may destroy
  // one.
  CodedValue();
  CodedValue(std::nullptr_t);
  CodedValue(std::same_as<bool> auto value);
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  CodedValue(T value);
  CodedValue(std::floating_point auto value);
  CodedValue(const char* text);
  CodedValue(std::string text);
  CodedValue(List list);
  CodedValue(Entries entries);

  bool is_nothing() const { return std::holds_alternative<std::monostate>(value_); }
  // Of bool, std::int64_t, double, std::string, List, Entries; null where it is another one.
  template <class T>
  const T* as() const {
    return std::get_if<T>(&value_);
  }
  // The value of this name, of several the last; null where there is none.
  const CodedValue* find(std::string_view name) const;
  // Raises InvalidArgument where there is none.
  const CodedValue& at(std::string_view name) const;
  bool operator==(const CodedValue& other) const;
  // "a text", for messages.
  const char* what() const;

 private:
  std::variant<std::monostate, bool, std::int64_t, double, std::string, List, Entries> value_;
};
struct CodedValue::Entry {
  std::string name;
  CodedValue value;
  bool operator==(const Entry&) const = default;
};

inline CodedValue::CodedValue() = default;
inline CodedValue::CodedValue(std::nullptr_t) {}
CodedValue::CodedValue(std::same_as<bool> auto value) : value_(value) {}
template <std::integral T>
  requires(!std::same_as<T, bool>)
CodedValue::CodedValue(T value) : value_(static_cast<std::int64_t>(value)) {}
CodedValue::CodedValue(std::floating_point auto value) : value_(static_cast<double>(value)) {}
inline CodedValue::CodedValue(const char* text) : value_(std::string(text)) {}
inline CodedValue::CodedValue(std::string text) : value_(std::move(text)) {}
inline CodedValue::CodedValue(List list) : value_(std::move(list)) {}
inline CodedValue::CodedValue(Entries entries) : value_(std::move(entries)) {}

// What objects write their values into and read them from, each under a key. A coder mostly does
// one of the two; what it does not raises Unsupported.
class TRAINGRAPH_API Coder {
 public:
  virtual ~Coder();
  virtual void encode(const CodedValue& value, const std::string& key);
  // Raises InvalidArgument where nothing was encoded under the key.
  virtual CodedValue decode(const std::string& key) const;
};

// What a coder may be besides: it says where what is decoded will run.
class TRAINGRAPH_API DeviceProvider {
 public:
  virtual ~DeviceProvider();
  virtual Device mps_mtl_device() const = 0;
};

class TRAINGRAPH_API KeyedArchiver final : public Coder {
 public:
  void encode(const CodedValue& value, const std::string& key) override;
  // What was encoded, as the archive of an object of this class. Raises InvalidArgument for texts
  // that are not UTF-8.
  std::string archive(const std::string& kind) const;

  static std::string archived_data(const Kernel& kernel);
  static std::string archived_data(const CNNConvolutionDescriptor& descriptor);

 private:
  CodedValue::Entries values_;
};

class TRAINGRAPH_API KeyedUnarchiver final : public Coder, public DeviceProvider {
 public:
  // Raises InvalidArgument for bytes that no archiver has written.
  KeyedUnarchiver(std::string_view data, const Device& device);
  CodedValue decode(const std::string& key) const override;
  Device mps_mtl_device() const override { return device_; }
  // "MPSCNNPoolingMax"
  const std::string& kind() const { return kind_; }
  // All that was encoded, by key.
  const CodedValue& values() const { return values_; }

  // The kernel, whatever its class. Raises DataTypeError where it is no kernel.
  static KernelPtr unarchived_kernel(std::string_view data, const Device& device);
  // The kernel. Raises DataTypeError where it is none of this class.
  template <std::derived_from<Kernel> T>
  static std::shared_ptr<T> unarchived_object_of_class(std::string_view data,
                                                       const Device& device) {
    const KernelPtr kernel = unarchived_kernel(data, device);
    std::shared_ptr<T> wanted = std::dynamic_pointer_cast<T>(kernel);
    if (wanted == nullptr) refuse_class(*kernel);
    return wanted;
  }
  static CNNConvolutionDescriptor unarchived_convolution_descriptor(std::string_view data);

 private:
  [[noreturn]] static void refuse_class(const Kernel& kernel);

  Device device_;
  std::string kind_;
  CodedValue values_;
};

// The kernel of this class that was encoded, on this device or else on the coder's. Raises
// InvalidArgument where there is neither, and for values that are no such kernel's; DataTypeError
// for classes that are no kernel's. Kernel::encode_with_coder is the other direction.
TRAINGRAPH_API KernelPtr kernel_with_coder(const std::string& kind, const Coder& coder,
                                           const std::optional<Device>& device = {});

// Of which arguments and properties, by name, a kernel of this class consists. Raises
// DataTypeError for classes that are no kernel's.
struct TRAINGRAPH_API CodedNames {
  std::vector<std::string> arguments;
  std::vector<std::string> properties;
};
TRAINGRAPH_API CodedNames coded_names(const std::string& kind);
// All classes of kernels that can be coded.
TRAINGRAPH_API std::vector<std::string> coded_kinds();

// Values by their type: nothing for None. Decoding raises InvalidArgument with the name.
TRAINGRAPH_API bool is_coded(const std::type_info& type);
TRAINGRAPH_API CodedValue coded(const ValueType& type, const std::any& value);
TRAINGRAPH_API std::any decoded(const ValueType& type, const std::string& name,
                                const CodedValue& value);

// Descriptors: every field by its name. Decoding raises InvalidArgument for what is no such
// descriptor.
TRAINGRAPH_API CodedValue coded(const NeuronDescriptor& descriptor);
TRAINGRAPH_API CodedValue coded(const CNNLossDescriptor& descriptor);
TRAINGRAPH_API CodedValue coded(const OptimizerDescriptor& descriptor);
TRAINGRAPH_API CodedValue coded(const CNNConvolutionDescriptor& descriptor);
TRAINGRAPH_API CodedValue coded(const CNNSubPixelConvolutionDescriptor& descriptor);
TRAINGRAPH_API void decode(const CodedValue& value, NeuronDescriptor& to);
TRAINGRAPH_API void decode(const CodedValue& value, CNNLossDescriptor& to);
TRAINGRAPH_API void decode(const CodedValue& value, OptimizerDescriptor& to);
TRAINGRAPH_API void decode(const CodedValue& value, CNNConvolutionDescriptor& to);
TRAINGRAPH_API void decode(const CodedValue& value, CNNSubPixelConvolutionDescriptor& to);

// A convolution's descriptor by itself, like a kernel; `kind` is that of a depthwise or sub-pixel
// convolution, too. Decoding raises InvalidArgument, and DataTypeError for another kind.
TRAINGRAPH_API void encode_with_coder(const CNNConvolutionDescriptor& descriptor, Coder& coder);
TRAINGRAPH_API CNNConvolutionDescriptor convolution_descriptor_with_coder(const std::string& kind,
                                                                          const Coder& coder);

}  // namespace traingraph::mps
