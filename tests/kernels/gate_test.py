"""Tests that the gate on compiled kernels can fail: each rule gets an input that breaks it."""
import collections
import pathlib
import struct
import tempfile
import unittest

import check_kernels
import cubin
import design
import digest
import ptxas_log

SQUARES = (
    "_ZN5octet4sm9011gemm_kernelINS_8ConstantIXtlNS_14Sm90GemmConfigELi256ELi128ELi4E"
    "LNS_9PromotionE0ELNS_5DtypeE4ELS5_4ELNS_7ColumnsE0ELi1ELNS_5MajorE0ELS7_0ELb0EEEEEEEvNS0_8GemmMapsENS0_10GemmParamsE"
)
CLEAN = f"""ptxas info    : Compiling entry function '{SQUARES}' for 'sm_90a'
ptxas info    : Function properties for {SQUARES}
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 168 registers, used 1 barriers
nvcc seconds: 26.9
"""


def elf(name, code):
    """A minimal cubin with one section of code."""
    names = b"\0" + name.encode() + b"\0.names\0"
    code_at, names_at = 64, 64 + len(code)
    table_at = names_at + len(names)
    header = b"\x7fELF" + bytes(14) + struct.pack("<H", cubin.EM_CUDA) + bytes(20)
    header += struct.pack("<Q", table_at) + bytes(10) + struct.pack("<HHH", 64, 3, 2)
    section = "<IIQQQQ16x8x"
    table = bytes(64)
    table += struct.pack(section, 1, 1, 0, 0, code_at, len(code))
    table += struct.pack(section, len(name) + 2, 3, 0, 0, names_at, len(names))
    return header + code + names + table


class PtxasLog(unittest.TestCase):
    def test_reads_a_clean_log(self):
        log = ptxas_log.read(CLEAN)
        self.assertEqual((log.entries, log.seconds, log.complaints), ([SQUARES], 26.9, []))

    def test_complains_about_spills_and_stacks(self):
        for part in ("stack frame", "spill stores", "spill loads"):
            text = CLEAN.replace(f"0 bytes {part}", f"8 bytes {part}")
            self.assertEqual(len(ptxas_log.read(text).complaints), 1, part)

    def test_complains_about_serialised_wgmma(self):
        for number in ("C7504", "C7508", "C7510", "C7514", "C7517"):
            text = f"ptxas info : ({number}) Potential Performance Loss: wgmma\n{CLEAN}"
            self.assertEqual(len(ptxas_log.read(text).complaints), 1, number)

    def test_complains_about_a_log_without_seconds(self):
        self.assertTrue(ptxas_log.read(CLEAN.replace("nvcc seconds", "minutes")).complaints)


class Cubin(unittest.TestCase):
    def test_counts_the_instructions_of_every_kernel(self):
        code = b"".join(
            struct.pack("<H14x", 0x7000 | operation) for operation in (0x9F3, 0x9F3, 0x220, 0x123)
        )
        counts = cubin.kernels(b"object" + elf(".text.k", code) + elf(".data", code))
        self.assertEqual(counts, {"k": {"QGMMA": 2, "FMUL": 1, "other": 1}})

    def test_tells_an_ffma_that_reads_one_bank_of_registers(self):
        def ffma(d, a, b, c):
            return struct.pack("<QQ", 0x7223 | d << 16 | a << 24 | b << 32, c)

        code = ffma(2, 4, 6, 8) + ffma(2, 5, 7, 9) + ffma(2, 4, 7, 8) + ffma(2, 4, 6, 9)
        counts = cubin.kernels(b"object" + elf(".text.k", code))
        self.assertEqual(counts, {"k": {"FFMA_ONE_BANK": 2, "FFMA": 2}})

    def test_tells_the_end_of_a_loop_over_lanes_from_other_branches(self):
        code = b"".join(
            struct.pack("<QQ", 0x0947, upper) for upper in (0x002FEA000393FFFF, 0x000FEA000383FFFF)
        )
        counts = cubin.kernels(b"object" + elf(".text.k", code))
        self.assertEqual(counts, {"k": {"LANE_LOOP": 1, "other": 1}})

    def test_finds_nothing_in_an_object_without_cubins(self):
        self.assertEqual(cubin.kernels(b"\x7fELF" + bytes(200)), {})


