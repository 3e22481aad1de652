// Uses both APIs of an installed octet: an exact product, and an error caught by its type.
#include <octet/octet.h>
#include <octet/octet.hpp>

#include <cstdio>
#include <cstring>

namespace {

bool product_is_exact() {
  octet::GemmProblem problem;
  problem.m = problem.n = 2;
  problem.k = 3;
  problem.a = problem.b = {octet::Dtype::f32};
  problem.out_dtype = octet::Dtype::f32;
  const float a[] = {1, 2, 3, 4, 5, 6};
  const float b[] = {1, 0, 1, 0, 1, 0};
  octet::Tensor d(octet::Dtype::f32, {2, 2});
  const octet::GemmPlan plan = octet::plan_gemm(problem);
  octet::Buffer workspace(plan.workspace_bytes);
  octet::run(plan,
             {octet::make_view(a, octet::Dtype::f32, {2, 3}),
              octet::make_view(b, octet::Dtype::f32, {2, 3}), d},
             {workspace.data(), workspace.bytes()});
  const float wanted[] = {4, 2, 10, 5};
  return std::memcmp(d.data(), wanted, sizeof wanted) == 0;
}

bool error_is_caught() {
  try {
    octet::plan_gemm({});
  } catch (const octet::Error& error) {
    return error.code() == octet::ErrorCode::invalid_argument &&
           std::strcmp(error.what(), "gemm: M must be at least 1, got 0") == 0;
  }
  return false;
}

}  // namespace

int main() {
  if (octet::version() != OCTET_VERSION || octet_version() != OCTET_VERSION) return 1;
  if (!product_is_exact() || !error_is_caught()) return 1;
  std::puts("consumer: all right");
  return 0;
}
