// Chunks of d: pack the operands of a chunk, multiply its micro-tiles, store them. Panels are
// packed and micro-tiles computed by independent tasks, so results do not depend on threads. Chunks
// of small products share the workspace and the threads.
#include "ops/gemm/cpu_simd.hpp"

#include "core/checks.hpp"
#include "cpu/instruction_set.hpp"
#include "cpu/threads.hpp"
#include "ops/gemm/problem.hpp"

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

namespace octet {
namespace {

constexpr std::int64_t kPackedFloats = 2 << 20;  // 8 MiB of panels
constexpr std::int64_t kDepth = 2 * kBlock;      // a panel of b within reach of the L1 cache
constexpr std::int64_t kTaskRows = 256;          // panels of a that stay in the L2 cache
constexpr std::int64_t kTaskPanelsB = 4;
constexpr std::int64_t kSerialWork = 1 << 21;  // multiply-adds: less is not worth waking a thread

// One chunk of a product's d: its first element, its extents and its part of the workspace.
struct Chunk {
  const CpuProduct* product = nullptr;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t a_panels = 0;
  std::int64_t b_panels = 0;
  float* a_packed = nullptr;
  float* b_packed = nullptr;
  float* acc = nullptr;
  std::int64_t pack_tasks_end = 0;  // of this chunk and those before it
  std::int64_t multiply_tasks_end = 0;
};

// A task of one of several chunks.
struct ChunkTask {
  const Chunk& chunk;
  std::int64_t index;
};

ChunkTask find_task(const std::vector<Chunk>& chunks, std::int64_t Chunk::*end, std::int64_t task) {
  const auto found = std::upper_bound(
      chunks.begin(), chunks.end(), task,
      [end](std::int64_t value, const Chunk& chunk) { return value < chunk.*end; });
  return {*found, found == chunks.begin() ? task : task - (*std::prev(found)).*end};
}

class ChunkedProducts {
 public:
  ChunkedProducts(const GemmChunks& cut, const GemmKernels& kernels, void* workspace, int threads)
      : cut_(cut),
        kernels_(kernels),
        workspace_(static_cast<float*>(workspace)),
        threads_(threads) {}

  void add(const CpuProduct& product) {
    for (std::int64_t n = 0; n < product.n; n += cut_.cols) {
      for (std::int64_t m = 0; m < product.m; m += cut_.rows) add_chunk(product, m, n);
    }
  }

  // Computes the chunks added since the last call.
  void compute() {
    for (std::int64_t k = 0; k < longest_; k += cut_.depth) {
      pack(k);
      multiply(k);
    }
    chunks_.clear();
    lines_ = acc_ = longest_ = 0;
  }

 private:
  void add_chunk(const CpuProduct& product, std::int64_t m, std::int64_t n) {
    Chunk chunk;
    chunk.product = &product;
    chunk.m = m;
    chunk.n = n;
    chunk.rows = std::min(cut_.rows, product.m - m);
    chunk.cols = std::min(cut_.cols, product.n - n);
    chunk.a_panels = ceil_div(chunk.rows, kernels_.rows);
    chunk.b_panels = ceil_div(chunk.cols, kernels_.cols);
    const std::int64_t a_lines = chunk.a_panels * kernels_.rows;
    const std::int64_t b_lines = chunk.b_panels * kernels_.cols;
    if (lines_ + a_lines + b_lines > cut_.lines || acc_ + a_lines * b_lines > cut_.acc) compute();
    chunk.a_packed = workspace_ + lines_ * cut_.line_floats();
    chunk.b_packed = chunk.a_packed + a_lines * cut_.line_floats();
    chunk.acc = workspace_ + cut_.lines * cut_.line_floats() + acc_;
    lines_ += a_lines + b_lines;
    acc_ += a_lines * b_lines;
    longest_ = std::max(longest_, product.k);
    chunk.pack_tasks_end = pack_tasks() + a_tasks(chunk) + chunk.b_panels;
    chunk.multiply_tasks_end = multiply_tasks() + a_groups(chunk) * b_groups(chunk);
    chunks_.push_back(chunk);
  }

  std::int64_t pack_tasks() const { return chunks_.empty() ? 0 : chunks_.back().pack_tasks_end; }
  std::int64_t multiply_tasks() const {
    return chunks_.empty() ? 0 : chunks_.back().multiply_tasks_end;
  }
  // Panels of a are narrow: a task packs as many as equal the work of one panel of b.
  std::int64_t packed_together() const {
    return std::max<std::int64_t>(1, kernels_.cols / kernels_.rows);
  }
  std::int64_t a_tasks(const Chunk& chunk) const {
    return ceil_div(chunk.a_panels, packed_together());
  }
  std::int64_t a_group() const { return kTaskRows / kernels_.rows; }
  std::int64_t a_groups(const Chunk& chunk) const { return ceil_div(chunk.a_panels, a_group()); }
  static std::int64_t b_groups(const Chunk& chunk) {
    return ceil_div(chunk.b_panels, kTaskPanelsB);
  }

