"""The number of instructions of each kind that a kernel has by design; see docs/kernels.md.

Product: a body multiplies one stage. A consumer has waves of m64n128, in tiles of 64 rows m64n64 or
m64n32, and one of m64n160 or m64n192 in tiles as wide; a wave is four k32 steps (QGMMA) between one arrive and one wait (WARPGROUP), and promotes 64,
32 or 16 accumulators per thread. With one operation per accumulator (1x128 . 128x128) the stages are
unrolled, and every body exists twice: followed by another slice of the tile, where the next stage
is a constant, and as the last slice of a tile. Beside the promotion's FFMA there are the products
sa * sb: two rows per wave and block of b's scales, for each body and once before the first. With two operations
(1x128 . 1x128) there is one body, and a FMUL beside every FFMA. If ptxas cannot prove that only one
lane is active, it wraps a TMA instruction in a loop over lanes (LANE_LOOP): this holds for the
loads of a stage in large tiles. Other loads, and all stores, are issued by an elected lane and have
no such loop. Where scales are applied at the end (1xall . 1xall) a promotion is a FADD, and the two FMUL of every
accumulator stand wherever a wave's results leave. Without promotion a body only issues: each of the stages is one
arrive and one wait, and the last waves are waited for behind the loop. 16-bit products (HGMMA) are never promoted; an
operand along whose rows memory is contiguous takes a load per 64 of them. Consumers that take
tiles in turn have all waves of a tile. Over groups (grouped_gemm) a kernel has the counts of the dense one of its configuration, and the
kernel of all widths over rows those of each width together.

Attention forward: scores of a block of keys are dim_qk / 16 steps with q in shared memory (HGMMA), and
p v is tile_k / 16 steps with p in registers (HGMMA_RS), each between an arrive and a wait. Scores are
issued at three places, before the first block, in the loop with a mask and in the one without, and p v
at three, in the two loops and after the last block.
"""
import collections
import re

GEMM = re.compile(
    r"gemm_(?:cluster_)?kernel\w*Sm90GemmConfigELi(\d+)ELi(\d+)ELi(\d+)ELNS_9PromotionE(\d)"
    r"ELNS_5DtypeE(\d)ELS\d*_(\d)ELNS_7ColumnsE(\d)ELi(\d)ELNS_5MajorE(\d)ELS\d*_(\d)ELb(\d)E"
)
GROUPED = re.compile(r"Sm90GroupedGemmConfigELNS_6GroupsE(\d)E")
LISTED = re.compile(
    r"^ *\{(\d+), (\d+), (\d+), Promotion::(\w+), Dtype::(\w+), Dtype::(\w+)"
    r"(?:, Columns::(\w+))?(?:, (\d))?\}",
    re.MULTILINE,
)
LISTED_16 = re.compile(r"(?:\{Groups::(\w+), )?config16\(kDtype, Major::(\w+), Major::(\w+), (\d+), (\d+), (\d+)(?:, (\d))?\)")
LISTED_IN_TURN = re.compile(r"^ *unpromoted_in_turn\((\d+), (\d+), (\d+), (\d)\)", re.MULTILINE)
LISTED_GROUPED = re.compile(
    r"\{Groups::(\w+),\s*\{(\d+), (\d+), (\d+), Promotion::(\w+), Dtype::(\w+), Dtype::(\w+)"
    r"(?:, Columns::(\w+))?(?:, (\d))?\}\}"
)
BY_SIZES = re.compile(r"Dtype::\w+, Dtype::(\w+)\},\s*Width::by_sizes")
BY_SIZES_16 = re.compile(r"config16\(kDtype, Major::k, Major::(\w+), [\d, ]+\), Width::by_sizes")
GROUPS = {"none": 0, "rows": 1, "contraction": 2}
WIDTHS_KERNEL = "gemm_widths_kernel"
WIDTHS_16 = re.compile(r"RowWidths16ILNS_5DtypeE(\d)ELNS_5MajorE(\d)E")
ATTENTION_FORWARD = re.compile(
    r"attention_forward_kernel\w*Sm90AttentionForwardConfigELNS_5DtypeE\dELi(\d+)ELi\d+ELi\d+ELi(\d+)E"
)
QUANTIZE = re.compile(r"\d\dquantize_(?:groups_|batch_)?kernelI")
PROMOTIONS = {"product_of_scales": 0, "one_by_one": 1, "sum": 2, "none": 3}
DTYPES = {"f16": 2, "bf16": 3, "e4m3": 4, "e5m2": 5}
COLUMNS = {"": 0, "in_order": 0, "paired": 1}
MAJORS = {"k": 0, "mn": 1}
ONE_BY_ONE, SUM, NONE = 1, 2, 3
# 376 of 1024 made every slice 5 % slower, with the same instructions otherwise (docs/experiments.md).
MOST_IN_ONE_BANK = 1


