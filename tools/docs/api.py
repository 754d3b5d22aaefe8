"""The API reference: a page for each public header, made of what Doxygen read.

    api.py XML_FOLDER OUT_FOLDER

A page has the comment and the example that the header begins with, then what it declares, in the order of the header: each type with
its members, each with its comment. Names lead to where they are declared.
"""

import html
import itertools
import os
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree

GROUPS = {
    "": "For every plugin",
    "detail": "What these are made of, and include",
    "backend": "For backends, and stages that submit work to a device",
    "kernels": "How kernels are written and run",
    "metrics": "What losses and sinks measure",
    "util": "Helpers that plugins share",
}
SHOWN = ("class", "struct", "union")


def line_of(element):
    return int(element.find("location").get("line", 0))


def is_public(element):
    return element.get("prot", "public") == "public"


def is_documented(member):
    name = member.findtext("name") or "@"
    return member.get("kind") != "friend" and name[0] not in "~@" and not member.findtext("argsstring", "").endswith("=delete")


class Reference:
    def __init__(self, folder):
        self.folder = folder
        index = ElementTree.parse(folder / "index.xml").getroot()
        kinds = {"file", *SHOWN}
        found = [self.read(each.get("refid")) for each in index.findall("compound") if each.get("kind") in kinds]
        self.files = {self.header_of(each): each for each in found if each.get("kind") == "file"}
        declared = {inner.get("refid") for file in self.files.values() for inner in file.findall("innerclass")}
        self.types = {each.get("id"): each for each in found if each.get("id") in declared and is_public(each)}
        self.homes = {}  # by id: (header, anchor)
        for header, file in self.files.items():
            self.homes[file.get("id")] = (header, "")
            for member in file.iter("memberdef"):
                self.add_home(member, header)
        for each in self.types.values():
            header = self.header_of(each)
            self.homes[each.get("id")] = (header, anchor_of(each.findtext("compoundname")))
            for member in each.iter("memberdef"):
                self.add_home(member, header)

    def read(self, name):
        return ElementTree.parse(self.folder / f"{name}.xml").getroot().find("compounddef")

    def header_of(self, element):
        return element.find("location").get("file")

    def add_home(self, member, header):
        if not is_public(member) or not is_documented(member):
            return
        self.homes[member.get("id")] = (header, member.get("id").rsplit("_1", 1)[-1])
        for value in member.findall("enumvalue"):
            self.homes[value.get("id")] = (header, member.get("id").rsplit("_1", 1)[-1])


def anchor_of(name):
    return re.sub(r"\W+", "-", name.removeprefix("millrace::")).strip("-")


def page_of(header):
    return pathlib.PurePosixPath(header).relative_to("millrace").with_suffix(".md")


