"""The shapes and suites of tools/peers.py, and its command line for them: no GPU, no torch."""

import csv
import os
import pathlib
import sys
import tempfile
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "tools"))

import peers_builds  # noqa: E402
import peers_cases  # noqa: E402
import peers_options  # noqa: E402
import peers_rounds  # noqa: E402
import peers_table  # noqa: E402
from peers_rounds import Case  # noqa: E402
from peers_support import CommandLineTest  # noqa: E402


def shapes_of(*arguments):
    return peers_options.parse_arguments(arguments).shape


class GroupSizes(unittest.TestCase):
    def test_skewed_ones_are_those_of_octet_bench(self):
        # group_sizes() of src/check/data/group_sizes.cpp, seed 1.
        self.assertEqual(peers_cases.group_sizes("skewed", 8, 4096),
                         [240, 489, 610, 578, 605, 337, 690, 547])
        self.assertEqual(peers_cases.group_sizes("skewed", 3, 1000), [179, 365, 456])

    def test_balanced_ones_differ_by_one_at_most(self):
        self.assertEqual(peers_cases.group_sizes("balanced", 3, 11), [4, 4, 3])

    def test_the_generator_has_its_published_values(self):
        # Known answers of Random123 for philox4x32-10.
        self.assertEqual(peers_cases.philox((0, 0, 0, 0), (0, 0)),
                         (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8))
        ones = 0xFFFFFFFF
        self.assertEqual(peers_cases.philox((ones,) * 4, (ones,) * 2),
                         (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD))


class Suites(unittest.TestCase):
    def test_have_the_cases_of_their_files(self):
        grouped = shapes_of("--op", "grouped-gemm", "--suite", "grouped288")
        self.assertEqual((len(grouped), grouped[0]), (288, (8, 4096, 4096, 7168, "balanced")))
        attention = shapes_of("--op", "attention", "--suite", "attention78")
        self.assertEqual((len(attention), attention[0]),
                         (78, (1, 4096, 32, 32, 128, 128, "full")))
        causal = shapes_of("--op", "attention", "--suite", "attention78", "--mask", "causal")
        self.assertEqual((len(causal), {shape[-1] for shape in causal}), (39, {"causal"}))

    def test_are_dealt_to_shards_and_thinned_out(self):
        def some(*arguments):
            return shapes_of("--op", "grouped-gemm", "--suite", "grouped288", *arguments)

        self.assertEqual(some("--every", "24"), some()[::24])
        shards = [some("--every", "7", "--num-shards", "3", "--shard-id", str(i)) for i in range(3)]
        self.assertEqual(sorted(sum(shards, [])), sorted(some()[::7]))
        self.assertEqual(shards[1][0], some()[7])

    def test_the_dozen_is_of_the_suite(self):
        dozen = shapes_of("--op", "grouped-gemm", "--group-sizes", "skewed")
        self.assertEqual(len(set(dozen)), 12)
        self.assertLessEqual(set(dozen), set(peers_cases.suite("grouped288", ["skewed"])))
        few = {shape[:-1] for shape in shapes_of("--op", "attention")}
        self.assertLessEqual(few, {shape[:-1] for shape in peers_cases.suite(
            "attention78", ["full", "causal"])})


# Stands for the octet beside the library: says how it was called, and "draws" two layers.
DRAWS_TWO = """#!/bin/sh
[ "$*" = "bench gemm --random 2 --seed 7 --list --device cpu" ] || { echo "octet: called $*" >&2; exit 2; }
echo "16x64x128  random M<=256 7/1"
echo "4096x64x127  random M>256 7/2"
"""


