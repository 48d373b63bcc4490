// `Tensor`, the user's handle of a value, with its descriptor, its data and its optimizer buffers,
// and `TensorParameter`, a tensor that training updates.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <traingraph/export.h>
#include <traingraph/ownership.h>
#include <traingraph/types.h>

namespace traingraph {

class Device;
class Tensor;
struct ClassDescription;
struct TensorState;
using TensorPtr = std::shared_ptr<Tensor>;

enum class RandomInitializerType : int {
  kInvalid = 0,
  kUniform = 1,
  kGlorotUniform = 2,
  kXavier = 3,
};

// Bytes in host memory, or in a GPU's, with or without a shape of their own. `owner` keeps them
// alive; without one the caller does, for as long as anything uses this value.
struct TRAINGRAPH_API TensorData {
  void* bytes = nullptr;
  std::size_t length = 0;  // bytes
  // kInvalid: raw bytes, which may be longer than the tensor needs. Otherwise `shape` must fit.
  DataType data_type = DataType::kInvalid;
  Shape shape;
  bool writable = true;
  int gpu = -1;  // the index of the GPU whose memory the bytes are in; -1: the host's
  std::shared_ptr<const void> owner;

  // Raw bytes of the caller.
  static TensorData raw(void* bytes, std::size_t length);
  static TensorData raw(const void* bytes, std::size_t length);
  // A dense float32 array of the caller.
  static TensorData of(float* values, Shape shape);
  static TensorData of(const float* values, Shape shape);
  // A copy that owns itself.
  static TensorData copy_of(const void* bytes, std::size_t length, DataType type, Shape shape);
  // Itself in host memory, or a copy there of what a GPU has when all before on it is done.
  TensorData on_host() const;
  void visit_owned(OwnershipVisitor& visitor) const { visitor(owner); }
  static const ClassDescription& class_description();
};

// Shape (outermost first, images NCHW) and element type.
struct TRAINGRAPH_API TensorDescriptor {
  Shape shape;
  DataType data_type = DataType::kFloat32;
  Shape sequence_lengths;  // empty: no sequences
  bool sorted_sequences = false;

  TensorDescriptor() = default;
  // Raises InvalidArgument for an empty shape, an extent below 1 or a type without storage.
  TensorDescriptor(Shape shape, DataType data_type = DataType::kFloat32);
  // Sequences [batch, steps, features] of these lengths. Raises InvalidArgument where a length is
  // not from 1 to `steps`, there is not one per sequence of the batch (a batch of 1 may hold
  // several), or sorted ones do not descend.
  static TensorDescriptor of_sequences(Shape shape, Shape sequence_lengths, bool sorted_sequences,
                                       DataType data_type = DataType::kFloat32);

  // Bytes between neighbours along each axis, dense row-major.
  Shape stride() const;
  std::size_t allocation_bytes() const;
  // Entry t: how many sequences are longer than t. As long as the longest; empty without sequences.
  Shape batch_size_per_sequence_step() const;
  bool operator==(const TensorDescriptor& other) const = default;
  static const ClassDescription& class_description();
};

inline constexpr int kMaxTensorDimensions = 4;

// Shape, type, label, and maybe data. Graphs refer to it by identity.
class TRAINGRAPH_API Tensor : public std::enable_shared_from_this<Tensor> {
 public:
  // Without data.
  static TensorPtr create(TensorDescriptor descriptor);
  // Over the caller's memory when it is writable, aligned and of the right type (updates are
  // written through), else with a copy of its own.
  static TensorPtr create(TensorDescriptor descriptor, TensorData data);
  static TensorPtr filled(TensorDescriptor descriptor, double value);
  static TensorPtr random(TensorDescriptor descriptor, RandomInitializerType type);
  // Fans given instead of derived from the shape.
  static TensorPtr random(TensorDescriptor descriptor, RandomInitializerType type,
                          std::int64_t fan_in, std::int64_t fan_out);
  ~Tensor();
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;

