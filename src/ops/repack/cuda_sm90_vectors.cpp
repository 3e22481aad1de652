// The Hopper kernels of repack take every problem. Compiled with and without CUDA.
#include "ops/repack/problem.hpp"

namespace octet {

constinit const RepackImplementation kRepackCudaSm90Vectors{
    "cuda_sm90_vectors",
    [](const RepackProblem& problem, const Machine& machine) {
      return refuse_off_hopper(problem.device, machine);
    },
    [](const RepackProblem& problem, const Machine&) {
      return planned<RepackArgs>(problem, "16 bytes", 0, launch_sm90_repack);
    }};

}  // namespace octet
