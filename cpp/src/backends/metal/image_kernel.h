#pragma once

#include <vector>

#include "backends/metal/images.h"

// The base of kernels over images of Metal Performance Shaders. For .mm files only.
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

// A kernel says which operands are images, and encodes over them. What it is given has been copied
// from memory, or was left by another kernel of the run; what it makes goes to memory where
// somebody reads the bytes. A source must be read exactly as often as its ImageOperands says.
class ImageKernel : public Kernel {
 public:
  const ImageOperands* images() const final { return &operands_; }
  void encode(Pointers pointers, Encoding& encoding) override;

 protected:
  ImageKernel(const ir::Graph& graph, Device& device, ImageOperands operands);
  virtual void encode_images(const Images& images, Pointers pointers, Encoding& encoding) = 0;

 private:
  ImageOperands operands_;
  std::vector<ImagesAt> sources_, results_;
  // Outside of a plan: when it runs by itself, or over widened operands.
  ImageStep alone_;
  std::vector<MPSImageBatch*> alone_slots_;
};

// All operands are images where the run's plan says so; else another kernel works over memory.
class MemoryOrImages : public ImageKernel {
 public:
  void encode(Pointers pointers, Encoding& encoding) final;

 protected:
  MemoryOrImages(const ir::Graph& graph, const ir::Node& node, Device& device,
                 std::unique_ptr<Kernel> over_memory);

 private:
  std::unique_ptr<Kernel> over_memory_;
};

}  // namespace traingraph::metal
