// What all doubles share: how a broken rule ends the program, and the count of live objects.
#pragma once
#include <cstdint>
#include <string>

namespace apple {

// Says what rule was broken and aborts, as Metal's validation does. Nothing can swallow it.
[[noreturn]] void fail(const std::string& sentence);

// Fails unless the rule holds.
inline void expect(bool rule, const char* sentence) {
  if (!rule) fail(sentence);
}

// Where Apple's headers can be read in two ways, the doubles take the one that asks more of a
// caller; with APPLE_DOUBLE_READINGS=lenient the other one:
//   states         a kernel whose class declares none of its own gives none, or an empty one
//   read counts    statistics of batch normalization count no read of their state, or one;
//                  a count that is 0 is nobody's to set, or may be set to 0 again
//   dropout        one state for the images of a batch, by their places, or one for each
//   weights        a gradient of convolution takes those of its data source when it is first
//                  encoded with a gradient of data, behind earlier reloads, or when it is made
bool lenient();

}  // namespace apple

extern "C" {
// Objects allocated and not yet deallocated, constants and classes aside.
__attribute__((visibility("default"))) std::int64_t apple_live_objects();
// How many of them are of this class itself.
__attribute__((visibility("default"))) std::int64_t apple_live_objects_of(const char* class_name);
// How many of them were made so far, those that are gone included.
__attribute__((visibility("default"))) std::int64_t apple_made_objects_of(const char* class_name);
// Pieces of work that this class has encoded so far: one per image, or one per batch where it
// copies between images and matrices.
__attribute__((visibility("default"))) std::int64_t apple_work_of(const char* class_name);

// From now on work runs on a thread of its own, not at the commit.
__attribute__((visibility("default"))) void apple_gpu_start_thread();
// Whether that thread begins nothing new; how many command buffers it has before it.
__attribute__((visibility("default"))) void apple_gpu_hold(int holds);
__attribute__((visibility("default"))) std::int64_t apple_gpu_waiting();
// The command buffer that begins after so many more fails, and does nothing.
__attribute__((visibility("default"))) void apple_gpu_fail_after(std::int64_t command_buffers);
}
