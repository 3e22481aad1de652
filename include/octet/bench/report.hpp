// Results of your kernels, reported as octet reports its own: the table that `octet bench` prints,
// and the CSV rows that it writes.
#pragma once

#include <octet/bench/gates.hpp>
#include <octet/bench/timing.hpp>
#include <octet/dtype.hpp>

#include <cstdint>
#include <memory>
#include <string>

namespace octet::bench {

// What is timed, the same in every row.
struct KernelInfo {
  std::string name;             // column Backend
  std::string version{};        // column Commit: tells two states of the kernel apart
  std::string configuration{};  // launch parameters, as describe(Configuration) spells them
  std::string baseline{};       // the other contestant of a product's Comparison
  Device device = kCpu;
};

// A product of M, N and K. The first part of its task is forward, 2 MNK; the second part, if any,
// is backward, 4 MNK. The step is what was timed: both, or only forward.
struct GemmCase {
  std::string name;  // "Llama-2-7B attn_qkv"
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::string dtype = "f32";  // f32, bf16, f16 or fp8
};

// A memory-bound kernel: bytes over time and, from compare_with_copy(), the ratio to a copy.
struct MemoryCase {
  std::int64_t rows = 1;
  std::int64_t cols = 0;
  Dtype dtype = Dtype::f32;
  std::size_t bytes = 0;  // read and written by one call
};

// Rows of one kind, products or memory-bound kernels; add() throws Error if both are mixed. A row
// that is not PASS has no times, whatever was measured.
class OCTET_API Report {
 public:
  explicit Report(KernelInfo kernel);
  ~Report();
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;

  void add(const GemmCase& product, const Verdict& verdict, const Samples& times);
  void add(const GemmCase& product, const Verdict& verdict, const Comparison& beside_baseline);
  void add(const MemoryCase& shape, const Verdict& verdict, const Samples& times);
  void add(const MemoryCase& shape, const Verdict& verdict, const Comparison& beside_copy);

  bool pass() const;  // there is at least one row, and all are PASS
  // The table, what failed and why, the score (a geometric mean) and the counts.
  std::string text() const;
  // Prints text(), with colours on a terminal. Returns the exit status: 0 if pass(), else 1.
  int print() const;
  // Writes the file whole or not at all, by a rename. Throws Error on failure.
  void write_csv(const std::string& path) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace octet::bench
