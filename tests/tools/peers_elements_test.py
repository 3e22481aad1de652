"""The memory-bound operators of tools/peers.py on the CPU: what octet writes there through the C
API is what torch gives, so shapes, structs and formulas fit. Needs torch and a built liboctet."""

import contextlib
import csv
import io
import pathlib
import shutil
import sys
import tempfile
import types
import unittest
from unittest import mock

TOOLS = pathlib.Path(__file__).resolve().parent.parent.parent / "tools"
sys.path.insert(0, str(TOOLS))

try:
    import torch
    import octet_c
    import peers_elements
    import peers_gated_activation
    import peers_gemm
    import peers_libraries
    import peers_rms_norm
    import peers_rms_norm_rope
    import peers_rope
    import peers_torch
except (ImportError, OSError) as error:
    raise unittest.SkipTest(f"no torch or no liboctet: {error}") from error

import peers  # noqa: E402
import peers_builds  # noqa: E402
import peers_options  # noqa: E402
import peers_rounds  # noqa: E402
import peers_table  # noqa: E402
from peers_support import CallTimer  # noqa: E402

OPTIONS = types.SimpleNamespace(head_dim=8, kv_heads=1, compile_mode=["default"])


def results_of(operator, shape, leave_out=("torch.compile",), l2_bytes=0):
    """Product -> library -> result; without the compiler, which takes a minute."""
    found = {}

    def compare(case, contenders, same):
        kept = {n: make for n, make in contenders.items() if n not in leave_out}
        results = peers_rounds.compare(case, kept, peers_rounds.Protocol(), same, CallTimer(),
                                       say=lambda _: None)
        found[case.product] = {result.library: result for result in results}

    for _ in operator.cases(shape, compare, OPTIONS, l2_bytes, device="cpu"):
        pass
    return found