  // What is left of a product's contraction at k, at most what is packed at a time.
  std::int64_t depth_at(const Chunk& chunk, std::int64_t k) const {
    return std::clamp<std::int64_t>(chunk.product->k - k, 0, cut_.depth);
  }

  int threads_for(std::int64_t work) const { return work < kSerialWork ? 1 : threads_; }

  void pack(std::int64_t k) {
    std::int64_t work = 0;
    for (const Chunk& chunk : chunks_) work += (chunk.rows + chunk.cols) * depth_at(chunk, k) * 8;
    parallel_for(threads_for(work), pack_tasks(), [&](std::int64_t index) {
      const auto [chunk, task] = find_task(chunks_, &Chunk::pack_tasks_end, index);
      if (depth_at(chunk, k) > 0) pack_panels(chunk, task, k);
    });
  }

  void pack_panels(const Chunk& chunk, std::int64_t task, std::int64_t k) const {
    const std::int64_t depth = depth_at(chunk, k);
    const CpuProduct& product = *chunk.product;
    if (const std::int64_t panel = task - a_tasks(chunk); panel >= 0) {
      kernels_.pack_b({&product.b, chunk.n + panel * kernels_.cols, k, depth, cut_.depth,
                       b_panel(chunk, panel)});
      return;
    }
    const std::int64_t end = std::min((task + 1) * packed_together(), chunk.a_panels);
    for (std::int64_t panel = task * packed_together(); panel < end; ++panel) {
      kernels_.pack_a({&product.a, chunk.m + panel * kernels_.rows, k, depth, cut_.depth,
                       a_panel(chunk, panel)});
    }
  }

  void multiply(std::int64_t k) {
    std::int64_t work = 0;
    for (const Chunk& chunk : chunks_) work += chunk.rows * chunk.cols * depth_at(chunk, k);
    parallel_for(threads_for(work), multiply_tasks(), [&](std::int64_t index) {
      const auto [chunk, task] = find_task(chunks_, &Chunk::multiply_tasks_end, index);
      const std::int64_t a_begin = task % a_groups(chunk) * a_group();
      const std::int64_t b_begin = task / a_groups(chunk) * kTaskPanelsB;
      multiply_tiles(chunk, k, a_begin, std::min(a_begin + a_group(), chunk.a_panels), b_begin,
                     std::min(b_begin + kTaskPanelsB, chunk.b_panels));
    });
  }

  void multiply_tiles(const Chunk& chunk, std::int64_t k, std::int64_t a_begin, std::int64_t a_end,
                      std::int64_t b_begin, std::int64_t b_end) const {
    const std::int64_t depth = depth_at(chunk, k);
    for (std::int64_t offset = 0; offset < depth; offset += kDepth) {
      const std::int64_t step = std::min(kDepth, depth - offset);
      const bool last = k + offset + step == chunk.product->k;
      for (std::int64_t b = b_begin; b < b_end; ++b) {
        for (std::int64_t a = a_begin; a < a_end; ++a) {
          multiply_tile(chunk, a, b, offset, step, k + offset == 0);
          if (last) store_tile(chunk, a, b);
        }
      }
    }
  }

  void multiply_tile(const Chunk& chunk, std::int64_t a, std::int64_t b, std::int64_t offset,
                     std::int64_t depth, bool first) const {
    const auto multiply =
        chunk.product->scales_one_by_one() ? kernels_.multiply_one_by_one : kernels_.multiply;
    const float* a_values = a_panel(chunk, a);
    const float* b_values = b_panel(chunk, b);
    const std::int64_t slice = cut_.depth + offset / cut_.slice;  // scales follow the values
    multiply({a_values + offset * kernels_.rows, b_values + offset * kernels_.cols,
              a_values + slice * kernels_.rows, b_values + slice * kernels_.cols, tile(chunk, a, b),
              depth, cut_.slice, first});
  }

  void store_tile(const Chunk& chunk, std::int64_t a, std::int64_t b) const {
    kernels_.store({tile(chunk, a, b), chunk.product, chunk.m + a * kernels_.rows,
                    chunk.n + b * kernels_.cols});
  }

  float* a_panel(const Chunk& chunk, std::int64_t panel) const {
    return chunk.a_packed + panel * kernels_.rows * cut_.line_floats();
  }
  float* b_panel(const Chunk& chunk, std::int64_t panel) const {
    return chunk.b_packed + panel * kernels_.cols * cut_.line_floats();
  }
  float* tile(const Chunk& chunk, std::int64_t a, std::int64_t b) const {
    return chunk.acc + (b * chunk.a_panels + a) * kernels_.rows * kernels_.cols;
  }