def gemm_config(kernel):
    """(tile_m, tile_n, stages, promotion, a, b, columns, cluster, majors, in turn) from a mangled name, if it is a product's."""
    match = GEMM.search(kernel)
    return tuple(int(number) for number in match.groups()) if match else None


def row_widths(kernel=""):
    """The configurations of a kernel that has several: of 16 bits, or of e4m3 . e4m3."""
    if match := WIDTHS_16.search(kernel):
        dtype, b_major = (int(number) for number in match.groups())
        tiles = ((128, 256, 4), (128, 192, 5), (128, 128, 6))
        return [(*tile, NONE, dtype, dtype, 0, 1, MAJORS["k"], b_major, 0) for tile in tiles]
    tiles = ((128, 256, 4), (128, 192, 4), (128, 160, 5), (128, 128, 6))
    return [(*tile, PROMOTIONS["product_of_scales"], DTYPES["e4m3"], DTYPES["e4m3"], 0, 1, 0, 0, 0) for tile in tiles]


def widths_family(kernel):
    """(dtype, major) of b of a kernel that has several widths, or None."""
    if WIDTHS_KERNEL not in kernel:
        return None
    match = WIDTHS_16.search(kernel)
    return (int(match.group(1)), int(match.group(2))) if match else (DTYPES["e4m3"], MAJORS["k"])


def listed_by_sizes(header):
    """The families that a header lists with Width::by_sizes."""
    fp8 = {(DTYPES[b], MAJORS["k"]) for b in BY_SIZES.findall(header)}
    return fp8 | {(DTYPES[dtype], MAJORS[b]) for b in BY_SIZES_16.findall(header) for dtype in ("bf16", "f16")}


def groups(kernel):
    """What the groups of a product divide, as a number of GROUPS."""
    match = GROUPED.search(kernel)
    return int(match.group(1)) if match else GROUPS["none"]


def config_of(m, n, stages, promotion, a, b, columns, cluster, in_turn=0):
    return (
        int(m), int(n), int(stages), PROMOTIONS[promotion],
        DTYPES[a], DTYPES[b], COLUMNS[columns], int(cluster or 1), 0, 0, in_turn,
    )


def configs16(header):
    """(groups, configuration) of 16-bit operands, which are listed once for both dtypes."""
    return {
        (
            GROUPS[kind or "none"],
            (int(m), int(n), int(stages), NONE, dtype, dtype, 0, int(cluster or 1), MAJORS[a], MAJORS[b], 0),
        )
        for kind, a, b, m, n, stages, cluster in LISTED_16.findall(header)
        for dtype in (DTYPES["bf16"], DTYPES["f16"])
    }


def listed_configs(header):
    """(groups, configuration) of what a header lists, dense or over groups."""
    grouped = {
        (GROUPS[kind], config_of(*numbers)) for kind, *numbers in LISTED_GROUPED.findall(header)
    }
    dense = set() if grouped else {(GROUPS["none"], config_of(*numbers)) for numbers in LISTED.findall(header)}
    dense |= {
        (GROUPS["none"], config_of(m, n, stages, "none", "e4m3", "e4m3", "", cluster, in_turn=1))
        for m, n, stages, cluster in LISTED_IN_TURN.findall(header)
    }
    return grouped | dense | configs16(header)


def loads_of_operand(rows, major):
    return rows // 64 if major == MAJORS["mn"] else 1


def unpromoted_counts(config, waves, elected):
    tile_m, tile_n, stages, _, dtype, _, _, cluster, a_major, b_major, in_turn = config
    shared_rows = tile_m // cluster if tile_m >= tile_n else tile_m  # the cluster's, else those of b are
    loads = loads_of_operand(shared_rows, a_major) + loads_of_operand(tile_n, b_major)
    is_fp8 = dtype >= DTYPES["e4m3"]
    batches = 1 if tile_m == 128 and not in_turn else waves  # both waves of 128x256 are one of m64n256
    products = {"QGMMA": 4 * batches * stages, "HGMMA": 0}
    return {
        "QGMMA": products["QGMMA" if is_fp8 else "HGMMA"],
        "HGMMA": products["HGMMA" if is_fp8 else "QGMMA"],
        "QGMMA_RS": 0,
        "WARPGROUP": 2 * stages + batches,  # serialised, it would be 2 x QGMMA
        "FFMA": 0,
        "SETMAXNREG": 2,
        "LANE_LOOP": 0 if elected and a_major == MAJORS["k"] else loads,
    }


def end_scale_products(waves, per_wave, staged, staged_early, early_bodies):
    """Two FMUL per accumulator where a tile is stored at once, where it is staged, and where its first wave is early."""
    ways = 2 if staged else 1
    return 2 * per_wave * (ways * waves + (early_bodies if staged_early else 0))


