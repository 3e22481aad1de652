"""The protocol, the table and the command line of tools/peers.py."""

import contextlib
import csv
import io
import os
import pathlib
import re
import stat
import sys
import tempfile
import unittest
from unittest import mock

TOOLS = pathlib.Path(__file__).resolve().parent.parent.parent / "tools"
sys.path.insert(0, str(TOOLS))

import peers  # noqa: E402
import peers_builds  # noqa: E402
import peers_digests  # noqa: E402
import peers_options  # noqa: E402
import peers_rounds  # noqa: E402
import peers_table  # noqa: E402
from peers_support import CommandLineTest  # noqa: E402
from peers_rounds import Case  # noqa: E402


class MadeUpTimer:
    """Outputs are numbers and a call takes as many seconds as `costs` says of its output."""

    def __init__(self, costs):
        self.costs, self.timed = costs, []

    def batch(self, call, case, round_seconds):
        return call()

    def seconds(self, batch):
        self.timed.append(batch)
        return self.costs[batch]

    def reading(self):
        return 1980, 650.0


def returns(value):
    return lambda: lambda: value


def raises(message, kind=RuntimeError):
    def make():
        raise kind(message)
    return make


def compare(contenders, costs, case=Case((2, 3, 4), "forward", "fp8", 1e12)):
    said, timer = [], MadeUpTimer(costs)
    results = peers_rounds.compare(
        case, contenders, peers_rounds.Protocol(), lambda given, wanted: abs(given - wanted) < 1,
        timer, said.append)
    return {r.library: r for r in results}, said, timer


class Rounds(unittest.TestCase):
    def test_a_ratio_is_the_peers_time_over_ours(self):
        results, said, timer = compare({"octet": returns(1.0), "peer": returns(1.5)},
                                       {1.0: 2.0, 1.5: 3.0})
        self.assertEqual(results["peer"].ratio, 1.5)
        self.assertEqual(results["octet"].ratio, 1.0)
        self.assertEqual(results["octet"].rate, 0.5)
        self.assertEqual(results["peer"].clock_mhz, 1980)
        self.assertEqual(said, [])
        there, back = [1.0, 1.5], [1.5, 1.0]
        self.assertEqual(timer.timed, there + (there + back) * 2 + there,
                         "a warm-up and five rounds, interleaved")

    def test_a_wrong_output_is_not_timed(self):
        results, said, timer = compare({"octet": returns(1.0), "peer": returns(5.0)}, {1.0: 2.0})
        self.assertEqual(results["peer"].check, "FAIL")
        self.assertEqual(results["peer"].seconds, [])
        self.assertNotIn(5.0, timer.timed)
        self.assertEqual(len(said), 1)

    def test_a_peer_that_cannot_run_has_a_row_with_the_reason_and_the_others_go_on(self):
        results, said, _ = compare({"octet": returns(1.0), "peer": raises("no kernel\nat line 7"),
                                    "other": returns(1.5)}, {1.0: 2.0, 1.5: 3.0})
        peer = results["peer"]
        self.assertEqual((peer.check, peer.note, peer.seconds), ("ERROR", "no kernel", []))
        self.assertFalse(peer.failed, "it is not octet that failed")
        self.assertEqual(results["other"].ratio, 1.5)
        self.assertEqual(len(said), 1)
        self.assertIn("peer: ERROR, no kernel", said[0])
        self.assertNotIn("line 7", said[0])

    def test_a_peer_that_fails_when_it_is_timed_has_a_row_too(self):
        timer = MadeUpTimer({1.0: 2.0})
        results = peers_rounds.compare(
            Case((2, 3, 4), "forward", "fp8", 1e12), {"octet": returns(1.0), "peer": returns(1.5)},
            peers_rounds.Protocol(), lambda given, wanted: True, timer, lambda _: None)
        checks = {r.library: (r.check, r.failed) for r in results}
        self.assertEqual(checks, {"octet": ("PASS", False), "peer": ("ERROR", False)})

    def test_what_octet_itself_chooses_is_no_peer(self):
        results, said, _ = compare(
            {"octet": returns(1.0), "peer": raises("it is chosen", peers_rounds.LeftOut)},
            {1.0: 2.0})
        self.assertEqual(list(results), ["octet"])
        self.assertIn("peer: left out, it is chosen", said[0])

    def test_a_row_says_what_ran(self):
        def call():
            return 1.0
        call.note = "mode default"
        results, _, _ = compare({"octet": lambda: call, "peer": returns(1.0)}, {1.0: 2.0})
        self.assertEqual([results[n].note for n in ("octet", "peer")], ["mode default", ""])

    def test_octet_itself_must_not_fail(self):
        results, _, timer = compare({"octet": raises("oops"), "peer": returns(1.0)}, {})
        self.assertEqual({n: (r.check, r.note, r.failed) for n, r in results.items()},
                         {"octet": ("ERROR", "oops", True)})
        self.assertEqual(timer.timed, [])

    def test_other_data_is_timed_without_comparison(self):
        case = Case((2, 3, 4), "wgrad 2d", "fp8", 1e12, frozenset(["peer 1d"]))
        results, _, _ = compare({"octet": returns(1.0), "peer 1d": returns(9.0)},
                                {1.0: 2.0, 9.0: 2.5}, case)
        self.assertEqual(results["peer 1d"].ratio, 1.25)

    def test_the_fastest_peer_is_not_octet_and_has_passed(self):
        results, _, _ = compare({"octet": returns(1.0), "slow": returns(1.2), "quick": returns(1.1),
                                 "wrong": returns(7.0)}, {1.0: 1.0, 1.2: 3.0, 1.1: 2.0})
        self.assertEqual(peers_rounds.fastest_peer(list(results.values())).library, "quick")
        self.assertIsNone(peers_rounds.fastest_peer([results["octet"], results["wrong"]]))


