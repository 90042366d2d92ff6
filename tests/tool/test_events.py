# SPDX-License-Identifier: Apache-2.0
import fcntl
import json
import os
import resource
import signal
import unittest

from event_files import event, field, record, run_metadata, scalars, start, tensor_scalar, version
from support import BUILD, TOOL, ToolCase, run

FIRST, SECOND = "run/events.out.tfevents.0000000001.a", "run/events.out.tfevents.0000000002.a"
OUTPUT = "events.out.tfevents.0000000003.all"  # not in the directory `run`


class EventsCase(ToolCase):
    def setUp(self):
        super().setUp()
        (self.directory / "run").mkdir()

    def write_run(self):
        """Writes the events of a run that was stopped after step 4 and resumed from step 2."""
        self.write(FIRST, version() + start(1) + b"".join(scalars(step, loss=step) for step in range(1, 5)))
        self.write(SECOND, version() + start(3) + tensor_scalar(3, "accuracy", 0.5) + scalars(3, loss=30, rate=7) + run_metadata(3, "step_3"))

    def preloaded(self, *arguments, **environment):
        """Runs the tool with note_syncs.c."""
        asan = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
        environment = {**os.environ, "LD_PRELOAD": str(BUILD / "tests/tool/note_syncs.so"), "ASAN_OPTIONS": asan, **environment}
        return run(TOOL, *arguments, cwd=self.directory, env=environment)

    def lines(self, *arguments, status=0):
        return [json.loads(line) for line in self.prints("events", "cat", "--json", *arguments, status=status).splitlines()]


class Ls(EventsCase):
    def test_files_and_tags_of_a_directory(self):
        self.write_run()
        found = self.json("events", "ls", "--json", "run")
        self.assertEqual(found["files"], [
            {"file": FIRST, "bytes": len(self.bytes_of(FIRST)), "records": 6, "first_step": 0, "last_step": 4, "damaged": 0},
            {"file": SECOND, "bytes": len(self.bytes_of(SECOND)), "records": 5, "first_step": 0, "last_step": 3, "damaged": 0}])
        self.assertEqual(found["events"], {"file_version": 2, "session_log": 2, "summary": 6, "run_metadata": 1})
        self.assertEqual([(t["tag"], t["kind"], t["plugin"], t["count"], t["first_step"], t["last_step"]) for t in found["tags"]],
                         [("accuracy", "tensor", "scalars", 1, 3, 3), ("loss", "scalar", None, 5, 1, 4),
                          ("rate", "scalar", None, 1, 3, 3), ("step_3", "run_metadata", None, 1, 3, 3)])

    def test_text_output(self):
        self.write_run()
        text = self.prints("events", "ls", "run")
        self.assertRegex(text, rf"(?m)^{FIRST}  \d+ bytes +6  0 to 4$")
        self.assertIn("""
tag       kind          values  steps   plugin
accuracy  tensor             1  3       scalars
loss      scalar             5  1 to 4
rate      scalar             1  3
step_3    run_metadata       1  3
""", text)

    def test_a_long_tag_does_not_move_the_columns_of_other_rows(self):
        self.write(FIRST, version() + scalars(1, **{"loss": 1, "t" * 5000: 2}))
        lines = self.prints("events", "ls", "run").splitlines()
        self.assertLessEqual(max(map(len, lines[:-1])), 150)
        self.assertEqual(lines[-1], "t" * 5000 + "  scalar       1  1")

    def test_a_single_file(self):
        self.write_run()
        self.assertEqual([f["file"] for f in self.json("events", "ls", "--json", SECOND)["files"]], [SECOND])

    def test_a_file_that_vanishes_has_no_bytes(self):
        self.write_run()
        sizes = [file["bytes"] for file in self.json("events", "ls", "--json", "run")["files"]]
        done = self.preloaded("events", "ls", "--json", "run", VANISHES=os.path.realpath(self.directory / SECOND))
        self.assertEqual([file["bytes"] for file in json.loads(done.stdout)["files"]], [sizes[0], 0])

    def test_an_empty_directory(self):
        for command in "ls", "cat", "check":
            self.assertEqual(self.says("events", command, "run"), "hooksess: run: contains no event\n")
        self.assertEqual(self.says("events", "ls", "--json", "run"), "hooksess: run: contains no event\n")
        self.assertEqual(self.says("checkpoint", "ls", "run"), "hooksess: run: contains no checkpoint\n")

    def test_damage_is_counted(self):
        self.write(FIRST, version() + scalars(1, loss=1)[:-1])
        self.assertEqual(self.json("events", "ls", "--json", "run", status=1)["files"][0]["damaged"], 1)
        self.assertIn("  1 damaged place\n", self.prints("events", "ls", "run", status=1))
        self.write(SECOND, (version() + scalars(1, loss=1)[:-1]) * 2)
        self.assertIn("  2 damaged places\n", self.prints("events", "ls", "run", status=1))

    def test_another_file_is_refused(self):
        self.write("train.py", b"import hooksess\n" * 100)
        for name in "pointer", FIRST:
            self.write(name, b"version https://git-lfs.github.com/spec/v1\noid sha256:x\nsize 3\n")
        self.write("run/none", version() + scalars(1, loss=1))
        for words in ("ls",), ("ls", "--json"), ("cat",), ("cat", "--json"), ("check",), ("plot", "loss"):
            self.assertEqual(self.says("events", *words, "train.py"), "hooksess: train.py: is not an event file\n")
            for name in "pointer", FIRST:
                self.assertEqual(self.says("events", *words, name), f"hooksess: {name}: is not an event file, but a pointer of Git LFS; run 'git lfs pull'\n")
        self.assertIn("run/none", self.prints("events", "ls", "run/none"))  # an event file of another name

    def test_an_event_file_without_an_intact_record(self):
        self.write(FIRST, bytes(range(100)))
        self.assertIn(f"{FIRST}  100 bytes        0  -      no intact record\n", self.prints("events", "ls", "run", status=1))

    def test_many_tags_are_sorted(self):
        tags = [f"tag_{i * 7919 % 5000:04d}" for i in range(5000)]
        self.write(FIRST, version() + b"".join(scalars(step, **dict.fromkeys(tags, 1)) for step in (1, 2)))
        found = self.json("events", "ls", "--json", "run")["tags"]
        self.assertEqual([(t["tag"], t["count"], t["last_step"]) for t in found], [(tag, 2, 2) for tag in sorted(tags)])

    def test_missing_files_are_named(self):
        self.assertIn("nowhere", self.says("events", "ls", "nowhere"))

    def test_hostile_tags_are_escaped(self):
        self.write(FIRST, version() + event(1, field(5, field(1, field(1, b"a\0\x1b[2J\xff") + field(2, 1.0)))))
        self.assertIn("a\ufffd\\x1b[2J\\xff", self.prints("events", "ls", "run"))
        self.assertEqual(self.json("events", "ls", "--json", "run")["tags"][0]["tag"], "a\ufffd\x1b[2J\ufffd")


