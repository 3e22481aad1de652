"""Runs of tools/peers.py that go on where an earlier one ended, and kernels compiled ahead."""

import contextlib
import io
import json
import math
import pathlib
import sys
import time
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "tools"))

import peers_ahead  # noqa: E402
import peers_options  # noqa: E402
import peers_rounds  # noqa: E402
import peers_table  # noqa: E402
from peers_rounds import Case  # noqa: E402
from peers_test import Folder, Provenance, read_rows, run  # noqa: E402


def two_products(shape, compare):
    for product in ("forward", "wgrad f32 +="):
        yield compare(Case(shape, product, "fp8", 1e12), {})


class Kept(Folder):
    def setUp(self):
        super().setUp()
        self.path, self.measured = self.folder / "x.csv", []
        self.part = self.folder / "x.csv.part"
        self.check = "PASS"

    def results(self, case, _contenders):
        """An octet twice as fast as its peer, and a peer that cannot."""
        self.measured.append((case.shape[0], case.product))
        number = float(len(self.measured))
        return [peers_rounds.Result(case, "other", "ERROR", [], note="no, not this"),
                peers_rounds.Result(case, "octet", "PASS", [number] * 5, 1.0, 1980, 650.0),
                peers_rounds.Result(case, "peer", self.check, [2 * number] * 5, 2.0),
                peers_rounds.Result(case, "slow", "PASS", [3 * number] * 5, 3.0)]

    def run_more(self, *arguments, **more):
        """What is measured, as (M, product), and what is printed."""
        self.measured.clear()
        _, out = run([*arguments, "-o", str(self.path)], two_products, self.results, **more)
        return list(self.measured), out

    def shapes(self, *sizes):
        return [f"--shape={m}x1x1" for m in sizes]

    def test_the_same_command_measures_nothing_again_and_shows_the_same(self):
        first, out = self.run_more(*self.shapes(1, 2))
        self.assertEqual(len(first), 4)
        text = self.path.read_text()
        again, more = self.run_more(*self.shapes(1, 2))
        self.assertEqual((again, self.path.read_text()), ([], text))
        self.assertIn(f"4 cases already in {self.path} (--fresh measures again)", more)
        self.assertEqual([line for line in more.splitlines() if line.startswith("fp8")],
                         [line for line in out.splitlines() if line.startswith("fp8")])

    def test_other_shapes_are_added(self):
        self.run_more(*self.shapes(1))
        self.assertEqual(self.run_more(*self.shapes(2, 1))[0], [(2, "forward"), (2, "wgrad f32 +=")])
        self.assertEqual([row["M"] for row in read_rows(self.path)], ["1"] * 8 + ["2"] * 8)

    def test_when_the_time_is_over_the_same_command_goes_on(self):
        ticks = iter([0, 0, 11])
        first, out = self.run_more(*self.shapes(1, 2), "--max-seconds=10", clock=lambda: next(ticks))
        self.assertEqual(first, [(1, "forward"), (1, "wgrad f32 +=")])
        self.assertIn("rerun the same command to continue", out)
        rest, _ = self.run_more(*self.shapes(1, 2), "--max-seconds=10", clock=lambda: 0)
        self.assertEqual(rest, [(2, "forward"), (2, "wgrad f32 +=")])
        self.assertEqual(len(read_rows(self.path)), 16)

    def killed_in(self, case_number):
        """A run that dies after so many cases; their rows are in the part."""
        def dies(case, contenders):
            if len(self.measured) == case_number:
                raise KeyboardInterrupt
            return self.results(case, contenders)

        with self.assertRaises(KeyboardInterrupt):
            run([*self.shapes(1, 2), "-o", str(self.path)], two_products, dies)

    def test_a_killed_run_loses_no_case(self):
        self.killed_in(3)
        self.assertFalse(self.path.exists())
        self.assertEqual(self.run_more(*self.shapes(1, 2))[0], [(2, "wgrad f32 +=")])
        self.assertEqual(len(read_rows(self.path)), 16)
        self.assertFalse(self.part.exists())

    def test_a_case_that_was_cut_short_is_measured_again(self):
        for cut in (5, 200):  # into the case's last row, and into the one before it
            with self.subTest(cut=cut):
                self.killed_in(2)
                whole = self.part.read_text()
                self.part.write_text(whole[:-cut])
                self.assertEqual(self.run_more(*self.shapes(1))[0], [(1, "wgrad f32 +=")])
                rows = read_rows(self.path)
                self.assertEqual([row["Library"] for row in rows], ["other", "octet", "peer", "slow"] * 2)
                self.assertEqual(rows[-1]["Time (ms)"], "3000", "of the newer measurement")
                self.path.unlink()
                self.measured.clear()

    def test_what_did_not_pass_is_measured_again_unless_a_peer_cannot(self):
        self.check = "FAIL"
        self.run_more(*self.shapes(1))
        self.check = "PASS"
        self.assertEqual(len(self.run_more(*self.shapes(1))[0]), 2)
        self.assertEqual([row["Check"] for row in read_rows(self.path)],
                         ["ERROR", "PASS", "PASS", "PASS"] * 2)

    def test_a_newer_measurement_replaces_the_older_one_before_it(self):
        for self.check in ("FAIL", "PASS"):
            self.run_more(*self.shapes(1), "--product=forward")
        self.assertEqual([row["Check"] for row in read_rows(self.path)],
                         ["ERROR", "PASS", "PASS", "PASS"])

    def test_a_peer_that_was_not_there_before_keeps_its_row(self):
        whole, self.check = self.results, "FAIL"
        self.results = lambda *case: whole(*case)[1:]  # octet, peer, slow
        self.run_more(*self.shapes(1), "--product=forward")
        self.results, self.check = whole, "PASS"
        self.run_more(*self.shapes(1), "--product=forward")
        self.assertEqual([row["Library"] for row in read_rows(self.path)],
                         ["other", "octet", "peer", "slow"])

    def test_other_settings_code_or_versions_replace_a_case(self):
        self.run_more(*self.shapes(1))
        now = {"sources": "999999999999"}
        self.assertEqual(len(self.run_more(*self.shapes(1), **now)[0]), 2)
        self.assertEqual(self.run_more(*self.shapes(1), **now)[0], [])
        now["version"] = "2"
        self.assertEqual(len(self.run_more(*self.shapes(1), **now)[0]), 2)
        self.assertEqual(len(self.run_more(*self.shapes(1), "--rounds=6")[0]), 2)
        self.assertEqual(len(self.run_more(*self.shapes(1), "--seconds-per-case=1")[0]), 2)
        rows = read_rows(self.path)
        self.assertEqual(len(rows), 8, "each case once")
        self.assertIn("--rounds 5 --seconds-per-case 1", rows[0]["Command"])

    def test_fewer_libraries_are_cases_of_their_own(self):
        self.run_more(*self.shapes(1))
        self.run_more(*self.shapes(1), "--library=torch")
        self.assertEqual(len(read_rows(self.path)), 16)

    def test_a_case_whose_products_are_missing_in_part_is_completed(self):
        """--max-seconds ends a run between two products of a shape."""
        ticks = iter([0, 11])
        first, _ = self.run_more(*self.shapes(1, 2), "--max-seconds=10", clock=lambda: next(ticks))
        self.assertEqual(first, [(1, "forward")])
        rest, _ = self.run_more(*self.shapes(1, 2), "--max-seconds=10")
        self.assertEqual(rest, [(1, "wgrad f32 +="), (2, "forward"), (2, "wgrad f32 +=")])
        self.assertEqual(self.run_more(*self.shapes(1, 2))[0], [])
        self.assertEqual([(row["M"], row["Product"]) for row in read_rows(self.path)[::4]],
                         [(str(m), product) for m, product in [*first, *rest]])

    def test_what_forces_octets_choice_makes_cases_of_their_own(self):
        self.run_more(*self.shapes(1))
        forced = {"OCTET_GEMM_BACKEND": "cpu_simd"}, {"OCTET_TUNING_TABLE": "x.json"}
        for environment in forced:
            with unittest.mock.patch.dict("os.environ", environment):
                self.assertEqual(len(self.run_more(*self.shapes(1))[0]), 2)
                self.assertEqual(self.run_more(*self.shapes(1))[0], [])
        self.assertEqual(self.run_more(*self.shapes(1))[0], [])
        self.assertEqual([row["Command"].split("=")[0] for row in read_rows(self.path)[::8]],
                         ["tools/peers.py --op gemm --dtype fp8 --shape 1x1x1 --rounds 5", "OCTET_GEMM_BACKEND",
                          "OCTET_TUNING_TABLE"])

    def test_all_rows_of_a_case_have_the_digest_of_what_octet_ran(self):
        whole = self.results

        def results(case, contenders):
            measured = whole(case, contenders)
            measured[1].note = "narrow" if case.product == "forward" else "wide"
            return measured

        self.results = results
        digests = {"narrow": "111111111111", "wide": "222222222222"}
        self.run_more(*self.shapes(1), sources=digests.get)
        self.assertEqual([(row["Product"], row["Device Sources"]) for row in read_rows(self.path)],
                         [("forward", "111111111111")] * 4 + [("wgrad f32 +=", "222222222222")] * 4)
        self.assertEqual(self.run_more(*self.shapes(1), sources=digests.get)[0], [])
        digests["narrow"] = "333333333333"
        self.assertEqual(self.run_more(*self.shapes(1), sources=digests.get)[0], [(1, "forward")])

    def test_fresh_measures_all_again_and_replaces_the_file(self):
        self.run_more(*self.shapes(1, 2))
        self.assertEqual(len(self.run_more(*self.shapes(2), "--fresh")[0]), 2)
        self.assertEqual({row["M"] for row in read_rows(self.path)}, {"2"})
        self.measured.clear()
        self.killed_in(1)  # leaves a row of M 1 in the part
        self.assertEqual(len(self.run_more(*self.shapes(2), "--fresh")[0]), 2)
        self.assertEqual({row["M"] for row in read_rows(self.path)}, {"2"})

    def refused(self, *arguments, **more):
        with self.assertRaises(ValueError) as refusal:
            self.run_more(*arguments, **more)
        return str(refusal.exception)

    def test_files_that_cannot_be_kept_are_refused_and_stay(self):
        self.path.write_text("TestID,M\n1,2\n")
        self.assertIn("holds no results of tools/peers.py", self.refused("--fresh"))
        self.assertEqual(self.path.read_text(), "TestID,M\n1,2\n")
        self.path.unlink()
        self.run_more(*self.shapes(1))
        text = self.path.read_text()
        self.assertFalse(self.part.exists())
        self.assertIn("has other columns (Batch, Hidden, K, M, N, Seq, ", self.refused("--op=rope"))
        for broken, message in ((text + "1,2\n", "row 10 has 2 fields, wanted 20"),
                                (text[:-1], "row 9 does not end with a line end"),
                                (text.replace("--op gemm", "--op other", 1),
                                 "row 2 is of other, this run of gemm")):
            self.path.write_text(broken)
            self.assertIn(message, self.refused())
            self.assertEqual(self.path.read_text(), broken)

    def test_two_runs_do_not_write_to_one_file(self):
        options = peers_options.parse_arguments(["-o", str(self.path)])
        table = peers_table.Table("gemm", options.output, Provenance(), {}, None)
        self.assertIn("another run writes to it", self.refused(*self.shapes(1)))
        table.close()
        self.assertEqual(len(self.run_more(*self.shapes(1))[0]), 2)

    def test_layers_of_one_shape_are_kept_apart(self):
        def table():
            return peers_table.Table("gemm", str(self.path), Provenance(), {}, command, named=True)

        def command(case):
            return f"tools/peers.py --op gemm --shape {case.shape[0]}x1x1"

        one, two = (Case((1, 1, 1), "forward", "fp8", 1e12, name=name) for name in ("7/1", "7/2"))
        first = table()
        first.add([peers_rounds.Result(one, "octet", "PASS", [1.0], 1.0)])
        first.close()
        second = table()
        self.assertEqual((second.has(one), second.has(two)), (True, False))
        second.close()


