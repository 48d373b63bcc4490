// Descriptions of the public classes: how objects are made, and which properties they have.
// Bindings, documentation, copies and range checks read them; <traingraph/describe.h> writes them.
#pragma once

#include <any>
#include <cstddef>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include <traingraph/graph.h>
#include <traingraph/range.h>
#include <traingraph/tensor.h>

namespace traingraph {

// Height and width, or y and x.
struct Pair {
  std::int64_t y = 1;
  std::int64_t x = 1;
};

// A policy with the sizes that kUsePaddingSize has.
struct Padding {
  PaddingPolicy policy = PaddingPolicy::kSame;
  Pair sizes{0, 0};
};

// --- arrays that functions are given and give ----------------------------------------------------

// Elements of the caller's, once it is known which type they shall have: kInvalid is their own.
// Errors name what they are for: `role`, and its name if it has one.
using ReadElements =
    std::function<TensorData(DataType type, const char* role, const std::string& name)>;
// They are read, and converted if they need it.
struct DataToRead {
  ReadElements read;
};
// They become a tensor's: in place where they can be written, or as a copy.
struct DataToShare {
  ReadElements read;
};

// The same of arrays by the names of tensors that are declared.
struct NamedDataToRead {
  std::function<NamedData(const NamedTensors& declared, const char* role)> read;
};
// What a graph's copy_state gave; lists of numbers are read as the arrays of the graph's own.
struct StateToRead {
  std::function<NamedData(const std::function<NamedData()>& own)> read;
};

// The path of a file, as the system's bytes.
struct FilePath {
  std::string bytes;
};

// The memory of a buffer of any type.
struct RawBytes {
  TensorData data;
};

// The memory of a caller's object, on the host or by DLPack on a GPU, that is used where it is.
struct MemoryInPlace {
  TensorData data;
  std::shared_ptr<const void> object;
};
// A function of the caller's, as what calls it when nothing uses so many bytes any more.
struct Deallocator {
  std::function<std::shared_ptr<const void>(const MemoryInPlace& memory, std::size_t length)> keep;
};

// An array in host memory.
struct HostArray {
  TensorData data;
  bool writable = true;
};

// One number, or one for each element along an axis.
template <class T>
struct Numbers {
  std::vector<T> values;
};

// --- descriptions --------------------------------------------------------------------------------

// A function of a description. There are thousands, each of another type: less to compile than
// std::function.
template <class Signature>
class Callable;
template <class R, class... A>
class Callable<R(A...)> {
 public:
  Callable() = default;
  Callable(std::nullptr_t) {}
  template <class F>
    requires(!std::is_same_v<F, Callable>)
  Callable(F function) {
    if constexpr (sizeof(F) <= sizeof(held_) && std::is_trivially_copyable_v<F>) {
      new (held_) F(function);
      call_ = [](const Callable& self, A... a) -> R {
        return (*std::launder(reinterpret_cast<const F*>(self.held_)))(static_cast<A>(a)...);
      };
    } else {
      void (*const destroy)(const void*) = [](const void* made) {
        delete static_cast<const F*>(made);
      };
      const void* const made = new F(std::move(function));
      owned_ = std::shared_ptr<const void>(made, destroy);
      call_ = [](const Callable& self, A... a) -> R {
        return (*static_cast<const F*>(self.owned_.get()))(static_cast<A>(a)...);
      };
    }
  }
  R operator()(A... a) const { return call_(*this, static_cast<A>(a)...); }
  bool operator==(std::nullptr_t) const { return call_ == nullptr; }

 private:
  alignas(void*) std::byte held_[4 * sizeof(void*)] = {};
  std::shared_ptr<const void> owned_;
  R (*call_)(const Callable& self, A... a) = nullptr;
};

// The type of a value in std::any. None is an empty one.
struct ValueType {
  const std::type_info* type = nullptr;
  bool optional = false;  // None is allowed
};

namespace describing {

template <class T>
constexpr bool kIsOptional = false;
template <class T>
constexpr bool kIsOptional<std::optional<T>> = true;

}  // namespace describing

struct Argument {
  std::string name;
  ValueType type;
  std::string text;                         // one line
  std::optional<std::any> value_if_absent;  // none: it has to be given
  const Range* range = nullptr;             // of numbers
  // From an object; none where its form keeps something else.
  Callable<std::any(const void*)> read = nullptr;
  std::string accepted = {};  // the members of an enumeration that it may be; empty: all
};

// What an object is made of, by name.
class Given {
 public:
  void add(std::string_view name, std::any value) { values_.emplace_back(name, std::move(value)); }
  // Nothing for an argument of another form.
  const std::any* find(std::string_view name) const {
    for (const auto& [known, value] : values_) {
      if (known == name) return &value;
    }
    return nullptr;
  }
  // T{} for None, and for an argument of another form.
  template <class T>
  T get(std::string_view name) const {
    return value_of<T>(find(name));
  }
  // The k-th.
  template <class T>
  T at(std::size_t k) const {
    return value_of<T>(&values_.at(k).second);
  }
  // Nothing for None, and for an argument of another form.
  template <class T>
  std::optional<T> get_optional(std::string_view name) const {
    return value_of<std::optional<T>>(find(name));
  }
  const auto& values() const { return values_; }

