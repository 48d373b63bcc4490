// The fields of each descriptor, one list each for writing and reading.
#include "mps/coding/coded_fields.h"

namespace traingraph::mps {
namespace {

constexpr const char* kConvolution = "MPSCNNConvolutionDescriptor";
constexpr const char* kDepthWise = "MPSCNNDepthWiseConvolutionDescriptor";
constexpr const char* kSubPixel = "MPSCNNSubPixelConvolutionDescriptor";

template <class Visitor>
void visit(Visitor& field, NeuronDescriptor& d) {
  field("neuron_type", d.type);
  field("a", d.a);
  field("b", d.b);
  field("c", d.c);
  field("data", d.data);
}

template <class Visitor>
void visit(Visitor& field, CNNLossDescriptor& d) {
  field("loss_type", d.loss_type);
  field("reduction_type", d.reduction_type);
  field("reduce_across_batch", d.reduce_across_batch);
  field("weight", d.weight);
  field("label_smoothing", d.label_smoothing);
  field("number_of_classes", d.number_of_classes);
  field("epsilon", d.epsilon);
  field("delta", d.delta);
}

template <class Visitor>
void visit(Visitor& field, OptimizerDescriptor& d) {
  field("learning_rate", d.learning_rate);
  field("gradient_rescale", d.gradient_rescale);
  field("apply_gradient_clipping", d.applies_gradient_clipping);
  field("gradient_clipping_type", d.gradient_clipping_type);
  field("gradient_clip_max", d.gradient_clip_max);
  field("gradient_clip_min", d.gradient_clip_min);
  field("maximum_clipping_norm", d.maximum_clipping_norm);
  field("custom_global_norm", d.custom_global_norm);
  field("regularization_type", d.regularization_type);
  field("regularization_scale", d.regularization_scale);
}

// Whether channels are apart is said by the name of the class.
template <class Visitor>
void visit(Visitor& field, CNNConvolutionDescriptor& d) {
  field("kernel_width", d.kernel_width);
  field("kernel_height", d.kernel_height);
  field("input_feature_channels", d.input_feature_channels);
  field("output_feature_channels", d.output_feature_channels);
  field("stride_in_pixels_x", d.stride_in_pixels_x);
  field("stride_in_pixels_y", d.stride_in_pixels_y);
  field("groups", d.groups);
  field("dilation_rate_x", d.dilation_rate_x);
  field("dilation_rate_y", d.dilation_rate_y);
  field("fused_neuron_descriptor", d.fused_neuron_descriptor);
  field("_batch_normalization", d.batch_normalization);
}

template <class Visitor>
void visit(Visitor& field, CNNSubPixelConvolutionDescriptor& d) {
  visit(field, static_cast<CNNConvolutionDescriptor&>(d));
  field("sub_pixel_scale_factor", d.sub_pixel_scale_factor);
}

struct FieldWriter {
  template <class T>
  void operator()(const char* name, const T& value) {
    entries.push_back({name, coded(value)});
  }
  CodedValue::Entries entries;
};

struct FieldReader {
  template <class T>
  void operator()(const char* name, T& value) {
    decode_named(from.at(name), name, value);
  }
  const CodedValue& from;
};

template <class Descriptor>
CodedValue written(Descriptor descriptor) {
  FieldWriter writer;
  visit(writer, descriptor);
  return std::move(writer.entries);
}

template <class Descriptor>
void read(const CodedValue& value, Descriptor& to) {
  FieldReader reader{value};
  visit(reader, to);
}

void check_kind(const std::string& kind) {
  if (kind == kConvolution || kind == kDepthWise || kind == kSubPixel) return;
  throw DataTypeError("[MPSKeyedUnarchiver] expected a convolution's descriptor but got " + kind);
}

}  // namespace

CodedValue coded(const NeuronDescriptor& descriptor) { return written(descriptor); }
CodedValue coded(const CNNLossDescriptor& descriptor) { return written(descriptor); }
CodedValue coded(const OptimizerDescriptor& descriptor) { return written(descriptor); }
CodedValue coded(const CNNConvolutionDescriptor& descriptor) { return written(descriptor); }
CodedValue coded(const CNNSubPixelConvolutionDescriptor& descriptor) { return written(descriptor); }

void decode(const CodedValue& value, NeuronDescriptor& to) { read(value, to); }
void decode(const CodedValue& value, CNNLossDescriptor& to) { read(value, to); }
void decode(const CodedValue& value, OptimizerDescriptor& to) {
  read(value, to);
  to.check("MPSNNOptimizerDescriptor");
}
void decode(const CodedValue& value, CNNConvolutionDescriptor& to) { read(value, to); }
void decode(const CodedValue& value, CNNSubPixelConvolutionDescriptor& to) { read(value, to); }

const char* kind_of(const CNNConvolutionDescriptor& d) {
  if (d.depth_wise) return kDepthWise;
  return d.sub_pixel_scale_factor != 1 ? kSubPixel : kConvolution;
}

CodedValue coded_by_kind(const CNNConvolutionDescriptor& descriptor) {
  if (kind_of(descriptor) != kSubPixel) return coded(descriptor);
  CNNSubPixelConvolutionDescriptor sub_pixel;
  static_cast<CNNConvolutionDescriptor&>(sub_pixel) = descriptor;
  return coded(sub_pixel);
}

void decode_by_kind(const std::string& kind, const CodedValue& value,
                    CNNConvolutionDescriptor& to) {
  check_kind(kind);
  if (kind == kSubPixel) {
    CNNSubPixelConvolutionDescriptor sub_pixel;
    decode(value, sub_pixel);
    to = sub_pixel;
    return;
  }
  decode(value, to);
  to.depth_wise = kind == kDepthWise;
}

void encode_with_coder(const CNNConvolutionDescriptor& descriptor, Coder& coder) {
  const CodedValue fields = coded_by_kind(descriptor);
  for (const auto& [name, value] : *fields.as<CodedValue::Entries>()) coder.encode(value, name);
}

CNNConvolutionDescriptor convolution_descriptor_with_coder(const std::string& kind,
                                                           const Coder& coder) {
  check_kind(kind);
  const CodedValue names = kind == kSubPixel ? coded(CNNSubPixelConvolutionDescriptor{})
                                             : coded(CNNConvolutionDescriptor{});
  return whole(kind, [&] {
    CodedValue::Entries fields;
    for (const auto& [name, value] : *names.as<CodedValue::Entries>()) {
      fields.push_back({name, coder.decode(name)});
    }
    CNNConvolutionDescriptor descriptor;
    decode_by_kind(kind, std::move(fields), descriptor);
    return descriptor;
  });
}

}  // namespace traingraph::mps
