"""tools/same/compare.py reports every kind of change, and record.py reads what it records."""
import contextlib
import io
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools" / "same"
sys.path.insert(0, str(TOOLS))
sys.path.append(str(TOOLS.parents[1] / "cmake" / "kernels"))  # last: it has a record.py, too
import counts
import digest
import record

RECORDING = {
    "kernels": ["ops/gemm aaaa 1024 bytes", "ops/gemm aaaa 1024 bytes", "ops/rope bbbb 512 bytes"],
    "choices": ["layer forward: cuda_sm90_wgmma | 256x128x4", "layer dx: cublaslt | heuristic"],
    "outputs_cpu": ["gemm 0 [m=1] d: 1234", "gemm 1 [m=2] d: 5678"],
    "reports": ["summarize: status 0", "summarize: gemm 1069"],
    "headers": ["gemm: columns M,N,K,TFLOPS", "gemm: 1 rows"],
    "tests": ["octet_core_tests: 613 test cases"],
}
CHANGES = {
    "kernels": "ops/gemm cccc 1024 bytes",
    "choices": "layer forward: cuda_sm90_wgmma | 128x128x6",
    "outputs_cpu": "gemm 0 [m=1] d: 4321",
    "reports": "summarize: status 1",
    "headers": "gemm: columns M,N,K,GB/s",
    "tests": "octet_core_tests: 612 test cases",
}


def write(folder, recording):
    folder.mkdir()
    for part, lines in recording.items():
        (folder / f"{part}.txt").write_text("".join(f"{line}\n" for line in lines))


class Compare(unittest.TestCase):
    def compare(self, before, after):
        with tempfile.TemporaryDirectory() as scratch:
            folders = [pathlib.Path(scratch) / name for name in ("before", "after")]
            write(folders[0], before)
            write(folders[1], after)
            words = [sys.executable, "-B", TOOLS / "compare.py", *folders]
            result = subprocess.run(words, capture_output=True, text=True)
        return result.returncode, result.stdout

    def test_equal_recordings_pass(self):
        status, text = self.compare(RECORDING, RECORDING)
        self.assertEqual(status, 0)
        self.assertIn("everything is the same", text)

    def test_every_changed_line_is_reported(self):
        for part, changed in CHANGES.items():
            after = {**RECORDING, part: [changed] + RECORDING[part][1:]}
            status, text = self.compare(RECORDING, after)
            self.assertEqual(status, 1, part)
            self.assertIn(f"DIFFERENT  {part}", text)
            self.assertIn(f"- {RECORDING[part][0]}", text)
            self.assertIn(f"+ {changed}", text)
            for other in RECORDING.keys() - {part}:
                self.assertIn(f"same       {other}", text)

    def test_a_kernel_that_occurs_once_less_is_reported(self):
        status, text = self.compare(RECORDING, {**RECORDING, "kernels": RECORDING["kernels"][1:]})
        self.assertEqual(status, 1)
        self.assertIn("- ops/gemm aaaa", text)

    def test_the_order_counts_except_among_kernels(self):
        for part in ("kernels", "headers"):
            turned = {**RECORDING, part: RECORDING[part][::-1]}
            status, _ = self.compare(RECORDING, turned)
            self.assertEqual(status, 0 if part == "kernels" else 1, part)

    def test_a_part_that_was_not_recorded_is_reported(self):
        after = {part: lines for part, lines in RECORDING.items() if part != "outputs_cpu"}
        for pair in ((RECORDING, after), (after, RECORDING)):
            status, text = self.compare(*pair)
            self.assertEqual(status, 1)
            self.assertIn("DIFFERENT  outputs_cpu", text)

    def test_nothing_recorded_is_a_failure(self):
        self.assertEqual(self.compare({}, {})[0], 1)