class Design(unittest.TestCase):
    def test_knows_the_configuration_of_a_kernel(self):
        self.assertEqual(design.gemm_config(SQUARES), (256, 128, 4, 0, 4, 4, 0, 1, 0, 0, 0))
        self.assertIsNone(design.gemm_config("_Z15quantize_kernelIf"))
        for kernel in ("15quantize_kernelI", "22quantize_groups_kernelI", "21quantize_batch_kernelI"):
            self.assertEqual(design.expected(f"_ZN5octet4sm90{kernel}")["FMUL"], 384)

    def test_sees_one_instruction_too_many_or_too_few(self):
        counts = collections.Counter(design.expected(SQUARES))
        self.assertEqual(design.differences(SQUARES, counts), [])
        for operation in design.expected(SQUARES):
            for change in (-1, 1):
                changed = collections.Counter(counts)
                changed[operation] += change
                self.assertEqual(len(design.differences(SQUARES, changed)), 1, operation)

    def test_counts_the_products_of_attention(self):
        kernel = (
            "_ZN5octet9attention24attention_forward_kernelINS_8ConstantIXtlNS_26Sm90Attention"
            "ForwardConfigELNS_5DtypeE3ELi192ELi128ELi128ELi80ELi2ELi1EEEEEEEvNS0_11ForwardMapsE"
        )
        counts = design.expected(kernel)
        self.assertEqual((counts["HGMMA"], counts["HGMMA_RS"], counts["WARPGROUP"]), (36, 15, 12))

    def test_sees_bank_conflicts_in_the_main_loop(self):
        counts = collections.Counter(design.expected(SQUARES))
        for moved, complaints in ((1, 0), (2, 1)):
            changed = counts + collections.Counter(FFMA_ONE_BANK=moved)
            changed["FFMA"] -= moved
            self.assertEqual(len(design.differences(SQUARES, changed)), complaints)

    def test_reads_the_list_of_configurations(self):
        line = "    {64, 256, 5, Promotion::one_by_one, Dtype::e4m3, Dtype::e5m2},\n"
        self.assertEqual(design.listed_configs(line), {(0, (64, 256, 5, 1, 4, 5, 0, 1, 0, 0, 0))})
        pair = line.replace("e5m2}", "e5m2, Columns::paired, 2}")
        self.assertEqual(design.listed_configs(pair), {(0, (64, 256, 5, 1, 4, 5, 1, 2, 0, 0, 0))})
        grouped = f"    {{Groups::contraction,\n {pair.strip().removesuffix(',')}}},\n"
        self.assertEqual(design.listed_configs(grouped), {(2, (64, 256, 5, 1, 4, 5, 1, 2, 0, 0, 0))})
        in_turn = "    unpromoted_in_turn(128, 192, 5, 2),\n"
        self.assertEqual(design.listed_configs(in_turn), {(0, (128, 192, 5, 3, 4, 4, 0, 2, 0, 0, 1))})

    def test_reads_the_list_of_16_bit_configurations(self):
        for more, cluster in (("", 1), (", 2", 2)):
            self.assertEqual(
                design.listed_configs(f"    config16(kDtype, Major::k, Major::mn, 64, 128, 8{more}),\n"),
                {(0, (64, 128, 8, 3, dtype, dtype, 0, cluster, 0, 1, 0)) for dtype in (2, 3)},
            )

    def test_sees_sums_that_are_not_added_up(self):
        kernel = SQUARES.replace("PromotionE0", "PromotionE2")
        counts = collections.Counter(design.expected(kernel)) + collections.Counter(FADD=2 * 64 * 8)
        self.assertEqual(design.differences(kernel, counts), [])
        counts["FADD"] -= 1
        self.assertEqual(len(design.differences(kernel, counts)), 1)

    def test_tells_kernels_over_groups_from_dense_ones(self):
        grouped = SQUARES.replace(
            "NS_8ConstantIXtlNS_14Sm90",
            "NS0_15GroupedConstantIXtlNS_21Sm90GroupedGemmConfigELNS_6GroupsE1EtlNS_14Sm90",
        )
        self.assertEqual((design.groups(SQUARES), design.groups(grouped)), (0, 1))
        self.assertEqual(design.gemm_config(grouped), design.gemm_config(SQUARES))
        squares = "    {256, 128, 4, Promotion::product_of_scales, Dtype::e4m3, Dtype::e4m3},\n"
        over_rows = f"    {{Groups::rows, {squares.strip().removesuffix(',')}}},\n"
        self.assertEqual(check_kernels.judge_configs([SQUARES, grouped], [squares, over_rows]), [])
        for kernels in ([SQUARES], [grouped]):
            self.assertEqual(len(check_kernels.judge_configs(kernels, [squares, over_rows])), 1)

    def test_wants_a_kernel_of_all_widths_for_every_list_by_sizes(self):
        headers = [
            "{Groups::rows,\n {128, 256, 4, Promotion::product_of_scales, Dtype::e4m3, Dtype::e4m3},\n Width::by_sizes},",
            "{Groups::rows, config16(kDtype, Major::k, Major::mn, 128, 256, 4), Width::by_sizes},",
        ]
        kernels = ["gemm_widths_kernelINS_9RowWidthsE"] + [
            f"gemm_widths_kernelINS_11RowWidths16ILNS_5DtypeE{dtype}ELNS_5MajorE1EEE" for dtype in (2, 3)
        ]
        self.assertEqual({family for header in headers for family in design.listed_by_sizes(header)},
                         {design.widths_family(kernel) for kernel in kernels})
        for missing in kernels:
            left = [kernel for kernel in kernels if kernel != missing]
            complaints = check_kernels.judge_configs(left, headers)
            self.assertRegex(complaints[-1], "widths by sizes listed and compiled differ")


