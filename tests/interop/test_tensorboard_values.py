# SPDX-License-Identifier: Apache-2.0
"""TensorBoard's server has each kind of summary value under the plugin whose tab shows it."""
import json
import unittest
import urllib.error
import urllib.request

import numpy as np

from support import TestCase, run
from test_tensorboard import DIRECTLY, PATIENCE, Server


class Tabs(TestCase):
    def setUp(self):
        super().setUp()
        self.lines = []

    def ask(self, kind, tag="x", dtype=0, dims="-", data=b""):
        path = self.path(f"input{len(self.lines)}")
        for suffix, part in zip(("", ".labels", ".predictions", ".weights"), (data, b"\0\1", data, np.ones(2, "f4").tobytes())):
            with open(path + suffix, "wb") as file:
                file.write(part)
        self.lines.append(f"{kind} {tag} {dtype} {dims} {path}\n")

    def serve(self):
        run("write_values", self.directory / "events", given="".join(self.lines))
        return Server(self, self.directory / "events")

    def test_each_has_its_values(self):
        floats = np.float32([0.25, 0.75]).tobytes()
        self.ask("histogram", "weights", 1, "2", floats)
        self.ask("uniform", "uniform", 1, "2", floats)
        self.ask("image", "digit", 1, "1,2", floats)
        self.ask("audio", "tone", 1, "2", floats)
        self.ask("text", "note", data="größer".encode())
        self.ask("strings", "table", 7, "2,1", b"one\ntwo")
        self.ask("pr_curve", "curve", 1, "2", floats)
        self.ask("layout")
        server = self.serve()
        wanted = {"histograms": {"weights", "uniform"}, "images": {"digit/image"}, "audio": {"tone/audio"},
                  "text": {"note", "table"}, "pr_curves": {"curve/pr_curves"}}
        for plugin, tags in wanted.items():
            with self.subTest(plugin=plugin):
                server.wait(lambda: set((server.get(f"{plugin}/tags") or {}).get(".", ())) == tags)
        counts = server.get("histograms/histograms", run=".", tag="weights")[0][2]
        self.assertEqual(sum(count for _, _, count in counts), 2)
        self.assertIn("größer", server.get("text/text", run=".", tag="note")[0]["text"])
        self.assertIn("<table>", server.get("text/text", run=".", tag="table")[0]["text"])
        layout = server.wait(lambda: server.get("custom_scalars/layout"))
        self.assertEqual([category["title"] for category in layout["category"]], ["training", "empty"])

    def ask_hparams(self, server, path, **parameters):
        body = json.dumps({"experimentName": "", **parameters}).encode()
        request = urllib.request.Request(f"{server.address}/data/plugin/hparams/{path}", body,
                                         {"Content-Type": "application/json"})
        try:
            with DIRECTLY.open(request, timeout=PATIENCE) as answer:
                return json.load(answer)
        except urllib.error.URLError:
            return {}  # not yet

    def test_hyperparameters(self):
        for what in ("config", "start", "end"):
            self.ask("hparams", what)
        server = self.serve()
        infos = server.wait(lambda: self.ask_hparams(server, "experiment").get("hparamInfos"))
        self.assertEqual({info["name"] for info in infos}, {"optimizer", "rate", "nesterov"})
        statuses = ["STATUS_UNKNOWN", "STATUS_SUCCESS", "STATUS_FAILURE", "STATUS_RUNNING"]
        columns = [{"hparam": name} for name in ("optimizer", "rate", "nesterov")]
        groups = self.ask_hparams(server, "session_groups", allowedStatuses=statuses, startIndex=0, sliceSize=9,
                                  colParams=columns)["sessionGroups"]
        self.assertEqual(groups[0]["hparams"], {"optimizer": "adam", "rate": 0, "nesterov": False})
        self.assertEqual(groups[0]["sessions"][0]["status"], "STATUS_SUCCESS")


if __name__ == "__main__":
    unittest.main()
