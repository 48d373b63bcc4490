// NNFilterNode::training_graph() walks from a node back to the sources, makes gradient nodes, and
// adds the gradients of an image that several nodes read.
#include <algorithm>
#include <map>
#include <set>

#include <traingraph/errors.h>
#include <traingraph/mps/arithmetic_nodes.h>
#include <traingraph/mps/loss_nodes.h>

namespace traingraph::mps {
namespace {

// The nodes above one, each after all that read it.
void collect(NNFilterNode* node, std::set<NNFilterNode*>& seen, std::vector<NNFilterNode*>& order) {
  if (!seen.insert(node).second) return;
  for (const NNImageNodePtr& source : node->sources()) {
    if (source->producer() != nullptr) collect(source->producer(), seen, order);
  }
  order.push_back(node);
}

// The walk from the receiver back to the sources.
class TrainingGraph {
 public:
  explicit TrainingGraph(const NNGradientHandler& handler) : handler_(handler) {}

  void add(const NNImageNodePtr& image, const NNImageNodePtr& gradient) {
    gradients_[image.get()].push_back(gradient);
    if (gradients_[image.get()].size() == 1) images_.push_back(image);
  }

  // The gradient of an image, summed when several nodes read it; null when none has arrived.
  NNImageNodePtr sum(const NNImageNodePtr& image) {
    const auto found = gradients_.find(image.get());
    if (found == gradients_.end()) return nullptr;
    std::vector<NNImageNodePtr>& parts = found->second;
    while (parts.size() > 1) {
      const auto addition = std::make_shared<NNAdditionNode>(parts[0], parts[1]);
      const NNImageNodePtr second = parts[1];
      parts.erase(parts.begin(), parts.begin() + 2);
      parts.insert(parts.begin(), addition->result_image());
      announce(addition, nullptr, image, second);
    }
    return parts[0];
  }

  void differentiate(const NNFilterNodePtr& node) {
    const NNImageNodePtr result = node->result_image();
    // The receiver's own result begins the walk, wherever it is marked to end.
    const NNImageNodePtr gradient = sum(result);
    if (gradient == nullptr || (result->stop_gradient && gradient != result)) return;
    const std::vector<NNFilterNodePtr> made = node->gradient_filters(gradient);
    for (std::size_t k = 0; k < made.size(); ++k) {
      // Labels that the program brings need no gradient.
      const auto* of_loss = dynamic_cast<const NNLossGradientNode*>(made[k].get());
      const bool by_labels = of_loss != nullptr && of_loss->is_labels_gradient_filter();
      if (by_labels && node->sources()[k]->producer() == nullptr) continue;
      announce(made[k], node, node->sources()[k], gradient);
      if (made[k]->result_image()->stop_gradient) continue;  // the handler said so
      add(node->sources()[k], made[k]->result_image());
    }
  }

  // Of images without a producer, or where the walk ended.
  void sum_the_rest() {
    const std::vector<NNImageNodePtr> images = images_;
    for (const NNImageNodePtr& image : images) sum(image);
  }

  std::vector<NNFilterNodePtr> terminals() const {
    std::set<const NNImageNode*> read;
    for (const NNFilterNodePtr& node : made_) {
      for (const NNImageNodePtr& source : node->sources()) read.insert(source.get());
    }
    std::vector<NNFilterNodePtr> result;
    for (const NNFilterNodePtr& node : made_) {
      if (read.count(node->result_image().get()) == 0) result.push_back(node);
    }
    return result;
  }

 private:
  void announce(const NNFilterNodePtr& made, const NNFilterNodePtr& inference,
                const NNImageNodePtr& source, const NNImageNodePtr& gradient) {
    made_.push_back(made);
    if (handler_ != nullptr) {
      handler_(made, inference, source, gradient);
    } else {
      made->result_image()->handle = source->handle;
    }
  }

  const NNGradientHandler& handler_;
  std::map<const NNImageNode*, std::vector<NNImageNodePtr>> gradients_;
  std::vector<NNImageNodePtr> images_;  // those with gradients
  std::vector<NNFilterNodePtr> made_;
};

}  // namespace

std::vector<NNFilterNodePtr> NNFilterNode::training_graph(const NNImageNodePtr& source_gradient,
                                                          const NNGradientHandler& handler) {
  std::set<NNFilterNode*> seen;
  std::vector<NNFilterNode*> order;
  collect(this, seen, order);
  TrainingGraph graph(handler);
  const NNImageNodePtr begin = source_gradient == nullptr ? result_image() : source_gradient;
  if (begins_gradients()) {
    graph.add(sources()[0], begin);
    order.pop_back();
  } else {
    graph.add(result_image(), begin);
  }
  std::reverse(order.begin(), order.end());
  for (NNFilterNode* node : order) graph.differentiate(node->shared_from_this());
  graph.sum_the_rest();
  std::vector<NNFilterNodePtr> result = graph.terminals();
  if (result.empty()) refuse("expected nodes with gradients before this one but got none");
  return result;
}

}  // namespace traingraph::mps
