// Gather and scatter along an axis, an element per thread.
#include "common.metal"

// -1 for an index of 64 bits that is no place.
inline int index_at(device const uchar* indices, int at, int bytes) {
  if (bytes == 4) return ((device const int*)indices)[at];
  const long index = ((device const long*)indices)[at];
  return index < 0 || index > 0x7fffffff ? -1 : int(index);
}

// Where the picked element (row-major) lies in the tensor; -1 for an index outside.
inline int tensor_offset(device const uchar* indices, int element, constant shader::Picked& a) {
  int offset = 0, step = 1, rest = element;
  int coordinates[shader::kAxes];
  for (int axis = a.picked.rank - 1; axis >= 0; --axis) {
    coordinates[axis] = rest % a.picked.extent[axis];
    rest /= a.picked.extent[axis];
  }
  for (int axis = a.tensor.rank - 1; axis >= 0; --axis) {
    const int at = axis != a.axis ? coordinates[axis]
                                  : index_at(indices, a.slices != 0 ? coordinates[axis] : element,
                                             a.index_bytes);
    if (at < 0 || at >= a.tensor.extent[axis]) return -1;
    offset += at * step;
    step *= a.tensor.extent[axis];
  }
  return offset;
}

// tensor, indices -> y, one of its elements per thread.
kernel void gather(device const float* tensor [[buffer(0)]],
                   device const uchar* indices [[buffer(1)]], device float* y [[buffer(2)]],
                   constant shader::Picked& a [[buffer(3)]],
                   uint element [[thread_position_in_grid]]) {
  const int offset = tensor_offset(indices, int(element), a);
  y[element] = offset < 0 ? 0.0f : tensor[offset];
}

// The picked elements that go to one element of the tensor, in row-major order: along the axis they
// lie `step` apart from `first` on, and their coordinate there is counted.
struct Candidates {
  int first, step, count;
};

inline Candidates candidates_of(int element, constant shader::Picked& a, thread int& along) {
  Candidates found;
  found.first = 0;
  found.step = 1;
  found.count = a.picked.extent[a.axis];
  int step = 1, rest = element;
  for (int axis = a.tensor.rank - 1; axis >= 0; --axis) {
    const int at = rest % a.tensor.extent[axis];
    rest /= a.tensor.extent[axis];
    if (axis == a.axis) {
      along = at;
      found.step = step;
    } else {
      found.first += at * step;
      if (at >= a.picked.extent[axis]) found.count = 0;
    }
    step *= a.picked.extent[axis];
  }
  return found;
}

inline bool goes_there(device const uchar* indices, int along, int k, int picked,
                       constant shader::Picked& a) {
  return index_at(indices, a.slices != 0 ? k : picked, a.index_bytes) == along;
}

// values, indices, tensor (unread onto zeros) -> y, one of its elements per thread: of several values the last one
// stays, or all are added.
kernel void scatter(device const float* values [[buffer(0)]],
                    device const uchar* indices [[buffer(1)]],
                    device const float* tensor [[buffer(2)]], device float* y [[buffer(3)]],
                    constant shader::Picked& a [[buffer(4)]],
                    uint element [[thread_position_in_grid]]) {
  int along = 0;
  const Candidates candidates = candidates_of(int(element), a, along);
  float result = a.onto_zeros != 0 ? 0.0f : tensor[element];
  for (int k = 0; k < candidates.count; ++k) {
    const int picked = candidates.first + k * candidates.step;
    if (!goes_there(indices, along, k, picked, a)) continue;
    result = a.adds != 0 ? result + values[picked] : values[picked];
  }
  y[element] = result;
}

// dy, indices -> dtensor, and per element of the tensor the position of the value it took or -1;
// an element of the tensor per thread.
kernel void scatter_writers(device const float* dy [[buffer(0)]],
                            device const uchar* indices [[buffer(1)]],
                            device float* dtensor [[buffer(2)]], device long* writers [[buffer(3)]],
                            constant shader::Picked& a [[buffer(4)]],
                            uint element [[thread_position_in_grid]]) {
  int along = 0;
  const Candidates candidates = candidates_of(int(element), a, along);
  int writer = -1;
  for (int k = 0; k < candidates.count; ++k) {
    const int picked = candidates.first + k * candidates.step;
    if (goes_there(indices, along, k, picked, a)) writer = picked;
  }
  writers[element] = writer;
  dtensor[element] = writer < 0 ? dy[element] : 0.0f;
}

// dy, indices, writers -> dvalues, one of its elements per thread.
kernel void scatter_values(device const float* dy [[buffer(0)]],
                           device const uchar* indices [[buffer(1)]],
                           device const long* writers [[buffer(2)]],
                           device float* dvalues [[buffer(3)]],
                           constant shader::Picked& a [[buffer(4)]],
                           uint element [[thread_position_in_grid]]) {
  const int offset = tensor_offset(indices, int(element), a);
  const bool stayed = offset >= 0 && writers[offset] == long(element);
  dvalues[element] = stayed ? dy[offset] : 0.0f;
}
