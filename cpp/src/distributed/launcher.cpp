// Reads the variables of torchrun, of the launchers of Open MPI and MPICH, and of Slurm.
#include "distributed/launcher.h"

#include <charconv>
#include <cstdlib>
#include <limits>
#include <optional>
#include <utility>

#include <traingraph/errors.h>

namespace traingraph::distributed {
namespace {

std::optional<std::string> environment(const char* name) {
  const char* const text = std::getenv(name);
  if (text == nullptr || *text == 0) return std::nullopt;
  return text;
}

int number_in(const char* name, const std::string& text, int least, int most) {
  int number = 0;
  const char* const end = text.data() + text.size();
  const auto [last, code] = std::from_chars(text.data(), end, number);
  if (code == std::errc() && last == end && number >= least && number <= most) return number;
  throw InvalidArgument(std::string("[distributed] expected the environment variable ") + name +
                        " of " + std::to_string(least) + " to " + std::to_string(most) +
                        " but got '" + text + "'");
}

constexpr int kMost = std::numeric_limits<int>::max();

Launch by_addresses(const std::string& rank, const std::string& size) {
  Launch found{.by = Launch::By::addresses};
  found.size = number_in("WORLD_SIZE", size, 1, kMost);
  found.rank = number_in("RANK", rank, 0, found.size - 1);
  const auto host = environment("MASTER_ADDR"), port = environment("MASTER_PORT");
  if (!host || !port) {
    throw InvalidArgument(
        std::string("[distributed] expected the environment variables MASTER_ADDR and MASTER_PORT "
                    "beside RANK and WORLD_SIZE but ") +
        (host ? "MASTER_PORT" : "MASTER_ADDR") + " is not set");
  }
  found.master = {*host, static_cast<std::uint16_t>(number_in("MASTER_PORT", *port, 1, 65534))};
  // torchrun itself listens at the port then.
  if (environment("TORCHELASTIC_USE_AGENT_STORE") == "True") ++found.master.port;
  return found;
}

}  // namespace

Launch launch() {
  const auto rank = environment("RANK"), size = environment("WORLD_SIZE");
  if (rank && size) return by_addresses(*rank, *size);
  if (rank || size) {
    throw InvalidArgument(
        std::string("[distributed] expected the environment variables RANK and WORLD_SIZE together "
                    "but ") +
        (rank ? "WORLD_SIZE" : "RANK") + " is not set");
  }
  // The number of ranks. Slurm's of a step: what is started without srun is one process.
  const std::pair<const char*, std::optional<std::string>> launchers[] = {
      {"OMPI_COMM_WORLD_SIZE", environment("OMPI_COMM_WORLD_SIZE")},
      {"PMI_SIZE", environment("PMI_SIZE")},
      {"SLURM_STEP_NUM_TASKS", environment("SLURM_STEP_NUM_TASKS")},
  };
  for (const auto& [name, told] : launchers) {
    if (!told) continue;
    Launch found{.by = Launch::By::mpi, .variable = name};
    found.size = number_in(name, *told, 1, kMost);
    return found;
  }
  return {};
}

std::chrono::seconds limit() {
  const auto text = environment("TRAINGRAPH_DISTRIBUTED_LIMIT");
  return std::chrono::seconds(text ? number_in("TRAINGRAPH_DISTRIBUTED_LIMIT", *text, 1, kMost)
                                   : 30);
}

}  // namespace traingraph::distributed
