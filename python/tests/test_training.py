"""examples/train_llama.py on the CPU: it learns, alike in every precision, and its benchmark writes its tables."""

import csv
import json
import os
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from conftest import Calls, exact, normal, snr

EXAMPLES = Path(__file__).parents[2] / "examples"
sys.path.insert(0, str(EXAMPLES))

import train_llama  # noqa: E402
from llama_bench import family_of, gpu_rows, merge  # noqa: E402
from llama_model import SHAPES, Llama, Recipe, Shape, build, rowwise_linear  # noqa: E402
from train_llama import Data, Machine, plan, run  # noqa: E402

CPU = torch.device("cpu")
pytestmark = pytest.mark.usefixtures("one_thread")
SMALL = "--layers 2 --dim 128 --hidden 128 --heads 2 --kv-heads 1 --seq 32 --batch 2".split()


def main(flags: list[str]) -> int:
    return run(*plan(flags))


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def sentences(count: int) -> str:
    """Text that no commit changes: a grammar of English words and a generator of its own."""
    words = {
        "the": "the a one this every another".split(),
        "is": "small old green quiet round warm hollow broken distant plain".split(),
        "thing": "river window engine garden letter bridge kernel lantern mountain teacher harbour clock".split(),
        "does": "carries follows remembers answers opens measures crosses repairs watches counts".split(),
        "when": "today again slowly before noon soon never twice outside together".split(),
    }
    state, made = 1, []
    for number in range(count):
        pattern = "the is thing does the thing when" if number % 3 else "the thing does the is when"
        picked = []
        for kind in pattern.split():
            state = (state * 1103515245 + 12345) % 2**31
            picked.append(words[kind][(state >> 16) % len(words[kind])])
        made.append(" ".join(picked).capitalize() + f"; {(state >> 8) % 1000}.\n")
    return "".join(made)


def summary_of(folder: Path) -> dict[str, float]:
    return {row["precision"]: float(row["mean_loss_of_last"]) for row in rows_of(folder / "train_summary.csv")}


def test_octet_learns_the_text_as_bf16_does(tmp_path):
    (tmp_path / "text.txt").write_text(sentences(4000))
    flags = ["--data", str(tmp_path / "text.txt"), "--last", "10", "--out", str(tmp_path)]
    assert main([*flags, "--precision", "bf16,octet", "--steps", "100"]) == 0
    loss = summary_of(tmp_path)
    # In nats per byte: 5.5 before the first step, 3.2 from the frequencies of the bytes alone, 1.12 now.
    assert loss["bf16"] < 1.3
    assert loss["octet"] == pytest.approx(loss["bf16"], rel=0.02)
    joint = rows_of(tmp_path / "train_loss.csv")
    assert len(joint) == 100 and list(joint[0]) == ["step", "bf16", "octet"]
    picture = (tmp_path / "train_loss.png").read_bytes()
    assert picture[:8] == b"\x89PNG\r\n\x1a\n" and struct.unpack(">II", picture[16:24]) == (1560, 585)
    assert len(picture) > 20_000  # an empty one has 9 kB


def test_every_precision_trains_alike_for_a_few_steps(tmp_path):
    names = "bf16,fp8_rowwise,fp8_rowwise-fast,octet-2d+adamw"
    assert main([*SMALL, "--steps", "6", "--last", "2", "--precision", names, "--out", str(tmp_path)]) == 0
    loss = summary_of(tmp_path)
    assert list(loss) == names.split(",") and loss["bf16"] < 5.4
    assert list(loss.values()) == pytest.approx([loss["bf16"]] * 4, rel=0.01)


