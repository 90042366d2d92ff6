# SPDX-License-Identifier: Apache-2.0
"""pip installs the package from the source tree."""
import os
import shutil
import subprocess
import sys
import unittest

from support import PACKAGE, TestCase, run


class Install(TestCase):
    def test_pip_installs_a_typed_package_that_reads_checkpoints(self):
        source, target = self.directory / "source", self.directory / "target"
        shutil.copytree(PACKAGE, source, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
        done = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-build-isolation", "--no-deps",
                               "--target", target, source], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        installed = {str(path.relative_to(target)) for path in (target / "hooksess").iterdir() if path.suffix != ".pyc"}
        expected = {f"hooksess/{path.name}" for path in (PACKAGE / "hooksess").iterdir()}
        self.assertEqual(installed | {"hooksess/__pycache__"}, expected | {"hooksess/__pycache__"})
        self.assertIn("hooksess/py.typed", installed)
        run("python/write_run", self.directory / "run", 3)
        code = ("import hooksess, importlib.metadata, sys; print(hooksess.__file__, hooksess.Checkpoint(sys.argv[1])['weights'].sum(),"
                "importlib.metadata.version('hooksess') == hooksess.__version__)")
        environment = os.environ | {"PYTHONPATH": str(target)}
        done = subprocess.run([sys.executable, "-c", code, self.directory / "run"], capture_output=True, text=True, timeout=60,
                              env=environment, cwd=self.directory)
        self.assertEqual(done.stdout.split(), [str(target / "hooksess/__init__.py"), "18.0", "True"], done.stderr)


if __name__ == "__main__":
    unittest.main()