class Cat(EventsCase):
    def test_a_line_for_each_value(self):
        self.write_run()
        self.assertEqual(self.prints("events", "cat", SECOND), """\
0  1970-01-01T00:16:40.500Z  file_version  brain.Event:2
3  1970-01-01T00:16:40.500Z  session_log  start
3  1970-01-01T00:16:40.500Z  summary  accuracy  tensor/scalars  0.5
3  1970-01-01T00:16:40.500Z  summary  loss  scalar  30
3  1970-01-01T00:16:40.500Z  summary  rate  scalar  7
3  1970-01-01T00:16:40.500Z  run_metadata  step_3  8 bytes
""")

    def test_json_lines(self):
        self.write_run()
        found = self.lines(SECOND)
        head = {"file": SECOND, "wall_time": 1000.5}
        self.assertEqual(found[0], {**head, "step": 0, "event": "file_version", "version": "brain.Event:2"})
        self.assertEqual(found[1], {**head, "step": 3, "event": "session_log", "status": "start"})
        self.assertEqual(found[2], {**head, "step": 3, "event": "summary", "tag": "accuracy", "kind": "tensor", "plugin": "scalars",
                                    "dtype": "float", "shape": [], "value": 0.5})
        self.assertEqual(found[5], {**head, "step": 3, "event": "run_metadata", "tag": "step_3", "bytes": 8})

    def test_filters(self):
        self.write_run()
        self.assertEqual([(e["step"], e["value"]) for e in self.lines("--tag", "loss", "run")],
                         [(1, 1), (2, 2), (3, 3), (4, 4), (3, 30)])
        self.assertEqual([e["value"] for e in self.lines("--tag", "l*", "--from", "2", "--to", "3", "run")], [2, 3, 30])
        self.assertEqual(self.lines("--from", "5", "run"), [])
        for words in ("--from", "5"), ("--to", "-1"):
            self.assertEqual(self.says("events", "cat", *words, "run", status=0), "hooksess: run: contains no event at these steps, but at steps 0 to 4\n")
        self.assertEqual(self.says("events", "cat", "--tag", "accuracy", "--to", "2", "run", status=0),
                         "hooksess: run: contains no event at these steps, but at step 3\n")
        self.assertIn("--from: '1x' is not an integer", self.says("events", "cat", "--from", "1x", "run"))
        self.assertIn("--to: ", self.says("events", "cat", "--to", "99999999999999999999", "run"))

    def test_a_tag_that_does_not_exist_is_an_error(self):
        self.write_run()
        for tag, more in ("los", "; did you mean 'loss'?"), ("acuracy", "; did you mean 'accuracy'?"), ("x", "; list its tags: hooksess events ls"), \
                ("lost*", "; did you mean 'loss'?"):
            self.assertEqual(self.says("events", "cat", "--tag", tag, "run"), f"hooksess: run: contains no tag '{tag}'{more}\n")
            self.says("events", "cat", "--json", "--tag", tag, "run")
            self.assertEqual(self.says("events", "plot", tag, "run").replace(" scalar ", " tag "), f"hooksess: run: contains no tag '{tag}'{more}\n")
        self.assertEqual(self.lines("--tag", "loss", "--from", "100", "run"), [])  # the tag exists

    def test_times_that_are_no_times(self):
        self.write(FIRST, b"".join(event(1, field(5, field(1, field(1, "loss") + field(2, 1.0))), secs) for secs in (float("nan"), -1.0, 1e300)))
        self.assertEqual([line.split("  ")[1] for line in self.prints("events", "cat", "run").splitlines()], ["nan", "-1", "1e+300"])

    def test_a_tag_matches_itself_before_patterns(self):
        self.write(FIRST, version() + scalars(1, **{"loss[0]": 1, "loss0": 2}))
        self.assertEqual([e["tag"] for e in self.lines("--tag", "loss[0]", "run")], ["loss[0]", "loss0"])

    def test_nan_is_null(self):
        self.write(FIRST, scalars(1, loss=float("nan")))
        self.assertIsNone(self.lines("run")[0]["value"])
        self.assertIn("nan", self.prints("events", "cat", "run"))

    def test_damage_is_skipped(self):
        damaged = bytearray(scalars(2, loss=2))
        damaged[20] ^= 1
        self.write(FIRST, scalars(1, loss=1) + damaged + scalars(3, loss=3))
        output, said = self.tool("events", "cat", "--json", "run", status=1)
        self.assertEqual([json.loads(line)["step"] for line in output.splitlines()], [1, 3])
        self.assertIn(f"the record at byte {len(damaged)}; {len(damaged)} bytes skipped", said)


