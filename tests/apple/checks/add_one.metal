// A kernel of the checks.
#include <metal_stdlib>
using namespace metal;

kernel void add_one(device const float* source [[buffer(0)]], device float* target [[buffer(1)]],
                    constant float& scale [[buffer(2)]], uint index [[thread_position_in_grid]]) {
  target[index] = source[index] * scale + 1;
}