 private:
  template <class T>
  static T value_of(const std::any* value) {
    const bool is_there = value != nullptr && value->has_value();
    if constexpr (describing::kIsOptional<T>) {
      return is_there ? T(std::any_cast<const typename T::value_type&>(*value)) : T();
    } else {
      if constexpr (std::is_default_constructible_v<T>) {
        if (!is_there) return T{};
      }
      return std::any_cast<const T&>(*value);
    }
  }

  std::vector<std::pair<std::string_view, std::any>> values_;
};

// One way to make an object. `make` gives what owns it: a shared pointer to the base, or to void.
struct Form {
  std::vector<Argument> arguments;
  Callable<std::any(const Given&)> make;
};

// A function of the class that makes an object.
struct Factory {
  std::string name;
  std::string text;
  std::vector<Form> forms;
};

// A function of an object, or of the class, which has no object.
struct Method {
  std::string name;
  std::string text;
  ValueType result;         // void: None
  std::vector<Form> forms;  // which make nothing
  Callable<std::any(void* object, const Given& given)> call;
  bool may_wait = false;  // for other threads
  // For them, before it is called.
  Callable<void(void* object, const Given& given)> wait_first = nullptr;
};

struct Property {
  std::string name;
  ValueType type;
  std::string text;
  Callable<std::any(const void*)> get;
  Callable<void(void*, const std::any&)> set = nullptr;  // none: it is only read
  bool is_part = false;          // of an argument: copies and archives have it there
  bool is_archived = true;       // false: copies have it, and another property tells archives
  const Range* range = nullptr;  // of numbers
  bool may_wait = false;         // for other threads, before it is told
};

// A layer as small as can be, and what it reads.
struct LayerSample {
  LayerPtr layer;
  std::vector<TensorDescriptor> sources;
};

struct ClassDescription {
  std::string name;     // in Python; behind the name of the class that it is within, and a dot
  std::string summary;  // one line
  std::string text;     // shapes, types, gradient, errors
  const std::type_info* type = nullptr;
  // Null: a value, which is copied, of its own, or the base of all. The type itself: one of several
  // classes that are one in C++.
  const std::type_info* base = nullptr;
  // Of one of several C++ classes that Python's binding takes for their base: whether an object is
  // of it. Null: each is.
  bool (*holds)(const void* object) = nullptr;
  std::size_t bytes = 0;
  std::size_t alignment = 0;
  std::vector<Form> forms;
  std::optional<Form> coded_form;  // what copies and archives have, if it is none of those
  std::vector<Factory> factories;
  std::vector<Property> properties;
  std::vector<Method> functions;
  std::vector<Method> class_functions;
  // The shared pointer and the object in what a form makes.
  const void* (*owner)(const std::any&) = nullptr;
  void* (*object)(const std::any&) = nullptr;
  // Of values: a copy as a value, and a value as what a form makes.
  std::any (*copy)(const void*) = nullptr;
  std::any (*owned)(const std::any&) = nullptr;
  // Of values: owns one that was made with new.
  std::shared_ptr<void> (*adopted)(void*) = nullptr;
  // What programs copy it by, as what a form makes; null: they cannot.
  Callable<std::any(const void*)> copied;
  // Of values made of fields: sets the members that arguments are named after.
  Callable<void(void*, const Given&)> set_fields;
  std::optional<Form> state;  // what pickles keep
  // What repr() tells behind the name, and str().
  Callable<std::string(const void*)> repr;
  Callable<std::string(const void*)> str;
  // Whether two objects are the same, and a number that is the same then.
  Callable<bool(const void*, const void*)> equal;
  Callable<std::size_t(const void*)> hash;
  LayerSample (*sample)(DataType) = nullptr;
};

namespace describing {

template <class T>
ValueType value_type(bool optional = false) {
  if constexpr (kIsOptional<T>) {
    return value_type<typename T::value_type>(true);
  } else {
    return {&typeid(T), optional};
  }
}

template <class T>
std::any any_of(const T& value) {
  if constexpr (kIsOptional<T>) {
    return value ? std::any(*value) : std::any();
  } else if constexpr (requires { value.get() != nullptr; } || std::is_pointer_v<T>) {
    return value != nullptr ? std::any(value) : std::any();
  } else {
    return value;
  }
}

}  // namespace describing

// One without what reads it; `value_if_absent` as of Argument.
TRAINGRAPH_API Argument make_argument(std::string_view name, ValueType type, const char* text,
                                      std::optional<std::any> value_if_absent, const Range* range);
template <class T>
Argument argument(std::string_view name, const char* text, const Range* range = nullptr) {
  return make_argument(name, describing::value_type<T>(), text, std::nullopt, range);
}
template <class T>
Argument argument(std::string_view name, T value_if_absent, const char* text,
                  const Range* range = nullptr) {
  return make_argument(name, describing::value_type<T>(), text,
                       std::any(std::move(value_if_absent)), range);
}
template <class T>
Argument optional_argument(std::string_view name, const char* text, const Range* range = nullptr) {
  return make_argument(name, describing::value_type<T>(true), text, std::any(), range);
}

// InvalidArgument for the first number of a value outside the range that its description states.
TRAINGRAPH_API void check_ranges(const ClassDescription& description, const void* value,
                                 const std::string& subject);

// Those of ML Compute's layers and optimizers, each behind the classes that it needs.
using DescribedClass = const ClassDescription& (*)();
TRAINGRAPH_API const std::vector<DescribedClass>& layer_classes();
TRAINGRAPH_API const std::vector<DescribedClass>& optimizer_classes();

}  // namespace traingraph
