#include "backends/metal/images/image_kernel.h"

namespace traingraph::metal {

ImageKernel::ImageKernel(const ir::Graph& graph, Device& device, ImageOperands operands,
                         Encode encode, std::unique_ptr<Kernel> over_memory)
    : operands_(std::move(operands)),
      encode_(std::move(encode)),
      over_memory_(std::move(over_memory)),
      alone_(step_alone(operands_)),
      alone_slots_(operands_.sources.size() + operands_.results.size(), nil) {
  operands_.always = over_memory_ == nullptr;
  for (const auto& source : operands_.sources) {
    sources_.emplace_back(device, graph.type(source.value).shape);
  }
  for (ir::ValueId result : operands_.results) {
    results_.emplace_back(device, graph.type(result).shape);
  }
}

void ImageKernel::encode(Pointers pointers, Encoding& encoding) {
  Encoding::State& run = encoding.state();
  if (run.step == nullptr && over_memory_) return over_memory_->encode(pointers, encoding);
  const ImageStep& step = run.step == nullptr ? alone_ : *run.step;
  std::vector<MPSImageBatch*>& slots = run.step == nullptr ? alone_slots_ : run.slots;
  for (std::size_t k = 0; k < sources_.size(); ++k) {
    const auto [slot, reads] = step.sources[k];
    if (reads == 0) continue;
    slots[slot] = sources_[k].read(encoding, pointers[operands_.sources[k].value], reads);
  }
  for (std::size_t k = 0; k < results_.size(); ++k) {
    slots[step.results[k].slot] = results_[k].make(encoding, step.results[k].reads);
  }
  encode_(Images(step, slots), pointers, encoding);
  for (std::size_t k = 0; k < results_.size(); ++k) {
    if (!step.results[k].to_memory) continue;
    results_[k].write(encoding, slots[step.results[k].slot], pointers[operands_.results[k]]);
  }
}

}  // namespace traingraph::metal