class RandomLayers(CommandLineTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.use(self.folder)

    def use(self, folder):
        """The octet of this folder is the one beside the library."""
        library = unittest.mock.patch.dict(os.environ, OCTET_LIBRARY=str(folder / "liboctet.so"))
        library.start()
        self.addCleanup(library.stop)

    def draws_two(self):
        (self.folder / "octet").write_text(DRAWS_TWO)
        (self.folder / "octet").chmod(0o755)

    def test_are_those_that_the_tool_beside_the_library_draws(self):
        self.draws_two()
        options = peers_options.parse_arguments(["--random", "2", "--seed", "7"])
        self.assertEqual(options.shape, [(16, 64, 128), (4096, 64, 127)])
        self.assertEqual(options.names, ["random M<=256 7/1", "random M>256 7/2"])
        every_second = peers_options.parse_arguments(["--random", "2", "--seed", "7", "--every", "2"])
        self.assertEqual((every_second.shape, every_second.names),
                         ([(16, 64, 128)], ["random M<=256 7/1"]))
        command = peers_options.repeats(options)(Case(options.shape[0], "forward", "fp8", 1))
        self.assertEqual(command,
                         "tools/peers.py --op gemm --dtype fp8 --shape 16x64x128 --rounds 5")

    def test_of_the_real_tool_have_names(self):
        if "OCTET_TOOL" not in os.environ:
            self.skipTest("OCTET_TOOL names no octet")
        self.use(pathlib.Path(os.environ["OCTET_TOOL"]).parent)
        few = peers_options.parse_arguments(["--random", "3"])
        self.assertEqual(list(zip(few.shape, few.names)),
                         [((739, 4096, 384), "random M>256 1/1"),
                          ((18669, 4025, 2003), "random M>256 1/2"),
                          ((4, 640, 3696), "random M<=256 1/3")])

    def test_of_few_rows_are_apart_from_those_of_many(self):
        self.draws_two()
        table, rows = self.table_of_drawn()
        self.assertEqual([(row["M"], row["Case"]) for row in rows],
                         [("16", "random M<=256 7/1"), ("4096", "random M>256 7/2")])
        lines = peers_table.summary(table.results, "TFLOPS")
        self.assertEqual([line.partition("  octet")[0].strip() for line in lines[1:]],
                         ["fp8 forward random M<=256", "fp8 forward random M>256"])

    def table_of_drawn(self):
        """A table with an octet row for each of the two layers, and its rows."""
        path = self.folder / "x.csv"
        options = peers_options.parse_arguments(["--random", "2", "--seed", "7", "-o", str(path)])

        class Provenance:
            def fields(self, result, command, ran):
                return {"Command": command}

        table = peers_table.Table("gemm", options.output, Provenance(), {},
                                  peers_options.repeats(options), any(options.names))
        for shape, name in zip(options.shape, options.names):
            case = Case(shape, "forward", "fp8", 1e12, name=name)
            table.add([peers_rounds.Result(case, "octet", "PASS", [1.0], 1.0)])
        table.close()
        return table, list(csv.DictReader(path.read_text().splitlines()))

    def test_of_one_shape_are_two_cases(self):
        self.draws_two()
        tool = self.folder / "octet"
        tool.write_text(tool.read_text().replace("4096x64x127", "16x64x128"))
        table, rows = self.table_of_drawn()
        self.assertEqual([(row["M"], row["Case"]) for row in rows],
                         [("16", "random M<=256 7/1"), ("16", "random M>256 7/2")])
        self.assertEqual(len(peers_table.summary(table.results, "TFLOPS")), 1 + 2)
        for result in table.results:
            result.library, result.ratio = "before", 2.0 if result.case.name[-1] == "1" else 0.5
        self.assertEqual([line.split()[-1] for line in peers_builds.ratios(table.results, "before")[2:4]],
                         ["2.0000", "0.5000"])

    def test_other_tables_have_no_names(self):
        self.assertNotIn("Case", peers_table.Table("gemm", None, None, {}, None).columns)

    def test_are_refused_with_what_was_given_and_wanted(self):
        for given, arguments in (("rope", ["--op", "rope"]), ("--shape", ["--shape", "1x2x3"])):
            self.assertIn(f"--random goes with gemm and without --shape and --suite, got it with {given}",
                          self.refusal("--random", "2", *arguments))
        self.assertIn("--random must be at least 1, got 0", self.refusal("--random", "0"))
        self.assertIn("--seed selects the draw of --random, got --seed 3 without it",
                      self.refusal("--seed", "3"))
        self.assertIn("the octet beside the library draws the layers", self.refusal("--random", "2"))
        self.draws_two()
        self.assertIn("octet: called bench gemm --random 3", self.refusal("--random", "3"))


class CommandLine(CommandLineTest):
    def test_heads_of_v_are_like_those_of_k_unless_given(self):
        self.assertEqual(shapes_of("--op", "attention", "--shape", "1x2x4x2x64", "--mask", "full"),
                         [(1, 2, 4, 2, 64, 64, "full")])
        self.assertEqual(
            shapes_of("--op", "attention", "--shape", "1x2x4x2x192x128"),
            [(1, 2, 4, 2, 192, 128, "full"), (1, 2, 4, 2, 192, 128, "causal")])

    def test_every_spread_of_every_shape_is_run(self):
        self.assertEqual(
            shapes_of("--op", "grouped-gemm", "--shape", "2x8x3x4", "--group-sizes", "balanced",
                      "--group-sizes", "skewed"),
            [(2, 8, 3, 4, "balanced"), (2, 8, 3, 4, "skewed")])

    def test_refuses_with_what_was_given_and_wanted(self):
        self.assertIn("GroupsxMxNxK with grouped-gemm, got 1x2x3",
                      self.refusal("--op", "grouped-gemm", "--shape", "1x2x3"))
        self.assertIn("--suite grouped288 goes with grouped-gemm and without --shape, got it with "
                      "attention", self.refusal("--op", "attention", "--suite", "grouped288"))
        self.assertIn("--group-sizes goes with grouped-gemm, got it with gemm",
                      self.refusal("--group-sizes", "skewed"))
        self.assertIn("--mask goes with attention, got it with moe-mlp",
                      self.refusal("--op", "moe-mlp", "--mask", "causal"))
        self.assertIn("--every must be at least 1, got 0", self.refusal("--every", "0"))
        self.assertIn("--shard-id must be 0 to 1, got 2",
                      self.refusal("--num-shards", "2", "--shard-id", "2"))
        self.assertIn("--round-seconds must be above 0", self.refusal("--round-seconds", "0"))
        self.assertIn("--seconds-per-case must be above 0, got 0.0",
                      self.refusal("--seconds-per-case", "0"))
        self.assertIn("not allowed with argument --round-seconds",
                      self.refusal("--round-seconds", "1", "--seconds-per-case", "1"))
        self.assertIn("--fresh goes with -o, got it without", self.refusal("--fresh"))
        self.assertIn("with attention: no product here is compiled",
                      self.refusal("--op", "attention", "--compile-mode", "default"))

    def test_the_command_of_a_row_has_what_it_takes(self):
        options = peers_options.parse_arguments(
            ["--op", "grouped-gemm", "--suite", "grouped288", "--every", "3", "--group-sizes",
             "skewed", "--round-seconds", "0.03"])
        command = peers_options.repeats(options)(Case(options.shape[0], "forward", "fp8", 1))
        self.assertEqual(command, "tools/peers.py --op grouped-gemm --shape 8x4096x4096x7168 "
                         "--group-sizes skewed --rounds 5 --round-seconds 0.03")
        again = peers_options.parse_arguments(command.split()[1:])
        self.assertEqual((again.shape, again.round_seconds), ([options.shape[0]], 0.03))


class Protocol(unittest.TestCase):
    def test_a_call_may_bring_its_own_judge(self):
        def judged():
            return 5.0
        judged.same = lambda given, wanted: given == wanted + 4

        class Timer:
            def batch(self, call, case, round_seconds): return call
            def seconds(self, batch): return batch()
            def reading(self): return None, None

        results = peers_rounds.compare(
            Case((1,), "forward", "fp8", 1), {"octet": lambda: lambda: 1.0, "peer": lambda: judged},
            peers_rounds.Protocol(), lambda given, wanted: given == wanted, Timer())
        self.assertEqual([r.check for r in results], ["PASS", "PASS"])

    def test_a_case_is_as_long_as_asked_for(self):
        self.assertEqual(peers_rounds.Protocol(5, 0.02).seconds_of_round(3), 0.02)
        # A sizing round, a warm-up and five timed ones of each of three, with as long to settle.
        self.assertAlmostEqual(peers_rounds.Protocol(5, 0.08, 2.1).seconds_of_round(3), 0.05)

    def test_spreads_have_lines_of_their_own_in_the_summary(self):
        cases = [Case((2, 8, 3, 4, spread), "forward", "fp8", 1e12)
                 for spread in ("balanced", "skewed")]
        lines = peers_table.summary(
            [peers_rounds.Result(case, "octet", "PASS", [1.0], 1.0) for case in cases], "TFLOPS")
        self.assertEqual(len(lines), 3)
        self.assertRegex(lines[2], r"fp8 forward skewed +octet .* 2x8x3x4 skewed, 1 TFLOPS")


if __name__ == "__main__":
    unittest.main()
