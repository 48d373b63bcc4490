// `Device`, which names the backend and GPU that a graph runs on, and `Platform`, the settings of
// the process: random seed, threads, instruction level.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <traingraph/export.h>
#include <traingraph/types.h>

namespace traingraph {

struct ClassDescription;

// A backend and, for backends with several devices, an index. A value; two devices are equal when
// they name the same hardware.
class TRAINGRAPH_API Device {
 public:
  static Device cpu();  // on a Mac Accelerate where it is verified, else portable loops
  // Raises DeviceError that says what is missing when there is no usable GPU.
  static Device gpu(int index = 0);
  // By its UUID "GPU-…", or a beginning of it that no other one has. Raises DeviceError that lists
  // those that are there.
  static Device gpu(const std::string& uuid);
  static Device any();
  // Plain loops in float32 and float64: the reference implementation.
  static Device reference();
  // A backend by its name ("cpu", "reference", "null", …), also "gpu", "gpu:1", "gpu:GPU-…", "cuda"
  // and "any".
  static Device named(const std::string& text);
  static Device of_type(DeviceType type);

  DeviceType type() const { return type_; }
  DeviceType actual_type() const;
  const std::string& backend() const { return backend_; }
  int index() const { return index_; }
  std::string description() const;
  // "GPU-…" of a GPU, else empty.
  std::string uuid() const;

  // The CUDA stream that all work on this GPU is ordered on, as a number; 0 for other devices.
  std::uintptr_t stream() const;
  // Copies from this GPU's memory when all work before is done.
  void read(void* to, const void* from, std::size_t bytes) const;
  // Lets another stream of this GPU wait for all work before, or all work from now on wait for that
  // stream; nothing on other devices.
  void order_before(std::uintptr_t stream) const;
  void order_after(std::uintptr_t stream) const;

  // The same backend and index, whatever type was asked for.
  bool operator==(const Device& other) const {
    return backend_ == other.backend_ && index_ == other.index_;
  }
  static const ClassDescription& class_description();

 private:
  Device(DeviceType type, std::string backend, int index);

  DeviceType type_;
  std::string backend_;
  int index_;
};

class TRAINGRAPH_API Platform {
 public:
  // Seed of random initialisers and of dropout layers without a seed of their own.
  static void set_rng_seed(std::uint64_t seed);
  static std::optional<std::uint64_t> rng_seed();

  // Threads that one step may use: the count that was set, else what OMP_NUM_THREADS asked for when
  // the library was loaded, else the processors that the process may run on; 1 in a build without
  // OpenMP. Programs compile again when the number changes.
  static void set_thread_count(int count);
  static int thread_count();

  static std::string version();
  static std::string onednn_version();
  // Instruction level of the CPU backend's hand-written loops: "v2", "v3", "v4" or "generic".
  static std::string instruction_set();
  static std::vector<std::string> backends();
  // The GPUs' names by index. Raises DeviceError that says what is missing.
  static std::vector<std::string> gpus();
  // What the plugin for NVIDIA's GPUs has code for, by CMake's names: "90a-real" is machine code
  // for compute capability 9.0, "90-virtual" what a driver compiles. Needs no GPU; raises
  // DeviceError that says what else is missing. Empty where the GPU is Apple's.
  static std::vector<std::string> gpu_architectures();
  // A file of this user that notes what a backend has passed on this machine, and its first line
  // for this version and this device. Device::any() is Apple's GPU, and Device::cpu() Accelerate,
  // only where the suites have.
  static std::string verification_file(const std::string& backend);
  static std::string verification_note(const std::string& backend);
  // Whether it notes that all suites of tests have passed.
  static bool is_verified(const std::string& backend);
  // Folders of Python packages, beside the library's own, that may hold NVIDIA's libraries. Those
  // that do not begin with '/' are left out, for they mean another folder with every chdir.
  static void set_package_folders(std::vector<std::string> folders);
  static const ClassDescription& class_description();
};

}  // namespace traingraph
