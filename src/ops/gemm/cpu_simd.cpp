// Chunks of d: pack the operands of a chunk, multiply its micro-tiles, store them. Panels are
// packed and micro-tiles computed by independent tasks, so results do not depend on threads.
#include "ops/gemm/cpu_simd.hpp"

#include "core/checks.hpp"
#include "cpu/instruction_set.hpp"
#include "cpu/threads.hpp"
#include "ops/gemm/problem.hpp"

namespace octet {
namespace {

constexpr std::int64_t kMaxChunk = 2048;         // rows and columns: 16 MiB of acc
constexpr std::int64_t kPackedFloats = 2 << 20;  // 8 MiB of panels
constexpr std::int64_t kDepth = 2 * kBlock;      // a panel of b within reach of the L1 cache
constexpr std::int64_t kTaskRows = 256;          // panels of a that stay in the L2 cache
constexpr std::int64_t kTaskPanelsB = 4;
constexpr std::int64_t kSerialWork = 1 << 21;  // multiply-adds: less is not worth waking a thread

// One chunk of d: its first element and its extents.
struct Chunk {
  std::int64_t m;
  std::int64_t n;
  std::int64_t rows;
  std::int64_t cols;
};

class ChunkedProduct {
 public:
  ChunkedProduct(const GemmProblem& problem, const GemmArgs& args, const GemmKernels& kernels,
                 void* workspace, int threads)
      : problem_(problem),
        args_(args),
        kernels_(kernels),
        cut_(gemm_chunks(problem, kernels)),
        a_packed_(static_cast<float*>(workspace)),
        b_packed_(a_packed_ + cut_.a_panels * cut_.a_panel),
        acc_(b_packed_ + cut_.b_panels * cut_.b_panel),
        multiply_(scales_one_by_one(problem) ? kernels.multiply_one_by_one : kernels.multiply),
        threads_(threads) {}

  void run() {
    for (std::int64_t n = 0; n < problem_.n; n += cut_.cols) {
      for (std::int64_t m = 0; m < problem_.m; m += cut_.rows) {
        const Chunk chunk{m, n, std::min(cut_.rows, problem_.m - m),
                          std::min(cut_.cols, problem_.n - n)};
        for (std::int64_t k = 0; k < problem_.k; k += cut_.depth) {
          pack(chunk, k);
          multiply(chunk, k);
        }
      }
    }
  }

 private:
  std::int64_t depth_at(std::int64_t k) const { return std::min(cut_.depth, problem_.k - k); }

  int threads_for(std::int64_t work) const { return work < kSerialWork ? 1 : threads_; }

  void pack(const Chunk& chunk, std::int64_t k) {
    const std::int64_t a_panels = ceil_div(chunk.rows, kernels_.rows);
    const std::int64_t b_panels = ceil_div(chunk.cols, kernels_.cols);
    const std::int64_t depth = depth_at(k);
    const std::int64_t work = (chunk.rows + chunk.cols) * depth * 8;
    // Panels of a are narrow: a task takes as many as equal the work of one panel of b.
    const std::int64_t group = std::max<std::int64_t>(1, kernels_.cols / kernels_.rows);
    const std::int64_t a_tasks = ceil_div(a_panels, group);
    parallel_for(threads_for(work), a_tasks + b_panels, [&](std::int64_t task) {
      if (task >= a_tasks) {
        const std::int64_t panel = task - a_tasks;
        kernels_.pack_b({&args_.b, chunk.n + panel * kernels_.cols, k, depth, cut_.depth,
                         b_packed_ + panel * cut_.b_panel});
        return;
      }
      const std::int64_t end = std::min((task + 1) * group, a_panels);
      for (std::int64_t panel = task * group; panel < end; ++panel) {
        kernels_.pack_a({&args_.a, chunk.m + panel * kernels_.rows, k, depth, cut_.depth,
                         a_packed_ + panel * cut_.a_panel});
      }
    });
  }

  void multiply(const Chunk& chunk, std::int64_t k) {
    const std::int64_t a_panels = ceil_div(chunk.rows, kernels_.rows);
    const std::int64_t b_panels = ceil_div(chunk.cols, kernels_.cols);
    const std::int64_t a_group = kTaskRows / kernels_.rows;
    const std::int64_t a_groups = ceil_div(a_panels, a_group);
    const std::int64_t b_groups = ceil_div(b_panels, kTaskPanelsB);
    const std::int64_t work = chunk.rows * chunk.cols * depth_at(k);
    parallel_for(threads_for(work), a_groups * b_groups, [&](std::int64_t task) {
      const std::int64_t a_begin = task % a_groups * a_group;
      const std::int64_t b_begin = task / a_groups * kTaskPanelsB;
      multiply_tiles(chunk, k, a_begin, std::min(a_begin + a_group, a_panels), b_begin,
                     std::min(b_begin + kTaskPanelsB, b_panels));
    });
  }

