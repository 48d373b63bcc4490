// Copies and bytes of kernels, by their descriptions.
#include <algorithm>
#include <map>
#include <optional>
#include <ranges>
#include <typeindex>

#include <traingraph/errors.h>
#include <traingraph/mps/arithmetic.h>
#include <traingraph/mps/classes.h>
#include <traingraph/mps/convolution.h>
#include <traingraph/mps/graph.h>

#include "mps/coding/coded_fields.h"
#include "mps/coding/coded_types.h"
#include "mps/kernels/named_kernel.h"

namespace traingraph::mps {
namespace {

constexpr const char* kDevice = "device";

// What a class's objects consist of.
struct Parts {
  const ClassDescription* description;
  const Form* form;                         // null: of a class that others derive from
  std::vector<const Argument*> arguments;   // beside the device
  std::vector<const Property*> properties;  // those that can be set

  auto archived() const {
    return properties | std::views::filter([](const Property* p) { return p->is_archived; });
  }
};

// A class that has a property of its base once more has it at its own place.
void put(std::vector<const Property*>& properties, const Property& property) {
  std::erase_if(properties, [&](const Property* known) { return known->name == property.name; });
  properties.push_back(&property);
}

// The first one whose arguments objects know, or that of copies and archives alone.
const Form* whole_form(const ClassDescription& description) {
  if (description.coded_form.has_value()) return &*description.coded_form;
  const auto found = std::ranges::find_if(description.forms, [](const Form& form) {
    return std::ranges::all_of(form.arguments, [](const Argument& a) { return a.read != nullptr; });
  });
  return found != description.forms.end() ? &*found : nullptr;
}

bool is_made_with(const Parts& parts, const std::string& name) {
  return std::ranges::any_of(parts.arguments, [&](const Argument* a) { return a->name == name; });
}

std::map<std::string, Parts> make_parts() {
  std::map<std::string, Parts> by_kind;
  // Of classes that others derive from.
  std::map<std::type_index, std::vector<const Property*>> bases;
  for (const ClassDescription& description : kernel_classes()) {
    Parts parts{&description, whole_form(description), {}, {}};
    if (description.base != nullptr) parts.properties = bases.at(*description.base);
    if (parts.form != nullptr) {
      for (const Argument& argument : parts.form->arguments) {
        if (argument.name != kDevice) parts.arguments.push_back(&argument);
      }
    }
    for (const Property& property : description.properties) {
      const bool is_kept = property.set != nullptr && !property.is_part;
      if (!is_kept || is_made_with(parts, property.name)) continue;
      put(parts.properties, property);
    }
    bases.try_emplace(*description.type, parts.properties);
    if (parts.form != nullptr) by_kind.emplace(description.name, std::move(parts));
  }
  return by_kind;
}

const std::map<std::string, Parts>& parts_of_kinds() {
  static const std::map<std::string, Parts> all = make_parts();
  return all;
}

const Parts& parts_of(const Kernel& kernel) {
  const auto found = parts_of_kinds().find(kernel.kind());
  if (found != parts_of_kinds().end()) return found->second;
  throw Unsupported("[" + kernel.description() +
                    "] a copy or bytes: nothing says of what such a kernel consists");
}

const Parts& parts_of(const std::string& kind) {
  const auto found = parts_of_kinds().find(kind);
  if (found != parts_of_kinds().end()) return found->second;
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

Device device_for(const Coder& coder, const std::optional<Device>& device) {
  if (device.has_value()) return *device;
  if (const auto* const provider = dynamic_cast<const DeviceProvider*>(&coder)) {
    return provider->mps_mtl_device();
  }
  throw InvalidArgument(
      "[MPSKernel] expected a device, or a coder that provides one by mps_mtl_device(), but got "
      "neither");
}

KernelPtr made(const Parts& parts, const Given& given) {
  return std::any_cast<KernelPtr>(parts.form->make(given));
}

// None for what kernels have got since the archive was written.
std::optional<CodedValue> value_of(const Kernel& kernel, const std::string& property,
                                   const Coder& coder) {
  try {
    return coder.decode(property);
  } catch (const InvalidArgument&) {
    const bool is_binary = dynamic_cast<const CNNBinaryKernel*>(&kernel) != nullptr;
    if (is_binary && property == "padding") return std::nullopt;
    throw;
  }
}

KernelPtr decoded_kernel(const Parts& parts, const Coder& coder, const Device& device) {
  Given given;
  given.add(kDevice, device);
  for (const Argument* argument : parts.arguments) {
    const std::string& name = argument->name;
    given.add(name, decoded(argument->type, name, coder.decode(name)));
  }
  KernelPtr kernel = made(parts, given);
  for (const Property* property : parts.archived()) {
    const std::string& name = property->name;
    const std::optional<CodedValue> value = value_of(*kernel, name, coder);
    if (value) property->set(kernel.get(), decoded(property->type, name, *value));
  }
  return kernel;
}

// What the data source of a kernel with weights says; null without weights.
const CNNConvolutionDescriptor* descriptor_of(const Kernel& kernel) {
  const auto* const forward = dynamic_cast<const WeightForwardKernel*>(&kernel);
  if (forward != nullptr) return &forward->descriptor();
  const auto* const gradient = dynamic_cast<const WeightGradientKernel*>(&kernel);
  return gradient != nullptr ? &gradient->descriptor() : nullptr;
}

}  // namespace

std::optional<ir::NamedKernelAttributes> named_kernel(const Kernel& kernel) {
  const auto found = parts_of_kinds().find(kernel.kind());
  if (found == parts_of_kinds().end()) return std::nullopt;
  const Parts& parts = found->second;
  ir::NamedKernelAttributes result{kernel.kind(), {}, {}};
  for (const Argument* argument : parts.arguments) {
    // What a data source gives are operands, and what it says comes below.
    if (coded_type(argument->type).copy != nullptr) continue;
    add_numbers(result, argument->name, coded(argument->type, argument->read(&kernel)));
  }
  for (const Property* property : parts.archived()) {
    add_numbers(result, property->name, coded(property->type, property->get(&kernel)));
  }
  if (const CNNConvolutionDescriptor* const said = descriptor_of(kernel)) {
    CNNConvolutionDescriptor sizes = *said;
    sizes.batch_normalization = nullptr;  // part of the weights
    sizes.fused_neuron_descriptor = {};
    const NeuronDescriptor& neuron = said->fused_neuron_descriptor;
    add_numbers(result, "descriptor", coded(describing::value_type<decltype(sizes)>(), sizes));
    add_numbers(result, "fused_neuron_descriptor",
                coded(describing::value_type<NeuronDescriptor>(), neuron));
  }
  return result;
}

namespace {

// Raises Unsupported for objects of the program's that archives cannot have.
void expect_codable(const Kernel& kernel) {
  const auto* const forward = dynamic_cast<const CNNKernel*>(&kernel);
  const auto* const allocates = dynamic_cast<const AllocatesImages*>(&kernel);
  const auto* const binary = dynamic_cast<const CNNBinaryKernel*>(&kernel);
  const bool own_padding = (forward != nullptr && forward->padding().own() != nullptr) ||
                           (binary != nullptr && binary->padding().own() != nullptr);
  if (!own_padding && (allocates == nullptr || !allocates->has_own_allocator())) return;
  throw Unsupported("[" + kernel.description() + "] bytes of a kernel with the program's own " +
                    (own_padding ? "padding policy" : "image allocator"));
}

}  // namespace

void Kernel::encode_with_coder(Coder& coder) const {
  const Parts& parts = parts_of(*this);
  expect_codable(*this);
  for (const Argument* argument : parts.arguments) {
    coder.encode(coded(argument->type, argument->read(this)), argument->name);
  }
  for (const Property* property : parts.archived()) {
    coder.encode(coded(property->type, property->get(this)), property->name);
  }
}

std::shared_ptr<Kernel> Kernel::copy(const Device& device) const {
  const Parts& parts = parts_of(*this);
  Given given;
  given.add(kDevice, device);
  for (const Argument* argument : parts.arguments) {
    std::any value = argument->read(this);
    const auto copy_source = coded_type(argument->type).copy;
    if (copy_source != nullptr && value.has_value()) value = copy_source(value, device);
    given.add(argument->name, std::move(value));
  }
  KernelPtr kernel = made(parts, given);
  for (const Property* property : parts.properties) {
    property->set(kernel.get(), property->get(this));
  }
  return kernel;
}

KernelPtr kernel_with_coder(const std::string& kind, const Coder& coder,
                            const std::optional<Device>& device) {
  const Parts& parts = parts_of(kind);
  const Device on = device_for(coder, device);
  return whole(kind, [&] { return decoded_kernel(parts, coder, on); });
}

std::shared_ptr<NNGraph> graph_with_coder(const CodedGraph& coded,
                                          const std::optional<Device>& device) {
  const Device on = device_for(*coded.coder, device);
  return whole("MPSNNGraph", [&] { return coded.decode(on); });
}

CodedNames coded_names(const std::string& kind) {
  const Parts& parts = parts_of(kind);
  CodedNames names;
  for (const Argument* argument : parts.arguments) names.arguments.push_back(argument->name);
  for (const Property* property : parts.archived()) names.properties.push_back(property->name);
  return names;
}

std::vector<std::string> coded_kinds() {
  std::vector<std::string> kinds;
  for (const auto& [kind, parts] : parts_of_kinds()) kinds.push_back(kind);
  return kinds;
}

}  // namespace traingraph::mps