class Batches(unittest.TestCase):
    def test_short_calls_are_many_and_one_graph_and_long_ones_neither(self):
        self.assertEqual(peers_rounds.batch_of(2e-5, 0.08), (256, True))
        self.assertEqual(peers_rounds.batch_of(9e-4, 0.01), (12, True))
        self.assertEqual(peers_rounds.batch_of(5e-3, 0.08), (16, False))
        self.assertEqual(peers_rounds.batch_of(1.0, 0.08), (3, False))

    def test_a_graph_takes_every_set_of_operands_equally_often(self):
        self.assertEqual(peers_rounds.batch_of(2e-5, 0.08, 100), (300, True))
        self.assertEqual(peers_rounds.batch_of(2e-5, 0.08, 1024), (1024, True))
        self.assertEqual(peers_rounds.batch_of(9e-4, 0.01, 5), (15, True))

    def test_are_repeated_until_the_round_is_long_enough(self):
        self.assertEqual(peers_rounds.repeats_of(0.001, 0.08), 80)
        self.assertEqual(peers_rounds.repeats_of(0.03, 0.08), 3)
        self.assertEqual(peers_rounds.repeats_of(3.0, 0.08), 1)


class Quickest(unittest.TestCase):
    def seconds(self, call):
        cost = call()
        if cost is None:
            raise RuntimeError("cannot be compiled")
        return cost

    def test_is_the_mode_that_takes_the_least_time(self):
        calls = {"default": lambda: 2.0, "max-autotune-no-cudagraphs": lambda: 1.0}
        best = peers_rounds.quickest(calls, self.seconds)
        self.assertEqual((best(), best.note), (1.0, "mode max-autotune-no-cudagraphs"))

    def test_does_without_a_mode_that_fails(self):
        best = peers_rounds.quickest({"default": lambda: 2.0, "other": lambda: None}, self.seconds)
        self.assertEqual(best.note, "mode default")
        with self.assertRaisesRegex(RuntimeError, "cannot be compiled"):
            peers_rounds.quickest({"a": lambda: None, "b": lambda: None}, self.seconds)

    def test_times_nothing_where_there_is_no_choice(self):
        best = peers_rounds.quickest({"default": lambda: None}, None)
        self.assertEqual(best.note, "mode default")