def test_every_granularity_trains_alike_for_a_few_steps(tmp_path, capsys):
    names = "bf16,octet,octet-tensorwise,octet-rowwise,octet-mxfp8+adamw,octet-rowwise-fast"
    flags = [*SMALL, "--steps", "6", "--last", "2", "--cache-weights", "--recompute"]
    assert main([*flags, "--precision", names, "--out", str(tmp_path / "names")]) == 0
    loss = summary_of(tmp_path / "names")
    assert list(loss) == names.split(",") and loss["bf16"] < 5.4
    assert list(loss.values()) == pytest.approx([loss["bf16"]] * 6, rel=0.01)
    assert loss["octet-rowwise-fast"] == loss["octet-rowwise"]  # on a CPU
    # Tokens/s and loss beside blockwise.
    rows = rows_of(tmp_path / "names" / "train_summary.csv")
    shown = [line.split() for line in capsys.readouterr().out.splitlines()[-len(rows) - 2 : -1]]
    assert shown[0] == "precision tokens/s to octet loss of the last 2 to octet".split()
    base = next(row for row in rows if row["precision"] == "octet")
    for row, line in zip(rows, shown[1:], strict=True):
        speed = float(row["tokens_per_s"]) / float(base["tokens_per_s"])
        percent = 100 * (float(row["mean_loss_of_last"]) / float(base["mean_loss_of_last"]) - 1)
        assert row["baseline"] == "octet" and float(row["speed_to_baseline"]) == pytest.approx(speed, abs=1e-4)
        assert float(row["loss_to_baseline_percent"]) == pytest.approx(percent, abs=1e-3)
        assert line[0] == row["precision"] and line[2] == f"{float(row['speed_to_baseline']):.3f}x"
        assert line[3:] == [f"{float(row['mean_loss_of_last']):.4f}", f"{percent:+.2f}", "%"]
    flag = ["--precision", "octet-1d", "--granularity", "rowwise", "--out", str(tmp_path / "flag")]
    assert main([*flags, *flag]) == 0
    assert summary_of(tmp_path / "flag")["octet-1d"] == loss["octet-rowwise"]  # which knows no wgrad


def test_rowwise_products_of_exact_values_are_exact():
    x, w, dy = exact(32, 128, seed=1), exact(48, 128, seed=2), exact(32, 48, seed=3)
    got, want = [], []
    for function, results in ((rowwise_linear, got), (F.linear, want)):
        leaves = [x.clone().requires_grad_(), w.clone().requires_grad_()]
        y = function(*leaves)
        results += [y.detach(), *torch.autograd.grad(y, leaves, dy)]
    for a, b in zip(got, want, strict=True):
        assert torch.equal(a, b)


def test_rowwise_products_of_random_values_are_near():
    x, w = normal(2, 33, 80, seed=1).requires_grad_(), normal(48, 80, seed=2).requires_grad_()
    dy = normal(2, 33, 48, seed=3)
    got, want = (torch.autograd.grad(f(x, w), (x, w), dy) for f in (rowwise_linear, F.linear))
    assert snr(rowwise_linear(x, w), F.linear(x, w)) > 25
    assert min(snr(a, b) for a, b in zip(got, want, strict=True)) > 25


RECIPES = [
    Recipe("bf16"),
    Recipe("fp8_rowwise"),
    Recipe("octet", wgrad="1d"),
    Recipe("octet", recompute=True),
    Recipe("fp8_rowwise", head="fp8"),
    Recipe("octet", head="fp8"),
    Recipe("bf16", attention="octet"),
    Recipe("octet", attention="octet"),
]


def test_precisions_share_weights_and_agree():
    shape, seq = SHAPES["tiny"], 64
    base = build(shape, RECIPES[0], seq, CPU, seed=0)
    tokens = torch.randint(shape.vocab, (2, seq + 1), generator=torch.Generator().manual_seed(1))
    losses, gradients = [], []
    for recipe in RECIPES:
        with torch.device("meta"):
            model = Llama(shape, recipe, seq)
        model.share(base)
        assert [id(p) for p in model.parameters()] == [id(p) for p in base.parameters()]
        loss = model(tokens[:, :-1], tokens[:, 1:])
        loss.backward()
        losses.append(loss.item())
        gradients.append(base.embedding.weight.grad.float())
        base.zero_grad()
    assert losses == pytest.approx([losses[0]] * len(losses), rel=5e-3)
    assert min(snr(gradient, gradients[0]) for gradient in gradients[1:]) > 12


def test_checkpointing_changes_nothing():
    shape, seq = SHAPES["tiny"], 32
    tokens = torch.randint(shape.vocab, (1, seq + 1), generator=torch.Generator().manual_seed(1))
    gradients = []
    for checkpointing in (False, True):
        model = build(shape, Recipe("octet", checkpointing=checkpointing), seq, CPU, seed=0)
        model(tokens[:, :-1], tokens[:, 1:]).backward()
        gradients.append([p.grad for p in model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))


