#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <traingraph/mps/mps.h>

#include "mps/coded_fields.h"

// Of what each class of kernels consists: the arguments of its constructor, and the properties that
// are set afterwards. Copying, encoding and decoding read this and nothing else.
//
// A family's file adds its classes to the table:
//
//   OldDescribing<CNNNeuron>(table, "MPSCNNNeuron")
//       .argument("neuron_descriptor", &CNNNeuron::descriptor)
//       .made_of<NeuronDescriptor>();
namespace traingraph::mps {

// A value, or a data source.
using KernelArgument =
    std::variant<CodedValue, CNNConvolutionDataSourcePtr, CNNBatchNormalizationDataSourcePtr,
                 CNNInstanceNormalizationDataSourcePtr, CNNGroupNormalizationDataSourcePtr>;
template <class T>
constexpr bool kIsSource = false;
template <class T>
constexpr bool kIsSource<std::shared_ptr<T>> =
    std::is_constructible_v<KernelArgument, std::in_place_type_t<std::shared_ptr<T>>>;

// Those that a kernel is made with, by name.
class KernelArguments {
 public:
  void add(const std::string& name, KernelArgument argument) { all_[name] = std::move(argument); }
  template <class T>
  T get(const std::string& name) const {
    const KernelArgument& argument = all_.at(name);
    if constexpr (kIsSource<T>) {
      return std::get<T>(argument);
    } else {
      T value{};
      decode_named(std::get<CodedValue>(argument), name, value);
      return value;
    }
  }

 private:
  std::map<std::string, KernelArgument> all_;
};

struct KernelDescription {
  struct Argument {
    std::string name;
    std::function<KernelArgument(const Kernel&)> read;
    KernelArgument (*decode)(const CodedValue&);
  };
  struct Property {
    std::string name;
    std::function<CodedValue(const Kernel&)> read;
    std::function<void(Kernel&, const CodedValue&)> write;
  };
  // What a data source has said when the kernel was made: kernels by name are told, and archives
  // have it in the source.
  struct Told {
    std::string name;
    std::function<CodedValue(const Kernel&)> read;
  };
  using Make = std::function<KernelPtr(const Device&, const KernelArguments&)>;

  // In the place of one of that name, if there is one.
  void set(Property property);

  std::vector<Argument> arguments;
  std::vector<Property> properties;
  std::vector<Told> told;
  Make make;
};
using KernelTable = std::map<std::string, KernelDescription>;

// A property of K: a member, or a pair of functions, the second of the kernel and the value.
template <class K, class Get, class Set>
KernelDescription::Property property_of(const char* name, Get get, Set set) {
  using T = std::remove_cvref_t<std::invoke_result_t<Get, const K&>>;
  return {name,
          [get](const Kernel& kernel) {
            return coded(std::invoke(get, static_cast<const K&>(kernel)));
          },
          [name, set](Kernel& kernel, const CodedValue& value) {
            T decoded{};
            decode_named(value, name, decoded);
            std::invoke(set, static_cast<K&>(kernel), decoded);
          }};
}
template <class K, class C, class T>
KernelDescription::Property property_of(const char* name, T C::* member) {
  return property_of<K>(name, member,
                        [member](K& kernel, const T& value) { kernel.*member = value; });
}

// What all kernels over a class have. The nearest base is chosen.
void add_properties_of(KernelDescription& to, const Kernel*);
void add_properties_of(KernelDescription& to, const CNNKernel*);
void add_properties_of(KernelDescription& to, const CNNGradientKernel*);
void add_properties_of(KernelDescription& to, const CNNBinaryKernel*);

template <class K>
class OldDescribing {
 public:
  OldDescribing(KernelTable& table, const std::string& kind) : description_(table[kind]) {
    add_properties_of(description_, static_cast<const K*>(nullptr));
  }

  // `get` is a member, or a function of the kernel.
  template <class Get>
  OldDescribing& argument(const std::string& name, Get get) {
    using T = std::remove_cvref_t<std::invoke_result_t<Get, const K&>>;
    description_.arguments.push_back({name,
                                      [get](const Kernel& kernel) {
                                        return as_argument(
                                            std::invoke(get, static_cast<const K&>(kernel)));
                                      },
                                      decoded_argument<T>});
    return *this;
  }

  template <class... Accessors>
  OldDescribing& property(const char* name, Accessors... accessors) {
    description_.set(property_of<K>(name, accessors...));
    return *this;
  }

  // `get` is a function of the kernel.
  template <class Get>
  OldDescribing& told(const char* name, Get get) {
    description_.told.push_back({name, [get](const Kernel& kernel) {
                                   return coded(std::invoke(get, static_cast<const K&>(kernel)));
                                 }});
    return *this;
  }

  // A function of the device and of KernelArguments.
  void made_by(KernelDescription::Make make) { description_.make = std::move(make); }
  // By the constructor that takes the device and these, the arguments in their order.
  template <class... T>
  void made_of() {
    made_by([names = names()](const Device& device, const KernelArguments& given) {
      return made<T...>(device, given, names, std::index_sequence_for<T...>());
    });
  }

 private:
  template <class T>
  static KernelArgument as_argument(const T& value) {
    if constexpr (kIsSource<T>) {
      return value;
    } else {
      return coded(value);
    }
  }
  template <class T>
  static KernelArgument decoded_argument(const CodedValue& value) {
    if constexpr (kIsSource<T>) {
      T source;
      decode(value, source);
      return source;
    } else {
      return value;
    }
  }
  template <class... T, std::size_t... k>
  static KernelPtr made(const Device& device, const KernelArguments& given,
                        const std::vector<std::string>& names, std::index_sequence<k...>) {
    return std::make_shared<K>(device, given.get<T>(names[k])...);
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& argument : description_.arguments) names.push_back(argument.name);
    return names;
  }

  KernelDescription& description_;
};

// By family.
void describe_weighted_kernels(KernelTable& table);
void describe_normalizations(KernelTable& table);

}  // namespace traingraph::mps