class Elements(unittest.TestCase):
    def expect(self, results, libraries):
        """That these libraries pass; `octet unfused` is none where octet itself chooses that."""
        for product, of_product in results.items():
            chosen = of_product["octet"].note
            self.assertIn("cpu_", chosen)
            for library in libraries[product]:
                if library == peers_elements.UNFUSED and chosen.startswith("unfused"):
                    self.assertNotIn(library, of_product)
                    continue
                result = of_product[library]
                self.assertEqual(result.check, "PASS", f"{product} {library}: {result.note}")

    def test_rms_norm(self):
        results = results_of(peers_rms_norm, (256, 384))
        self.expect(results, {
            "rms_norm forward": ["octet", "torch eager", "torch rms_norm", "device copy"],
            "rms_norm forward to fp8": ["octet", "octet unfused", "device copy"],
            "rms_norm backward": ["octet", "torch eager", "device copy"]})
        self.assertEqual(results["rms_norm forward"]["octet"].case.work,
                         2 * 256 * 384 * 2 + 384 * 2 + 256 * 4, "x, y, g and rstd")
        self.assertEqual(results["rms_norm forward to fp8"]["octet"].case.work,
                         256 * 384 * (2 + 1 + 1) + 384 * 2 + 256 * 4 + (256 * 3 + 384 * 2) * 4)
        # torch has this one only for CUDA devices: its row says so, and the others are timed.
        self.assertEqual(results["rms_norm backward"]["torch rms_norm"].check, "ERROR")

    def test_gated_activation(self):
        plain, fp8 = ["octet", "torch eager"], ["octet", "octet unfused"]
        self.expect(results_of(peers_gated_activation, (128, 256)), {
            "gated_activation forward": plain, "gated_activation forward to fp8": fp8,
            "gated_activation backward": plain, "gated_activation backward to fp8": fp8})

    def test_rope_and_rms_norm_rope(self):
        plain = ["octet", "torch eager", "device copy"]
        self.expect(results_of(peers_rope, (2, 5, 24)),
                    {"rope forward": plain, "rope backward": plain})
        self.expect(results_of(peers_rms_norm_rope, (2, 5, 24)),
                    {"rms_norm_rope forward": plain, "rms_norm_rope backward": plain})

    def test_a_whole_run_writes_its_rows(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "rope.csv"
            options = peers_options.parse_arguments(
                ["--op", "rope", "--shape", "2x3x16", "--head-dim", "8", "--kv-heads", "1",
                 "--library", "torch eager", "-o", str(path)])
            provenance = types.SimpleNamespace(fields=lambda _, command, ran: {"Command": command})
            table = peers_table.Table(options.op, options.output, provenance, {"torch eager": "2"},
                                      peers_options.repeats(options))

            def compare(case, contenders, same):
                return peers_rounds.compare(case, peers.chosen(contenders, options.library),
                                            peers_rounds.Protocol(), same, CallTimer())

            with contextlib.redirect_stdout(io.StringIO()):
                peers.run(options, lambda shape, timed: peers_rope.cases(
                    shape, timed, options, 0, device="cpu"), compare, table)
            rows = list(csv.DictReader(path.read_text().splitlines()))
        self.assertFalse(table.failed())
        self.assertEqual([(row["Product"], row["Library"], row["Check"]) for row in rows],
                         [(f"rope {turn}", library, "PASS") for turn in ("forward", "backward")
                          for library in ("octet", "torch eager")])
        moved = 2 * (2 * 3 * 16 + 2 * 3 * 8) * 2 + 2 * 3 * 4 * 4
        self.assertEqual({row["TB/s"] for row in rows}, {f"{moved / 1e12:.5g}"})
        self.assertEqual({(row["Batch"], row["Seq"], row["Hidden"]) for row in rows},
                         {("2", "3", "16")})

    def test_another_build_passes_beside_octet(self):
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder) / "liboctet.so"  # another file: it is loaded a second time
            shutil.copy(octet_c.library_path, copy)
            for operator, arguments in ((peers_gemm, ["--shape", "32x128x256"]),
                                        (peers_rope, ["--op", "rope", "--shape", "2x3x16",
                                                      "--head-dim", "8", "--kv-heads", "1"])):
                options = peers_options.parse_arguments([*arguments, "--library", f"copy={copy}"])
                wrapper, _ = loaded = options.builds[0].load(options.op)
                self.assertNotEqual(wrapper.library._handle, octet_c.library._handle)
                found = []

                def compare(case, contenders, same=peers_torch.close):
                    kept = peers.chosen(contenders, options.library)
                    found.append(peers_rounds.compare(case, kept, peers_rounds.Protocol(), same,
                                                      CallTimer()))
                    return found[-1]

                with_build = peers_builds.beside({"copy": loaded}, compare, options.shape[0],
                                                 options, 0, "cpu")
                for _ in operator.cases(options.shape[0], with_build, options, 0, device="cpu"):
                    pass
                self.assertEqual(len(found), 5 if options.op == "gemm" else 2)
                for results in found:
                    self.assertEqual([(r.library, r.check, r.ratio) for r in results],
                                     [("octet", "PASS", 1.0), ("copy", "PASS", 1.0)])

    def test_large_copies_are_not_captured_in_a_graph(self):
        small, large = (peers_torch.device_copy(bytes_, "cpu", [None]) for bytes_ in (64, 2 ** 28))
        self.assertTrue(small.capture)
        self.assertFalse(large.capture)

    def test_inputs_pass_twice_the_cache(self):
        made = []
        sets = peers_elements.sets_of(
            lambda: made.append(1) or (torch.zeros(10, dtype=torch.bfloat16),), 25)
        self.assertEqual((len(sets), len(made)), (3, 3))

    def test_a_wrong_output_is_told_from_a_right_one(self):
        right = torch.randn(64, 32), torch.randn(32)
        self.assertTrue(peers_elements.same(right, right))
        for which in (0, 1):
            wrong = [tensor.clone() for tensor in right]
            wrong[which][-1] += 1
            self.assertFalse(peers_elements.same(tuple(wrong), right))
        self.assertFalse(peers_elements.same(right[:1], right))
        self.assertFalse(peers_elements.same((right[0], right[1][:-1]), right))

    def test_fp8_copies_are_told_apart(self):
        copies = peers_elements.quantized_both_ways(torch.randn(128, 256).bfloat16())
        self.assertTrue(peers_elements.same_fp8(copies, copies))
        scales = copies[1].clone()
        scales[5, 1] *= 2
        self.assertFalse(peers_elements.same_fp8((copies[0], scales, *copies[2:]), copies))