def silent():
    return contextlib.redirect_stdout(io.StringIO())


# Stands for peers_ahead.py in a process of its own: notes its products, then does as it is told.
WORKER = """
import json, os, sys, time
folder, then, *products = sys.argv[1:]
open(os.path.join(folder, f"{os.getpid()}.json"), "w").write(json.dumps(products))
time.sleep(60 if then == "hang" else 0)
sys.exit(then == "fail")
"""


class Ahead(Folder):
    def compile(self, arguments, then="end", is_kept=lambda case: False, deadline=math.inf):
        """The products of each process."""
        worker = self.folder / "worker.py"
        worker.write_text(WORKER)
        for old in self.folder.glob("*.json"):
            old.unlink()
        peers_ahead.compile_kernels(peers_options.parse_arguments(arguments), is_kept, deadline,
                                    [sys.executable, str(worker), str(self.folder), then])
        return [json.loads(path.read_text()) for path in self.folder.glob("*.json")]

    def test_every_product_is_compiled_once_in_as_many_processes_as_cores(self):
        shapes = ["--shape=1x64x32", "--shape=1x64x32", "--shape=2x64x32"]
        with unittest.mock.patch("os.cpu_count", lambda: 4), silent():
            shares = self.compile(shapes)
        self.assertEqual(sorted(map(len, shares)), [1, 1, 2, 2])
        self.assertEqual(sorted(sum(shares, [])),
                         ["1x32x64", "1x64x32", "2x32x64", "2x64x32", "64x32x1+=", "64x32x2+="])

    def test_only_what_will_be_timed(self):
        def is_kept(case):
            return case.shape == (1, 64, 32) and case.product == "dgrad"

        with silent():
            self.assertEqual(sorted(sum(self.compile(["--shape=1x64x32"], is_kept=is_kept), [])),
                             ["1x64x32", "64x32x1+="])
            self.assertEqual(self.compile(["--shape=1x64x32", "--product=forward"]), [])
        for arguments in (["--op=rope"], ["--dtype=bf16"], ["--granularity=rowwise"],
                          ["--library=torch"]):
            self.assertEqual(self.compile(arguments), [])

    def test_a_process_that_fails_or_hangs_stops_nothing(self):
        with unittest.mock.patch("os.cpu_count", lambda: 4), silent() as out:
            self.compile(["--shape=1x64x32"], "fail")
        self.assertRegex(out.getvalue(), r"kernels of 3 products .* 3 processes .* 3 of which failed")
        begin = time.monotonic()
        with silent() as out:
            self.compile(["--shape=1x64x32"], "hang", deadline=begin + 1)
        self.assertLess(time.monotonic() - begin, 30)
        self.assertRegex(out.getvalue(), "of which failed")


if __name__ == "__main__":
    unittest.main()
