#include <traingraph/errors.h>
#include <traingraph/mps/filter_nodes.h>

#include "mps/emission.h"
#include "mps/graph_plan.h"

// The sum of two images, for additions in graphs.
namespace traingraph::mps {
namespace {

class AdditionOperation final : public Operation {
 public:
  using Operation::Operation;
  void emit(Emission& e) const override {
    e.set(0, ops::binary(e.graph, ir::Scalar::add, e.inputs[0],
                         ops::cast(e.graph, e.inputs[1], e.type(0).data_type)));
  }
};

class Addition final : public Kernel {
 public:
  explicit Addition(const Device& device) : Kernel(device) {}
  const char* kind() const override { return "MPSNNAdditionNode"; }

  void encode_batch(CommandBuffer& buffer, const ImageBatch& left, const ImageBatch& right,
                    const ImageBatch& destinations) {
    Recording& recording = this->recording(buffer);
    check_batch(left, "left images");
    check_batch(right, "right images");
    ImageDescriptor got = right[0]->descriptor();
    got.channel_format = left[0]->descriptor().channel_format;
    if (!(got == left[0]->descriptor()) || left.size() != right.size()) {
      refuse_shape("expected sources of one size, " + std::to_string(left.size()) + " of " +
                   to_string(left[0]->descriptor()) + ", but got " + std::to_string(right.size()) +
                   " of " + to_string(got));
    }
    recording.begin(operation());
    recording.input(left);
    recording.input(right);
    recording.result(destinations);
    recording.end();
    read(left);
    read(right);
  }

 protected:
  OperationPtr make_operation() const override {
    return std::make_shared<AdditionOperation>(description());
  }
};

class AdditionStep final : public GraphStep {
 public:
  AdditionStep(GraphPlan& plan, NNAdditionNode& node)
      : kernel_(plan.device),
        left_(plan.image(*node.sources()[0])),
        right_(plan.image(*node.sources()[1])),
        result_(plan.image(*node.result_image())) {
    kernel_.label = node.label;
  }
  void count_reads(GraphPlan& plan) override {
    ++plan.images[left_].reads;
    ++plan.images[right_].reads;
  }
  void encode(GraphEncoding& e) override {
    const ImageBatch& left = e.images[left_];
    kernel_.encode_batch(e.buffer, left, e.images[right_],
                         e.make(result_, left[0]->descriptor(), left));
  }

 private:
  Addition kernel_;
  std::size_t left_, right_, result_;
};

}  // namespace

std::unique_ptr<GraphStep> NNAdditionNode::make_step(GraphPlan& plan) {
  return std::make_unique<AdditionStep>(plan, *this);
}

}  // namespace traingraph::mps