class Check(EventsCase):
    def test_files_without_damage(self):
        self.write_run()
        self.assertEqual(self.prints("events", "check", "run"), "run: 11 events, no damage\n")
        self.assertEqual(self.json("events", "check", "--json", "run"), [])

    def test_every_wrong_byte_is_found(self):
        before, middle, after = version(), scalars(1, loss=1), scalars(2, loss=2)
        for at in range(len(middle)):
            damaged = middle[:at] + bytes([middle[at] ^ 4]) + middle[at + 1:]
            self.write(FIRST, before + damaged + after)
            found = self.json("events", "check", "--json", "run", status=1)
            self.assertEqual([(f["offset"], f["bytes"], f["truncated"]) for f in found], [(len(before), len(middle), False)])
        self.assertRegex(self.prints("events", "check", "run", status=1),
                         rf"^damaged: .*at byte {len(before)}, {len(middle)} bytes\nrun: 2 events, 1 damaged place\n$")

    def test_every_truncation_is_found(self):
        self.write_run()
        data = self.bytes_of(FIRST)
        whole = len(version() + start(1))
        for cut in range(whole + 1, whole + len(scalars(1, loss=1))):
            self.write(FIRST, data[:cut])
            found = self.json("events", "check", "--json", "run", status=1)
            self.assertEqual([(f["file"], f["offset"], f["bytes"], f["truncated"]) for f in found], [(FIRST, whole, cut - whole, True)])

    def test_a_record_that_is_not_an_event(self):
        self.write(FIRST, version() + record(b"\xff\xff") + scalars(2, loss=2))
        self.assertIn("not an Event", self.prints("events", "check", "run", status=1))

    def test_garbage(self):
        self.write(FIRST, b"no events at all")
        self.assertEqual(self.json("events", "check", "--json", FIRST, status=1)[0]["bytes"], 16)