  void multiply_tiles(const Chunk& chunk, std::int64_t k, std::int64_t a_begin, std::int64_t a_end,
                      std::int64_t b_begin, std::int64_t b_end) {
    const std::int64_t depth = depth_at(k);
    for (std::int64_t offset = 0; offset < depth; offset += kDepth) {
      const std::int64_t step = std::min(kDepth, depth - offset);
      const bool last = k + offset + step == problem_.k;
      for (std::int64_t b = b_begin; b < b_end; ++b) {
        for (std::int64_t a = a_begin; a < a_end; ++a) {
          multiply_tile(a, b, offset, step, k + offset == 0);
          if (last) store_tile(chunk, a, b);
        }
      }
    }
  }

  void multiply_tile(std::int64_t a, std::int64_t b, std::int64_t offset, std::int64_t depth,
                     bool first) {
    const float* a_panel = a_packed_ + a * cut_.a_panel;
    const float* b_panel = b_packed_ + b * cut_.b_panel;
    const std::int64_t slice = cut_.depth + offset / kBlock;  // scales follow the values
    multiply_({a_panel + offset * kernels_.rows, b_panel + offset * kernels_.cols,
               a_panel + slice * kernels_.rows, b_panel + slice * kernels_.cols, tile(a, b), depth,
               first});
  }

  void store_tile(const Chunk& chunk, std::int64_t a, std::int64_t b) {
    kernels_.store({tile(a, b), &args_.d, &args_.bias, chunk.m + a * kernels_.rows,
                    chunk.n + b * kernels_.cols, problem_.accumulate});
  }

  float* tile(std::int64_t a, std::int64_t b) const {
    return acc_ + (b * cut_.a_panels + a) * kernels_.rows * kernels_.cols;
  }

  const GemmProblem& problem_;
  const GemmArgs& args_;
  const GemmKernels& kernels_;
  GemmChunks cut_;
  float* a_packed_;
  float* b_packed_;
  float* acc_;
  void (*multiply_)(const MultiplyTask&);
  int threads_;
};

const GemmKernels& kernels_of(InstructionSet instructions) {
  return instructions == InstructionSet::avx512 ? gemm_kernels_avx512() : gemm_kernels_avx2();
}

std::string refuse(const GemmProblem& problem, const Machine& machine) {
  return refuse_off_simd(problem.device, machine);
}

Planned<GemmArgs> plan(const GemmProblem& problem, const Machine& machine) {
  const GemmKernels& kernels = kernels_of(best_instruction_set(machine));
  const GemmChunks chunks = gemm_chunks(problem, kernels);
  return {text(kernels.name, " tile=", kernels.rows, "x", kernels.cols, " chunk=", chunks.rows, "x",
               chunks.cols, "x", chunks.depth, " threads=", machine.threads),
          chunks.bytes(), [problem, &kernels](const GemmArgs& args, const RunContext& context) {
            run_gemm(problem, args, kernels, context.workspace.data, context.threads);
          }};
}

}  // namespace

GemmChunks gemm_chunks(const GemmProblem& problem, const GemmKernels& kernels) {
  GemmChunks chunks;
  chunks.a_panels = ceil_div(std::min(problem.m, kMaxChunk), kernels.rows);
  chunks.b_panels = ceil_div(std::min(problem.n, kMaxChunk), kernels.cols);
  chunks.rows = chunks.a_panels * kernels.rows;
  chunks.cols = chunks.b_panels * kernels.cols;
  const std::int64_t fitting = kPackedFloats / (chunks.rows + chunks.cols) / kDepth * kDepth;
  chunks.depth = std::min(std::max(fitting, kDepth), round_up(problem.k, kBlock));
  const std::int64_t slices = ceil_div(chunks.depth, kBlock);
  chunks.a_panel = (chunks.depth + slices) * kernels.rows;
  chunks.b_panel = (chunks.depth + slices) * kernels.cols;
  return chunks;
}

void run_gemm(const GemmProblem& problem, const GemmArgs& args, const GemmKernels& kernels,
              void* workspace, int threads) {
  ChunkedProduct(problem, args, kernels, workspace, threads).run();
}

constinit const GemmImplementation kGemmCpuSimd{"cpu_simd", refuse, plan};

}  // namespace octet