class Provenance:
    """`sources`: the digest of every case, or a function of what octet ran."""
    def __init__(self, sources="012345678901"):
        self.sources_of = sources if callable(sources) else lambda ran: sources

    def origin(self, ran):
        return {"GPU": "H", "Device Sources": self.sources_of(ran)}

    def fields(self, result, command, ran):
        return {**self.origin(ran), "Driver": "1", "Commit": "abc", "Command": command}


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)


def read_rows(path):
    return list(csv.DictReader(path.read_text().splitlines()))


def run(arguments, cases_of, compare_case, clock=lambda: 0, sources="012345678901", version="1.2"):
    options = peers_options.parse_arguments(arguments)
    table = peers_table.Table(options.op, options.output, Provenance(sources), {"peer": version},
                              peers_options.repeats(options), fresh=options.fresh)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        peers.run(options, cases_of, compare_case, table, options.max_seconds, clock)
    return table, out.getvalue()


def two_products(shape, compare_case):
    for product in ("forward", "dgrad"):
        yield compare_case(Case(shape, product, "fp8", 1e12), {})


def made_up_results(case, _contenders):
    return [peers_rounds.Result(case, "octet", "PASS", [1.0] * 5, 1.0, 1980, 650.0),
            peers_rounds.Result(case, "peer", "PASS", [case.shape[0] / 2] * 5, case.shape[0] / 2),
            peers_rounds.Result(case, "other", "FAIL", [], note="it differs")]


class Runs(Folder):
    def test_every_row_has_its_provenance_and_a_failure_its_status(self):
        path = self.folder / "x.csv"
        table, out = run(["--shape", "1x1x1", "--shape", "4x1x1", "-o", str(path)], two_products,
                         made_up_results, lambda: 0)
        rows = read_rows(path)
        self.assertEqual(len(rows), 2 * 2 * 3)
        self.assertEqual({row["Device Sources"] for row in rows}, {"012345678901"})
        self.assertEqual(rows[0]["Command"],
                         "tools/peers.py --op gemm --dtype fp8 --shape 1x1x1 --rounds 5")
        self.assertEqual((rows[1]["Version"], rows[1]["Ratio"]), ("1.2", "0.5000"))
        self.assertEqual([rows[2][c] for c in ("Check", "TFLOPS", "Time (ms)", "Note")],
                         ["FAIL", "", "", "it differs"])
        self.assertTrue(table.failed())
        self.assertFalse((self.folder / "x.csv.part").exists())
        summary = [line for line in out.splitlines() if line.startswith("fp8 forward")]
        self.assertEqual(len(summary), 3)
        # The geometric mean of 0.5 and 2, and where octet does worst.
        self.assertRegex(summary[1], r"peer +1 +1\.000 +2 of 2 +1x1x1, ratio 0\.500")
        self.assertRegex(summary[2], r"other +0 of 2")

    def test_time_runs_out_between_products_and_keeps_the_rows(self):
        path, ticks = self.folder / "x.csv", iter([1, 11])
        table, out = run(["--shape", "1x1x1", "--max-seconds", "10", "-o", str(path)], two_products,
                         made_up_results, lambda: next(ticks))
        self.assertEqual({r.case.product for r in table.results}, {"forward"})
        self.assertIn("--max-seconds 10", out)
        self.assertEqual(len(read_rows(path)), 3)

    def test_rows_are_on_disk_as_they_come_and_the_old_file_stays_until_the_end(self):
        path, seen = self.folder / "x.csv", []
        run(["--shape", "4x1x1", "-o", str(path)], two_products, made_up_results)
        old = path.read_text()

        def looking(case, contenders):
            seen.append((path.read_text(), (self.folder / "x.csv.part").read_text().count("\n")))
            return made_up_results(case, contenders)

        run(["--shape", "1x1x1", "-o", str(path)], two_products, looking, lambda: 0)
        self.assertEqual(seen, [(old, 1), (old, 4)])
        self.assertEqual([row["M"] for row in read_rows(path)], ["4"] * 6 + ["1"] * 6)

    def test_only_the_products_asked_for_are_timed(self):
        table, _ = run(["--shape", "1x1x1", "--product", "dgrad"], two_products, made_up_results,
                       lambda: 0)
        self.assertEqual({r.case.product for r in table.results}, {"dgrad"})
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors), self.assertRaises(SystemExit) as stopped:
            run(["--product", "wgrad"], two_products, made_up_results, lambda: 0)
        self.assertEqual(stopped.exception.code, 2)
        self.assertIn("--product must be one of dgrad, forward, got wgrad", errors.getvalue())


