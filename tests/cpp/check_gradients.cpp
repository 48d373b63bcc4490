// Networks whose gradient is wrong, for the check that has to find that.
#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include <traingraph/traingraph.h>

#include "graph/gradients/slopes.h"
#include "layers/emitter.h"
#include "testing.h"

namespace traingraph::testing {
namespace {

// A number that is x and lets no gradient through.
int held(ir::ScalarList& list, int x) {
  return list.add(ir::Scalar::minimum_gradient, x, list.add(ir::Scalar::constant, -1, -1, -1));
}

// y = x w, by elements of the last axis. The gradient of one element of w is `factor` times what it
// should be: w + c (w - w'), where w' is held. With a limit w is cut there first, and stays so; the
// gradient is that of what it has become.
class WrongScale final : public Layer {
 public:
  WrongScale(std::vector<float> weights, std::int64_t wrong, double factor, double limit)
      : Layer("WrongScale"),
        wrong_(wrong),
        factor_(factor),
        limit_(limit),
        weights_{Tensor::create(
            TensorDescriptor({static_cast<std::int64_t>(weights.size())}),
            TensorData::copy_of(weights.data(), weights.size() * sizeof(float), DataType::kFloat32,
                                {static_cast<std::int64_t>(weights.size())}))} {}

  std::vector<TensorParameter*> parameters() override { return {&weights_}; }
  std::vector<std::pair<std::string, TensorPtr>> named_parameters() const override {
    return {{"weights", weights_.tensor}};
  }

  void emit(Emitter& e) const override {
    const Shape shape = weights_.tensor->descriptor().shape;
    ir::ValueId w = e.parameter(weights_.tensor, shape);
    if (limit_ > 0) w = limited(e, w);
    std::vector<double> excess(static_cast<std::size_t>(shape[0]), 0);
    excess[static_cast<std::size_t>(wrong_)] = factor_ - 1;
    const ir::ValueId c = ops::constant(e.graph, e.graph.type(w), excess);
    ir::ScalarList list;
    list.inputs = 2;
    const int none = list.add(ir::Scalar::subtract, 0, held(list, 0));
    list.results = {list.add(ir::Scalar::add, 0, list.add(ir::Scalar::multiply, 1, none))};
    const ir::ValueId wrong = ops::elementwise(e.graph, std::move(list), {w, c})[0];
    e.result(ops::binary(e.graph, ir::Scalar::multiply, e.sources[0], wrong));
  }

 private:
  ir::ValueId limited(Emitter& e, ir::ValueId w) const {
    ir::ScalarList list;
    list.inputs = 1;
    const int cut = held(list, list.add(ir::Scalar::clip, 0, -1, -limit_, limit_));
    const int change = list.add(ir::Scalar::subtract, cut, held(list, 0));
    list.results = {list.add(ir::Scalar::add, 0, change)};
    const ir::ValueId result = ops::elementwise(e.graph, std::move(list), {w})[0];
    e.write(weights_.tensor, result);
    return result;
  }

  std::int64_t wrong_;
  double factor_;
  double limit_;
  TensorParameter weights_;
};

// A WrongScale, ReLU and the squares of that, over 4 samples. Weights of 0 are
// at ReLU's kink, for the samples are positive.
GradientCheck check_wrong_scale(const std::string& device, Precision precision,
                                std::vector<float> weights, std::int64_t wrong, double factor,
                                double limit) {
  const auto width = static_cast<std::int64_t>(weights.size());
  const TensorPtr x = Tensor::create(TensorDescriptor({4, width}));
  const TensorPtr label = Tensor::create(TensorDescriptor({4, width}));
  const auto graph = std::make_shared<Graph>();
  const auto scale = std::make_shared<WrongScale>(std::move(weights), wrong, factor, limit);
  scale->set_label("scale");
  const TensorPtr scaled = graph->node(scale, x);
  graph->node(std::make_shared<Activation>(ActivationDescriptor(ActivationType::kReLU)), scaled);
  LossDescriptor loss;
  loss.type = LossType::kMeanSquaredError;
  TrainingGraph training({graph}, std::make_shared<Loss>(loss));
  training.add_inputs({{"x", x}}, {{"label", label}});
  training.compile(CompilationOptions::kNone, Device::named(device), {}, {}, precision);
  std::vector<float> samples(static_cast<std::size_t>(4 * width));
  std::vector<float> labels(samples.size(), -1.0f);
  for (std::size_t k = 0; k < samples.size(); ++k) {
    samples[k] = 0.5f + static_cast<float>(k % 7) / 8;
  }
  return check_gradients(training, {{"x", TensorData::of(samples.data(), {4, width})}},
                         {{"label", TensorData::of(labels.data(), {4, width})}});
}

// (ok, [(layer, parameter, worst element, error, bound, compared, excluded, ok)])
py::tuple wrong_scale(const std::string& device, const std::string& precision,
                      const std::vector<float>& weights, std::int64_t wrong, double factor,
                      double limit) {
  Precision chosen = Precision::kFloat32;
  for (const Precision one :
       {Precision::kTf32, Precision::kMixedBFloat16, Precision::kMixedFloat16}) {
    if (precision == name(one)) chosen = one;
  }
  const GradientCheck check = check_wrong_scale(device, chosen, weights, wrong, factor, limit);
  py::list rows;
  for (const GradientRow& row : check.rows) {
    rows.append(py::make_tuple(row.layer, row.parameter, row.worst_element, row.error, row.bound,
                               row.compared, row.excluded, row.ok));
  }
  return py::make_tuple(check.ok, rows);
}

// (value, doubt) of the slope of a function of the step at 0.
std::pair<double, double> slope(const std::function<double(double)>& function, double noise) {
  const double middle = function(0);
  const auto quotients = [&](double step) {
    const double right = (function(step) - middle) / step;
    const double left = (middle - function(-step)) / step;
    return Quotients{(right + left) / 2, right - left};
  };
  const Slope found = best_slope(quotients, noise);
  return {found.value, found.doubt};
}

}  // namespace

void bind_check_gradients(py::module_& module) {
  module.def("wrong_scale", wrong_scale, py::arg("device"), py::arg("precision"),
             py::arg("weights"), py::arg("wrong"), py::arg("factor"), py::arg("limit") = 0.0,
             "check_gradients of a network with one element's gradient wrong by a factor.");
  module.def("best_slope", slope, py::arg("function"), py::arg("noise"));
}

}  // namespace traingraph::testing