class Record(unittest.TestCase):
    def test_kernels_are_counted_with_their_operator(self):
        for path, folder in (
            ("src/CMakeFiles/octet_objects.dir/ops/gemm/cuda_sm90_kernels.cu.o", "ops/gemm"),
            ("src/CMakeFiles/octet_objects.dir/ops/gemm/sm90/kernels.cu.o", "ops/gemm"),
            (
                "src/CMakeFiles/octet_objects.dir/ops/gemm/sm90/kernels_bf16.cu.o",
                "ops/gemm/sm90/kernels_bf16",
            ),
            ("src/CMakeFiles/octet_objects.dir/ops/quantize/cuda_sm90_tile.cu.o", "ops/quantize"),
            ("src/CMakeFiles/octet_objects.dir/ops/quantize/mx/cuda_sm90_mx.cu.o", "ops/quantize/mx"),
            ("src/CMakeFiles/octet_check.dir/check/data/cuda_random.cu.o", "check"),
        ):
            self.assertEqual(digest.folder_of(pathlib.Path(path)), folder)

    def test_records_are_read_and_a_cut_one_is_refused(self):
        stream = b"gemm\t3\tm=1\td\ttensor\t4\n\x00\n\t\xffgemm\t3\tm=1\trun\ttext\t3\ncpu"
        self.assertEqual(
            list(record.read_records(io.BytesIO(stream))),
            [("gemm 3 [m=1] d", "tensor", b"\x00\n\t\xff"), ("gemm 3 [m=1] run", "text", b"cpu")],
        )
        with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()):
            list(record.read_records(io.BytesIO(stream[:-1])))

    def test_test_cases_are_counted(self):
        self.assertEqual(record.count_listed("Gemm.\n  One\n  Two\nRope.\n  One\n"), 3)
        log = (
            "1/2 Testing: core\n1/2 Test: core\n[==========] 613 tests from 9 test suites ran. (5 ms total)\n"
            "[  PASSED  ] 610 tests.\n[  SKIPPED ] 3 tests, listed below:\n"
            "2/2 Testing: docs\nno googletest\n"
        )
        self.assertEqual(record.count_run(log), [("core", 613, 3)])

    def test_json_keys_do_not_depend_on_the_number_of_rows(self):
        one = {"rows": [{"M": 1, "N": 2}], "op": "gemm"}
        two = {"rows": [{"M": 1, "N": 2}, {"M": 3, "N": 4}], "op": "gemm"}
        self.assertEqual(record.json_keys(one), [".rows[].M", ".rows[].N", ".op"])
        self.assertEqual(record.json_keys(one), record.json_keys(two))


class Counts(unittest.TestCase):
    def test_a_tree_is_counted_by_the_rules_at_the_head(self):
        with tempfile.TemporaryDirectory() as scratch:
            tree = pathlib.Path(scratch)
            for name, lines in (
                ("src/core/a.cpp", 100), ("src/core/b.hpp", 39), ("src/core/c.inl", 5), ("tool/main.cpp", 40),
                ("include/octet/d.h", 10), ("tests/core/a_test.cpp", 300),
            ):
                (tree / name).parent.mkdir(parents=True, exist_ok=True)
                (tree / name).write_text("line\n" * lines)
            subprocess.run(["git", "init", "-q", tree], check=True)
            found = counts.count(tree)
        self.assertEqual((found["files"], found["lines"]), (4, 189))
        self.assertEqual(found["median lines per file"], "39.5")
        self.assertEqual(found["files under 40 lines in src and tool"], 1)
        self.assertEqual(found["folders of more than 30 files"], "0")

    def test_pairs_of_like_blocks_are_lines(self):
        with tempfile.TemporaryDirectory() as scratch:
            report = pathlib.Path(scratch) / "like"
            report.write_text("# a comment\na.cpp:1 b.cpp:7 exact\n\na.cpp:9 c.cpp:3 0.9\n")
            self.assertEqual(
                counts.count_like_blocks(report),
                {"pairs of like blocks": 2, "  of them to the letter": 1},
            )


if __name__ == "__main__":
    unittest.main()