  std::int64_t id() const;
  const TensorDescriptor& descriptor() const;
  std::string label() const;
  void set_label(std::string label);
  // Where the tensor was last compiled for, if it was.
  std::optional<Device> device() const;

  // The host copy; bytes is null without one.
  const TensorData& data() const;
  // The same in the tensor's own shape and type, whatever it was made over; keeps the tensor alive.
  TensorData host_data();
  // Replaces the host copy; graphs over this parameter read it at their next execution. Data in a
  // GPU's memory takes the host copy's place until synchronize_data makes one.
  void set_data(TensorData data);
  // The newest value where it lies on its device, not to be written. It shows this value until the
  // next execution, and afterwards what that one left there; the memory stays while `owner` does.
  // Raises InvalidArgument when it is not readable, Unsupported when it is not dense row-major.
  TensorData device_data() const;
  bool has_valid_numerics() const;

  // Copies the newest device value into the host copy, which is made if there is none.
  void synchronize_data();
  void synchronize_optimizer_data();
  // Copies the newest value to the caller; raises InvalidArgument when it is not readable.
  void copy_to(void* bytes, std::size_t length) const;
  // Copies of the optimizer's buffers in its order: the newest values, or what was set and not yet
  // used. Empty before either.
  std::vector<TensorData> optimizer_data() const;
  // Replaces the optimizer's buffers; graphs over this parameter read a copy at their next
  // execution, which raises InvalidArgument unless there is one array per buffer.
  void set_optimizer_data(std::vector<TensorData> data);

  TensorPtr copy() const;

  // New tensors with data, computed from the newest value. Scales are above 0 and finite.
  // q = round(x / scale) + bias, half to even, clamped to int8, uint8 or int32; x is no NaN.
  TensorPtr quantized(DataType to, float scale, std::int64_t bias) const;
  // x = (q - zero_point) * scale, float32.
  TensorPtr dequantized(DataType to, float scale, std::int64_t zero_point) const;
  // One scale and bias per element along `axis`.
  TensorPtr quantized(DataType to, const std::vector<float>& scale,
                      const std::vector<std::int64_t>& bias, std::int64_t axis) const;
  TensorPtr dequantized(DataType to, const std::vector<float>& scale,
                        const std::vector<std::int64_t>& bias, std::int64_t axis) const;

  TensorState& state() const { return *state_; }
  static const ClassDescription& class_description();

 private:
  explicit Tensor(TensorDescriptor descriptor);
  std::unique_ptr<TensorState> state_;
};

// The device's side of one of a tensor's optimizer buffers.
struct TRAINGRAPH_API OptimizerDeviceData {
  TensorPtr tensor;
  std::size_t slot = 0;
  static const ClassDescription& class_description();
};

// A truth value that knows how often it was changed: a change that was taken back is one, too.
class UpdatableFlag {
 public:
  UpdatableFlag(bool updatable) : changes_(updatable ? 0 : 1) {}
  UpdatableFlag(const UpdatableFlag& other) : changes_(other.changes()) {}
  UpdatableFlag& operator=(const UpdatableFlag& other) { return *this = static_cast<bool>(other); }
  UpdatableFlag& operator=(bool updatable) {
    std::uint64_t now = changes_;
    while ((now % 2 == 0) != updatable && !changes_.compare_exchange_weak(now, now + 1)) {
    }
    return *this;
  }
  operator bool() const { return changes() % 2 == 0; }
  std::uint64_t changes() const { return changes_; }

 private:
  std::atomic<std::uint64_t> changes_;  // even: updatable
};

// A tensor that training updates. The flag of a layer's holds from the next execution on; each
// change gives up a step whose micro-batches are summed.
struct TRAINGRAPH_API TensorParameter {
  TensorPtr tensor;
  UpdatableFlag is_updatable = true;
  static const ClassDescription& class_description();
};

}  // namespace traingraph
