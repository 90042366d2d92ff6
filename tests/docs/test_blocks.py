#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_blocks.py PREFIX: blocks.py accepts correct blocks, and refuses each kind of wrong one."""
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

import blocks

PREFIX = pathlib.Path(sys.argv.pop(1)).resolve()
PROGRAM = """```c
#include <hooksess/hooksess.h>
int main(void)
{
    hs_graph *g = hs_graph_new(NULL);
    hs_graph_free(g);
    return RESULT;
}
```"""
FRAME = """#include <assert.h>
int main(void)
{
    int a = 1, b = 1;
    /* BLOCK */
    assert(a == 2);
    /* BLOCK */
    assert(b == 2);
    return 0;
}
"""


KERNEL = """#include <assert.h>
#include <cuda_runtime.h>
static __global__ void two(int *a)
{
    *a = 2;
}
int main()
{
    int *a, result = 1;
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    cudaMalloc(&a, sizeof *a);
    cudaMemsetAsync(a, 0, sizeof *a, stream);
    /* BLOCK */
    cudaMemcpyAsync(&result, a, sizeof *a, cudaMemcpyDeviceToHost, stream);
    cudaStreamSynchronize(stream);
    (void)two;
    assert(result == 2);
}
"""


class Blocks(unittest.TestCase):

    def run_document(self, text, empty=False):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "frames").mkdir()
            (folder / "frames/two.c").write_text(FRAME)
            (folder / "frames/kernel.cuda").write_text(KERNEL)
            (folder / "frames/project.cmake").write_text(
                "cmake_minimum_required(VERSION 3.22)\nproject(p C)\n# BLOCK\nif(NOT found)\nmessage(FATAL_ERROR lacking)\nendif()\n")
            document = folder / "page.md"
            document.write_text(text)
            with mock.patch.object(blocks, "HERE", folder), mock.patch.object(blocks, "SOURCE", folder):
                return blocks.test(PREFIX, document, empty)

    def assert_wrong(self, text, message):
        with self.assertRaisesRegex(blocks.Wrong, message):
            self.run_document(text)

    def test_a_program_is_compiled_and_run(self):
        self.assertIn("1 programs", self.run_document(PROGRAM.replace("RESULT", "0")))
        self.assertIn("1 programs", self.run_document(PROGRAM.replace("RESULT", "0").replace("```c", "```cpp")))

    def test_a_program_must_have_its_exit_code(self):
        self.assert_wrong(PROGRAM.replace("RESULT", "3"), "exit code 3, not 0")
        self.run_document("<!-- exit: 3 -->\n" + PROGRAM.replace("RESULT", "3"))

    def test_a_program_with_a_warning_is_wrong(self):
        self.assert_wrong(PROGRAM.replace("RESULT", "0; int unused"), r"page\.md:7:.*unused")

    def test_a_fragment_needs_a_frame(self):
        self.assert_wrong("```c\nint x;\n```", "page.md:1: a fragment needs a frame")
        self.assert_wrong("<!-- frame: none -->\n```c\nint x;\n```", "no frame frames/none.c")

    def test_a_frame_checks_what_its_blocks_do(self):
        first, second = ("<!-- frame: two %d -->\n```c\n%s = 2;\n```\n" % each for each in ((1, "a"), (2, "b")))
        self.assertIn("1 frames", self.run_document(first + "text\n" + second))
        self.assert_wrong(first + second.replace("b = 2;", ";"), "Assertion")
        self.assert_wrong(first, "more places than it gets blocks")
        self.assert_wrong(second + first, "this is number 1")

    def test_a_cuda_block_runs_over_the_stand_in_for_the_driver(self):
        text = "<!-- frame: kernel -->\n```cuda\ntwo<<<1, 1, 0, stream>>>(a);\n```\n"
        self.assertIn("1 frames", self.run_document(text, empty=True))
        self.assert_wrong(text.replace("<<<1, 1", "<<<0, 1"), "Assertion")

    def test_a_frame_that_passes_with_an_empty_block_is_found(self):
        text = "<!-- frame: two 1 -->\n```c\na = 2;\n```\n<!-- frame: two 2 -->\n```c\nb = 2;\n```\n"
        self.run_document(text, empty=True)
        with mock.patch(__name__ + ".FRAME", FRAME.replace("assert(b == 2)", "(void)b")):
            self.run_document(text)
            with self.assertRaisesRegex(blocks.Wrong, "page.md:6: two.c also passes without this block"):
                self.run_document(text, empty=True)

    def test_a_cmake_block_is_built_in_its_frame(self):
        text = "<!-- frame: project -->\n```cmake\nfind_package(hooksess REQUIRED)\nset(found ${hooksess_FOUND})\n```\n"
        self.run_document(text)
        self.assert_wrong(text.replace("set(", "#"), "lacking")

    def test_blocks_of_the_shell_share_it(self):
        self.assertIn("3 blocks of the shell", self.run_document(
            "<!-- file: x/f.txt -->\n```text\nhello\n```\n```sh\ncd x\nA=3\n```\ntext\n```sh\ntest $A = 3\ngrep hello f.txt\n```\n"
            "```console\n$ cat f.txt\nhello\n$ (exit 3); echo $?\n3\n$ for i in 1 2; do\n>     echo $i; done\n1\n2\n$ hooksess --version | cut -d' ' -f1\nhooksess\n```\n"))

    def test_each_command_of_a_script_must_succeed(self):
        self.assert_wrong("```sh\nfalse\ntrue\n```", "page.md:1: fails")
        self.assert_wrong("```sh\ntrue\n```\n```sh\nexit 0\n```\n```sh\ntrue\n```", "page.md:4: fails")

    def test_a_console_block_must_print_the_lines_that_it_shows(self):
        self.assert_wrong("```console\n$ echo a\nb\n```", "prints\na\nand not\nb")
        self.assert_wrong("```console\n$ echo a\n```", "prints\na")
        self.assert_wrong("```console\n$ printf '%s\\n' a b c\na\n...\nc\n```", "prints\na\nb\nc")
        self.run_document("```console\n$ sh -c 'kill -9 $$'\nKilled\n```")

    def test_only_what_varies_may_differ(self):
        text = "<!-- varies: \\d+ because it is a time -->\n```console\n$ echo step 12\nstep 9\n```"
        self.run_document(text)
        self.assert_wrong(text.replace("step 9", "stop 9"), "stop")
        self.assert_wrong(text.replace("\\d+", "xyz"), "nothing varies")

    def test_what_varies_needs_a_reason(self):
        for key in "varies", "same":
            for comment in f"{key}: \\d+", f"{key}: \\d+ because", f"{key}: \\d+ because  ":
                self.assert_wrong(f"<!-- {comment} -->\n```console\n$ echo 12\n9\n```", f"page.md:2: '{key}: .*' lacks its reason")

    def test_the_first_digits_of_a_number_can_be_compared(self):
        text = "<!-- varies: (?<=0\\.04)\\d+ because of the libm -->\n```console\n$ echo loss 0.0%s\nloss 0.0456\n```"
        self.run_document(text % 471)
        self.assert_wrong(text % 571, "prints\nloss 0.0571")

    def test_a_line_that_is_shown_twice_must_be_printed_twice(self):
        text = "<!-- same: \\d+ because it is a time -->\n```console\n$ A=%d; echo $A\n7\n$ echo 6 or $A\n8 or 7\n```"
        self.run_document(text % 5)
        self.assert_wrong(text.replace("8 or 7", "7 or 8") % 5, "prints 6, and where '7' is shown before it, 5")

    def test_a_file_must_be_used(self):
        self.assert_wrong("<!-- file: f -->\n```text\nx\n```", "no sh or console block follows")

    def test_wrong_documents(self):
        self.assert_wrong("```\nx\n```", "without its language")
        self.assert_wrong("```text\nx", "without an end")
        self.assert_wrong("<!-- frame: two -->\ntext\n```c\nx\n```", "belongs directly before")
        self.assert_wrong("<!-- fram: two -->\n```text\nx\n```", "unknown comment 'fram'")
        self.assert_wrong("<!-- frame: two -->\n```sh\nx\n```", "only c, cpp, cuda and cmake")

    def test_a_block_in_a_list_may_be_indented(self):
        self.run_document("- first\n\n    ```console\n    $ echo '  a'\n      a\n    ```\n")


if __name__ == "__main__":
    unittest.main()
