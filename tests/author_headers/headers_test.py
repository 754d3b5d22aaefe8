"""The checks of author headers find what is planted in a small tree.   headers_test.py COMPILER"""

import pathlib
import sys
import tempfile
import unittest

import headers

COMPILER = sys.argv.pop() if len(sys.argv) > 1 else "c++"
GOOD = "// A header.\n//\n//   int example();\n#pragma once\nint a();\n"


class HeadersTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name).resolve()
        self.write("framework/include/millrace/a.h", GOOD)

    def tearDown(self):
        self.folder.cleanup()

    def write(self, name, text):
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def assert_finds(self, *texts, bounds=None):
        found = headers.check(self.root, COMPILER, bounds or {"a.h": 10})
        self.assertEqual(len(found), len(texts), found)
        for problem, text in zip(found, texts):
            self.assertIn(text, problem)

    def test_a_good_tree_passes(self):
        self.write("tests/outside_plugin/x/x.cpp", "#include <millrace/a.h>\n#include <vector>\n")
        self.assert_finds()

    def test_another_header_and_a_missing_one_are_found(self):
        self.write("framework/include/millrace/b.h", GOOD)
        self.assert_finds("b.h: is not known as an author header", "c.h: is missing", "b.h: the compiler reads",
                          bounds={"a.h": 10, "c.h": 10})

    def test_a_header_without_an_example_is_found(self):
        self.write("framework/include/millrace/a.h", "// A header.\n#pragma once\nint a();\n")
        self.assert_finds("a.h: does not begin with a smallest example")

    def test_a_way_to_a_backends_header_is_found(self):
        self.write("framework/include/millrace/a.h", GOOD + '#include "millrace/detail/b.h"\n')
        self.write("framework/include/millrace/detail/b.h", '#include "millrace/backend/c.h"\n')
        self.write("framework/include/millrace/backend/c.h", "#pragma once\n")
        self.assert_finds("a.h: reaches millrace/backend/c.h")

    def test_plugins_and_examples_that_need_more_are_found(self):
        self.write("framework/include/millrace/kernels/k.h", "#pragma once\n")
        self.write("tests/outside_plugin/x/x.cpp", "#include <millrace/kernels/k.h>\n")
        self.write("README.md", "```cpp\n// x/x.h\n#include <millrace/kernels/k.h>\n```\n")
        self.assert_finds("tests/outside_plugin/x/x.cpp: includes millrace/kernels/k.h", "README.md: includes millrace/kernels/k.h")

    def test_a_heavy_header_is_found(self):
        self.assert_finds("a.h: the compiler reads 1 lines, at most 0", bounds={"a.h": 0})


if __name__ == "__main__":
    unittest.main()