class Page:
    def __init__(self, reference, header):
        self.reference, self.header, self.lines = reference, header, []

    def address(self, refid):
        home = self.reference.homes.get(refid)
        if home is None:
            return None
        other = os.path.relpath(page_of(home[0]).with_suffix(".html"), page_of(self.header).parent)
        return ("" if home[0] == self.header else other) + (f"#{home[1]}" if home[1] else "")

    def inline(self, element):
        """HTML of a description's part; its tail is its parent's."""
        text = html.escape(element.text or "", quote=False)
        for child in element:
            inner = self.inline(child)
            if child.tag == "ref":
                address = self.address(child.get("refid"))
                inner = f'<a href="{address}">{inner}</a>' if address else inner
            elif child.tag == "computeroutput":
                inner = f"<code>{inner}</code>"
            elif child.tag in ("bold", "emphasis"):
                inner = f"<em>{inner}</em>"
            elif child.tag == "sp":
                inner = " "
            elif child.tag in ("itemizedlist", "orderedlist"):
                inner = f"<ul>{inner}</ul>"
            elif child.tag == "listitem":
                inner = f"<li>{inner}</li>"
            text += inner + html.escape(child.tail or "", quote=False)
        return text

    def paragraphs(self, element):
        """(HTML, code that stands after it) for each paragraph of a declaration's comment."""
        for part in [*element.findall("briefdescription/para"), *element.findall("detaileddescription/para")]:
            listings = part.findall("programlisting")
            for listing in listings:
                part.remove(listing)
            yield self.inline(part).strip(), ["\n".join(map(self.plain, listing.findall("codeline"))) for listing in listings]

    def describe(self, element):
        for text, listings in self.paragraphs(element):
            self.lines += [f"<p>{text}</p>"] if text else []
            for code in listings:
                self.lines += ["", "```cpp", code, "```", ""]

    def plain(self, element):
        own = " " if element.tag == "sp" else element.text or ""
        return own + "".join(self.plain(child) + (child.tail or "") for child in element)

    def signature(self, member):
        kind = member.get("kind")
        name = f'<b>{html.escape(member.findtext("name"))}</b>'
        template = member.find("templateparamlist")
        before = ""
        if template is not None:
            parameters = [" ".join(filter(None, [self.typed(p.find("type")), p.findtext("declname", "")])) for p in template.findall("param")]
            before = f"template &lt;{', '.join(parameters)}&gt; "
        if kind == "define":
            parameters = [p.findtext("defname", "") for p in member.findall("param")]
            return f"#define {name}" + (f"({', '.join(parameters)})" if parameters else "")
        if kind == "enum":
            values = [html.escape(value.findtext("name")) for value in member.findall("enumvalue")]
            return f"enum class {name} {{ {', '.join(values)} }}"
        words = [word for word, key in (("static", "static"), ("virtual", "virt")) if member.get(key) in ("yes", "virtual", "pure-virtual")]
        text = before + " ".join([*words, self.typed(member.find("type"))]).strip()
        if kind == "typedef":
            return f"using {name} = {self.typed(member.find('type'))}"
        if kind == "function":
            arguments = [self.argument(p) for p in member.findall("param")]
            tail = re.sub(r"^\(.*\)", "", member.findtext("argsstring", ""), flags=re.DOTALL)
            return f"{text} {name}({', '.join(arguments)}){html.escape(tail)}".strip()
        value = self.typed(member.find("initializer"))
        return f"{text} {name}{html.escape(member.findtext('argsstring', ''))}{' ' + value if value and len(value) < 60 else ''}"

    def typed(self, element):
        text = "" if element is None else " ".join(self.inline(element).split())
        return re.sub(r"(?<=&lt;) | (?=&gt;)| (?=&amp;)", "", text)

    def argument(self, param):
        kind, name, default = self.typed(param.find("type")), param.findtext("declname", ""), self.typed(param.find("defval"))
        return f"{kind} {name}".strip() + (f" = {default}" if default else "")

    def add_members(self, sections):
        members = sorted((m for section in sections for m in section.findall("memberdef") if is_public(m)), key=line_of)
        members = [member for member in members if is_documented(member)]
        if not members:
            return
        self.lines += ['<dl class="api">']
        for _, together in itertools.groupby(members, key=line_of):  # `float rate, decay;  // what both are`
            for member in (together := list(together)):
                anchor = self.reference.homes.get(member.get("id"), ("", ""))[1]
                self.lines.append(f'<dt id="{anchor}"><code>{self.signature(member)}</code></dt>')
            self.lines.append("<dd>")
            for member in together:
                self.describe_member(member)
            self.lines.append("</dd>")
        self.lines += ["</dl>", ""]

    def describe_member(self, member):
        """In a list, where no Markdown is read: code stays as it is."""
        for text, listings in self.paragraphs(member):
            self.lines += [f"<p>{text}</p>"] if text else []
            self.lines += [f"<pre><code>{html.escape(code)}</code></pre>" for code in listings]
        for value in member.findall("enumvalue"):
            text = " ".join(text for text, _ in self.paragraphs(value))
            self.lines += [f"<p><code>{html.escape(value.findtext('name'))}</code>: {text}</p>"] if text else []

    def add_type(self, element):
        name = element.findtext("compoundname").removeprefix("millrace::")
        bases = [html.escape(base.text or "") for base in element.findall("basecompoundref") if "detail" not in (base.text or "")]
        self.lines += [f"## {html.escape(name)} {{ #{anchor_of(name)} }}", ""]
        if bases:
            self.lines += [f"<p class=\"bases\">is a {', '.join(f'<code>{base}</code>' for base in bases)}</p>"]
        self.describe(element)
        self.lines.append("")
        self.add_members([section for section in element.findall("sectiondef") if section.get("kind", "").startswith("public")])

    def text(self):
        file = self.reference.files[self.header]
        self.lines = [f"# {self.header}", ""]
        self.describe(file)
        self.lines += ["", f"```cpp\n#include <{self.header}>\n```", ""]
        types = [self.reference.types[inner.get("refid")] for inner in file.findall("innerclass") if inner.get("refid") in self.reference.types]
        for each in sorted((t for t in types if self.reference.header_of(t) == self.header), key=line_of):
            self.add_type(each)
        loose = file.findall("sectiondef")
        if any(is_documented(member) for section in loose for member in section.findall("memberdef")):
            self.lines += ["## Functions and values", ""]
            self.add_members(loose)
        return "\n".join(self.lines) + "\n"


def first_sentence(reference, header):
    file = reference.files[header]
    for part in [*file.findall("briefdescription/para"), *file.findall("detaileddescription/para")]:
        text = " ".join("".join(part.itertext()).split())
        if text:
            return re.split(r"(?<=\.)\s", text, maxsplit=1)[0].rstrip(":.") + "."
    return ""


def index_page(reference):
    lines = ["# API reference", "", "What plugins include. Each page is made from the comments of one header.", ""]
    for group, title in GROUPS.items():
        lines += [f"## {title}", "", "| header | about |", "|---|---|"]
        for header in sorted(reference.files):
            page = page_of(header)
            if str(page.parent) == (group or "."):
                lines.append(f"| [`{header}`]({page}) | {first_sentence(reference, header)} |")
        lines.append("")
    return "\n".join(lines)


def main(folder, out):
    reference, out = Reference(pathlib.Path(folder)), pathlib.Path(out)
    pages = {page_of(header): Page(reference, header).text() for header in reference.files}
    pages[pathlib.PurePosixPath("README.md")] = index_page(reference)
    for name, text in pages.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
