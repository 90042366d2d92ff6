# SPDX-License-Identifier: Apache-2.0
"""A tool that was built with -DHOOKSESS_JSON=OFF."""
import unittest

from support import ToolCase

REMEDY = "was built without JSON; build it with -DHOOKSESS_JSON=ON"


class WithoutJson(ToolCase):
    def setUp(self):
        super().setUp()
        self.make("m", {"a": ("float", [2], [1, 2])})

    def test_json_output_is_refused(self):
        for command in ("checkpoint", "ls"), ("checkpoint", "stat"), ("events", "ls"), ("verify-resume",):
            self.assertIn(f"--json: this hooksess {REMEDY}", self.says(*command, "--json", "m"))

    def test_text_output_works(self):
        self.assertEqual(self.prints("checkpoint", "ls", "m"), "a  float  [2]  8\n")
        self.assertIn("1 tensors", self.prints("checkpoint", "verify", "m"))
        self.assertRegex(self.prints("checkpoint", "stat", "m"), r"(?m)^a +float +\[2\] +2 +1 +2 +1\.5 ")

    def test_safetensors_files_are_refused(self):
        self.assertIn("built without safetensors", self.says("checkpoint", "convert", "m", "m.safetensors"))
        self.write("n.safetensors", b"x")
        self.assertIn("built without safetensors", self.says("checkpoint", "ls", "n.safetensors"))

    def test_status_and_outcome_are_refused(self):
        for command in "status", "outcome":
            self.assertIn(f"{command}: this hooksess {REMEDY}", self.says(command, "."))


if __name__ == "__main__":
    unittest.main()