  const GemmChunks& cut_;
  const GemmKernels& kernels_;
  float* workspace_;
  int threads_;
  std::vector<Chunk> chunks_;
  std::int64_t lines_ = 0;    // of the chunks
  std::int64_t acc_ = 0;      // of the chunks
  std::int64_t longest_ = 0;  // contraction
};

std::string refuse(const GemmProblem& problem, const Machine& machine) {
  return refuse_off_simd(problem.device, machine);
}

Planned<GemmArgs> plan_products(const GemmProblem& problem, const Machine& machine,
                                const SimdProducts& products) {
  return {describe(products, machine.threads), products.cut.bytes(),
          [problem, products](const GemmArgs& args, const RunContext& context) {
            const CpuProduct product = cpu_product(problem, args);
            run_products({&product, 1}, products.cut, *products.kernels, context.workspace.data,
                         context.threads);
          }};
}

Planned<GemmArgs> plan(const GemmProblem& problem, const Machine& machine) {
  return simd_plan(problem, machine, plan_products);
}

std::variant<Planned<GemmArgs>, Refusal> plan_with(const GemmProblem& problem,
                                                   const Machine& machine,
                                                   std::string_view configuration) {
  return simd_plan_with<GemmArgs>(problem, machine, configuration, plan_products);
}

// The arithmetic of a micro-tile, with what it pads: in units of outputs at the rate of the first. Of several products,
// those of their mean.
double padded_work(const ProductBounds& bounds, const GemmKernels& kernels) {
  const std::int64_t rows = round_up(ceil_div(bounds.rows, bounds.products), kernels.rows);
  return static_cast<double>(rows * round_up(bounds.n, kernels.cols)) / kernels.utilisation;
}

}  // namespace

std::vector<SimdProducts> simd_products(const ProductBounds& bounds, const Machine& machine) {
  // Smaller chunks keep acc in a cache and pack more of the contraction at a time.
  constexpr std::int64_t kChunks[] = {kMaxChunk, kMaxChunk / 2, kMaxChunk / 4};
  const bool avx512 = best_instruction_set(machine) == InstructionSet::avx512;
  const auto all = avx512 ? gemm_kernels_avx512() : gemm_kernels_avx2();
  std::vector<const GemmKernels*> tiles;
  for (const GemmKernels& kernels : all) tiles.push_back(&kernels);
  const auto work = [&](const GemmKernels* kernels) { return padded_work(bounds, *kernels); };
  // Among equals in the order of the list.
  std::ranges::sort(tiles, {},
                    [&](const GemmKernels* tile) { return std::pair(work(tile), tile); });
  std::vector<SimdProducts> result;
  for (const GemmKernels* kernels : tiles) {
    for (const std::int64_t chunk : kChunks) {
      const GemmChunks cut = gemm_chunks(bounds, *kernels, chunk);
      // A small product is one chunk of any size. Products of groups that differ in no more than how many are computed
      // at once have one text, and are one configuration.
      const auto size = [](const GemmChunks& of) { return std::tie(of.rows, of.cols, of.depth); };
      if (chunk != kMaxChunk && size(cut) == size(result.back().cut)) continue;
      result.push_back({kernels, cut, work(kernels) / work(tiles.front())});
    }
  }
  return result;
}

GemmChunks gemm_chunks(const ProductBounds& bounds, const GemmKernels& kernels,
                       std::int64_t max_chunk) {
  GemmChunks cut;
  cut.rows = round_up(std::min(bounds.m, max_chunk), kernels.rows);
  cut.cols = round_up(std::min(bounds.n, max_chunk), kernels.cols);
  cut.lines = cut.rows + cut.cols;
  cut.acc = cut.rows * cut.cols;
  if (bounds.products > 1) {
    // Every product begins a new panel.
    const std::int64_t rows = bounds.rows + bounds.products * kernels.rows;
    const std::int64_t cols = round_up(bounds.n, kernels.cols);
    cut.lines = std::max(cut.lines, std::min(rows + bounds.products * cols, 2 * max_chunk));
    cut.acc = std::max(cut.acc, std::min(rows, max_chunk * max_chunk / cols) * cols);
  }
  const std::int64_t fitting = kPackedFloats / cut.lines / kDepth * kDepth;
  cut.depth = std::min(std::max(fitting, kDepth), round_up(bounds.k, kBlock));
  cut.slice = bounds.slice;
  return cut;
}

std::string describe(const SimdProducts& products, int threads) {
  const auto& [kernels, cut, predicted] = products;
  return text(kernels->name, " tile=", kernels->rows, "x", kernels->cols, " chunk=", cut.rows, "x",
              cut.cols, "x", cut.depth, " threads=", threads);
}

void run_products(std::span<const CpuProduct> products, const GemmChunks& cut,
                  const GemmKernels& kernels, void* workspace, int threads) {
  ChunkedProducts chunked(cut, kernels, workspace, threads);
  for (const CpuProduct& product : products) chunked.add(product);
  chunked.compute();
}

constinit const GemmImplementation kGemmCpuSimd{
    "cpu_simd", refuse, plan, plan_with, false, simd_configurations<GemmProblem>};

}  // namespace octet
