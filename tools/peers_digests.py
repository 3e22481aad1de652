"""Which digest of kernels a row of tools/peers.py has, as digest_of() of tool/results/command_line.cpp has it.

The kernels are those that octet ran, which the note of its row names: "cuda_sm90_wgmma: 128x160x5
1x128.128x128 ...". All rows of a case have this digest, since their ratios are to octet.
"""

# FP8 tiles of kSm90NarrowConfigs.
NARROW_TILES = ("128x192x4 1x128.128x128", "128x160x5 1x128.128x128", "64x128x8 1x128.1x128",
                "64x64x10 1x128.1x128")


# 16-bit tiles that run only by name or by a tuning table.
TILES_BY_NAME_16 = ("128x256x4 bf16.bf16 k.k cluster", "128x256x4 f16.f16 k.k cluster", "or narrower")


def has_narrow_tile(ran):
    return any(tile in ran for tile in NARROW_TILES)


def has_tile_by_name16(ran):
    return any(tile in ran for tile in TILES_BY_NAME_16)


# Digest -> the digest that also has the tiles with kernels of their own, and whether such a tile ran.
WIDER = {"gemm": ("gemm_narrow", has_narrow_tile),
         **{f"{op}_{dtype}": (f"{op}_by_name16", has_tile_by_name16)
            for op in ("gemm", "grouped-gemm") for dtype in ("bf16", "f16")}}


def usual(options):
    if options.dtype != "fp8":
        return f"{options.op}_{options.dtype}"
    if options.granularity != "blockwise" and options.op == "quantize":
        return "quantize_lines"
    if options.granularity != "blockwise":
        return "fp8_linear_fast" if options.fast_accumulation else "fp8_linear_whole"
    return options.op


def digest_of(options, ran):
    """The name of the digest of the kernels of a case. `ran`: the note of octet's row."""
    name = usual(options)
    if name not in WIDER:
        return name
    wider, is_in_it = WIDER[name]
    return wider if is_in_it(ran) else name


def of_build(options, device_sources):
    """The digest of all kernels that another build may choose. One of an older tree may lack the wider digest."""
    name = usual(options)
    return device_sources(WIDER.get(name, (name,))[0]) or device_sources(name)
