"""The products of tools/peers_gemm.py and the sizes of rounds, with fakes in place of torch, liboctet
and the libraries: which operands a launch takes, and what ragged ones are padded to."""

import pathlib
import sys
import types
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "tools"))

import peers_rounds  # noqa: E402
from peers_rounds import OURS, Case, LeftOut  # noqa: E402
from peers_support import CallTimer  # noqa: E402


class Matrix:
    """Extents without numbers."""

    def __init__(self, *shape):
        self.shape, self.device = shape, "fake"

    def __getitem__(self, rows_and_cols):
        return Matrix(*(min(part.stop, given) for part, given in zip(rows_and_cols, self.shape)))

    def contiguous(self):
        return self


class Quantized:
    def __init__(self, rows, cols, block=(1, 128)):
        self.values, self.scales, self.block = Matrix(rows, cols), Matrix(rows, -(-cols // 128)), block
        self.layout = types.SimpleNamespace(bytes=rows * cols)

    def copy(self):
        return Quantized(*self.values.shape, self.block)

    def padded(self, *multiples):
        new = tuple(-(-e // m) * m for e, m in zip(self.values.shape, multiples))
        return self if new == self.values.shape else Quantized(*new, self.block)


class Plan:
    """Notes what it is called with."""
    ran, made, chosen = [], [], "cuda_sm90_wgmma"

    def __init__(self, a, b, out, accumulate=False, backend=None, fast_accumulation=False):
        self.implementation = backend or Plan.chosen
        self.configuration = "128x256x4"
        Plan.made.append((backend or OURS, fast_accumulation))
        self.extents = (*a.values.shape, *b.values.shape, *out.shape)

    def __call__(self, args):
        a, b, out = args
        assert (*a.values.shape, *b.values.shape, *out.shape) == self.extents
        Plan.ran.append(args)


class Clock:
    """Events of a device that a call keeps busy for so many seconds."""
    now = 0.0

    def __init__(self, enable_timing):
        self.at = None

    def record(self):
        self.at = Clock.now

    def elapsed_time(self, end):
        return (end.at - self.at) * 1e3

    def synchronize(self):
        pass


class Graph:
    """Replays as many launches as were captured."""
    captured = None

    def replay(self):
        for _ in range(self.launches):
            self.call()


FAKE_TORCH = types.ModuleType("torch")
FAKE_TORCH.bfloat16, FAKE_TORCH.float16, FAKE_TORCH.float32 = "bf16", "f16", "f32"
FAKE_TORCH.zeros = lambda m, n, dtype, device: Matrix(m, n)
FAKE_TORCH.cuda = types.SimpleNamespace(Event=Clock, synchronize=lambda: None)
FAKE_OCTET = types.ModuleType("octet_c")
FAKE_OCTET.QuantizedTensor, FAKE_OCTET.gemm_plan = Quantized, Plan
FAKE_OCTET.gemm_args = lambda a, b, out: (a, b, out)
FAKE_OCTET.operand = lambda tensor: (tensor.values.shape,)

with unittest.mock.patch.dict(sys.modules, torch=FAKE_TORCH, octet_c=FAKE_OCTET):
    for loaded in ("peers_torch", "peers_libraries", "peers_gemm"):
        sys.modules.pop(loaded, None)
    import peers_gemm
    import peers_libraries
    import peers_torch


class DeepGemm(peers_libraries.DeepGemm):
    def __init__(self):
        self.library, self.ran = types.SimpleNamespace(fp8_gemm_nt=self.multiply), []

    def multiply(self, left, right, out, disable_ue8m0_cast, c=None, recipe=None):
        self.ran.append((left[0].shape, right[0].shape, out.shape, recipe))


class Sets(unittest.TestCase):
    def setUp(self):
        Plan.ran.clear()

    def test_exceed_twice_the_cache_or_are_very_many(self):
        self.assertEqual(peers_gemm.operand_sets(50, 50), 2)
        self.assertEqual(peers_gemm.operand_sets(49, 50), 3)
        self.assertEqual(peers_gemm.operand_sets(100, 50), 1)
        self.assertEqual(peers_gemm.operand_sets(101, 50), 1)
        self.assertEqual(peers_gemm.operand_sets(1, 10**6), peers_gemm.MOST_SETS)
        self.assertEqual(peers_gemm.operand_sets(1, 0), 1)

    def test_are_taken_in_turn_by_every_contender(self):
        operands = peers_gemm.Operands(Quantized(16, 128), Quantized(64, 128, (128, 128)), 12000)
        self.assertEqual(operands.count, 3)  # of 10240 bytes
        deep_gemm, seen = DeepGemm(), []
        deep_gemm.multiply = lambda left, right, *_, **__: seen.append((left[0], right[0]))
        deep_gemm.library.fp8_gemm_nt = deep_gemm.multiply
        with unittest.mock.patch.object(peers_libraries, "available", lambda: {"deep_gemm": deep_gemm}):
            makers = peers_gemm.contenders(operands, "bf16")
        self.assertEqual(list(makers), ["octet", "cublaslt", "deep_gemm"])
        for name, make in makers.items():
            Plan.ran.clear()
            call = make()
            for _ in range(6):
                call()
            taken = seen if name == "deep_gemm" else [(a.values, b.values) for a, b, _ in Plan.ran]
            self.assertEqual(len(taken), 6, name)
            for side in (0, 1):
                memory = [id(pair[side]) for pair in taken]
                self.assertEqual(len(set(memory)), 3, name)
                self.assertEqual(memory[:3], memory[3:], name)

    def test_write_one_output(self):
        operands = peers_gemm.Operands(Quantized(16, 128), Quantized(64, 128), 12000)
        call = peers_gemm.octet_call(operands, "bf16")
        for _ in range(3):
            call()
        self.assertEqual(len({id(out) for _, _, out in Plan.ran}), 1)


class Padding(unittest.TestCase):
    """A weight gradient of 739 rows: 639x367x739, all odd."""

    def setUp(self):
        Plan.ran.clear()
        self.ragged = peers_gemm.Operands(Quantized(639, 739), Quantized(367, 739), 0)

    def ran(self):
        (a, b, out), = Plan.ran
        return a.values.shape, b.values.shape, out.shape

    def test_cublaslt_gets_multiples_of_8_and_16_and_gives_what_was_asked_for(self):
        call = peers_gemm.cublaslt_call(self.ragged, "f32", True)
        self.assertEqual(call().shape, (639, 367))
        self.assertEqual(self.ran(), ((640, 752), (368, 752), (640, 368)))
        self.assertEqual(call.note, "padded to 640x368x752")

    def test_octet_gets_them_as_they_are(self):
        call = peers_gemm.octet_call(self.ragged, "f32", True)
        self.assertEqual((call().shape, call.note), ((639, 367), "cuda_sm90_wgmma: 128x256x4"))
        self.assertEqual(self.ran(), ((639, 739), (367, 739), (639, 367)))

    def test_nothing_is_padded_that_need_not_be(self):
        even = peers_gemm.Operands(Quantized(640, 736), Quantized(368, 736), 0)
        call = peers_gemm.cublaslt_call(even, "bf16")
        call()
        self.assertEqual((self.ran(), call.note), (((640, 736), (368, 736), (640, 368)), ""))
        self.assertIs(Plan.ran[0][0], even.a)

    def test_deep_gemm_gets_the_contraction_of_1x128_blocks_in_whole_slices(self):
        deep_gemm = DeepGemm()
        call, = deep_gemm.calls(self.ragged.sets, "f32", True, None)
        self.assertEqual(call().shape, (639, 367))
        self.assertEqual(deep_gemm.ran, [((639, 768), (368, 768), (639, 368), (1, 1, 128))])
        self.assertEqual(call.note, "padded to 639x368x768")

    def test_deep_gemm_gets_other_products_with_n_in_eights(self):
        deep_gemm = DeepGemm()
        call, = deep_gemm.calls([(Quantized(5, 739), Quantized(367, 739, (128, 128)))], "bf16", False,
                                None)
        self.assertEqual(call().shape, (5, 367))
        self.assertEqual(deep_gemm.ran, [((5, 739), (368, 739), (5, 368), None)])


def both_ways(x, block, transposed_block):
    rows, cols = x.shape
    return Quantized(rows, cols, block), Quantized(cols, rows, transposed_block)


class EndScaled(unittest.TestCase):
    """Products with a scale per tensor or per row, octet's and cuBLASLt's."""
    PRODUCTS = ["forward", "dgrad", "wgrad", "wgrad f32 +="]

    def setUp(self):
        for patch in (unittest.mock.patch.object(peers_gemm, "both_ways", both_ways),
                      unittest.mock.patch.object(peers_gemm, "randn", lambda rows, cols, *_: Matrix(rows, cols)),
                      unittest.mock.patch.object(peers_libraries, "available", dict)):
            patch.start()
            self.addCleanup(patch.stop)

    def products(self, shape=(64, 96, 128), granularity="tensorwise", fast=False):
        """Product -> case, contenders, judge."""
        found = {}

        def compare(case, contenders, same):
            found[case.product] = case, contenders, same

        options = types.SimpleNamespace(granularity=granularity, fast_accumulation=fast)
        for _ in peers_gemm.end_scaled_cases(shape, options, compare, None, 0):
            pass
        self.assertEqual(list(found), self.PRODUCTS)
        return found

    def ran(self, make):
        """The call, and backend and mode of the plan that it runs, which is the last one made."""
        call = make()
        call()
        return call, Plan.made[-1]

    def test_promoted_products_are_beside_cublaslt_in_both_modes(self):
        for granularity in ("tensorwise", "rowwise"):
            for product, (case, makers, same) in self.products(granularity=granularity).items():
                self.assertEqual(list(makers), ["octet", "cublaslt", "cublaslt fast"])
                self.assertEqual((case.dtype, case.other_data), (f"fp8 {granularity}", frozenset()))
                self.assertIs(same, peers_torch.close)
                self.assertEqual(self.ran(makers["octet"])[1], ("octet", False))
                if granularity == "rowwise" and "f32" in product:
                    continue
                call, made = self.ran(makers["cublaslt"])
                self.assertEqual((made, hasattr(call, "same")), (("cublaslt", False), False))
                call, made = self.ran(makers["cublaslt fast"])
                self.assertEqual((made, call.same), (("cublaslt", True), peers_gemm.close_to_fast))

    def test_fast_products_are_beside_cublaslts_fast_ones(self):
        for case, makers, same in self.products(fast=True).values():
            self.assertEqual((list(makers), case.dtype), (["octet", "cublaslt"], "fp8 tensorwise fast"))
            self.assertIs(same, peers_gemm.close_to_fast)
            self.assertEqual([self.ran(make)[1] for make in makers.values()],
                             [("octet", True), ("cublaslt", True)])

    def test_odd_shapes_are_padded_for_cublaslt_alone(self):
        for fast in (False, True):
            extents = {"forward": (65, 21, 33), "dgrad": (65, 33, 21), "wgrad": (21, 33, 65),
                       "wgrad f32 +=": (21, 33, 65)}
            for product, (_, makers, _) in self.products((65, 21, 33), fast=fast).items():
                m, n, k = extents[product]
                for name, make in makers.items():
                    Plan.ran.clear()
                    call = make()
                    self.assertEqual(call().shape, (m, n))
                    (a, b, _), = Plan.ran
                    padded = tuple(-(-e // to) * to for e, to in zip((m, n, k), (8, 8, 16)))
                    self.assertEqual((*a.values.shape, *b.values.shape),
                                     (m, k, n, k) if name == "octet" else
                                     (padded[0], padded[2], padded[1], padded[2]))
                    wanted = "cuda_sm90_wgmma: 128x256x4" if name == "octet" else "padded to {}x{}x{}".format(*padded)
                    self.assertEqual(call.note, wanted)

    def test_f32_of_scales_of_rows_is_left_out_and_no_error(self):
        for fast in (False, True):
            case, makers, _ = self.products(granularity="rowwise", fast=fast)["wgrad f32 +="]
            said = []
            results = peers_rounds.compare(case, makers, peers_rounds.Protocol(), lambda *_: True, CallTimer(),
                                           said.append)
            self.assertEqual([(r.library, r.check) for r in results], [("octet", "PASS")])
            self.assertEqual([line.split(None, 3)[-1] for line in said],
                             [f"{name}: left out, cuBLASLt gives bf16 of scales of rows, not f32"
                              for name in list(makers)[1:]])

    def test_what_octet_itself_chooses_is_left_out_in_its_mode_alone(self):
        with unittest.mock.patch.object(Plan, "chosen", "cublaslt"):
            _, makers, _ = self.products()["forward"]
            with self.assertRaisesRegex(LeftOut, "this is what octet itself chooses"):
                makers["cublaslt"]()
            self.assertEqual(self.ran(makers["cublaslt fast"])[1], ("cublaslt", True))
            with self.assertRaisesRegex(LeftOut, "this is what octet itself chooses"):
                self.products(fast=True)["forward"][1]["cublaslt"]()


class FakeGpu:
    def clock_mhz(self): return 1980
    def power_w(self): return 650.0


class Rounds(unittest.TestCase):
    def setUp(self):
        def call():
            Clock.now += self.cost + (0 if self.replays else self.python)

        class Capture:
            def __init__(self, graph):
                self.graph = graph

            def __enter__(_):
                self.launched = 0

            def __exit__(given, *_):
                self.replays = True
                given.graph.launches, given.graph.call = self.launched, call

        def launch():
            self.launched += 1
            call()

        self.call, self.replays, self.launched, self.python = launch, False, 0, 3e-5
        cuda = types.SimpleNamespace(Event=Clock, synchronize=lambda: None, CUDAGraph=Graph, graph=Capture)
        fake = unittest.mock.patch.object(FAKE_TORCH, "cuda", cuda)
        fake.start()
        self.addCleanup(fake.stop)
        self.timer = peers_torch.Timer(FakeGpu())

    def batch(self, cost, round_seconds, sets=1):
        self.cost = cost
        return self.timer.batch(self.call, Case((1,), "forward", "fp8", 1, sets=sets), round_seconds)

    def test_of_short_calls_last_as_long_as_asked_for(self):
        """3 us on the device, and ten times as many in Python: a round is 6667 launches, not 100."""
        batch = self.batch(3e-6, 0.02, 7)
        launches = batch.launches * batch.repeats
        self.assertEqual(batch.launches, 259)  # 256, up to a multiple of 7
        self.assertGreaterEqual(launches * 3e-6, 0.02)
        self.assertLess(launches * 3e-6, 0.022)
        begin = Clock.now
        self.assertAlmostEqual(self.timer.seconds(batch), 3e-6, 9)
        self.assertGreaterEqual(Clock.now - begin, 2 * 0.02, "untimed, then timed")

    def test_of_long_calls_have_three_launches_at_least(self):
        batch = self.batch(0.05, 0.02)
        self.assertEqual((batch.launches, batch.repeats), (3, 1))
        batch = self.batch(2e-3, 0.02)
        self.assertGreaterEqual(batch.launches * batch.repeats * 2e-3, 0.02)

    def test_a_call_that_python_slows_down_is_not_taken_for_a_long_one(self):
        self.python = 2e-4
        batch = self.batch(3e-6, 0.02)
        self.assertTrue(self.replays)
        self.assertGreaterEqual(batch.launches * batch.repeats * 3e-6, 0.02)


if __name__ == "__main__":
    unittest.main()
