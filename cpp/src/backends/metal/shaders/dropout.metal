#include "common.metal"

// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3; SC 2011):
// the word of one element of one op at one step, the same as on every other backend.
inline uint philox_word(uint seed_low, uint seed_high, ulong step, ulong element) {
  const ulong index = element >> 2;
  uint c0 = uint(index), c1 = uint(index >> 32), c2 = uint(step), c3 = uint(step >> 32);
  uint key0 = seed_low, key1 = seed_high;
  for (int round = 0; round < 10; ++round) {
    const uint a_high = metal::mulhi(uint(0xD2511F53u), c0), a_low = 0xD2511F53u * c0;
    const uint b_high = metal::mulhi(uint(0xCD9E8D57u), c2), b_low = 0xCD9E8D57u * c2;
    c0 = b_high ^ c1 ^ key0;
    c1 = b_low;
    c2 = a_high ^ c3 ^ key1;
    c3 = a_low;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  const uint lane = uint(element & 3);
  return lane == 0 ? c0 : lane == 1 ? c1 : lane == 2 ? c2 : c3;
}

// x, step, first row -> y: 0 where the element is dropped, else x / (1 - rate), an element per
// thread.
kernel void dropout(device const float* x [[buffer(0)]], device const long* step [[buffer(1)]],
                    device const long* first_row [[buffer(2)]], device float* y [[buffer(3)]],
                    constant shader::Dropout& a [[buffer(4)]],
                    uint element [[thread_position_in_grid]]) {
  const long first = a.per_row == 0 ? 0 : first_row[0] * a.per_row;
  const uint word =
      philox_word(a.seed_low, a.seed_high, ulong(step[0]), ulong(first + long(element)));
  y[element] = word < a.threshold ? 0.0f : x[element] * a.scale;
}