@pytest.mark.parametrize("precision", ["bf16", "fp8_rowwise", "octet"])
def test_layers_share_their_graphs(precision):
    """Two for the layers, with and without a residual, and one for the head, however many layers there are."""
    shape, seq = Shape(layers=4, dim=128, hidden=128, heads=2, kv_heads=1, vocab=64), 32
    model = build(shape, Recipe(precision), seq, CPU, seed=0)
    tokens = torch.randint(shape.vocab, (1, seq + 1))
    torch._dynamo.utils.counters.clear()
    for part in (*model.layers, model.head):
        part.compile(fullgraph=True, backend="eager")
    for _ in range(2):
        model(tokens[:, :-1], tokens[:, 1:]).backward()
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 3


def test_bench_writes_its_tables(tmp_path, capsys):
    flags = "--bench --profile --host-time --rounds 2 --round-steps 2 --cache-weights".split()
    names = "bf16,fp8_rowwise-fast,bf16+adamw,octet-1d,octet-2d+adamw"
    assert main([*SMALL, *flags, "--precision", names, "--out", str(tmp_path)]) == 0
    order = [line.split()[2] for line in capsys.readouterr().out.splitlines() if line.startswith("round ")]
    assert order == [*names.split(","), *names.split(",")[1:], "bf16"]  # another one begins every round
    bench = rows_of(tmp_path / "train_bench.csv")
    assert [row["Precision"] for row in bench] == names.split(",")
    ms = {row["Precision"]: float(row["Step (ms)"]) for row in bench}
    for row in bench:
        base = "bf16+adamw" if "+adamw" in row["Precision"] else "bf16"  # the one with the same optimiser
        assert float(row["To bf16"]) == pytest.approx(ms[base] / ms[row["Precision"]], abs=1e-3)
        assert row["Baselines"] == f"{base} {ms[base]:.3f} ms, fp8_rowwise-fast {ms['fp8_rowwise-fast']:.3f} ms"
        assert row["To fp8_rowwise"] == "" and float(row["To fp8_rowwise-fast"]) > 0
        assert len(row["Rounds (ms)"].split()) == 2 and row["Run"] == bench[0]["Run"]
        assert float(row["Tokens/s"]) == pytest.approx(64 / float(row["Step (ms)"]) * 1e3, rel=1e-2)
        assert row["Command"].startswith("python examples/train_llama.py --layers 2") and "--out" not in row["Command"]
    profile = rows_of(tmp_path / "train_profile.csv")
    assert all(float(row["products (ms)"]) > 0 and float(row["attention (ms)"]) > 0 for row in profile[:2])
    host = rows_of(tmp_path / "train_host.csv")[-3:]
    assert [row["Quantity"].partition(":")[0] for row in host] == [
        "F.linear",
        "ot.linear",
        "ot.linear, weights cached",
    ]
    times = [float(row["Host (us)"]) for row in host]
    assert [float(row["To F.linear"]) for row in host] == pytest.approx([us / times[0] for us in times], rel=0.01)

    # Another command adds its rows, the same one replaces its own; the rest keeps its text.
    first = (tmp_path / "train_bench.csv").read_text()
    for _ in range(2):
        assert main([*SMALL, *flags[:1], *flags[3:], "--precision", "octet-2d", "--out", str(tmp_path)]) == 0
        assert (tmp_path / "train_bench.csv").read_text().startswith(first)
        assert len(rows_of(tmp_path / "train_bench.csv")) == 6


@pytest.mark.parametrize(("optimizer", "per_step"), [("", 1), ("+adamw", 0)])
def test_bench_casts_cached_weights_once_per_step(optimizer, per_step, tmp_path):
    """By the optimiser that the contender has; the other contender casts none, but changes them in its turn."""
    flags = "--bench --settle 0 --rounds 2 --round-steps 3 --cache-weights".split()
    names = f"octet-2d{optimizer},bf16{optimizer}"
    with Calls() as calls:
        assert main([*SMALL, *flags, "--precision", names, "--out", str(tmp_path)]) == 0
    steps = 2 + 2 * (1 + 3)  # before the rounds, and in each to settle and to measure
    weights = calls.seen["adamw_cast_"] // steps if optimizer else calls.seen["cast_weight_"] // (steps + 3)
    assert weights > 0 and calls.seen["adamw_cast_"] == (0 if per_step else weights * steps)
    assert calls.seen["cast_weight_"] == weights * (1 + 2 + per_step * steps)  # once to begin, and in both turns


