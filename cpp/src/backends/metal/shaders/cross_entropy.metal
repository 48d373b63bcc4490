// Softmax cross entropy and its gradient, a position per thread.
#include "common.metal"

// The class at a position; -1 ignores it.
inline int class_at(device const uchar* labels, int position, constant shader::CrossEntropy& a) {
  return a.label_bytes == 8 ? int(((device const long*)labels)[position])
                            : ((device const int*)labels)[position];
}

inline bool ignored(device const uchar* labels, int n, int i, constant shader::CrossEntropy& a) {
  return a.label_bytes != 0 && class_at(labels, n * a.inner + i, a) == -1;
}

// The smoothed label t' = t (1 - s) + s / K of class k.
inline float label_at(device const uchar* labels, int n, int k, int i,
                      constant shader::CrossEntropy& a) {
  const float label = a.label_bytes == 0
                          ? ((device const float*)labels)[(n * a.classes + k) * a.inner + i]
                      : class_at(labels, n * a.inner + i, a) == k ? 1.0f
                                                                  : 0.0f;
  return label * a.scale + a.share;
}

// The largest logit of a position.
inline float largest_of(device const float* x, constant shader::CrossEntropy& a) {
  float largest = x[0];
  for (int k = 1; k < a.classes; ++k) {
    const float value = x[k * a.inner];
    largest = largest < value ? value : largest;
  }
  return largest;
}

// logits (n, classes, inner), labels -> loss and logarithm, log sum e^(x - max x), (n, 1, inner), a
// position per thread. loss = sum t' (logarithm - (x - max x)); terms with t' = 0 add nothing, even where x is not finite.
kernel void softmax_cross_entropy(device const float* logits [[buffer(0)]],
                                  device const uchar* labels [[buffer(1)]],
                                  device float* loss [[buffer(2)]],
                                  device float* logarithm [[buffer(3)]],
                                  constant shader::CrossEntropy& a [[buffer(4)]],
                                  uint position [[thread_position_in_grid]]) {
  const int n = int(position) / a.inner, i = int(position) % a.inner;
  device const float* x = logits + n * a.classes * a.inner + i;
  const float largest = largest_of(x, a);
  Sum sum = no_sum();
  for (int k = 0; k < a.classes; ++k) add(sum, metal::precise::exp(x[k * a.inner] - largest));
  const float whole = metal::precise::log(total(sum));
  Sum losses = no_sum();
  if (!ignored(labels, n, i, a)) {
    for (int k = 0; k < a.classes; ++k) {
      const float label = label_at(labels, n, k, i, a);
      if (label != 0.0f) add(losses, label * (whole - (x[k * a.inner] - largest)));
    }
  }
  loss[position] = total(losses);
  logarithm[position] = whole;
}

// dloss (n, 1, inner), logits, labels, logarithm -> dlogits, overwritten, a position per thread:
// dloss (softmax sum t' - t'), 0 where dloss is 0, even if the logits are not finite.
kernel void softmax_cross_entropy_gradient(device const float* dloss [[buffer(0)]],
                                           device const float* logits [[buffer(1)]],
                                           device const uchar* labels [[buffer(2)]],
                                           device const float* logarithm [[buffer(3)]],
                                           device float* dlogits [[buffer(4)]],
                                           constant shader::CrossEntropy& a [[buffer(5)]],
                                           uint position [[thread_position_in_grid]]) {
  const int n = int(position) / a.inner, i = int(position) % a.inner;
  const int first = n * a.classes * a.inner + i;
  const bool none = ignored(labels, n, i, a) || dloss[position] == 0.0f;
  Sum all = no_sum();
  for (int k = 0; k < a.classes && !none; ++k) add(all, label_at(labels, n, k, i, a));
  const float labelled = total(all);
  const float largest = largest_of(logits + first, a);
  for (int k = 0; k < a.classes; ++k) {
    const int at = first + k * a.inner;
    if (none) {
      dlogits[at] = 0.0f;
      continue;
    }
    const float share = metal::precise::exp((logits[at] - largest) - logarithm[position]);
    const float slope = (labelled == 0.0f ? 0.0f : share * labelled) - label_at(labels, n, k, i, a);
    dlogits[at] = dloss[position] * slope;
  }
}