class Digest(unittest.TestCase):
    """The digest ties a published row to the kernels that ran."""

    def digests(self, objects):
        with tempfile.TemporaryDirectory() as folder:
            paths = []
            for path, kernels in objects.items():
                paths.append(pathlib.Path(folder) / "octet_objects.dir" / path)
                paths[-1].parent.mkdir(parents=True, exist_ok=True)
                cubins = b"".join(elf(f".text.{name}", code) for name, code in kernels.items())
                paths[-1].write_bytes(b"object" + cubins)
            operators = {
                "gemm": ["ops/gemm", "ops/quantize"],
                "quantize": ["ops/quantize", "ops/quantize/experts"],
                "rope": ["ops/rope"],
                "gemm_bf16": ["ops/gemm/sm90/kernels_bf16"],
            }
            return digest.digests(operators, digest.kernel_hashes(paths))

    def setUp(self):
        self.tree = {
            "ops/gemm/sm90/kernels.cu.o": {"a": b"A" * 16, "b": b"B" * 16},
            "ops/quantize/tile.cu.o": {"c": b"C" * 16},
            "ops/quantize/experts/groups.cu.o": {"e": b"E" * 16},
            "ops/rope/heads.cu.o": {"d": b"D" * 16},
            "ops/gemm/sm90/kernels_bf16.cu.o": {"f": b"F" * 16},
        }

    def test_has_twelve_digits_and_is_the_same_for_the_same_code(self):
        first, again = self.digests(self.tree), self.digests(self.tree)
        self.assertEqual(first, again)
        for value in first.values():
            self.assertRegex(value, "^[0-9a-f]{12}$")

    def test_ignores_names_files_and_order(self):
        renamed = {
            "ops/gemm/other.cu.o": {"y": b"B" * 16},
            "ops/gemm/sm90/kernels.cu.o": {"x": b"A" * 16},
            "ops/quantize/tile.cu.o": {"c": b"C" * 16},
            "ops/quantize/experts/groups.cu.o": {"e": b"E" * 16},
            "ops/rope/heads.cu.o": {"d": b"D" * 16},
            "ops/gemm/sm90/kernels_bf16.cu.o": {"g": b"F" * 16},
        }
        self.assertEqual(self.digests(renamed), self.digests(self.tree))

    def test_follows_the_code_of_the_operators_that_run_it(self):
        before = self.digests(self.tree)
        for path, changed in (
            ("ops/gemm/sm90/kernels.cu.o", {"gemm"}),
            ("ops/gemm/sm90/kernels_bf16.cu.o", {"gemm_bf16"}),
            ("ops/quantize/tile.cu.o", {"gemm", "quantize"}),
            ("ops/quantize/experts/groups.cu.o", {"quantize"}),
            ("ops/rope/heads.cu.o", {"rope"}),
        ):
            tree = {**self.tree, path: {**self.tree[path], "new": b"N" * 16}}
            after = self.digests(tree)
            self.assertEqual({op for op in after if after[op] != before[op]}, changed, path)

    def test_refuses_an_operator_whose_kernels_are_not_there(self):
        del self.tree["ops/quantize/tile.cu.o"]
        with self.assertRaisesRegex(SystemExit, "gemm runs kernels of ops/quantize"):
            self.digests(self.tree)


class Budgets(unittest.TestCase):
    BUDGETS = {
        "folders": {"ops/gemm": {"kernels": 2, "instructions": 1000}},
        "planned": {"attention": {"kernels": 3, "instructions": 2000}},
        "all": {"kernels": 5, "instructions": 3000},
    }

    def complaints(self, used, **changed):
        used = {folder: check_kernels.Usage(*numbers) for folder, numbers in used.items()}
        return check_kernels.judge_budgets(used, {**self.BUDGETS, **changed})

    def test_hold_each_folder_to_its_own(self):
        self.assertEqual(self.complaints({"ops/gemm": (2, 1000)}), [])
        self.assertEqual(len(self.complaints({"ops/gemm": (3, 1000)})), 1)
        self.assertEqual(len(self.complaints({"ops/gemm": (2, 1001)})), 1)

    def test_are_wanted_of_every_folder(self):
        self.assertRegex(self.complaints({"ops/new": (1, 1)})[0], "ops/new has no budget")

    def test_do_not_promise_more_than_there_is(self):
        self.assertRegex(
            self.complaints({}, all={"kernels": 4, "instructions": 3000})[0], "add up to 5 kernels"
        )

    def test_count_the_instructions_of_an_object(self):
        path = pathlib.Path("octet_objects.dir/ops/gemm/kernels.cu.o")
        counts = cubin.kernels(b"object" + elf(".text.k", bytes(16 * 7)) + elf(".text.l", bytes(16 * 2)))
        used = check_kernels.usage([path], [counts], [ptxas_log.read(CLEAN)])
        self.assertEqual(used, {"ops/gemm": check_kernels.Usage(2, 9, 26.9)})
        self.assertEqual(check_kernels.judge_file(path.name, counts, 9), [])
        self.assertEqual(len(check_kernels.judge_file(path.name, counts, 8)), 1)


if __name__ == "__main__":
    unittest.main()