def test_merge_keeps_the_text_of_other_rows(tmp_path):
    path = tmp_path / "x.csv"
    old = "Run,Ratio,Commit\na,1.0000,58e7123\nb,2.50,1e999\n"
    path.write_text(old)
    merge(path, [{"Run": "b", "Ratio": "3.00", "Commit": "007e1"}])
    assert path.read_text() == "Run,Ratio,Commit\na,1.0000,58e7123\nb,3.00,007e1\n"
    with pytest.raises(ValueError, match="has other columns"):
        merge(path, [{"Run": "b", "Other": 1}])


@pytest.mark.parametrize(
    ("kernel", "operator", "shapes", "family"),
    [
        ("nvjet_sm90_tst_128x256_64x4_2x1_v_bz_coopA_TNN", "aten::mm", [[8192, 4096], [4096, 4096]], "products"),
        ("nvjet_sm90_tst_128x256_64x4_2x1_v_bz_coopA_TNN", "aten::mm", [[8192, 4096], [4096, 999]], "head and loss"),
        ("void octet::sm90::gemm_kernel<octet::Constant<...>>", "octet::linear_forward", [[8, 4]], "products"),
        ("void octet::sm90::gemm_kernel<octet::Constant<...>>", "octet::linear_cross_entropy", [], "head and loss"),
        ("void octet::sm90::quantize_kernel<(octet::Dtype)3, false>(octet::sm90::QuantizeParams)", "", [], "casts"),
        ("void octet::sm90::rms_norm_tile_kernel<3, true>(octet::sm90::RmsNormTileParams)", "", [], "norms"),
        ("octet::cuda::(anonymous namespace)::add_partial_sums_kernel(octet::cuda::PartialSums)", "", [], "norms"),
        ("void octet::sm90::rotate_heads_back_kernel<2>(octet::sm90::HeadParams)", "", [], "rotations"),
        ("void octet::sm90::gated_backward_tile_kernel<3, true>(octet::sm90::X)", "", [], "activations"),
        ("triton_red_fused__to_copy_abs_amax_clamp_mul_2", "", [], "casts"),
        ("triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_0", "", [], "norms"),
        ("triton_poi_fused__to_copy_add_cat_mul_sub_1", "", [], "rotations"),
        ("triton_poi_fused_mul_silu_3", "", [], "activations"),
        ("triton_red_fused__log_softmax_nll_loss_forward_1", "", [], "head and loss"),
        ("cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_8_128x64x128", "", [], "attention"),
        (
            "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdamMathFunctor>",
            "",
            [],
            "optimiser",
        ),
        ("Memcpy DtoD (Device -> Device)", "", [], "copies"),
        ("triton_red_fused__scaled_mm__to_copy_abs_amax_clamp_mul_silu_4", "", [], "casts"),
        ("triton_red_fused__fused_rms_norm__scaled_mm__to_copy_abs_add_amax_mul_1", "", [], "casts"),
        ("triton_poi_fused__scaled_mm__to_copy_mul_2", "", [], "casts"),
        ("triton_poi_fused__scaled_mm_cat_mul_silu_silu_backward_1", "", [], "activations"),
        ("triton_poi_fused_cat_mul_silu_silu_backward_6", "", [], "activations"),
        ("triton_red_fused__fused_rms_norm__fused_rms_norm_backward_add_cat_3", "", [], "norms"),
        ("triton_poi_fused_add_5", "", [], "norms"),
        ("triton_poi_fused_add_cat_mul_sub_1", "", [], "rotations"),
        ("triton_poi_fused_cat_mul_neg_slice_backward_0", "", [], "rotations"),
        ("triton_poi_fused_embedding_dense_backward_0", "", [], "other"),
        ("triton_poi_fused_t_transpose_view_linear_7", "", [], "copies"),
        ("triton_tem_fused_mm_3", "aten::mm", [[8192, 4096], [4096, 4096]], "products"),
        ("cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<...>>", "aten::_scaled_mm", [], "products"),
        ("void cublasLt::splitKreduce_kernel<32, 16, int>", "aten::mm", [], "products"),
        ("void octet::sm90::adamw_kernel<3>(octet::sm90::AdamWParams)", "octet::adamw_", [], "optimiser"),
        (
            "void octet::sm90::adamw_tile_kernel<octet::sm90::AdamWTypes<3>>(octet::sm90::AdamWTileParams)",
            "octet::adamw_cast_",
            [],
            "optimiser",
        ),
        ("aten::_scaled_mm", "aten::_scaled_mm", [], "products"),
        ("octet::linear_backward", "octet::linear_backward", [], "products"),
    ],
)
def test_kernels_have_families(kernel, operator, shapes, family):
    assert family_of(kernel, operator, shapes, vocab=999) == family


