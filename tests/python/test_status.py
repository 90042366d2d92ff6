# SPDX-License-Identifier: Apache-2.0
"""status.json and outcome.json are objects."""
import datetime
import json
import os
import re
import socket
import unittest

import hooksess
from support import SOURCE, TestCase, run


class Files(TestCase):
    def test_a_training_that_has_ended_has_status_and_outcome(self):
        run("python/write_run", self.directory, 5)
        status, outcome = hooksess.status(self.directory), hooksess.outcome(self.directory)
        self.assertEqual((status.step, status.last_durable_step, status.phase, status.host), (5, 5, "end", socket.gethostname()))
        self.assertEqual((outcome.reason, outcome.exit_code, outcome.step, outcome.last_saved_step), ("stopped", 0, 5, 5))
        self.assertEqual((outcome.interrupted, outcome.signal, outcome.hook, outcome.error), (False, 0, "stop_at_step", None))
        self.assertEqual(outcome.pid, status.pid)
        self.assertGreaterEqual(status.save_secs, 0)
        age = datetime.datetime.now(datetime.timezone.utc) - status.time
        self.assertLess(age, datetime.timedelta(hours=1))
        self.assertGreaterEqual(outcome.time, status.time)

    def test_a_failure_has_code_and_message(self):
        run("python/write_run", self.directory, 5, "fail", status=1)
        outcome = hooksess.outcome(self.directory)
        self.assertEqual((outcome.reason, outcome.exit_code, outcome.last_saved_step), ("failed", 1, 4))
        self.assertEqual((outcome.error.code, outcome.error.number), ("DATA_LOSS", 15))
        self.assertIn("batch 'größe' is damaged", outcome.error.message)

    def test_failures_of_hooks_are_listed(self):
        run("python/write_run", self.directory, 5)
        (failures,) = hooksess.outcome(self.directory).failures
        self.assertEqual((failures.hook, failures.first_step, failures.muted), ("chart", 1, True))
        self.assertGreaterEqual(failures.failures, 1)
        self.assertEqual(failures.last.code, "UNAVAILABLE")
        self.assertIn('no "chart" today', failures.last.message)

    def test_the_documented_fields_are_those_of_the_files(self):
        run("python/write_run", self.directory, 5)
        document = (SOURCE / "docs/file-formats.md").read_text()
        for name in ("status.json", "outcome.json"):
            table = document.split(f"\n`{name}`")[1].split("| field |")[1].split("\n\n")[0]
            rows = re.findall(r"^\| (`.*?`) \|", table, re.M)
            fields = [field for row in rows for field in re.findall(r"`(\w+)`", row)]
            self.assertEqual(set(fields), set(json.loads((self.directory / name).read_text())))

    def test_without_files_there_is_nothing(self):
        self.assertIsNone(hooksess.status(self.directory))
        self.assertIsNone(hooksess.outcome(self.directory))

    def test_fields_of_later_releases_are_ignored(self):
        run("python/write_run", self.directory, 5)
        before = hooksess.status(self.directory)
        path = self.directory / "status.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"later": [1]}))
        self.assertEqual(hooksess.status(self.directory), before)

    def test_a_field_of_another_type_is_a_value_error_with_its_path(self):
        run("python/write_run", self.directory, 5)
        for name, read, field, value in (("status.json", hooksess.status, "time", 5), ("outcome.json", hooksess.outcome, "time", 5),
                                         ("outcome.json", hooksess.outcome, "error", "x"),
                                         ("outcome.json", hooksess.outcome, "failures", [1])):
            with self.subTest(name=name, field=field):
                path = self.directory / name
                content = path.read_text()
                path.write_text(json.dumps(json.loads(content) | {field: value}))
                with self.assertRaisesRegex(ValueError, name):
                    read(self.directory)
                path.write_text(content)

    def test_a_damaged_file_is_a_value_error_with_its_path(self):
        for name, read in (("status.json", hooksess.status), ("outcome.json", hooksess.outcome)):
            for content in (b"", b"{", b"[]", b"{}", b'{"time": 1}', b"\xff"):
                with self.subTest(name=name, content=content):
                    (self.directory / name).write_bytes(content)
                    with self.assertRaisesRegex(ValueError, name):
                        read(self.directory)

    def test_a_deeply_nested_file_is_damaged(self):
        for content in (b"[" * 100000, b'{"a":' * 100000):
            (self.directory / "status.json").write_bytes(content)
            with self.assertRaisesRegex(ValueError, "status.json"):
                hooksess.status(self.directory)

    def test_a_fifo_is_refused_without_waiting(self):
        os.mkfifo(self.directory / "status.json")
        with self.assertRaisesRegex(ValueError, "status.json.*regular file"):
            hooksess.status(self.directory)


if __name__ == "__main__":
    unittest.main()