# A tree's tools: octet_c as it finds its library, and products whose output is that library.
OCTET_C = """
import os
library_path = os.environ["OCTET_LIBRARY"]
"""
PEERS_GEMM = """
import octet_c
from peers_rounds import Case

def cases(shape, compare, options, l2_bytes, device):
    for product in PRODUCTS:
        makers = {"octet": lambda: lambda: octet_c.library_path, "peer": None}
        yield compare(Case(shape, product, device, 1e12), makers)
"""


class Builds(Folder):
    def text(self, name, products=("forward", "dgrad")):
        """A --library with a tree of its own."""
        tools = self.folder / name / "tools"
        tools.mkdir(parents=True)
        (tools / "octet_c.py").write_text(OCTET_C)
        (tools / "peers_rounds.py").write_text((TOOLS / "peers_rounds.py").read_text())
        (tools / "peers_gemm.py").write_text(PEERS_GEMM + f"PRODUCTS = {products}\n")
        library = tools.parent / "liboctet.so"
        library.write_text("")
        return f"{name}={library}:{tools}"

    def loaded(self, *texts):
        builds = [peers_builds.Build.parse(text) for text in texts]
        return {build.name: build.load("gemm") for build in builds}

    def test_each_calls_its_own_library_and_ours_stays(self):
        modules, path = dict(sys.modules), sys.path[:]
        os.environ["OCTET_LIBRARY"] = "ours"
        self.addCleanup(os.environ.pop, "OCTET_LIBRARY")
        builds = self.loaded(self.text("before"), self.text("now"))
        self.assertEqual(os.environ["OCTET_LIBRARY"], "ours")
        self.assertEqual((sys.path, sys.modules["peers_rounds"]), (path, modules["peers_rounds"]))
        self.assertNotIn("octet_c", sys.modules)
        for name, (wrapper, _) in builds.items():
            self.assertEqual(wrapper.library_path, str(self.folder / name / "liboctet.so"))

        outputs = []

        def compare_case(case, contenders):
            outputs.append((case.product, {n: make()() for n, make in contenders.items()}))
            return []

        with_builds = peers_builds.beside(builds, compare_case, (1, 1, 1), None, 0, "cpu")
        for _ in two_products((1, 1, 1), lambda case, _: with_builds(
                case, {"octet": returns("ours")})):
            pass
        wanted = {"octet": "ours"} | {n: str(self.folder / n / "liboctet.so") for n in builds}
        self.assertEqual(outputs, [("forward", wanted), ("dgrad", wanted)])

    def test_must_compute_the_same_products(self):
        for name, products, message in (("other", ("wgrad",), "compute wgrad, these forward"),
                                        ("none", (), "compute nothing more, these forward")):
            builds = self.loaded(self.text(name, products))
            with_builds = peers_builds.beside(builds, None, (1, 1, 1), None, 0, "cpu")
            with self.assertRaisesRegex(RuntimeError, f"--library {name}: its tools {message}"):
                next(two_products((1, 1, 1), with_builds))

    def test_one_set_of_operands_is_not_compared_with_several(self):
        builds, case = self.loaded(self.text("before")), Case((1, 1, 1), "forward", "fp8", 1, sets=7)
        with_builds = peers_builds.beside(builds, lambda _, contenders: contenders, (1, 1, 1), None, 0,
                                          "cpu")
        with self.assertRaisesRegex(RuntimeError, "tools of before read one set .* octet's read 7"):
            with_builds(case, {"octet": None})["before"]()

    def test_ratios_are_listed_per_shape_with_the_mean_and_the_worst(self):
        before = self.text("before")

        def results(case, _contenders):
            if case.shape[0] == 16:
                return [peers_rounds.Result(case, "before", "FAIL", [])]
            ratio = 0.5 if case.product == "dgrad" and case.shape[0] == 4 else 2.0
            return [peers_rounds.Result(case, "octet", "PASS", [1.0], 1.0),
                    peers_rounds.Result(case, "before", "PASS", [ratio], ratio)]

        shapes = [word for m in (4, 8, 16) for word in ("--shape", f"{m}x1x1")]
        _, out = run([*shapes, "--library", before], two_products, results, lambda: 0)
        header, columns, *rows, last = out.splitlines()[-5:]
        self.assertEqual(header, "time of before over octet's (below 1 octet is slower)")
        self.assertEqual([line.split() for line in (columns, *rows)],
                         [["shape", "forward", "dgrad"], ["4x1x1", "2.0000", "0.5000"],
                          ["8x1x1", "2.0000", "2.0000"]])
        self.assertEqual(last, "before: mean 1.4142, worst 0.5000 (4x1x1 dgrad), "
                         "1 of 4 below 0.99, 2 not timed")
        _, out = run(["--shape", "4x1x1", "--library", before], two_products, made_up_results,
                     lambda: 0)
        self.assertEqual(out.splitlines()[-1], "before: no times")