def close_enough(given, wanted):
    return torch.allclose(given, wanted, rtol=1e-5, atol=1e-5)


class Operands(unittest.TestCase):
    """dw = dy^T x over 65 rows: 21x33."""

    def setUp(self):
        generator = torch.Generator("cpu").manual_seed(1)
        dy, x = (peers_gemm.randn(65, cols, torch.bfloat16, generator) for cols in (21, 33))
        (_, self.dy_t), (_, self.x_t) = (peers_gemm.both_ways(t, (1, 128), (1, 128)) for t in (dy, x))
        self.wanted = dy.float().t() @ x.float()

    def product(self, a, b):
        out = torch.zeros(a.values.shape[0], b.values.shape[0])
        octet_c.gemm_plan(a, b, out)()
        return out

    def test_padded_with_zeros_give_the_same_product(self):
        small = self.product(self.dy_t, self.x_t)
        self.assertTrue(peers_torch.close(small, self.wanted, 1e-2))
        for multiples in ((8, 16), (8, 128)):
            a, b = self.dy_t.padded(*multiples), self.x_t.padded(*multiples)
            self.assertEqual(tuple(a.values.shape), (24, 80 if multiples[1] == 16 else 128))
            large = self.product(a, b)
            self.assertTrue(close_enough(large[:21, :33], small))
            self.assertFalse(large[21:].any() or large[:, 33:].any())
        self.assertIs(a.padded(8, 128), a)

    def test_a_copy_has_the_numbers_in_other_memory(self):
        small = self.product(self.dy_t, self.x_t)
        a, b = self.dy_t.copy(), self.x_t.copy()
        self.assertNotEqual(a.values.data_ptr(), self.dy_t.values.data_ptr())
        for tensor in (self.dy_t, self.x_t):
            tensor.contents.zero_()
        self.assertTrue(torch.equal(self.product(a, b), small))

    def test_all_sets_of_a_product_give_the_same(self):
        options, outputs = types.SimpleNamespace(dtype="fp8", granularity="blockwise"), {}

        def compare(case, contenders):
            call = contenders["octet"]()
            outputs[case.product] = [call().clone() for _ in range(case.sets)]
            return []

        for _ in peers_gemm.cases((65, 21, 33), compare, options, 30000, device="cpu"):
            pass
        self.assertEqual(len(outputs), 5)
        for product, (first, *others) in outputs.items():
            self.assertGreater(len(others), 0, product)
            for number, other in enumerate(others, 2):
                sums = number if "+=" in product else 1
                self.assertTrue(close_enough(other.float(), sums * first.float()), product)


