"""Products over groups, attention and the layer of experts of tools/peers.py on the CPU, where octet
runs through the C API and plain torch stands in for the peers. Needs torch and a built liboctet."""

import itertools
import pathlib
import sys
import tempfile
import types
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "tools"))

try:
    import torch
    import octet_c_grouped
    import peers_attention
    import peers_grouped_gemm
    import peers_grouped_libraries
    import peers_moe_mlp
except (ImportError, OSError) as error:
    raise unittest.SkipTest(f"no torch or no liboctet: {error}") from error

import peers  # noqa: E402
import peers_rounds  # noqa: E402
from peers_support import CallTimer  # noqa: E402
from peers_test import read_rows, run  # noqa: E402


def results_of(operator, shape, dtype="fp8"):
    """Product -> library -> result."""
    found = {}

    def compare(case, contenders, same):
        results = peers_rounds.compare(case, contenders, peers_rounds.Protocol(), same, CallTimer(),
                                       say=lambda _: None)
        found[case.product] = {result.library: result for result in results}
        return results

    for _ in operator.cases(shape, compare, types.SimpleNamespace(dtype=dtype), 0, device="cpu"):
        pass
    return found


def expanded(scales, block, rows, cols):
    return scales.repeat_interleave(block[0], -2)[..., :rows, :].repeat_interleave(
        block[1], -1)[..., :cols]


