// Objects of the program's that kernels and graphs ask: padding policies, and allocators of images.
#include "classes/described_class.h"
#include "convert/release.h"
#include "mps/mps_bindings.h"

namespace traingraph::python {
namespace {

using mps::CommandBuffer;
using mps::ImageAllocator;
using mps::ImageAllocatorPtr;
using mps::ImageBatch;
using mps::ImageDescriptor;
using mps::ImagePtr;

constexpr const char* kDescriptor = "destination_image_descriptor";

class UserPadding final : public mps::NNPadding {
 public:
  UserPadding(const py::object& object, int method) : kept_(share(object)), method_(method) {}

  int padding_method() const override { return method_; }
  ImageDescriptor destination_image_descriptor(const ImageBatch& sources,
                                               const mps::StateBatch& states,
                                               mps::CNNKernel& kernel,
                                               const ImageDescriptor& suggested) override {
    return ask(sources, states, kernel, suggested);
  }
  ImageDescriptor destination_image_descriptor(const ImageBatch& sources,
                                               const mps::StateBatch& states,
                                               mps::CNNBinaryKernel& kernel,
                                               const ImageDescriptor& suggested) override {
    return ask(sources, states, kernel, suggested);
  }
  py::object object() const { return shared_object(kept_); }
  void visit_owned(OwnershipVisitor& visitor) const override { visitor(kept_); }

 private:
  ImageDescriptor ask(const ImageBatch& sources, const mps::StateBatch& states,
                      const mps::Kernel& kernel, const ImageDescriptor& suggested) const {
    const HeldGil held;
    const py::object result = object().attr(kDescriptor)(listed(sources), listed(states),
                                                         from_kernel(&kernel), suggested);
    return convert<ImageDescriptor>(
        result, {"MPSNNPadding.destination_image_descriptor", "result", "MPSImageDescriptor"});
  }

  template <class Batch>
  static py::list listed(const Batch& batch) {
    py::list list;
    for (const auto& one : batch) list.append(py::cast(one));
    return list;
  }

  std::shared_ptr<const void> kept_;
  int method_;
};

class UserAllocator final : public ImageAllocator {
 public:
  explicit UserAllocator(const py::object& object) : kept_(share(object)) {}

  ImagePtr image(CommandBuffer& buffer, const ImageDescriptor& descriptor,
                 const mps::Kernel* kernel) override {
    const HeldGil held;
    const py::object result =
        object().attr("image")(buffer.shared_from_this(), descriptor, from_kernel(kernel));
    return convert<ImagePtr>(result, {"MPSImageAllocator.image", "result", "MPSImage"});
  }
  ImageBatch image_batch(CommandBuffer& buffer, const ImageDescriptor& descriptor,
                         const mps::Kernel* kernel, std::int64_t count) override {
    const HeldGil held;
    const py::object result = object().attr("image_batch")(buffer.shared_from_this(), descriptor,
                                                           from_kernel(kernel), count);
    return convert<ImageBatch>(result,
                               {"MPSImageAllocator.image_batch", "result", "Sequence[MPSImage]"});
  }
  py::object object() const { return shared_object(kept_); }
  void visit_owned(OwnershipVisitor& visitor) const override { visitor(kept_); }

 private:
  std::shared_ptr<const void> kept_;
};

}  // namespace

mps::PaddingPolicy padding_policy(const py::object& value) {
  const bool is_object = py::hasattr(value, "padding_method");
  const py::object given = is_object ? py::object(value.attr("padding_method")()) : value;
  const auto method = static_cast<int>(enum_value("MPSNNPaddingMethod", given));
  if ((method & mps::PaddingMethod::kCustom) == 0) return method;
  if (!is_object || !py::hasattr(value, kDescriptor)) return method;  // refused when it is asked
  return mps::PaddingPolicy(std::make_shared<UserPadding>(value, method));
}

py::object from_padding_policy(const mps::PaddingPolicy& policy) {
  if (const auto* const own = dynamic_cast<const UserPadding*>(policy.own().get())) {
    return own->object();
  }
  return enum_member("MPSNNPaddingMethod", policy.method());
}

mps::ImageAllocatorPtr to_allocator(const py::object& value, const Where& where) {
  if (py::isinstance<ImageAllocator>(value)) return py::cast<ImageAllocatorPtr>(value);
  for (const char* const method : {"image", "image_batch"}) {
    if (py::hasattr(value, method)) continue;
    refuse({where.subject, where.name, "an object with image() and image_batch()"}, value);
  }
  return std::make_shared<UserAllocator>(value);
}

py::object from_allocator(const ImageAllocatorPtr& allocator) {
  if (const auto* const own = dynamic_cast<const UserAllocator*>(allocator.get())) {
    return own->object();
  }
  return py::cast(allocator);
}

py::object from_kernel(const mps::Kernel* kernel) {
  if (kernel == nullptr) return py::none();
  const auto shared = std::const_pointer_cast<mps::Kernel>(kernel->shared_from_this());
  return cast_made(kernel->kind(), shared);
}

}  // namespace traingraph::python
