#!/usr/bin/env python3
"""Refreshes the parts of README.md and docs/ that come from elsewhere: the examples, the support table
and whether the published numbers were measured with the kernels of this tree.

    docs/update_readme.py [--octet build/release/octet]           rewrite them in place
    docs/update_readme.py --check [--octet build/release/octet]   say what is stale, exit status 1

A part lies between <!-- NAME --> and <!-- /NAME -->. The examples are quoted from between the
[readme] and [/readme] lines of examples/linear.*; bench_my_kernel.cpp is quoted whole. The table of
docs/support.md is what `octet ops --markdown` prints. Which results are stale is what the
octet_stale_results beside it prints.
--check also follows every relative link of README.md, CONTRIBUTING.md and docs/*.md.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
ARCHITECTURE = ROOT / "docs/architecture.md"
SUPPORT = ROOT / "docs/support.md"
BENCH_API = ROOT / "docs/bench_api.md"


def quote_example(path, language):
    lines = (ROOT / path).read_text().splitlines()
    begin = next((i for i, line in enumerate(lines) if "[readme]" in line), None)
    end = next((i for i, line in enumerate(lines) if "[/readme]" in line), None)
    if begin is None or end is None or end < begin:
        sys.exit(f"{path}: no lines between [readme] and [/readme]")
    body = textwrap.dedent("\n".join(lines[begin + 1:end]))
    return f"```{language}\n{body}\n```"


def quote_file(path, language):
    return f"```{language}\n{(ROOT / path).read_text().strip()}\n```"


def output_of(program, *arguments):
    if not program.is_file():
        sys.exit(f"{program} is not there: ./dev build makes it, or give another with --octet")
    command = [str(program.resolve()), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{result.stderr}")
    return result.stdout.strip()


def freshness(octet):
    lines = output_of(octet.parent / "octet_stale_results", str(ROOT / "results"))
    if "not checked" in lines:  # built without CUDA: what the page says stays
        return None
    stale = sorted(set(re.findall(r"^STALE: (\S+)", lines, re.MULTILINE)))
    if not stale:
        return "All of it was measured with the kernels as they are."
    files = ", ".join(f"[{path}]({path})" for path in stale)
    return textwrap.fill(f"**STALE**, measured with other kernels than the tree has: {files}.", 100,
                         break_long_words=False, break_on_hyphens=False)


def replace_part(page, text, name, body):
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
    if len(pattern.findall(text)) != 1:
        sys.exit(f"{page.relative_to(ROOT)} must have one part <!-- {name} --> ... <!-- /{name} -->")
    return pattern.sub(lambda match: f"{match[1]}{body}\n{match[2]}", text)


def refreshed(page, parts):
    text = page.read_text()
    stale = []
    for name, body in parts:
        if body is None:
            continue
        before = text
        text = replace_part(page, text, name, body)
        if text != before:
            stale.append(name)
    return text, stale


def parts_by_page(octet):
    return {
        README: [
            ("example:cpp", quote_example("examples/linear.cpp", "cpp")),
            ("example:gpu", quote_example("examples/linear_gpu.cpp", "cpp")),
            ("freshness", freshness(octet)),
        ],
        ARCHITECTURE: [("example:c", quote_example("examples/linear.c", "c"))],
        SUPPORT: [("ops", output_of(octet, "ops", "--markdown"))],
        BENCH_API: [("example:bench", quote_file("examples/bench_my_kernel.cpp", "cpp"))],
    }


def broken_links():
    for page in [README, ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]:
        prose = re.sub(r"^```.*?^```$|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
        for target in re.findall(r"\]\(([^)#\s]+)", prose):
            if "://" not in target and not (page.parent / target).exists():
                yield f"{page.relative_to(ROOT)}: link to {target}, which is not there"


def main():
    parser = argparse.ArgumentParser(description="Refreshes the generated parts of the pages.")
    parser.add_argument("--check", action="store_true", help="change nothing, fail where stale")
    parser.add_argument("--octet", type=pathlib.Path, default=ROOT / "build/release/octet")
    options = parser.parse_args()
    problems = []
    for page, parts in parts_by_page(options.octet).items():
        name = page.relative_to(ROOT)
        text, stale = refreshed(page, parts)
        if not options.check:
            page.write_text(text)
            print(f"{name}: " + (f"refreshed {', '.join(stale)}" if stale else "nothing was stale"))
        problems += [f"{name}: {part} is stale: run docs/update_readme.py" for part in stale]
    if not options.check:
        return 0
    problems += broken_links()
    print("\n".join(problems) or "the pages are up to date")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
