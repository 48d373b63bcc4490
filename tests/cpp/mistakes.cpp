// Mistakes of C++ programs, named by the same call in Python: the texts are compared there.
#include <pybind11/stl.h>

#include <algorithm>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include <traingraph/traingraph.h>

#include "testing.h"

namespace traingraph::testing {
namespace {

constexpr std::int64_t kRows = 32;

NamedData rows_of(const char* name, std::int64_t rows, const Shape& behind) {
  Shape shape{rows};
  shape.insert(shape.end(), behind.begin(), behind.end());
  static const std::vector<float> numbers(kRows * 8);
  return {{name, TensorData::of(numbers.data(), shape)}};
}
NamedData x() { return rows_of("x", kRows, {8}); }
NamedData classes(std::int64_t rows, std::int32_t label) {
  static std::vector<std::int32_t> values(kRows);
  std::ranges::fill(values, label);
  TensorData data = TensorData::raw(values.data(), static_cast<std::size_t>(rows) * sizeof(label));
  data.data_type = DataType::kInt32;
  data.shape = {rows};
  return {{"y", data}};
}

std::shared_ptr<TrainingGraph> model() {
  return nn::model({nn::dense(4), "relu", nn::dense(3)}, {.input = {8}});
}
void fit_with(FitArguments fit) {
  fit.inputs = x();
  fit.loss_labels = classes(kRows, 0);
  model()->fit(fit);
}
TensorPtr tensor() { return Tensor::create(TensorDescriptor({4, 8})); }

const std::map<std::string, void (*)()>& mistakes() {
  static const std::map<std::string, void (*)()> table = {
      {"model.fit(x, y[:16])",
       [] { model()->fit({.inputs = x(), .loss_labels = classes(16, 0)}); }},
      {"nn.Input(0)", [] { nn::input({0}); }},
      {"nn.Input(-1)", [] { nn::input({-1}); }},
      {"nn.Input(())", [] { nn::input({}); }},
      {"nn.Input((1, 2, 3, 4))", [] { nn::input({1, 2, 3, 4}); }},
      {"nn.model([nn.dense(1)], input=8, loss='hinge').fit(x, np.full((32, 1), 2))",
       [] {
         static const std::vector<float> twos(kRows, 2);
         nn::model({nn::dense(1)}, {.input = {8}, .loss = "hinge"})
             ->fit(
                 {.inputs = x(), .loss_labels = {{"y", TensorData::of(twos.data(), {kRows, 1})}}});
       }},
      {"model.fit(x, y, epochs=0)",
       [] { model()->fit({.inputs = x(), .loss_labels = classes(kRows, 0), .epochs = 0}); }},
      {"model.fit(x, y, metrics=['auc'])",
       [] { model()->fit({.inputs = x(), .loss_labels = classes(kRows, 0), .metrics = {"auc"}}); }},
      {"model.fit(x, y, callbacks=[tg.EarlyStopping(patience=2, monitor='acc')])",
       [] {
         model()->fit({.inputs = x(),
                       .loss_labels = classes(kRows, 0),
                       .callbacks = {std::make_shared<EarlyStopping>(2, 0, "acc")}});
       }},
      {"model.fit(x, y, callbacks=[tg.CSVLog(path='log.csv')] * 2)",
       [] {
         const auto log = std::make_shared<CSVLog>("log.csv");
         fit_with({.callbacks = {log, log}});
       }},
      {"model.fit(x, y, callbacks=[tg.CSVLog(path='log.csv'), tg.Checkpoint(path='log.csv')])",
       [] {
         fit_with({.callbacks = {std::make_shared<CSVLog>("log.csv"),
                                 std::make_shared<Checkpoint>("log.csv")}});
       }},
      {"model.fit(x, y, callbacks=[tg.Checkpoint(path='no_such/run.safetensors')])",
       [] { fit_with({.callbacks = {std::make_shared<Checkpoint>("no_such/run.safetensors")}}); }},
      {"model.fit(x, y, callbacks=[tg.CSVLog(path='no_such/log.csv')])",
       [] { fit_with({.callbacks = {std::make_shared<CSVLog>("no_such/log.csv")}}); }},
      {"model.fit(x, y, validation=({}, y))",
       [] { fit_with({.validation = SampleData{.loss_labels = classes(kRows, 0)}}); }},
      {"model.fit(x, y, validation=(x, y), metrics=['auc', 'auc'])",
       [] {
         fit_with({.validation = SampleData{.inputs = x(), .loss_labels = classes(kRows, 0)},
                   .metrics = {"auc", "auc"}});
       }},
      {"model.evaluate({}, y)", [] { model()->evaluate({.loss_labels = classes(kRows, 0)}); }},
      {"tg.EarlyStopping(patience=2, monitor='')", [] { EarlyStopping(2, 0, ""); }},
      {"tg.Checkpoint(path='run.safetensors', metadata={'format': 'mine'})",
       [] { Checkpoint("run.safetensors", 0, {{"format", "mine"}}); }},
      {"model.fit(x, np.full(32, 3), shuffle=False)",
       [] { model()->fit({.inputs = x(), .loss_labels = classes(kRows, 3), .shuffle = false}); }},
      {"model.evaluate(x)", [] { model()->evaluate({.inputs = x()}); }},
      {"model.predict(x[:, :7])", [] { (void)model()->predict(rows_of("x", kRows, {7})); }},
      {"model.load('nothing.safetensors')", [] { model()->load("nothing.safetensors"); }},
      {"model.execute(inputs_data={'x': x})", [] { model()->execute({.inputs = x()}); }},
      {"model.execute_gradient()", [] { model()->execute_gradient({}); }},
      {"model.execute_optimizer_update()", [] { model()->execute_optimizer_update({}); }},
      {"nn.model([nn.dense(4)], input=8, loss='bce')",
       [] { nn::model({nn::dense(4)}, {.input = {8}, .loss = "bce"}); }},
      {"nn.model([nn.dense(4)], input=8, optimizer='adamax')",
       [] { nn::model({nn::dense(4)}, {.input = {8}, .optimizer = "adamax"}); }},
      {"nn.model([nn.dense(4)], input=8, labels='ints')",
       [] { nn::model({nn::dense(4)}, {.input = {8}, .labels = "ints"}); }},
      {"nn.model([nn.dense(4)], input=8, loss='cross_entropy')",
       [] { nn::model({nn::dense(4)}, {.input = {8}, .loss = "cross_entropy"}); }},
      {"nn.model([nn.dense(4)], input=8, optimizer='adamm')",
       [] { nn::model({nn::dense(4)}, {.input = {8}, .optimizer = "adamm"}); }},
      {"nn.model([nn.dense(4)], input=8, labels='onehot')",
       [] { nn::model({nn::dense(4)}, {.input = {8}, .labels = "onehot"}); }},
      {"nn.model(inputs=(a := nn.Input(8)), outputs=nn.mean(a, axis=-3), loss='mse')",
       [] {
         const nn::Value a = nn::input({8});
         nn::model({.inputs = {a}, .outputs = {nn::mean(a, {-3})}, .loss = "mse"});
       }},
      {"nn.model([nn.dense(3), 'softmax'], input=8)",
       [] { nn::model({nn::dense(3), "softmax"}, {.input = {8}}); }},
      {"nn.model([nn.dense(4)], input=(4, 8))",
       [] { nn::model({nn::dense(4)}, {.input = {4, 8}}); }},
      {"nn.model([nn.residual([nn.dense(4)], shortcut=[nn.dense(5)])], input=8)",
       [] { nn::model({nn::residual({nn::dense(4)}, {nn::dense(5)})}, {.input = {8}}); }},
      {"nn.lstm(4)(nn.Input((5, 2)), nn.Input(1))",
       [] { nn::lstm(4)(nn::input({5, 2}), nn::input({1})); }},
      {"nn.concatenate([])", [] { nn::concatenate({}); }},
      {"nn.dense(4, weights_init='kaiming_normal')",
       [] { nn::dense(4, {.weights_init = "kaiming_normal"}); }},
      {"training.compile(device='cudaa')", [] { Device::named("cudaa"); }},
      {"nn.model([nn.dense(4), 'Relu'], input=8)",
       [] { nn::model({nn::dense(4), "Relu"}, {.input = {8}}); }},
      {"nn.model([], input=8)", [] { nn::model({}, {.input = {8}}); }},
      {"nn.model([nn.conv2d(4, 3)], input=8)",
       [] { nn::model({nn::conv2d(4, 3)}, {.input = {8}}); }},
      {"nn.model([nn.conv2d(4, 3), nn.dense(3)], input=(3, 8, 8))",
       [] { nn::model({nn::conv2d(4, 3), nn::dense(3)}, {.input = {3, 8, 8}}); }},
      {"nn.model([nn.lstm(4)], input=8)", [] { nn::model({nn::lstm(4)}, {.input = {8}}); }},
      {"nn.model([nn.attention(3)], input=(8, 4))",
       [] { nn::model({nn::attention(3)}, {.input = {8, 4}}); }},
      {"nn.dense(4)(nn.Input(8), nn.Input(1))",
       [] { nn::dense(4)(nn::input({8}), nn::input({1})); }},
      {"nn.attention(2)(graph, tg.MLCTensor(shape=[2, 5, 4]), lengths=tensor)",
       [] {
         const TensorPtr sequences = Tensor::create(TensorDescriptor({2, 5, 4}));
         nn::attention(2)(std::make_shared<Graph>(), sequences, tensor());
       }},
      {"tg.MLCMultiheadAttentionDescriptor(model_dimension=4, key_dimension=4, value_dimension=4, "
       "head_count=2, adds_zero_attention=True, causal=True)",
       [] {
         MultiheadAttentionDescriptor d(4, 2);
         d.adds_zero_attention = d.causal = true;
         d.check();
       }},
      {"nn.model([nn.group_norm(2)], input=(3, 2, 2))",
       [] { nn::model({nn::group_norm(2)}, {.input = {3, 2, 2}}); }},
      {"nn.model([nn.dense(4)], input=(2, 2, 2, 2))",
       [] { nn::model({nn::dense(4)}, {.input = {2, 2, 2, 2}}); }},
      {"nn.model(inputs=(a := nn.Input((1, 1))), outputs=a, loss=nn.dense(1)(a) - nn.Input(1))",
       [] {
         const nn::Value a = nn::input({1, 1});
         const nn::Value difference = nn::dense(1)(a) - nn::input({1});
         nn::model({.inputs = {a}, .outputs = {a}, .loss = difference});
       }},
      {"nn.model(inputs=(a := nn.Input(4)), outputs=a, loss=nn.matmul(a, nn.Input(4)))",
       [] {
         const nn::Value a = nn::input({4});
         nn::model({.inputs = {a}, .outputs = {a}, .loss = nn::matmul(a, nn::input({4}))});
       }},
      {"nn.model(inputs=(a := nn.Input(4)), outputs=(p := nn.dense(2)(a)), "
       "loss=nn.square(nn.stop_gradient(p)))",
       [] {
         const nn::Value a = nn::input({4}), p = nn::dense(2)(a);
         nn::model({.inputs = {a}, .outputs = {p}, .loss = nn::square(nn::stop_gradient(p))});
       }},
      {"nn.model(['tanh'], input=8, loss='mse').fit(x, x)",
       [] {
         nn::model({"tanh"}, {.input = {8}, .loss = "mse"})
             ->fit({.inputs = x(), .loss_labels = rows_of("y", kRows, {8})});
       }},
      {"nn.dense(4, weights_init=float('nan'))",
       [] { nn::dense(4, {.weights_init = std::numeric_limits<double>::quiet_NaN()}); }},
      {"nn.Input(8) + float('nan')",
       [] { nn::input({8}) + std::numeric_limits<double>::quiet_NaN(); }},
      {"nn.clip(nn.Input(8), 1, -1)", [] { nn::clip(nn::input({8}), 1.0, -1.0); }},
      {"nn.model(inputs=[(a := nn.Input(8)), a], outputs=nn.dense(3)(a))",
       [] {
         const nn::Value a = nn::input({8});
         nn::model({.inputs = {a, a}, .outputs = {nn::dense(3)(a)}});
       }},
      {"nn.model(inputs=[(a := nn.Input(8)), nn.Input(2, name='b')], outputs=nn.dense(3)(a))",
       [] {
         const nn::Value a = nn::input({8}), b = nn::input({2}, {.name = "b"});
         nn::model({.inputs = {a, b}, .outputs = {nn::dense(3)(a)}});
       }},
      {"nn.model(inputs=(a := nn.Input(8, name='y')), outputs=nn.dense(3)(a))",
       [] {
         const nn::Value a = nn::input({8}, {.name = "y"});
         nn::model({.inputs = {a}, .outputs = {nn::dense(3)(a)}});
       }},
      {"nn.model([nn.dense(3)], input=8, weights=True).fit(x, y)",
       [] {
         nn::model({nn::dense(3)}, {.input = {8}, .weights = true})
             ->fit({.inputs = x(), .loss_labels = classes(kRows, 0)});
       }},
      {"nn.model([nn.dense(3)], input=8, weights=True).evaluate(x, y)",
       [] {
         nn::model({nn::dense(3)}, {.input = {8}, .weights = true})
             ->evaluate({.inputs = x(), .loss_labels = classes(kRows, 0)});
       }},
      {"nn.dense(0)", [] { nn::dense(0); }},
      {"nn.conv2d(16, 3, stride=0)", [] { nn::conv2d(16, 3, {.stride = 0}); }},
      {"nn.dropout(50)", [] { nn::dropout(50); }},
      {"nn.sgd(0.1, momentum=2)", [] { nn::sgd(0.1f, 2); }},
      {"nn.adam(float('nan'))", [] { nn::adam(std::numeric_limits<float>::quiet_NaN()); }},
      {"tg.MLCTensor(shape=[4, 0])", [] { Tensor::create(TensorDescriptor({4, 0})); }},
      {"tg.MLCTensor(shape=[1, 2, 3, 4, 5])",
       [] { Tensor::create(TensorDescriptor({1, 2, 3, 4, 5})); }},
      {"tg.MLCReshapeLayer(shape=[-1, -1])", [] { Reshape(Shape{-1, -1}); }},
      {"tg.MLCSplitLayer(split_count=0, dimension=0)", [] { Split(0, 0); }},
      {"tg.set_num_threads(0)", [] { Platform::set_thread_count(0); }},
      {"training.compile(device='mps')", [] { Device::named("mps"); }},
      {"graph.node(tg.MLCMatMulLayer(descriptor=tg.MLCMatMulDescriptor()), sources=[tensor, "
       "tensor])",
       [] {
         const TensorPtr both = tensor();
         Graph().node(std::make_shared<MatMul>(MatMulDescriptor()), {both, both});
       }},
      {"graph.node(tg.MLCSoftmaxLayer(operation='softmax', dimension=7), source=tensor)",
       [] { Graph().node(std::make_shared<Softmax>(SoftmaxOperation::kSoftmax, 7), tensor()); }},
  };
  return table;
}

}  // namespace

void bind_mistakes(py::module_& module) {
  module.def("mistakes", [] {
    std::vector<std::string> names;
    for (const auto& [name, make] : mistakes()) names.push_back(name);
    return names;
  });
  // What fits tell of their end: one that a callback ends, and one that is to go on behind it.
  module.def("ends_of_fits", [] {
    std::vector<std::string> ends;
    FitProgress progress;
    const auto trained = model();
    FitArguments fit{.inputs = x(), .loss_labels = classes(kRows, 0), .epochs = 9};
    fit.callbacks = {std::make_shared<EarlyStopping>(1, 1e9)};
    fit.progress = &progress;
    for (const std::size_t expected : {2, 0}) {
      if (trained->fit(fit).size() != expected) throw std::runtime_error("other epochs");
      ends.push_back(progress.ended_by + " after " + std::to_string(progress.epoch));
      fit.resume = "";
    }
    return ends;
  });
  module.def("make_mistake", [](const std::string& name) { mistakes().at(name)(); });
}

}  // namespace traingraph::testing
