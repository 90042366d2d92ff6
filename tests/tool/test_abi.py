# SPDX-License-Identifier: Apache-2.0
import json
import re
import subprocess
import unittest

from support import BUILD, SOURCE, ToolCase

LIBRARIES = ("hooksess", "hooksess_cuda", "hooksess_mpi", "hooksess_tensorflow", "hooksess_testing", "hooksess_tf1")


class Abi(ToolCase):
    def setUp(self):
        super().setUp()
        self.abi = json.loads(self.prints("abi", "--json"))
        self.structs = {struct["name"]: struct for struct in self.abi["structs"]}
        self.functions = {function["name"]: function for function in self.abi["functions"]}

    def field(self, struct, name):
        return next(field for field in self.structs[struct]["fields"] if field["name"] == name)

    def test_functions_are_those_that_the_libraries_export(self):
        found = 0
        for library in LIBRARIES:
            listed = {name for name, function in self.functions.items() if function["library"] == library}
            self.assertTrue(listed, library)
            for path in BUILD.glob(f"src/**/lib{library}.so"):
                lines = subprocess.run(["nm", "-D", "--defined-only", path], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
                exported = {line.split()[-1].split("@")[0] for line in lines if " A " not in line}
                self.assertEqual({name for name in exported if name.startswith("hs_")}, listed, library)
                found += 1
        self.assertGreater(found, 0)

    def test_structs_have_their_sizes_and_grow_as_the_abi_says(self):
        rows = re.findall(r"^(FROZEN|ENDS)\((hs_\w+),.* (\d+)\);", (SOURCE / "tests/checks/test_abi.c").read_text(), re.M)
        self.assertEqual({name for _, name, _ in rows}, set(self.structs))
        for kind, name, size in rows:
            struct = self.structs[name]
            self.assertEqual(struct["grows"], kind == "ENDS", name)
            if kind == "FROZEN":
                self.assertEqual(struct["bytes"], int(size), name)
            else:
                self.assertGreaterEqual(struct["bytes"], int(size), name)

    def test_fields_fill_their_struct(self):
        for name, struct in self.structs.items():
            end = 0
            for field in struct["fields"]:
                self.assertIn(field["offset"], (0, end) if struct["kind"] == "union" else range(end + 1), f"{name}.{field['name']}")
                end = max(end, field["offset"] + field["bytes"])
            self.assertEqual(end, struct["bytes"], name)

    def test_types_fields_and_parameters_name_known_types(self):
        known = {"void", "bool", "char", "int", "double", "float", "size_t", "va_list", "...", "struct", "const", "unsigned", "MPI_Comm",
                 "DLManagedTensorVersioned"}
        known |= {f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)}
        known |= set(self.structs) | {item["name"] for kind in ("enums", "types") for item in self.abi[kind]}
        types = [field["type"] for struct in self.structs.values() for field in struct["fields"]]
        for function in self.functions.values():
            types += [function["returns"], *(parameter["type"] for parameter in function["parameters"])]
        for kind in types:
            if "(" not in kind:
                self.assertLessEqual(set(re.findall(r"\w+|\.\.\.", kind)), known, kind)

    def test_fields_have_type_count_default_and_comment(self):
        self.assertEqual(self.field("hs_saver_options", "max_to_keep"), {**self.field("hs_saver_options", "max_to_keep"), "type": "int64_t", "default": "5"})
        self.assertEqual(self.field("hs_shape", "dims"), {**self.field("hs_shape", "dims"), "type": "int64_t", "count": 8, "offset": 8, "bytes": 64})
        self.assertEqual(self.field("hs_memory", "to_host")["type"],
                         "hs_code (*)(void *user, void *host, const void *device, size_t bytes, hs_error *err)")
        self.assertEqual(self.field("hs_checkpoint_name", "name")["type"], "const char *")  # two in one declaration
        self.assertIn("seconds", self.field("hs_training_options", "max_wait_secs")["comment"])

    def test_functions_have_returns_and_parameters(self):
        self.assertEqual(self.functions["hs_graph_global_step"],
                         {"name": "hs_graph_global_step", "header": "graph.h", "library": "hooksess", "returns": "hs_code",
                          "parameters": [{"name": "graph", "type": "hs_graph *"}, {"name": "name", "type": "const char *"},
                                         {"name": "data", "type": "int64_t *"}]})
        self.assertEqual((self.functions["hs_version"]["returns"], self.functions["hs_version"]["parameters"]), ("const char *", []))
        self.assertEqual(self.functions["hs_error_set"]["parameters"][-1]["name"], "...")

    def test_enums_and_macros_have_their_numbers(self):
        numbers = {constant["name"]: constant["value"] for enum in self.abi["enums"] for constant in enum["constants"]}
        numbers.update((macro["name"], macro["value"]) for macro in self.abi["macros"])
        self.assertEqual([numbers[name] for name in ("HS_FLOAT", "HS_STOP", "HS_NEVER", "HS_MAX_RANK")], [1, 64, -1, 8])
        self.assertEqual(self.abi["version"], re.search(r'HS_VERSION_STRING "(.*)"', (SOURCE / "include/hooksess/version.h").read_text())[1])

    def test_text_lists_the_same(self):
        text = self.prints("abi")
        self.assertIn("struct hs_shape: 72 bytes\n      0     4  int32_t rank\n", text)
        self.assertIn("\n  HS_FLOAT = 1\n", text)
        for name in [*self.structs, *self.functions]:
            self.assertRegex(text, rf"\b{name}\b")


if __name__ == "__main__":
    unittest.main()
