# SPDX-License-Identifier: Apache-2.0
"""Files with long strings, when memory is short: each is read correctly, or an error is printed."""
import json
import resource
import struct
import unittest

from support import TOOL, ToolCase, run

MIB = 1 << 20
LONG = "layer/größe\n" * (4 * MIB // 12)


class ShortMemory(ToolCase):
    def assert_right_or_refused(self, wanted, *arguments):
        """Runs the tool with more and more address space, from what its start needs, until it succeeds. `wanted` is then its
        output."""
        started, refused = False, 0
        for limit in range(4 * MIB, 200 * MIB, MIB // 2):
            def limited(*arguments):
                return run(TOOL, *arguments, cwd=self.directory,
                           preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))

            if not started:  # with less than it needs, the dynamic linker fails in several ways
                started = limited("--version").returncode == 0
                continue
            done = limited(*arguments)
            if done.returncode == 0:
                self.assertEqual(done.stdout, wanted)
                self.assertEqual(done.stderr, b"")
                self.assertGreater(refused, 2)
                return
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(b"memory", done.stderr)
            refused += 1
        self.fail("it never succeeded")

    def test_a_long_name_in_a_safetensors_file(self):
        header = json.dumps({LONG: {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}).encode()
        self.write("m.safetensors", struct.pack("<Q", len(header)) + header + b"\7")
        wanted = self.prints("checkpoint", "ls", "--json", "m.safetensors")
        self.assertEqual(json.loads(wanted), [{"name": LONG, "dtype": "uint8", "shape": [1], "bytes": 1}])
        self.assert_right_or_refused(wanted.encode(), "checkpoint", "ls", "--json", "m.safetensors")

    def test_a_long_text_in_an_outcome(self):
        (self.directory / "run").mkdir()
        (self.directory / "run/outcome.json").write_text(json.dumps({"exit_code": 0, "step": 7, "reason": LONG}))
        wanted = self.prints("outcome", "run")
        self.assertEqual(wanted, "run: " + LONG.replace("\n", "\\x0a") + " at step 7; no step is saved; exit code 0\n")
        self.assert_right_or_refused(wanted.encode(), "outcome", "run")


if __name__ == "__main__":
    unittest.main()