class Compact(EventsCase):
    def names(self):
        return sorted(path.name for path in (self.directory / "run").iterdir())

    def test_repeated_steps_are_dropped(self):
        self.write_run()
        done = self.json("events", "compact", "--json", "--output", OUTPUT, "run")
        self.assertEqual(done, {"file": OUTPUT, "files": 2, "events": 11, "dropped": 2, "deleted": []})
        self.assertEqual([(e["step"], e["value"]) for e in self.lines("--tag", "loss", OUTPUT)], [(1, 1), (2, 2), (3, 30)])
        logs = [e["step"] for e in self.lines(OUTPUT) if e["event"] == "session_log"]
        self.assertEqual(logs, [0, 1, 3])
        self.assertEqual(len(self.names()), 2)

    def test_numbers_agree_with_their_nouns(self):
        self.write(FIRST, version())
        self.assertIn(": 1 event in 1 file compacted: 0 obsolete events dropped, 0 files deleted\n",
                      self.prints("events", "compact", "--output", OUTPUT, "run"))

    def test_no_point_is_counted_twice(self):
        self.write(FIRST, version() + start(1) + b"".join(scalars(step, loss=step) for step in range(1, 101)))
        self.write(SECOND, version() + start(51) + b"".join(scalars(step, loss=step) for step in range(51, 101)))
        names = self.names()
        self.assertIn("give exactly one of --delete and --output FILE", self.says("events", "compact", "run"))
        self.assertIn("give exactly one of", self.says("events", "compact", "--delete", "--output", OUTPUT, "run"))
        self.assertIn("the file must be in another directory", self.says("events", "compact", "--output", "run/all.tfevents", "run"))
        self.assertEqual(self.names(), names)
        self.prints("events", "compact", "--delete", "run")
        self.assertEqual([e["step"] for e in self.lines("--tag", "loss", "run")], list(range(1, 101)))
        self.assertEqual([tag["count"] for tag in self.json("events", "ls", "--json", "run")["tags"]], [100])

    def test_an_output_that_cannot_be_written(self):
        self.write_run()
        self.assertIn("nowhere", self.says("events", "compact", "--output", "nowhere/at.all", "run"))
        self.assertEqual(len(self.names()), 2)

    def test_an_output_does_not_replace_a_device(self):
        self.write_run()
        os.symlink("/dev/null", self.directory / "link")
        self.assertIn("link: is not a regular file", self.says("events", "compact", "--output", "link", "run"))
        self.assertEqual(os.readlink(self.directory / "link"), "/dev/null")

    def test_old_files_are_deleted_with_delete(self):
        self.write_run()
        done = self.json("events", "compact", "--json", "--delete", "run")
        self.assertEqual(done["deleted"], [FIRST, SECOND])
        self.assertEqual(self.names(), [SECOND[4:] + ".compacted"])
        self.assertIn("nothing to compact", self.prints("events", "compact", "--delete", "run"))

    def test_the_new_file_and_its_directory_are_synced(self):
        self.write_run()
        done = self.preloaded("events", "compact", "--delete", "run")
        self.assertEqual(done.returncode, 0, done.stderr)
        synced = [line.split(" ")[1] for line in done.stderr.decode().splitlines()]
        folder = os.path.realpath(self.directory / "run")
        self.assertEqual([os.path.dirname(path) for path in synced[:1]] + synced[1:2], [folder, folder])

    def test_a_file_that_grows_meanwhile_is_not_deleted(self):
        self.write_run()
        names = self.names()
        done = self.preloaded("events", "compact", "--delete", "run", GROWS=FIRST)
        self.assertEqual(done.returncode, 2)
        self.assertIn(f"{FIRST} is being written; nothing was changed", done.stderr.decode())
        self.assertEqual(self.names(), names)

    def test_without_memory_nothing_remains(self):
        self.write_run()
        names = self.names()
        for where in (["--output", OUTPUT], ["--delete"]):
            outputs = self.directory / "run" if where == ["--delete"] else self.directory
            done = self.preloaded("events", "compact", *where, "run", OUTPUTS=str(outputs), LACKS=str(3 * len("loss\0")))
            self.assertEqual(done.returncode, 2)
            self.assertIn("out of memory", done.stderr.decode())
            self.assertEqual(self.names(), names)
            self.assertEqual(os.listdir(self.directory), ["run"])

    def test_a_deletion_that_was_interrupted_is_finished(self):
        self.write_run()
        self.prints("events", "compact", "--output", OUTPUT, "run")
        os.rename(self.directory / OUTPUT, self.directory / (SECOND + ".compacted"))
        self.prints("events", "compact", "--delete", "run")
        self.assertEqual([(e["step"], e["value"]) for e in self.lines("--tag", "loss", "run")], [(1, 1), (2, 2), (3, 30)])

    def test_a_torn_end_is_not_copied(self):
        self.write_run()
        self.write(FIRST, self.bytes_of(FIRST)[:-3])
        output, said = self.tool("events", "compact", "--delete", "run", status=1)
        self.assertIn("bytes skipped", said)
        self.assertEqual(len(self.names()), 1)

    def test_damaged_files_are_not_deleted(self):
        self.write_run()
        data = bytearray(self.bytes_of(FIRST))
        data[len(version()) + 20] ^= 1
        self.write(FIRST, data)
        output, said = self.tool("events", "compact", "--delete", "run", status=1)
        self.assertIn("nothing was changed: a file is damaged, and more of its events may be recoverable", said)
        self.assertEqual(len(self.names()), 2)
        self.tool("events", "compact", "--output", OUTPUT, "run", status=1)
        self.assertEqual([e["step"] for e in self.lines("--tag", "loss", OUTPUT)][-1], 3)

    def test_a_pointer_of_git_lfs_among_the_files_changes_nothing(self):
        self.write_run()
        self.write(FIRST, b"version https://git-lfs.github.com/spec/v1\noid sha256:x\nsize 3\n")
        names = self.names()
        for where in ["--delete"], ["--output", OUTPUT]:
            self.assertIn(f"{FIRST}: is not an event file", self.says("events", "compact", *where, "run"))
            self.assertEqual(self.names(), names)
        self.assertFalse((self.directory / OUTPUT).exists())

    def test_a_file_that_has_lost_its_version(self):
        self.write(FIRST, scalars(1, loss=1) + scalars(2, loss=2))
        self.write(SECOND, version() + start(2) + scalars(2, loss=20))
        self.prints("events", "compact", "--delete", "run")
        self.assertEqual([(e["event"], e["step"], e.get("value")) for e in self.lines(SECOND + ".compacted")],
                         [("file_version", 0, None), ("session_log", 0, None), ("summary", 1, 1), ("session_log", 2, None), ("summary", 2, 20)])

    def test_metadata_that_only_an_obsolete_value_has(self):
        bare = event(3, field(5, field(1, field(1, "note") + field(8, field(1, 1) + field(2, b"")))))
        self.write(FIRST, version() + start(1) + tensor_scalar(3, "note", 1) + bare + scalars(4, loss=4) + start(3) + bare)
        done = self.json("events", "compact", "--json", "--delete", "run")
        self.assertEqual((done["events"], done["dropped"]), (7, 2))
        note = self.json("events", "ls", "--json", "run")["tags"][0]
        self.assertEqual((note["tag"], note["plugin"], note["count"]), ("note", "scalars", 2))
        self.assertIn("nothing to compact", self.prints("events", "compact", "--delete", "run"))
        self.assertEqual(len(self.names()), 1)

    def test_a_training_that_saves_there_keeps_its_files(self):
        self.write_run()
        before = self.names()
        with open(self.directory / "run" / ".hooksess.lock", "w+") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX)
            output, said = self.tool("events", "compact", "--delete", "run", status=2)
        self.assertIn("nothing was changed", said)
        self.assertEqual([name for name in self.names() if name != ".hooksess.lock"], before)
        self.prints("events", "compact", "--delete", "run")

    def test_a_command_is_needed(self):
        self.assertIn("nothing to compact", self.prints("events", "compact", "--delete", "run"))
        self.write(FIRST, version() + start(1) + scalars(1, loss=1))
        self.assertIsNone(self.json("events", "compact", "--json", "--delete", "run")["file"])
        self.assertEqual(len(self.names()), 1)

    def test_a_file_is_not_a_directory(self):
        self.write_run()
        self.assertIn("is not a directory", self.says("events", "compact", "--delete", FIRST))

    def test_a_full_disk_changes_nothing(self):
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

        self.write_run()
        names = self.names()
        # In a build for gcov the limit also truncates gcov's files, and every later run would print a warning.
        environment = {**os.environ, "GCOV_PREFIX": str(self.directory / "gcov")}
        done = run(TOOL, "events", "compact", "--delete", "run", cwd=self.directory, env=environment, preexec_fn=limit)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(self.names(), names)


if __name__ == "__main__":
    unittest.main()
