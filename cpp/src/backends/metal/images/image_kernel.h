// Kernels over images of Metal Performance Shaders. For .mm files only.
#pragma once

#include <functional>
#include <vector>

#include "backends/metal/images/images.h"

namespace traingraph::metal {

// The images of one encoding, in the order of the kernel's ImageOperands.
class Images {
 public:
  Images(const ImageStep& step, const std::vector<MPSImageBatch*>& slots)
      : step_(step), slots_(slots) {}
  MPSImageBatch* source(std::size_t k) const { return slots_[step_.sources[k].slot]; }
  MPSImageBatch* result(std::size_t k) const { return slots_[step_.results[k].slot]; }

 private:
  const ImageStep& step_;
  const std::vector<MPSImageBatch*>& slots_;
};

// A kernel says which operands are images, and how it encodes over them. What that is given has
// been copied from memory, or was left by another kernel of the run; what it makes goes to memory
// where somebody reads the bytes. A source must be read exactly as often as the ImageOperands say.
class ImageKernel final : public Kernel {
 public:
  using Encode = std::function<void(const Images& images, Pointers pointers, Encoding& encoding)>;

  // With a kernel over memory, operands are images only where the run's plan says so.
  ImageKernel(const ir::Graph& graph, Device& device, ImageOperands operands, Encode encode,
              std::unique_ptr<Kernel> over_memory = nullptr);

  const ImageOperands* images() const override { return &operands_; }
  void encode(Pointers pointers, Encoding& encoding) override;

 private:
  ImageOperands operands_;
  Encode encode_;
  std::unique_ptr<Kernel> over_memory_;  // null: always over images
  std::vector<ImagesAt> sources_, results_;
  // Outside of a plan: when it runs by itself, or over widened operands.
  ImageStep alone_;
  std::vector<MPSImageBatch*> alone_slots_;
};

}  // namespace traingraph::metal
