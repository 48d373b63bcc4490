// Kernels that move elements without arithmetic: NNReshape, NNPad, NNSlice and NNConcatenation,
// with the gradients of reshape and pad.
#pragma once

#include <cstdint>
#include <vector>

#include <traingraph/mps/kernel.h>

namespace traingraph::mps {

// The same elements, in the order channels, rows, columns, as an image of another size.
class TRAINGRAPH_API NNReshape final : public CNNKernel {
 public:
  explicit NNReshape(const Device& device) : CNNKernel(device) {}
  const char* kind() const override { return "MPSNNReshape"; }
  // The size of the images that are returned.
  void set_reshaped(std::int64_t width, std::int64_t height, std::int64_t feature_channels);
  // (width, height, feature channels); 0: as the source.
  Offset reshaped_size() const { return {width_, height_, channels_}; }

 protected:
  OperationPtr make_operation() const override;
  ImageDescriptor result_of(const ImageDescriptor& source) const override;
  void check_destinations(const ImageBatch&, const ImageBatch&) const override;

 private:
  std::int64_t width_ = 0, height_ = 0, channels_ = 0;  // 0: as the source
};

class TRAINGRAPH_API NNReshapeGradient final : public CNNGradientKernel {
 public:
  explicit NNReshapeGradient(const Device& device) : CNNGradientKernel(device) {}
  const char* kind() const override { return "MPSNNReshapeGradient"; }

 protected:
  OperationPtr make_operation() const override;
  void check_gradient(const ImageDescriptor&, const ImageDescriptor&) const override;
  bool takes_parts() const override { return false; }
};

// Pixels and channels around the image, by edge mode: zeros, the fill values (kConstant), the edge
// (kClamp), or the image mirrored, with its edge twice (kMirrorWithEdge) or once (kMirror). The
// sizes are by axis x, y and channel; the offset is the size before, negated.
class TRAINGRAPH_API NNPad final : public CNNKernel {
 public:
  explicit NNPad(const Device& device, const Offset& before = {}, const Offset& after = {},
                 std::vector<float> fill_values = {});
  const char* kind() const override { return "MPSNNPad"; }
  Offset padding_size_before() const;
  void set_padding_size_before(const Offset& value);
  // Of 0 or less: what the padding size before is, negated.
  void set_offset(const Offset& value) override;
  const Offset& padding_size_after() const { return after_; }
  void set_padding_size_after(const Offset& value);
  float fill_value() const { return fill_value_; }
  void set_fill_value(float value) { set(fill_value_, value); }
  // One per result channel, in place of fill_value; empty: none.
  const std::vector<float>& fill_values() const { return fill_values_; }

 protected:
  OperationPtr make_operation() const override;
  ImageDescriptor result_of(const ImageDescriptor& source) const override;
  void check_source(const ImageDescriptor& source) const override;
  bool has_place() const override { return false; }

 private:
  Offset after_;
  float fill_value_ = 0;
  std::vector<float> fill_values_;
};

// The part of the gradient that belongs to the image; what lies in a clamped or mirrored margin is
// added to the pixel that it was copied from. The primary offset is the size before.
class TRAINGRAPH_API NNPadGradient final : public CNNGradientKernel {
 public:
  explicit NNPadGradient(const Device& device) : CNNGradientKernel(device) {}
  const char* kind() const override { return "MPSNNPadGradient"; }

 protected:
  OperationPtr make_operation() const override;
  void configure(const GradientState& state) override;
  void check_gradient(const ImageDescriptor&, const ImageDescriptor&) const override;
  bool has_gradient_offset() const override { return true; }  // its z are channels
  bool has_kernel_offset() const override { return false; }
  bool takes_some_images() const override { return false; }
};

// Some of the source's channels: `count` from `first` on, or all that are there.
class TRAINGRAPH_API NNSlice final : public CNNKernel {
 public:
  explicit NNSlice(const Device& device) : CNNKernel(device) {}
  const char* kind() const override { return "MPSNNSlice"; }
  std::int64_t source_feature_channel_offset() const { return first_; }
  void set_source_feature_channel_offset(std::int64_t value);
  std::int64_t source_feature_channel_max_count() const { return count_; }
  void set_source_feature_channel_max_count(std::int64_t value);

 protected:
  OperationPtr make_operation() const override;
  std::int64_t result_channels(const ImageDescriptor& source) const override;
  void check_source(const ImageDescriptor& source) const override;

 private:
  std::int64_t first_ = 0;
  std::int64_t count_ = INT64_MAX;
};

// The sources' channels one after another; unless they are packed, each source has zeros behind its
// channels up to a multiple of four. Not a class of Apple's, whose graphs alone join images;
// its gradient is one slice per source.
class TRAINGRAPH_API NNConcatenation final : public Kernel, public AllocatesImages {
 public:
  explicit NNConcatenation(const Device& device) : Kernel(device) {}
  const char* kind() const override { return "MPSNNConcatenation"; }
  bool packs_channels() const { return packs_; }
  void set_packs_channels(bool value) { set(packs_, value); }
  // How many channels of the result a source with so many takes.
  std::int64_t channels_for(std::int64_t source) const;
  void visit_owned(OwnershipVisitor& visitor) const override { visitor(image_allocator()); }
  ImageDescriptor destination_image_descriptor(const std::vector<ImageBatch>& sources) const;
  ImageBatch encode_batch(CommandBuffer& buffer, const std::vector<ImageBatch>& sources);
  void encode_batch(CommandBuffer& buffer, const std::vector<ImageBatch>& sources,
                    const ImageBatch& destinations);

 protected:
  OperationPtr make_operation() const override;

 private:
  bool packs_ = true;
};

}  // namespace traingraph::mps