def test_kernels_are_counted_once():
    """Those that an operator launched with its shapes, others by name, ranges on the GPU's timeline not at all."""
    on_gpu, on_cpu = torch.autograd.DeviceType.CUDA, torch.autograd.DeviceType.CPU

    def event(name, device, us, kernels=(), shapes=()):
        linked = [SimpleNamespace(name=kernel, duration=duration) for kernel, duration in kernels]
        return SimpleNamespace(
            name=name, device_type=device, self_device_time_total=us, kernels=linked, input_shapes=list(shapes)
        )

    rows = gpu_rows(
        [
            event("gemm", on_gpu, 5.0),
            event("gemm", on_gpu, 3.0),
            event("triton_poi_fused_add_0", on_gpu, 2.0),
            event("Optimizer.step#AdamW.step", on_gpu, 99.0),
            event("aten::mm", on_cpu, 5.0, [("gemm", 5.0)], [[4, 8]]),
        ]
    )
    assert rows == [
        ("gemm", "aten::mm", [[4, 8]], 5.0),
        ("gemm", "", [], 3.0),
        ("triton_poi_fused_add_0", "", [], 2.0),
    ]


def test_data_does_not_depend_on_precision_or_ranks(tmp_path):
    torch.arange(5000, dtype=torch.int32).to(torch.uint16).numpy().tofile(tmp_path / "tokens.bin")
    data = Data(str(tmp_path / "tokens.bin"), vocab=5000, seq=16, seed=3)
    batch = data.sequences(step=7, order=0, count=4)
    assert batch.shape == (4, 17) and torch.equal(batch[:, 1:], batch[:, :-1] + 1)
    assert torch.equal(batch, data.sequences(step=7, order=0, count=4))
    assert not torch.equal(batch, data.sequences(step=7, order=1, count=4))
    assert not torch.equal(batch, data.sequences(step=8, order=0, count=4))

    def parts(rank: int, ranks: int, batch: int, micro_batches: int) -> list[torch.Tensor]:
        args = SimpleNamespace(batch=batch, micro_batches=micro_batches)
        return data.batches(7, 0, args, Machine(CPU, rank, ranks))

    (whole,) = parts(0, 1, batch=8, micro_batches=1)
    assert len(whole) == 8 and torch.equal(whole, data.sequences(step=7, order=0, count=8))
    two_ranks = [parts(rank, 2, batch=2, micro_batches=2) for rank in range(2)]
    assert [len(part) for rank in two_ranks for part in rank] == [2] * 4
    assert torch.equal(torch.cat([part for rank in two_ranks for part in rank]), whole)


def test_finished_runs_are_kept(tmp_path, capsys):
    command = [*SMALL, "--steps", "2", "--out", str(tmp_path), "--precision", "bf16,bf16@1,octet-2d"]
    assert main([*command, "--max-seconds", "1e-9"]) == 3  # nothing begun that cannot end
    assert "not started (--max-seconds reached): bf16, bf16@1, octet-2d" in capsys.readouterr().out
    assert main(command) == 0
    first = summary_of(tmp_path)
    assert first["bf16"] != first["bf16@1"]
    capsys.readouterr()
    assert main(command) == 0
    assert capsys.readouterr().out.count("finished; kept") == 3
    assert summary_of(tmp_path) == first

    # An estimate that was measured counts for the first run, too; that of a run which was stopped is from its steps.
    note = json.loads((tmp_path / "octet-2d.json").read_text())
    (tmp_path / "octet-2d.json").write_text(json.dumps({"state": "begun", "key": note["key"]}))
    assert main([*command, "--max-seconds", "1000"]) == 0
    assert capsys.readouterr().out.count("finished; kept") == 2
    (tmp_path / "octet-2d.json").write_text(json.dumps({**note, "seconds": 2000}))
    assert main([*command, "--max-seconds", "1000", "--fresh"]) == 3
    assert "not started (--max-seconds reached): octet-2d;" in capsys.readouterr().out


