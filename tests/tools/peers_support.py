"""What the tests of tools/peers.py share."""

import contextlib
import io
import unittest

import peers_options


class CommandLineTest(unittest.TestCase):
    def refusal(self, *arguments):
        """What the command line says about arguments that it refuses."""
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors), self.assertRaises(SystemExit) as stopped:
            peers_options.parse_arguments(arguments)
        self.assertEqual(stopped.exception.code, 2)
        return errors.getvalue()


class CallTimer:
    """Runs every call once; a second each."""

    def batch(self, call, case, round_seconds):
        return call

    def seconds(self, batch):
        batch()
        return 1.0

    def reading(self):
        return None, None
