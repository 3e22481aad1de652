#include "tool/options/data_options.hpp"

#include "cpu/threads.hpp"

#include <limits>

namespace octet::tool {

void add_data_options(CLI::App& app, std::int64_t& threads, std::int64_t& seed,
                      std::string& distribution) {
  add_whole(app, "--threads", threads, 0, kMaxThreads,
            "CPU threads; 0: OCTET_NUM_THREADS, or else every core");
  add_whole(app, "--seed", seed, 0, std::numeric_limits<std::int64_t>::max(), "of the data");
  add_choice(app, "--distribution", distribution, {"normal", "skewed"},
             "of the data; skewed: N(0,1) times 2^-3..2^3 per block");
}

Distribution parse_distribution(const std::string& name) {
  return name == "skewed" ? Distribution::skewed : Distribution::normal;
}

}  // namespace octet::tool