class EndScaled(unittest.TestCase):
    """Whole runs with a scale per tensor or per row. octet stands in for cuBLASLt, whose rules it must meet."""
    RAGGED = {"forward": "padded to 72x24x48", "dgrad": "padded to 72x40x32", "wgrad": "padded to 24x40x80",
              "wgrad f32 +=": "padded to 24x40x80"}

    def rows_of(self, *arguments):
        """Those of an even shape and an odd one."""
        gemm_plan = octet_c.gemm_plan

        def plan(a, b, d, accumulate=False, backend=None, fast_accumulation=False):
            if backend == "cublaslt":
                (m, k), n = a.values.shape, b.values.shape[0]
                self.assertEqual((m % 8, n % 8, k % 16), (0, 0, 0))
            return gemm_plan(a, b, d, accumulate, None, fast_accumulation)

        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "x.csv"
            options = peers_options.parse_arguments(
                ["--op", "gemm", "--dtype", "fp8", "--shape", "64x96x128", "--shape", "65x21x33", "-o", str(path),
                 *arguments])
            provenance = types.SimpleNamespace(fields=lambda _, command, ran: {"Command": command})
            table = peers_table.Table(options.op, options.output, provenance, {}, peers_options.repeats(options))

            def compare(case, contenders, same):
                return peers_rounds.compare(case, peers.chosen(contenders, options.library),
                                            peers_rounds.Protocol(), same, CallTimer())

            torch_alone = {"torch": peers_libraries.Torch()}
            with (mock.patch.object(octet_c, "gemm_plan", plan), contextlib.redirect_stdout(io.StringIO()),
                  mock.patch.object(peers_libraries, "available", lambda: torch_alone)):
                peers.run(options, lambda shape, timed: peers_gemm.cases(
                    shape, timed, options, 0, device="cpu"), compare, table)
            rows = list(csv.DictReader(path.read_text().splitlines()))
        self.assertEqual([row for row in rows if row["Check"] != "PASS"], [])
        self.assertEqual(list(dict.fromkeys(row["Product"] for row in rows)), list(self.RAGGED))
        for row in rows:
            if row["Library"] == "octet":
                self.assertIn("cpu_", row["Note"])
            elif row["Library"].startswith("cublaslt"):
                self.assertEqual(row["Note"], self.RAGGED[row["Product"]] if row["M"] == "65" else "")
        return rows

    def test_products_pass_in_every_mode(self):
        for granularity in ("tensorwise", "rowwise"):
            for mode, names in (([], ["octet", "cublaslt", "cublaslt fast", "torch"]),
                                (["--fast-accumulation"], ["octet", "cublaslt", "torch"])):
                found = {}
                for row in self.rows_of("--granularity", granularity, *mode):
                    found.setdefault((row["Product"], row["M"]), []).append(row["Library"])
                self.assertEqual(len(found), 8)
                for (product, _), libraries in found.items():
                    wanted = [name for name in names if name != "torch"] if "f32" in product else names
                    self.assertEqual(libraries, ["octet"] if (product, granularity) == ("wgrad f32 +=", "rowwise")
                                     else wanted)

    def test_one_library_asked_for_is_alone_beside_octet(self):
        for mode in ([], ["--fast-accumulation"]):
            rows = self.rows_of("--granularity", "tensorwise", "--library", "cublaslt", *mode)
            self.assertEqual([row["Library"] for row in rows], ["octet", "cublaslt"] * 8)

    def test_torch_gets_n_and_k_in_sixteens(self):
        rows = self.rows_of("--granularity", "rowwise", "--library", "torch")
        self.assertEqual([row["Note"] for row in rows if (row["M"], row["Library"]) == ("65", "torch")],
                         ["padded to 65x32x48", "padded to 65x48x32", "padded to 21x48x80"])


class Judge(unittest.TestCase):
    def test_fast_accumulation_may_be_less_exact_but_no_tile_may_be_wrong(self):
        generator = torch.Generator("cpu").manual_seed(1)
        wanted = torch.randn(512, 4096, generator=generator)
        noise = torch.randn(512, 4096, generator=generator)
        for decibels, is_close, is_close_to_fast in ((45, True, True), (35, False, True), (25, False, False)):
            given = wanted + 10 ** (-decibels / 20) * noise
            self.assertEqual((peers_torch.close(given, wanted), peers_gemm.close_to_fast(given, wanted)),
                             (is_close, is_close_to_fast))
        wrong = wanted.clone()
        wrong[:128, 128:256] = 0
        self.assertFalse(peers_gemm.close_to_fast(wrong, wanted))

    def test_few_rows_may_have_sums_near_zero_and_still_no_wrong_tile(self):
        generator = torch.Generator("cpu").manual_seed(1)
        wanted = torch.randn(1, 4096, generator=generator)
        rounded = wanted + 1e-3 * torch.randn(1, 4096, generator=generator)
        self.assertTrue(peers_torch.close(rounded, wanted))
        rounded[:, 512:640] = 0
        self.assertFalse(peers_torch.close(rounded, wanted))


if __name__ == "__main__":
    unittest.main()