class PlainDeepGemm:
    """DeepGEMM's functions as its documentation describes their operands."""

    @staticmethod
    def m_grouped_fp8_gemm_nt_contiguous(a, b, d, of_rows, disable_ue8m0_cast):
        (a, a_scales), (b, b_scales) = a, b
        left = a.float() * expanded(a_scales, (1, 128), *a.shape)
        right = b.float() * expanded(b_scales, (128, 128), *b.shape[1:])
        assert a_scales.stride() == (1, len(a)) and b.is_contiguous()
        PlainDeepGemm.m_grouped_bf16_gemm_nt_contiguous(left, right, d, of_rows)

    @staticmethod
    def m_grouped_bf16_gemm_nt_contiguous(a, b, d, of_rows):
        for begin in range(0, len(a), 128):
            rows = slice(begin, begin + 128)
            assert set(of_rows[rows].tolist()) <= {of_rows[begin].item(), -1}
            d[rows] = (a[rows].float() @ b[of_rows[begin]].float().T).to(d.dtype)

    @staticmethod
    def k_grouped_bf16_gemm_tn_contiguous(a, b, d, sizes, on_device, c):
        assert c is d and on_device.tolist() == sizes and not any(size % 128 for size in sizes)
        assert a.is_contiguous() and b.is_contiguous() and len(a) == len(b) == sum(sizes)
        for group, (left, right) in enumerate(zip(a.float().split(sizes), b.float().split(sizes))):
            d[group] += left.T @ right

    @staticmethod
    def k_grouped_fp8_gemm_nt_contiguous(a, b, d, sizes, on_device, c):
        assert c is d and on_device.tolist() == sizes and not any(size % 128 for size in sizes)
        firsts = [0, *itertools.accumulate(sizes)]
        for group, (begin, end) in enumerate(zip(firsts, firsts[1:])):
            operands = []
            for (values, scales), features in ((a, d.shape[1]), (b, d.shape[2])):
                part = values[begin * features:end * features].view(features, end - begin).float()
                assert scales.stride() == (1, features)
                scales = scales[:, begin // 128:end // 128]
                operands.append(part * scales.repeat_interleave(128, 1))
            d[group] += operands[0] @ operands[1].T


class PlainAttention(peers_attention.Cudnn):
    def forward(self):
        self.leaves = [tensor.detach().requires_grad_() for tensor in self.inputs]
        return [torch.nn.functional.scaled_dot_product_attention(
            *self.leaves, is_causal=self.causal, enable_gqa=True)]

    def backward(self, saved, dout):
        return lambda: torch.autograd.grad(saved[0], self.leaves, dout, retain_graph=True)


class Grouped(unittest.TestCase):
    def test_every_form_of_operand_is_octets(self):
        libraries = {"deep_gemm": types.SimpleNamespace(library=PlainDeepGemm)}
        with mock.patch("peers_libraries.available", lambda: libraries):
            results = results_of(peers_grouped_gemm, (3, 600, 256, 384, "skewed"))
        self.assertEqual(list(results), ["forward", "dgrad", "wgrad 1d", "wgrad 1d f32 +=",
                                         "wgrad 2d"])
        for product, others in (("forward", ["deep_gemm", "torch bf16"]),
                                ("dgrad", ["deep_gemm", "torch bf16"]), ("wgrad 1d", ["torch bf16"]),
                                ("wgrad 1d f32 +=", ["deep_gemm"])):
            for library in ("octet", *others):
                result = results[product][library]
                self.assertEqual(result.check, "PASS", f"{product} {library}: {result.note}")
        self.assertEqual(results["forward"]["octet"].case.work, 2 * 600 * 256 * 384)
        self.assertEqual(len(results["wgrad 2d"]), 2, "octet and the best peer of the 1d products")
        # torch has this one for CUDA devices only.
        self.assertEqual(results["forward"]["torch rowwise"].check, "ERROR")

    def test_bf16_products_are_the_peers(self):
        libraries = {"deep_gemm": types.SimpleNamespace(library=PlainDeepGemm)}
        with mock.patch("peers_libraries.available", lambda: libraries):
            results = results_of(peers_grouped_gemm, (3, 600, 256, 384, "skewed"), "bf16")
        others = {"forward": ["deep_gemm", "torch bf16"], "dgrad": ["deep_gemm", "torch bf16"],
                  "wgrad": ["torch bf16"], "wgrad f32 +=": ["deep_gemm"]}
        self.assertEqual(list(results), list(others))
        for product, result in results.items():
            self.assertEqual(list(result), ["octet", *others[product]])
            for library, one in result.items():
                self.assertEqual(one.case.dtype, "bf16")
                self.assertEqual(one.check, "PASS", f"{product} {library}: {one.note}")

    def test_a_run_that_was_cut_between_two_products_is_completed(self):
        shapes = ["--shape=2x96x64x128", "--shape=3x80x64x128"]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "x.csv"
            arguments = ["--op=grouped-gemm", "--dtype=bf16", *shapes, "--library=torch bf16", "--max-seconds=10",
                         "-o", str(path)]

            def products(clock):
                """Those that a run measures."""
                measured = []

                def compare(case, contenders, same):
                    measured.append((case.shape[0], case.product))
                    return peers_rounds.compare(case, peers.chosen(contenders, ["torch bf16"]), peers_rounds.Protocol(),
                                                same, CallTimer(), say=lambda _: None)

                run(arguments, lambda shape, timed: peers_grouped_gemm.cases(
                    shape, timed, types.SimpleNamespace(dtype="bf16"), 0, device="cpu"), compare, clock)
                return measured

            with mock.patch("peers_libraries.available", dict):
                ticks = iter([0, 0, 11])
                self.assertEqual(products(lambda: next(ticks)), [(2, "forward"), (2, "dgrad")])
                rest = [(2, "wgrad"), (2, "wgrad f32 +="),
                        *((3, product) for product in ("forward", "dgrad", "wgrad", "wgrad f32 +="))]
                self.assertEqual(products(lambda: 0), rest)
                self.assertEqual(products(lambda: 0), [])
            rows = [(int(row["Groups"]), row["Product"], row["Library"], row["Check"]) for row in read_rows(path)]
        self.assertEqual(rows, [(groups, product, library, "PASS")
                                for groups, product in [(2, "forward"), (2, "dgrad"), *rest]
                                for library in ("octet", "torch bf16") if library == "octet" or "f32" not in product])

    def test_one_wrong_group_is_told(self):
        groups = octet_c_grouped.Groups([5, 0, 200], "cpu")
        self.assertEqual((groups.slices, groups.first_block), ([1, 0, 2], [0, 1, 1, 3]))
        self.assertEqual(groups.padded_places().tolist(), [*range(5), *range(128, 328)])
        right = torch.randn(205, 32)
        judge = peers_grouped_libraries.agree(groups)
        self.assertTrue(judge(right, right))
        for row in (4, 5, 204):
            wrong = right.clone()
            wrong[row] += 1
            self.assertFalse(judge(wrong, right))
        of_groups = torch.randn(3, 8, 16)
        wrong = of_groups.clone()
        wrong[2, 7] += 1
        self.assertTrue(judge(of_groups, of_groups))
        self.assertFalse(judge(wrong, of_groups))

    def test_rowwise_casts_keep_the_numbers(self):
        groups = octet_c_grouped.Groups([130, 70], "cpu")
        x = torch.randn(200, 256).bfloat16()
        _, blocks = octet_c_grouped.quantize_rows(x, groups, (1, 128), (1, 128))
        values, scales = peers_grouped_libraries.rowwise_blocks(blocks, groups)
        self.assertEqual((values.shape, scales.shape), ((256, 384), (512,)))
        for group, (rows, first) in enumerate(((x[:130], 0), (x[130:], 256))):
            of_group = scales.view(2, 256)[group][:, None]
            near = values[:, first:first + len(rows)].float() * of_group
            error = (near - rows.float().T).square().sum() / rows.float().square().sum()
            self.assertLess(error, 1e-2)


class Attention(unittest.TestCase):
    def test_both_passes_are_torchs(self):
        with mock.patch.dict(peers_attention.BACKENDS, {"plain": PlainAttention}):
            for shape in ((2, 96, 4, 2, 64, 64, "causal"), (1, 130, 4, 4, 48, 32, "full")):
                results = results_of(peers_attention, shape)
                for product in ("attention forward", "attention backward"):
                    for library in ("octet", "plain"):
                        result = results[product][library]
                        self.assertEqual(result.check, "PASS", f"{product} {library}")
                    self.assertEqual(results[product]["torch cudnn"].check, "ERROR", "it needs a GPU")

    def test_operations_are_counted_as_octet_bench_does(self):
        full = peers_attention.flops((2, 64, 4, 2, 192, 128, "full"))
        self.assertEqual(full, 2 * 2 * 4 * 64 * 64 * (192 + 128))
        self.assertEqual(peers_attention.flops((2, 64, 4, 2, 192, 128, "causal")), full / 2)

    def test_one_wrong_head_is_told(self):
        right = torch.randn(2, 16, 3, 8), torch.randn(2, 16, 1, 8)
        judge = peers_attention.agree(1e-3)
        self.assertTrue(judge(right, right))
        wrong = right[0].clone()
        wrong[1, :, 2] *= 1.1
        self.assertFalse(judge((wrong, right[1]), right))


class Experts(unittest.TestCase):
    def test_torchs_layer_is_the_sum_over_a_tokens_experts(self):
        tokens, features, dim, experts, top_k = 24, 32, 16, 5, 2
        x = torch.randn(tokens, dim).bfloat16().requires_grad_()
        weights = [(torch.randn(shape) * shape[-1] ** -0.5).bfloat16().requires_grad_() for shape in
                   ((experts, dim), (experts, 2 * features, dim), (experts, dim, features))]
        dy = torch.randn(tokens, dim).bfloat16()
        given = peers_moe_mlp.step_of(
            lambda x: peers_moe_mlp.torch_layer(x, *weights, top_k), x, *weights, dy)()

        x32, router, w_gate_up, w_down = (tensor.detach().float().requires_grad_()
                                          for tensor in (x, *weights))
        chosen, indices = (x32 @ router.T).softmax(-1).topk(top_k)
        chosen = chosen / chosen.sum(-1, keepdim=True)
        gate, up = torch.einsum("tk,efk->tef", x32, w_gate_up).chunk(2, -1)
        of_experts = torch.einsum("tef,ekf->tek", torch.nn.functional.silu(gate) * up, w_down)
        picked = of_experts.gather(1, indices[:, :, None].expand(-1, -1, dim))
        y = (picked * chosen[:, :, None]).sum(1)
        wanted = y, *torch.autograd.grad(y, (x32, router, w_gate_up, w_down), dy.float())
        for name, own, right in zip(peers_moe_mlp.OUTPUTS, given, wanted):
            self.assertGreater(peers_moe_mlp.snr_db(own, right), 35, name)


if __name__ == "__main__":
    unittest.main()
