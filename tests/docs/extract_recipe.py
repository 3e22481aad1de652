"""Writes the files of a Markdown page: each fence ```cpp PATH becomes FOLDER/PATH.

    extract_recipe.py PAGE FOLDER
"""
import pathlib
import re
import sys

page, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
files = re.findall(r"^```cpp (\S+)\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)
if not files:
    sys.exit(f"{page} has no fence ```cpp PATH")
for path, body in files:
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    # An unchanged file keeps its time, so that nothing is recompiled.
    if not target.exists() or target.read_text() != body:
        target.write_text(body)
