// All commands of octet, grouped as its help lists them.
#include "tool/options/gate_legend.hpp"
#include "tool/options/help_text.hpp"
#include "tool/options/options.hpp"
#include "tool/results/provenance.hpp"

#include "device/cuda_runtime.hpp"

namespace octet::tool {
namespace {

void add_bench(CLI::App& octet, Chosen& chosen) {
  CLI::App& bench = add_command(
      octet, "bench",
      "Check an operator against its gates, then time it. [default: gemm, on the quick suite]");
  allow_command(bench);
  add_bench_operators(bench, chosen);
  add_bench_suite(bench, chosen);
  add_examples(bench, {"octet bench gemm --shape 512x1024x768",
                       "octet bench rope --dtype bf16 -o rope.csv"});
}

void add_check(CLI::App& octet, Chosen& chosen) {
  CLI::App& check = add_command(octet, "check", "Check an operator against its gates, untimed.");
  require_command(check);
  add_check_operators(check, chosen);
  add_print_flag(
      check, "--explain", [] { return gate_legend(help_columns()); },
      "Print what every gate measures and its bound.");
  add_examples(check, {"octet check gemm --shape 512x1024x768", "octet check --explain"});
}

}  // namespace

void add_commands(CLI::App& octet, Chosen& chosen) {
  use_help_text(octet);
  add_print_flag(
      octet, "--version",
      [] {
        return version_text() +
               (cuda::built_with_cuda() ? ", built with CUDA" : ", built without CUDA");
      },
      "Print the version, the commit and whether octet was built with CUDA.");
  require_command(octet);
  command_group(octet, "Measure");
  add_bench(octet, chosen);
  add_check(octet, chosen);
  add_profile(octet, chosen);
  add_advise(octet, chosen);
  add_tune(octet, chosen);
  command_group(octet, "Read results");
  add_summarize(octet, chosen);
  add_compare(octet, chosen);
  add_report(octet, chosen);
  add_history(octet, chosen);
  command_group(octet, "This machine");
  add_ops(octet, chosen);
  add_doctor(octet, chosen);
  command_group(octet, "This tool");
  add_manual(octet, chosen);
  add_completions(octet, chosen);
  add_examples(octet, {"octet bench gemm --shape 512x1024x768 -o results/gemm.csv",
                       "octet check quantize --shape 64x512 --block 1x128",
                       "octet report results -o report.html"});
}

}  // namespace octet::tool
