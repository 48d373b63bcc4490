// Copies and bytes of kernels, by their descriptions.
#include <traingraph/errors.h>

#include "mps/kernel_description.h"
#include "mps/named_kernel.h"

namespace traingraph::mps {
namespace {

const KernelTable& table() {
  static const KernelTable all = [] {
    KernelTable table;
    describe_weighted_kernels(table);
    describe_normalizations(table);
    return table;
  }();
  return all;
}

const KernelDescription& description_of(const Kernel& kernel) {
  const auto found = table().find(kernel.kind());
  if (found != table().end()) return found->second;
  throw Unsupported("[" + kernel.description() +
                    "] a copy or bytes: nothing says of what such a kernel consists");
}

const KernelDescription& description_of(const std::string& kind) {
  const auto found = table().find(kind);
  if (found != table().end()) return found->second;
  throw DataTypeError(
      "[MPSKeyedUnarchiver] expected a class of kernels that can be decoded but got " + kind);
}

void add_numbers(ir::NamedKernelAttributes& to, const std::string& name, const CodedValue& value) {
  if (const auto* flag = value.as<bool>()) {
    to.numbers.emplace_back(name, *flag ? 1 : 0);
  } else if (const auto* whole = value.as<std::int64_t>()) {
    to.numbers.emplace_back(name, static_cast<double>(*whole));
  } else if (const auto* number = value.as<double>()) {
    to.numbers.emplace_back(name, *number);
  } else if (const auto* list = value.as<CodedValue::List>()) {
    for (std::size_t k = 0; k < list->size(); ++k) {
      add_numbers(to, name + "." + std::to_string(k), (*list)[k]);
    }
  } else if (const auto* entries = value.as<CodedValue::Entries>()) {
    const std::string outer = name + ".";
    for (const auto& [inner, entry] : *entries) add_numbers(to, outer + inner, entry);
  }
}

template <class Source>
KernelArgument copied(const std::shared_ptr<Source>& source, const Device& device) {
  const auto other = source->copy(device);
  if (other == nullptr) return source;
  auto same_kind = std::dynamic_pointer_cast<Source>(other);
  if (same_kind != nullptr) return same_kind;
  throw InvalidArgument("[MPSKernel] expected a copy of a data source to be one of its kind");
}

Device device_for(const Coder& coder, const std::optional<Device>& device) {
  if (device.has_value()) return *device;
  if (const auto* const provider = dynamic_cast<const DeviceProvider*>(&coder)) {
    return provider->mps_mtl_device();
  }
  throw InvalidArgument(
      "[MPSKernel] expected a device, or a coder that provides one by mps_mtl_device(), but got "
      "neither");
}

KernelPtr decoded(const KernelDescription& description, const Coder& coder, const Device& device) {
  KernelArguments given;
  for (const KernelDescription::Argument& argument : description.arguments) {
    given.add(argument.name, argument.decode(coder.decode(argument.name)));
  }
  KernelPtr kernel = description.make(device, given);
  for (const KernelDescription::Property& property : description.properties) {
    property.write(*kernel, coder.decode(property.name));
  }
  return kernel;
}

}  // namespace

namespace old {
std::optional<ir::NamedKernelAttributes> named_kernel(const Kernel& kernel) {
  const auto found = table().find(kernel.kind());
  if (found == table().end()) return std::nullopt;
  ir::NamedKernelAttributes result{kernel.kind(), {}, {}};
  for (const KernelDescription::Argument& argument : found->second.arguments) {
    const KernelArgument value = argument.read(kernel);
    // What a data source gives are operands, and what it says is told below.
    if (const auto* coded = std::get_if<CodedValue>(&value)) {
      add_numbers(result, argument.name, *coded);
    }
  }
  for (const KernelDescription::Property& property : found->second.properties) {
    add_numbers(result, property.name, property.read(kernel));
  }
  for (const KernelDescription::Told& told : found->second.told) {
    add_numbers(result, told.name, told.read(kernel));
  }
  return result;
}

void encode_with_coder(const Kernel& self, Coder& coder) {
  const KernelDescription& description = description_of(self);
  for (const KernelDescription::Argument& argument : description.arguments) {
    const auto code = [](const auto& value) -> CodedValue {
      if constexpr (kIsSource<std::remove_cvref_t<decltype(value)>>) {
        return coded(*value);
      } else {
        return value;
      }
    };
    coder.encode(std::visit(code, argument.read(self)), argument.name);
  }
  for (const KernelDescription::Property& property : description.properties) {
    coder.encode(property.read(self), property.name);
  }
}

std::shared_ptr<Kernel> copy(const Kernel& self, const Device& device) {
  const KernelDescription& description = description_of(self);
  KernelArguments given;
  for (const KernelDescription::Argument& argument : description.arguments) {
    const auto copy = [&device](const auto& value) -> KernelArgument {
      if constexpr (kIsSource<std::remove_cvref_t<decltype(value)>>) {
        return copied(value, device);
      } else {
        return value;
      }
    };
    given.add(argument.name, std::visit(copy, argument.read(self)));
  }
  KernelPtr kernel = description.make(device, given);
  for (const KernelDescription::Property& property : description.properties) {
    property.write(*kernel, property.read(self));
  }
  return kernel;
}

KernelPtr kernel_with_coder(const std::string& kind, const Coder& coder,
                            const std::optional<Device>& device) {
  const KernelDescription& description = description_of(kind);
  const Device on = device_for(coder, device);
  try {
    return decoded(description, coder, on);
  } catch (const InvalidArgument& error) {
    refuse_archive(kind, error);
  } catch (const Unsupported& error) {
    refuse_archive(kind, error);
  }
}

CodedNames coded_names(const std::string& kind) {
  const KernelDescription& description = description_of(kind);
  CodedNames names;
  for (const auto& argument : description.arguments) names.arguments.push_back(argument.name);
  for (const auto& property : description.properties) names.properties.push_back(property.name);
  return names;
}

std::vector<std::string> coded_kinds() {
  std::vector<std::string> kinds;
  for (const auto& [kind, description] : table()) kinds.push_back(kind);
  return kinds;
}
}  // namespace old

}  // namespace traingraph::mps