@pytest.mark.parametrize("change", ["flag", "data", "code"])
def test_runs_of_other_settings_data_or_code_are_not_kept(change, tmp_path, capsys, monkeypatch):
    text = tmp_path / "text.txt"
    text.write_text(sentences(50))
    command = [*SMALL, "--steps", "1", "--out", str(tmp_path), "--data", str(text)]
    assert main(command) == 0
    if change == "data":
        text.write_text(sentences(50).replace("river", "rivet"))
    elif change == "code":
        monkeypatch.setattr(train_llama, "code_digest", lambda: "another")
    assert main([*command, "--lr", "1e-4"] if change == "flag" else command) == 0
    assert "kept" not in capsys.readouterr().out


def test_a_run_that_fails_keeps_its_curve(tmp_path, capsys, monkeypatch):
    steps = iter(range(100))

    def failing(*args):
        loss = step(*args)
        return loss * float("nan") if next(steps) == 2 else loss

    step = train_llama.train_step
    monkeypatch.setattr(train_llama, "train_step", failing)
    command = [*SMALL, "--steps", "4", "--out", str(tmp_path), "--precision", "octet,bf16"]
    assert main(command) == 1
    assert "octet failed: the loss is nan in step 3" in capsys.readouterr().out
    assert [row["loss"] == "nan" for row in rows_of(tmp_path / "octet.csv")] == [False, False, True]
    assert len(rows_of(tmp_path / "bf16.csv")) == 4  # the others ran
    assert [row["octet"] for row in rows_of(tmp_path / "train_loss.csv")][2:] == ["nan", ""]
    assert rows_of(tmp_path / "train_summary.csv")[0]["state"].startswith("failed")
    assert main(command) == 1 and capsys.readouterr().out.count("; kept") == 2


def test_training_needs_two_files_and_no_tree(tmp_path):
    """Outside the tree, with octet and torch alone; nothing private of octet, nothing of the benchmark."""
    for name in ("train_llama.py", "llama_model.py"):
        text = Path(shutil.copy(EXAMPLES / name, tmp_path)).read_text()
        assert not re.search(r"\boctet(\.\w+)*\._[a-z]|from octet.* import _[a-z]", text)
    command = [sys.executable, "-B", "train_llama.py", *SMALL, "--steps", "1", "--precision", "octet-2d"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(rows_of(tmp_path / "build" / "train" / "octet-2d.csv")) == 1


def test_help_explains_the_names(capsys):
    with pytest.raises(SystemExit):
        plan(["--help"])
    text = capsys.readouterr().out
    for words in ("+adamw steps with octet.torch.AdamW", "+attention is --attention octet", "@ORDER, a number, reads"):
        assert words in text


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--precision fp4", "--precision must be of"),
        ("--precision bf16-2d", "--precision must be of"),
        ("--precision octet@x", "order of the data"),
        ("--precision bf16+sgd", "--precision must be of"),
        ("--precision bf16+attention+sgd", "--precision must be of"),
        ("--precision bf16,octet,bf16", "has a name twice"),
        ("--dim 100 --heads 3", "dim must be heads x an even head_dim, got dim 100, heads 3"),
        ("--heads 4 --kv-heads 3", "heads must be a multiple of kv_heads, got 4 and 3"),
        ("--steps 0", "--steps must be at least 1, got 0"),
        ("--vocab 100", "has token"),
        ("--data missing.bin", "got 'missing.bin'"),
        ("--seq 100000000", "--seq 100000000 needs"),
    ],
)
def test_bad_flags_say_what_was_wanted(flags, message):
    with pytest.raises((ValueError, OSError), match=message):
        plan(flags.split())


def test_attention_is_a_flag_or_part_of_a_name():
    _, _, contenders, _ = plan(["--precision", "bf16,octet+attention,octet+adamw+attention@1"])
    assert [c.recipe.attention for c in contenders] == ["cudnn", "octet", "octet"]
    assert [c.optimizer for c in contenders] == ["torch", "torch", "octet"] and contenders[2].order == 1
    _, _, (contender,), _ = plan(["--attention", "octet"])
    assert contender.recipe.attention == "octet"


def test_two_ranks_train_as_one(tmp_path):
    """FSDP2 on two gloo processes: the losses of one process with both batches."""
    flags = [*SMALL, "--steps", "3", "--precision", "octet", "--max-seconds", "1000"]
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*launch, EXAMPLES / "train_llama.py", *flags, "--out", tmp_path / "two"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert main([*flags, "--batch", "4", "--out", str(tmp_path / "one")]) == 0
    two, one = ([float(row["loss"]) for row in rows_of(tmp_path / n / "octet.csv")] for n in ("two", "one"))
    assert two == pytest.approx(one, rel=2e-3)