class CommitOf(Folder):
    def tool(self, text):
        path = self.folder / "octet"
        path.write_text(f"#!/bin/sh\ncat <<E\n{text}\nE\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    def test_is_that_of_the_tool_with_the_same_device_sources(self):
        tool = self.tool("octet           octet 0.1.0 (abc-dirty)\ndevice sources  0123 gemm quantize\n"
                         "device sources  9999 rope\nCPU  x")
        self.assertEqual(peers_table.commit_of(tool, "quantize", "0123"), "abc-dirty")
        self.assertEqual(peers_table.commit_of(tool, "rope", "9999"), "abc-dirty")
        with self.assertRaisesRegex(RuntimeError,
                                    "sources 9999 of gemm, the octet beside it 0123"):
            peers_table.commit_of(tool, "gemm", "9999")

    def test_is_that_of_an_operator_without_kernels(self):
        tool = self.tool("octet  octet 0.1.0 (abc)\ndevice sources  attention\ndevice sources  1 gemm")
        self.assertEqual(peers_table.commit_of(tool, "attention", ""), "abc")

    def test_is_refused_without_a_tool(self):
        with self.assertRaisesRegex(RuntimeError, "octet beside the library"):
            peers_table.commit_of(self.folder / "none", "gemm", "0123")


class Digests(unittest.TestCase):
    def name(self, ran, *arguments):
        return peers_digests.digest_of(peers_options.parse_arguments(arguments), ran)

    def test_are_those_of_the_tiles_that_octet_ran(self):
        for tile in peers_digests.NARROW_TILES:
            ran = f"cuda_sm90_wgmma: {tile} e4m3.e4m3"
            self.assertEqual(self.name(ran), "gemm_narrow")
            # Of other products and operators these tiles are among the usual kernels.
            self.assertEqual(self.name(ran, "--granularity", "rowwise"), "fp8_linear_whole")
            self.assertEqual(self.name(f"rows {ran}", "--op", "grouped-gemm"), "grouped-gemm")
        for ran in ("cuda_sm90_wgmma: 256x128x4 1x128.128x128 e4m3.e4m3 cluster", "cpu_simd: avx512 8x48 threads=2", "",
                    "cuda_sm90_wgmma: 128x256x4 1x128.128x128 e4m3.e4m3 cluster"):
            self.assertEqual(self.name(ran), "gemm")

    def test_of_16_bit_tiles_by_name_are_their_own(self):
        cluster, widths = "128x256x4 bf16.bf16 k.k cluster", "rows 128x256x4 bf16.bf16 k.k or narrower"
        for dtype in ("bf16", "f16"):
            self.assertEqual(self.name(cluster, "--dtype", dtype), "gemm_by_name16")
            self.assertEqual(self.name("128x256x4 bf16.bf16 k.k", "--dtype", dtype), f"gemm_{dtype}")
            self.assertEqual(self.name("128x128x6 bf16.bf16 k.k cluster", "--dtype", dtype), f"gemm_{dtype}")
        grouped = "--op", "grouped-gemm", "--dtype", "bf16"
        self.assertEqual(self.name(widths, *grouped), "grouped-gemm_by_name16")
        self.assertEqual(self.name("rows 128x256x4 bf16.bf16 k.k", *grouped), "grouped-gemm_bf16")
        self.assertEqual(self.name(widths.replace("bf16", "e4m3"), *grouped[:2]), "grouped-gemm")

    def test_of_the_rest_do_not_ask_what_ran(self):
        fast = "--granularity", "tensorwise", "--fast-accumulation"
        self.assertEqual(self.name("", *fast), "fp8_linear_fast")
        self.assertEqual(self.name("", "--op", "quantize", "--granularity", "rowwise"), "quantize_lines")
        self.assertEqual(self.name("", "--op", "rms-norm"), "rms-norm")

    def test_name_the_tiles_that_the_tool_names(self):
        text = (TOOLS.parent / "tool/results/command_line.cpp").read_text()
        for function, tiles in (("has_narrow_tile", peers_digests.NARROW_TILES),
                                ("has_tile_by_name16", peers_digests.TILES_BY_NAME_16)):
            listed = text[text.index(f"bool {function}("):]
            listed = listed[:listed.index("});")]
            self.assertEqual(re.findall('"(.*?)"', listed), list(tiles), function)

    def test_of_another_build_are_those_of_all_that_it_may_choose(self):
        options = peers_options.parse_arguments([])
        of_trees = {"gemm": "1", "gemm_narrow": "2"}, {"gemm": "3"}
        self.assertEqual([peers_digests.of_build(options, lambda name, tree=tree: tree.get(name, ""))
                          for tree in of_trees], ["2", "3"])


class CommandLine(CommandLineTest):
    def test_times_octet_and_the_libraries_asked_for(self):
        all_of_them = {"octet": 1, "torch": 2, "torch 1d": 3, "triton": 4}
        self.assertEqual(peers.chosen(all_of_them, None), all_of_them)
        self.assertEqual(list(peers.chosen(all_of_them, ["torch"])), ["octet", "torch", "torch 1d"])
        self.assertEqual(list(peers.chosen(all_of_them | {"before": 5}, ["before=x.so"])),
                         ["octet", "before"])
        self.assertIn("cublaslt, cublaslt fast, torch, triton", self.refusal("--library", "tritn"))

    def test_refuses_a_build_with_what_was_given_and_wanted(self):
        for text in ("=x.so", "before="):
            self.assertIn(f"must be a peer or NAME=LIBRARY[:TOOLS], got {text}",
                          self.refusal("--library", text))
        self.assertIn("--library before: there is no file not/there.so, wanted a liboctet.so",
                      self.refusal("--library", "before=not/there.so"))
        self.assertIn("--library before: not/tools has no octet_c.py, wanted the folder tools/",
                      self.refusal("--library", f"before={__file__}:not/tools"))
        build = f"before={__file__}"
        for texts in ((f"octet={__file__}",), (f"torch={__file__}",), (build, build)):
            arguments = [word for text in texts for word in ("--library", text)]
            self.assertIn("already, wanted another name", self.refusal(*arguments))
        self.assertEqual(peers_options.parse_arguments(["--library", build]).builds[0].tools, TOOLS)

    def test_refuses_with_what_was_given_and_wanted(self):
        for shape in ("3x4", "3x4x", "0x1x1", "-1x2x3", "1x2x3x4", "axbxc"):
            self.assertIn(f"must be MxNxK with gemm, got {shape}", self.refusal(f"--shape={shape}"))
        self.assertIn("RowsxCols", self.refusal("--op", "quantize", "--shape", "1x2x3"))
        self.assertIn("at least 5, got 4", self.refusal("--rounds", "4"))
        self.assertIn("above 0, got nan", self.refusal("--max-seconds", "nan"))
        self.assertIn("no folder", self.refusal("-o", os.path.join("not", "there.csv")))
        self.assertIn("quantize reads bf16", self.refusal("--op", "quantize", "--dtype", "f16"))
        self.assertIn("no product here is compiled", self.refusal("--compile-mode", "default"))

    def test_the_command_of_a_row_has_what_forces_octets_choice(self):
        """As octet bench has it, so that a shell runs the same again."""
        options = peers_options.parse_arguments(["--shape", "1x2x3"])
        forced = {"OCTET_QUANTIZE_BACKEND": "cuda_sm90_lines", "OCTET_GEMM_BACKEND": "fp8:cublaslt,other:cpu_simd",
                  "OCTET_TUNING_TABLE": "build/../my tables/x.json", "OCTET_ROPE_BACKEND": "",
                  "OCTET_LIBRARY": "liboctet.so"}
        with mock.patch.dict(os.environ, forced):
            command = peers_options.repeats(options)(Case((1, 2, 3), "forward", "fp8", 1))
        self.assertEqual(command, "OCTET_GEMM_BACKEND=fp8:cublaslt,other:cpu_simd "
                         "OCTET_QUANTIZE_BACKEND=cuda_sm90_lines "
                         f"OCTET_TUNING_TABLE='{os.getcwd()}/my tables/x.json' tools/peers.py --op gemm --dtype fp8 "
                         "--shape 1x2x3 --rounds 5")

    def test_asks_for_whole_heads_where_there_are_heads(self):
        rope = ("--op", "rope")
        self.assertIn("BatchxSeqxHidden with rope, got 3x4", self.refusal(*rope, "--shape", "3x4"))
        self.assertIn("130 columns are not a whole number of heads of 128",
                      self.refusal(*rope, "--shape", "2x3x130"))
        self.assertIn("must be even and at least 2, got 5", self.refusal(*rope, "--head-dim", "5"))
        self.assertIn("must be at least 1, got 0", self.refusal(*rope, "--kv-heads", "0"))
        self.assertIn("goes with rope, got it with rms-norm-rope",
                      self.refusal("--op", "rms-norm-rope", "--kv-heads", "8"))
        self.assertIn("got it with gemm", self.refusal("--head-dim", "64"))

    def test_the_command_of_a_row_has_what_it_takes(self):
        def command(*arguments):
            options = peers_options.parse_arguments(arguments)
            return peers_options.repeats(options)(Case(options.shape[0], "forward", "bf16", 1))

        self.assertEqual(command("--op", "rms-norm"),
                         "tools/peers.py --op rms-norm --shape 16384x4096 --rounds 5")
        self.assertEqual(
            command("--op", "rope", "--kv-heads", "4", "--compile-mode", "default", "--library",
                    "torch eager"),
            "tools/peers.py --op rope --shape 8x2048x4096 --head-dim 128 --kv-heads 4 --rounds 5 "
            "--compile-mode default --library 'torch eager'")

    def test_cublaslts_fast_mode_is_a_contender_of_promoted_products(self):
        fast = ("--library", "cublaslt fast")
        for granularity in ("tensorwise", "rowwise"):
            options = peers_options.parse_arguments(["--granularity", granularity, *fast])
            self.assertEqual(list(peers.chosen({"octet": 1, "cublaslt": 2, "cublaslt fast": 3}, options.library)),
                             ["octet", "cublaslt fast"])
        promoted = "--library 'cublaslt fast' goes with promoted products of --granularity tensorwise or rowwise, "
        self.assertIn(promoted + "got it with blocks or unscaled operands", self.refusal(*fast))
        self.assertIn(promoted + "got it with blocks or unscaled operands", self.refusal("--dtype", "bf16", *fast))
        self.assertIn(promoted + "got it with --fast-accumulation",
                      self.refusal("--granularity", "rowwise", "--fast-accumulation", *fast))
        self.assertEqual(list(peers.chosen({"octet": 1, "cublaslt": 2, "cublaslt fast": 3}, ["cublaslt"])),
                         ["octet", "cublaslt"])

    def test_has_the_shapes_of_its_operator(self):
        self.assertEqual(len(peers_options.parse_arguments([]).shape), 12)
        for op in peers_options.SHAPES:
            options = peers_options.parse_arguments(["--op", op])
            self.assertEqual(len(options.shape[0]), len(peers_table.SHAPE_COLUMNS[op]))
        self.assertEqual(peers_options.parse_arguments(["--op", "quantize"]).shape[0], (4096, 4096))


if __name__ == "__main__":
    unittest.main()
