"""``python -m octet ARGS`` and the console script ``octet``: runs the octet command of the package."""

import os
import sys

from octet._library import folder


def main() -> None:
    """Replaces this process by the octet command."""
    program = folder() / "bin" / "octet"
    if not program.is_file():
        sys.exit(f"octet: {program} is missing; this package was built without the octet command")
    os.execv(program, ["octet", *sys.argv[1:]])


if __name__ == "__main__":
    main()
