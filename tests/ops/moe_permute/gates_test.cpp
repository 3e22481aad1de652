// Both operators pass the gates in every dtype and implementation, and every output is judged.
#include "ops/moe_permute/case.hpp"
#include "support/gates.hpp"

namespace octet {
namespace {

TEST(MoePermuteGates, PassInEveryForm) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
    for (const GroupTail tail : {GroupTail::zero, GroupTail::untouched}) {
      for (const std::int64_t rows : {60, 200}) {
        const RowsShape shape{40, 3, rows, 70, dtype, rows == 60, tail};
        expect_all_pass(shape.permute(), moe_permute_forward_implementations(), check_moe_permute);
        expect_all_pass(shape.unpermute(), moe_unpermute_forward_implementations(),
                        check_moe_unpermute);
      }
    }
  }
}

TEST(MoePermuteGates, JudgeEveryOutput) {
  const RowsShape shape{40, 3, 130, 70, Dtype::bf16, true};
  const auto tensors = [](const GateReport& report, const std::string& gate) {
    std::string names;
    for (const GateResult& one : report.results) {
      if (one.gate == gate) names += one.tensor + " ";
    }
    return names;
  };
  for (const char* gate : {"E2", "G5", "G6"}) {
    EXPECT_EQ(tensors(check_moe_permute(shape.permute(), {}), gate),
              "grouped dx row_weight dweights ");
    EXPECT_EQ(tensors(check_moe_unpermute(shape.unpermute(), {}), gate), "out dgrouped dweights ");
  }
}

}  // namespace
}  // namespace octet
