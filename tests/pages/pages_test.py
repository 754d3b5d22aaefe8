"""The checks of pages find what is planted in a small tree.   pages_test.py COMPILER"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

import commands
import examples
import keys
import links
import messages

COMPILER = sys.argv.pop() if len(sys.argv) > 1 else "c++"
GOOD = "# A tree\n\nSee [the order](framework/order.h), `framework/order.h` and `order.h`; `data/x` is not of it.\n"


class PagesTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name).resolve()
        (self.root / "framework").mkdir()
        (self.root / "framework/order.h").write_text("int first();\nint second();\n")
        self.page(GOOD)

    def tearDown(self):
        self.folder.cleanup()

    def page(self, text):
        (self.root / "README.md").write_text(text)

    def assert_finds(self, found, *texts):
        self.assertEqual(len(found), len(texts), found)
        for problem, text in zip(found, texts):
            self.assertIn(text, problem)

    def test_a_good_page_passes(self):
        self.assertEqual(links.check(self.root), [])

    def test_a_link_that_leads_nowhere_is_found(self):
        self.page(GOOD + "[a](framework/a.h) `framework/b.h` `c.h`\n")
        self.assert_finds(links.check(self.root), "README.md:4: the link leads nowhere: framework/a.h",
                          "README.md:4: there is no 'framework/b.h'", "README.md:4: there is no 'c.h'")
        self.page(GOOD + "## `[run]`: a *word*\n\n[a](#run-a-word) [b](#b) [c](README.md#c)\n")
        self.assert_finds(links.check(self.root), "README.md:6: the link leads nowhere: #b",
                          "README.md:6: the link leads nowhere: README.md#c")

    def test_a_long_page_is_found(self):
        self.page(GOOD + "word " * links.MOST_WORDS["README.md"])
        guide = self.root / "pipelines/guide"
        guide.mkdir(parents=True)
        (guide / "long.md").write_text("word " * 901)
        (guide / "made.md").write_text(links.MADE + "x -->\n" + "word " * 901)
        (guide.parent / "README.md").write_text("\n" * 151)
        self.assert_finds(links.check(self.root), "README.md: has 7", "pipelines/README.md: has 151 lines",
                          "pipelines/guide/long.md: has 901 words, at most 900 are allowed")

    def test_examples_are_compiled_or_compared(self):
        self.page("```cpp\n// good.cpp\n#include \"good.h\"\nint main() { return f(); }\n```\n```cpp\n// good.h\nint f();\n```\n"
                  "<!-- part of framework/order.h -->\n```cpp\nint first();\nint second();\n```\n")
        self.assertEqual(examples.check(self.root, COMPILER), [])
        self.page("```cpp\n// bad.cpp\nint main() { return f(); }\n```\n```cpp\nint loose;\n```\n"
                  "<!-- part of framework/order.h -->\n```cpp\nint second();\nint first();\n```\n```toml\na = = 1\n```\n")
        self.assert_finds(examples.check(self.root, COMPILER), "README.md:6: say which file", "README.md:10: is not in framework",
                          "README.md:14: is no TOML", "README.md:2: does not compile")

    def test_an_example_that_is_not_that_of_its_header_is_found(self):
        def found(call, note="<!-- example of framework/include/millrace/a.h -->"):
            (self.root / "framework/include/millrace").mkdir(parents=True, exist_ok=True)
            (self.root / "framework/include/millrace/a.h").write_text(
                "// A header with a table and an example.\n//   here      a word; and another\n// Then:\n//   int f();  // why\n//\n"
                "//   int g() { return f(); }\n//   int h() { ... }\n#pragma once\n")
            self.page(f"{note}\n```cpp\n// a.h\nint f();\nint between();\nint g() {{ return {call}; }}\nint h() {{ return 1; }}\n```\n")
            return examples.check_excerpts(self.root)
        self.assertEqual(found("f()"), [])
        self.assert_finds(found("between()"), "README.md:3: is not the example of framework/include/millrace/a.h, which says: int g()")
        self.assert_finds(found("f()", ""), "a.h: no block of plugins/guide says <!-- example of framework/include/millrace/a.h -->")

    def test_commands_are_left_out_for_a_reason_only(self):
        self.page("```toml\n# a.toml\nx = 1\n```\n<!-- not run: it never ends -->\n```sh\nsleep 1d\n```\n\n```sh\ncat a.toml\n```\n")
        text, left_out = commands.script(self.root / "README.md", self.root, self.root)
        self.assertIn("cat a.toml", text)
        self.assertNotIn("sleep", text)
        self.assertEqual(left_out, ["README.md:7: not run: it never ends"])
        self.assertEqual((self.root / "a.toml").read_text(), "# a.toml\nx = 1\n")

    def test_every_toml_block_of_a_guide_is_run_or_says_why_not(self):
        page = self.root / "pipelines/guide/a.md"
        page.parent.mkdir(parents=True)
        (self.root / "bases").mkdir()
        page.write_text("```toml\n# a.toml\nextends = 'b'\n```\n```toml with=photos\nx = 1\n```\n```toml needs-gpu\nx = 1\n```\n"
                        "```toml\nx = 1\n```\n```sh check\npipeline-run a.toml\n```\n")
        text, left_out = commands.script(page, self.root, self.root)
        self.assertEqual(left_out, ["pipelines/guide/a.md:9: not run: it needs a GPU"])
        self.assertEqual((self.root / "bases/a-6.toml").read_text(), 'extends = "photos.toml"\nx = 1\n')
        for part in ("pipeline-run a.toml --check >", "pipeline-run bases/a-6.toml --check >", "say in the fence what",
                     '{ command pipeline-run "$@" --check; }\npipeline-run a.toml\n'):
            self.assertIn(part, text)
        self.assertEqual(text.count("say in the fence what"), 1)

    def test_a_message_that_no_program_says_is_found(self):
        page = self.root / "pipelines/guide/a.md"
        page.parent.mkdir(parents=True)
        (self.root / "framework/say.cpp").write_text('fail("there is no file \'{}\', and "\n     "no folder");\n')
        page.write_text("| symptom | do |\n|---|---|\n| `there is no file 'x', and no folder` | |\n| `there is no folder 'x'` | |\n\n"
                        "| key | do |\n|---|---|\n| `there is none` | |\n")
        self.assert_finds(messages.check(self.root), "pipelines/guide/a.md:4: no program says 'there is no folder'")
        (self.root / "framework/say.cpp").write_text('fail("there is no file \'{}\', and no folder", "asked in vain");\n')
        page.write_text("It goes on behind a checkpoint.\n")
        self.assert_finds(messages.check(self.root), "pipelines/guide/a.md:1: 'goes on behind'; say resumes from", "asked in vain")

    def test_parameters_are_read_from_a_table(self):
        text = ("x: Does y.\n  plugin  p\n\n  parameter  type     range          default\n"
                "  size       integer  >= 1 pixels    required  of it\n  border     text     edge | fill    \"edge\"\n"
                "  crop       table                             a part\n    area     number                  0.5       of it\n")
        self.assertEqual(keys.parameters(text), [
            ("size", "integer", ">= 1 pixels", "required", "of it"), ("border", "text", "edge | fill", '"edge"', ""),
            ("crop", "table", "", "", "a part"), ("crop.area", "number", "", "0.5", "of it")])

    def test_a_subject_that_is_no_imperative_is_found(self):
        def fault(subject):
            (self.root / "message").write_text(subject + "\n\nIt says why.\n")
            script = pathlib.Path(__file__).resolve().parents[2] / "tools/check-commits.sh"
            return subprocess.run([script, self.root / "message"], capture_output=True, text=True, check=False).stderr
        for subject in ("augment: add RandAugment", "cpu: pass channels", "Embed kernels", "x" * 72):
            self.assertEqual(fault(subject), "")
        for subject in ("augment: adds RandAugment", "tests: the shell is named", "Added kernels", "run: fixing it"):
            self.assertIn("is not an imperative", fault(subject))
        self.assertIn("73 characters", fault("x" * 73))


if __name__ == "__main__":
    unittest.main()
