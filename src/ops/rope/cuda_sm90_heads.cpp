// Which problems the Hopper kernels of rope take. Compiled with and without CUDA.
#include "ops/rope/problem.hpp"

namespace octet {

constinit const RopeImplementation kRopeCudaSm90Heads{
    "cuda_sm90_heads",
    [](const RopeProblem& problem, const Machine& machine) {
      return refuse_heads_on_hopper(rotated_heads(problem), machine);
    },
    [](const RopeProblem& problem, const Machine&) {
      return planned<RotateArgs>(problem, "units of eight pairs", 0, launch_sm90_rope);
    }};

}  // namespace octet
