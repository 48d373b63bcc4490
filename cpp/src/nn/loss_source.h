// What a loss by name reads: logits, and classes on axis 1.
#pragma once

#include <string>

#include <traingraph/graph.h>
#include <traingraph/loss.h>

namespace traingraph::nn {

// Raises InvalidArgument of this subject where the loss would take the softmax or the sigmoid of
// what is one already.
void expect_logits(const Graph& graph, const TensorPtr& prediction, LossType type,
                   const std::string& subject);
// The same of sequences (N, T, C) whose classes are on the last axis, where nothing but the numbers
// would tell. `are_classes`: the labels are, not distributions over them.
void expect_classes_first(const Graph& graph, const TensorPtr& prediction, LossType type,
                          bool are_classes, const std::string& subject);

// The same of a softmax over one class, which is 1 whatever the network predicts.
void expect_several_classes(const TensorPtr& prediction, LossType type, const std::string& subject);

}  // namespace traingraph::nn