def gemm_counts(config, over):
    tile_m, tile_n, stages, promotion, dtype, *_ = config
    in_turn = config[-1]
    # Consumers in turn have a whole tile each.
    consumers = 1 if in_turn or (tile_m == 64 and tile_n < 128) else 2
    cols = tile_n if tile_m > 64 else tile_n // consumers
    wave_n = 128 if cols % 128 == 0 else cols
    waves = tile_m * tile_n // consumers // (64 * wave_n)
    per_wave = wave_n // 2
    # 256x128 has waves of rows, of which the first is staged under the products of the second.
    staged_early = tile_m == 256
    staged = waves == 2 and not in_turn
    elected = promotion != ONE_BY_ONE and waves == 1
    if promotion == NONE:
        counts = unpromoted_counts(config, waves, elected and wave_n <= 128)
        if dtype >= DTYPES["e4m3"]:
            counts["FMUL"] = end_scale_products(waves, per_wave, staged, staged_early, 1)
        return counts
    bodies = 1 if promotion == ONE_BY_ONE else 2 * stages
    promotions = per_wave * waves * bodies
    # One wave is issued ahead of the promotion of the previous one: in the bodies that another
    # slice follows, and before the first body.
    ahead = promotion != ONE_BY_ONE and waves == 1 and wave_n <= 128
    # sa * sb of a stage: a wave of 160 or 192 columns has two blocks of b's scales.
    products = 2 * waves * -(-wave_n // 128)
    # Over rows, a consumer that has no rows of the group in a tile loads only the scales of the next tile.
    stages_read = bodies + 1 + (over == GROUPS["rows"] and tile_m == 128)
    issues = stages + 1 if ahead else waves * bodies
    # a, its scales, b, and b's scales: a box, or those of each block of 128 columns
    loads = 4 if promotion == ONE_BY_ONE else 3 + -(-tile_n // 128)
    loads += over == GROUPS["rows"]  # four scales of a more, since a tile may begin at any row
    counts = {
        "QGMMA": 4 * issues,
        "QGMMA_RS": 0,
        "WARPGROUP": issues + waves * bodies,  # serialised, it would be 2 x QGMMA
        "FFMA": promotions,
        "FMUL": promotions if promotion == ONE_BY_ONE else products * stages_read,
        "SETMAXNREG": 2,
        "LANE_LOOP": 0 if elected else loads,
    }
    if promotion == SUM:
        counts |= {
            "FFMA": 0,
            "FMUL": end_scale_products(waves, per_wave, staged, staged_early, stages),
            "LANE_LOOP": 0 if elected else 2,
        }
    return counts


def least_additions(kernel):
    """FADD that promote, where scales are applied at the end; a bias and an addition to d take more."""
    config = gemm_config(kernel)
    if config is None or config[3] != SUM:
        return 0
    tile_m, tile_n, stages, *_ = config
    consumers = 1 if tile_m == 64 and tile_n < 128 else 2
    return tile_m * tile_n // consumers // 128 * 2 * stages


def quantize_counts():
    """A thread scales its 64 elements: for both copies, for either one, for both at an edge."""
    return {"FMUL": (2 + 1 + 1 + 2) * 64, "QGMMA": 0}


def attention_forward_counts(dim_qk, tile_k):
    return {
        "HGMMA": 3 * dim_qk // 16,
        "HGMMA_RS": 3 * tile_k // 16,
        "WARPGROUP": 2 * (3 + 3),  # serialised, it would be 2 x HGMMA
        "SETMAXNREG": 2,
    }


def expected(kernel):
    """The counts a kernel must have; no design uses local memory."""
    counts = {"LDL": 0, "STL": 0}
    if WIDTHS_KERNEL in kernel:
        each = [gemm_counts(config, GROUPS["rows"]) for config in row_widths(kernel)]
        counts |= {operation: sum(of[operation] for of in each) for operation in each[0]}
    elif config := gemm_config(kernel):
        counts |= gemm_counts(config, groups(kernel))
    elif match := ATTENTION_FORWARD.search(kernel):
        counts |= attention_forward_counts(*(int(number) for number in match.groups()))
    elif QUANTIZE.search(kernel):
        counts |= quantize_counts()
    return counts


def differences(kernel, counts):
    found = collections.Counter(counts)
    one_bank = found.pop("FFMA_ONE_BANK", 0)
    found["FFMA"] += one_bank
    complaints = [
        f"{kernel}: {found[operation]} {operation}, by design {wanted}"
        for operation, wanted in expected(kernel).items()
        if found[operation] != wanted
    ]
    if found["FADD"] < least_additions(kernel):
        complaints.append(f"{kernel}: {found['FADD']} FADD, by design at least {least_additions(kernel)}")
    if (gemm_config(kernel) or WIDTHS_KERNEL in kernel) and one_bank > MOST_IN_ONE_BANK:
        complaints.append(f"{kernel}: {one_bank} FFMA read one bank of registers, at most {MOST_IN_ONE_BANK}")
    return complaints
