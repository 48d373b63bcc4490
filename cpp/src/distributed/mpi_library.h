// Finds the library of MPI, and tells which of the three binary interfaces it has.
#pragma once

#include <string>

namespace traingraph::distributed {

enum class MpiAbi {
  standard,  // of MPI 5.0: handles are pointers with fixed numbers for what MPI defines
  open_mpi,  // handles are addresses of the library's own symbols
  mpich,     // handles are int
};

struct MpiLibrary {
  void* handle = nullptr;  // of dlopen
  MpiAbi abi = MpiAbi::standard;
  std::string path;
  // The address of a symbol. Raises DistributedError that names it.
  void* symbol(const char* name) const;
};

// That of TRAINGRAPH_MPI_LIBRARY; else one that is loaded; else the one beside the launcher that
// has started the program; else the one beside the mpirun or mpiexec of PATH; else the one that the
// system finds. `by_open_mpi`: a launcher of Open MPI has started the program. Raises
// DistributedError that lists what was tried.
MpiLibrary find_mpi(bool by_open_mpi);

}  // namespace traingraph::distributed
