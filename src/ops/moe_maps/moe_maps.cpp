#include "core/call.hpp"
#include "core/message.hpp"
#include "ops/group_table/problem.hpp"
#include "ops/moe_maps/problem.hpp"

#include <octet/buffer.hpp>

#include <array>
#include <bit>

namespace octet {
namespace {

constexpr std::string_view kOp = "moe_maps";

std::string error_of(const MoeMapsStatus& status) {
  if (status.bad_indices > 0) {
    return text("indices[", status.bad_slot / status.top_k, ", ", status.bad_slot % status.top_k,
                "] must be -1 or an expert of 0 to ", status.experts - 1, ", got ",
                status.bad_index);
  }
  if (status.cut > 0) {
    return text("the buffers must have a row for every slot, ", status.rows, " rows are ",
                status.cut, " too few");
  }
  return "";
}

}  // namespace

std::span<const MoeMapsImplementation> moe_maps_implementations() {
  static const std::array list{kMoeMapsCudaSm90CountingSort, kMoeMapsCpuReference};
  return list;
}

std::string describe(const MoeMapsProblem& problem) {
  std::string result =
      text("moe-maps --shape ", problem.tokens, "x", problem.top_k, " --experts ", problem.experts);
  if (problem.first_expert != 0) result += text(" --first-expert ", problem.first_expert);
  if (problem.groups != problem.experts) result += text(" --groups ", problem.groups);
  result += text(" --rows ", problem.rows);
  if (problem.capacity != 0) result += text(" --capacity ", problem.capacity);
  return result +
         text(" --dtype ", name(problem.indices_dtype), " --device ", name(problem.device));
}

void check_slots(std::string_view op, std::int64_t tokens, std::int64_t top_k, std::int64_t rows) {
  check_count(op, "tokens", tokens);
  check_extent(op, "top_k", top_k);
  if (tokens > kMaxGroupedRows / top_k) {
    refuse_argument(op, ": tokens * top_k must be at most 2^30, got ", tokens, " * ", top_k);
  }
  check_groups(op, 1, rows);
}

void check(const MoeMapsProblem& problem) {
  check_slots(kOp, problem.tokens, problem.top_k, problem.rows);
  check_groups(kOp, problem.groups, problem.rows);
  check_extent(kOp, "experts", problem.experts);
  if (problem.first_expert < 0 || problem.first_expert > problem.experts - problem.groups) {
    refuse_argument(kOp, ": the ", problem.groups, " groups from first_expert ",
                    problem.first_expert, " on must be among the ", problem.experts, " experts");
  }
  check_count(kOp, "capacity", problem.capacity);
  if (problem.indices_dtype != Dtype::i32 && problem.indices_dtype != Dtype::i64) {
    refuse_argument(kOp, ": indices_dtype must be i32 or i64, got ", name(problem.indices_dtype));
  }
  check_device(kOp, problem.device);
}

void check(const MoeMapsProblem& problem, const MoeMapsArgs& args, std::size_t workspace_bytes,
           const Workspace& workspace) {
  const auto slots = [&](Dtype dtype) {
    return TensorForm(dtype, {problem.tokens, problem.top_k}, "[tokens, top_k]");
  };
  Call call(kOp, problem.device);
  call.reads("indices", args.indices, slots(problem.indices_dtype));
  call.writes("row_of", args.row_of, slots(Dtype::i32));
  call.writes("source", args.source, TensorForm(Dtype::i32, {problem.rows}, "[rows]"));
  call.writes("sizes", args.sizes, TensorForm(Dtype::i32, {problem.groups}, "[groups]"));
  write_table(call, args.table, problem.groups, problem.rows);
  call.writes("status", args.status,
              TensorForm(Dtype::i32, {kMoeMapsStatusWords}, "[kMoeMapsStatusWords]"));
  if (reinterpret_cast<std::uintptr_t>(args.status.data) % 16 != 0) {
    refuse_argument(kOp, ": status must start on a 16-byte boundary, got address ",
                    args.status.data);
  }
  call.check_apart(workspace_bytes, workspace);
}

MoeMapsPlan plan_moe_maps(const MoeMapsProblem& problem, const PlanOptions& options) {
  check(problem);
  return make_plan(moe_maps_implementations(), problem,
                   make_request(kOp, "other", describe(problem), options.backend), options);
}

void run(const MoeMapsPlan& plan, const MoeMapsArgs& args, Workspace workspace, void* stream) {
  check_plan(kOp, plan.state.get());
  check(plan.problem, args, plan.workspace_bytes, workspace);
  run_plan(plan, args, workspace, stream);
}

MoeMapsReport read_moe_maps(const TensorView& status, void* stream) {
  if (status.data == nullptr || status.dtype != Dtype::i32 || status.rank != 1 ||
      status.shape[0] != kMoeMapsStatusWords || status.strides[0] != 1) {
    refuse_argument(kOp, ": status must be i32[", kMoeMapsStatusWords, "], got ", describe(status));
  }
  std::array<std::int32_t, kMoeMapsStatusWords> words{};
  copy(status, make_view(words.data(), Dtype::i32, {kMoeMapsStatusWords}), stream);
  const auto found = std::bit_cast<MoeMapsStatus>(words);
  if (found.magic != kMoeMapsMagic || found.top_k < 1) {
    refuse_argument(kOp, ": status was not written by moe_maps");
  }
  return {found.dropped, found.cut, found.bad_indices, error_of(found)};
}

void check_moe_maps(const TensorView& status, void* stream) {
  const MoeMapsReport report = read_moe_maps(status, stream);
  if (!report.error.empty()) refuse_argument(kOp, ": ", report.error);
}

}  // namespace octet
