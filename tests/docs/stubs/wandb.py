# SPDX-License-Identifier: Apache-2.0
"""Weights & Biases without a network: checks what a script logs."""
import atexit
import os


class Run:
    def __init__(self):
        self.step, self.finished = -1, False
        atexit.register(self.check)

    def log(self, values, step):
        assert step > self.step, f"step {step} after {self.step}"
        assert values and all(isinstance(value, float) for value in values.values()), values
        self.step = step

    def finish(self):
        self.finished = True

    def check(self):
        if not self.finished or self.step < 0:
            os._exit(1)


def init(project, id, resume):
    assert project and id and resume == "allow"
    return Run()
