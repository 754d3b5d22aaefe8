"""How mkdocs makes the site from the pages as they lie in the tree.

Navigation follows the index pages: each table below a heading of pipelines/README.md and plugins/README.md is a group, in its order.
A page of a guide or the reference that no index names stands at the end of the last group, so that new pages are found.
"""

import html
import pathlib
import re
import subprocess

GUIDE, REFERENCE, AUTHORS = "pipelines/guide", "pipelines/reference", "plugins/guide"
DEVELOP = ("framework/README.md", "framework/flow.md", "tests/README.md", "tools/bench/README.md", "CONTRIBUTING.md",
           "CHANGELOG.md")
LINK = re.compile(r"\]\(([\w./-]+\.md)(?:#[\w-]*)?\)")
FENCE = re.compile(r"^```(\w+)( [^\n]*)$", re.MULTILINE)
TO_TREE = re.compile(r"\[([^\]]+)\]\(([^)#:\s]+)\)")
HEADER = re.compile(r"`(millrace/[\w/]+\.h)`")
MERMAID = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NODE = re.compile(r'(\w+)(?:(\(?\[)"(.*?)"\]\)?)?')
FONT = 'fontname="DejaVu Sans", fontsize=10'
EDGE = re.compile(r"\s*(-->|-\.->)(?:\|\"?(.*?)\"?\|)?\s*")


def groups(index, folder):
    """(heading, pages below it) of an index page, for links that lead into the folder. A page stands where it is named first."""
    found, base = [], index.parent
    for line in index.read_text(encoding="utf-8").splitlines():
        if heading := re.match(r"#{2,3} (.*)", line):
            found.append((heading.group(1), []))
        elif found and line.startswith("|"):
            found[-1][1].extend(base / name for name in LINK.findall(line) if (base / name).is_relative_to(folder))
    seen = set()
    first = [(title, [page for page in pages if not (page in seen or seen.add(page))]) for title, pages in found]
    return [(title, pages) for title, pages in first if pages]


def section(docs, index, folder):
    """Navigation of a folder: by the groups of its index, and then what that does not name."""
    found = groups(docs / index, docs / folder)
    named = {page for _, pages in found for page in pages}
    others = [page for page in sorted((docs / folder).glob("*.md")) if page not in named]
    if others and found:
        found[-1][1].extend(others)
    return [(title, [str(page.relative_to(docs)) for page in pages]) for title, pages in found]


def entries(found, title):
    """One group becomes the section itself."""
    if len(found) == 1:
        return {title: found[0][1]}
    return {title: [{name: pages} for name, pages in found]}


def on_config(config):
    docs = pathlib.Path(config["docs_dir"])
    kinds = sorted(str(page.relative_to(docs)) for page in (docs / "plugins").glob("*/README.md"))
    nav = [{"Home": "README.md"}, {"All pages": "pipelines/README.md"}]
    nav += [{title: pages} for title, pages in section(docs, "pipelines/README.md", GUIDE)]
    nav.append(entries(section(docs, "pipelines/README.md", REFERENCE), "Reference"))
    nav.append({"Programs": "tools/README.md"})
    nav.append({"Plugins": ["plugins/README.md", *entries(section(docs, "plugins/README.md", AUTHORS), "guide")["guide"],
                            {"What is here": kinds}]})
    if (docs / "api/README.md").exists():
        headers = sorted(f"api/{page.name}" for page in (docs / "api").glob("*.md") if page.stem != "README")
        nav.append({"API": ["api/README.md", *headers]})
    nav.append({"Develop": [name for name in DEVELOP if (docs / name).exists()]})
    config["nav"] = nav
    return config


def dot_of(text):
    """A flowchart of the few forms that our pages use, for Graphviz."""
    nodes, edges = {}, []

    def read_nodes(part):
        names = []
        for each in part.split(" & "):
            name, opening, label = NODE.match(each.strip()).groups()
            if opening:
                nodes[name] = (label, "ellipse" if opening == "([" else "box")
            names.append(name)
        return names
    for line in text.splitlines()[1:]:
        arrow = EDGE.search(line)
        if not arrow:
            continue
        dashed = ", style=dashed" if arrow.group(1) == "-.->" else ""
        label = wrapped(arrow.group(2) or "")
        for source in read_nodes(line[: arrow.start()]):
            edges += [f'"{source}" -> "{target}" [label="{label}"{dashed}]' for target in read_nodes(line[arrow.end() :])]
    shapes = [f'"{name}" [label="{wrapped(label)}", shape={shape}]' for name, (label, shape) in nodes.items()]
    return f"digraph {{ rankdir=LR; node [{FONT}, style=rounded]; edge [{FONT}]\n" + "\n".join(shapes + edges) + "\n}"


def wrapped(label, width=18):
    lines = [""]
    for word in label.replace('"', "'").split():
        if lines[-1] and len(lines[-1]) + len(word) > width:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return "\\n".join(lines)


def drawn(match):
    svg = subprocess.run(["dot", "-Tsvg"], input=dot_of(match.group(1)), capture_output=True, text=True, check=True).stdout
    return f'<div class="drawing">{svg[svg.index("<svg") :]}</div>'


def on_page_markdown(markdown, page, config, files):
    docs = pathlib.Path(config["docs_dir"])
    folder = (docs / page.file.src_path).parent
    depth = "../" * page.file.src_path.count("/")

    def to_tree(match):
        """A link to a part of the tree that is not a page of the site."""
        target = folder / match.group(2)
        return match.group(0) if target.is_file() else f"{match.group(1)} (`{match.group(2).replace('../', '')}`)"

    def to_header(match):
        target = f"api/{match.group(1).removeprefix('millrace/').removesuffix('.h')}.md"
        return f"[{match.group(0)}]({depth}{target})" if (docs / target).exists() else match.group(0)
    parts = re.split(r"(^```.*?^```$)", MERMAID.sub(drawn, markdown), flags=re.MULTILINE | re.DOTALL)
    for at, part in enumerate(parts):
        if part.startswith("```"):
            parts[at] = FENCE.sub(r"```\1", part)  # words after the language are for the tests
        elif not page.file.src_path.startswith("api/"):
            linked = re.split(r"(\[[^\]]*\]\([^)]*\))", TO_TREE.sub(to_tree, part))
            parts[at] = "".join(text if text.startswith("[") else HEADER.sub(to_header, text) for text in linked)
    return "".join(parts)


def on_page_content(content, page, config, files):
    return re.sub(r"<table>.*?</table>", lambda match: table(match.group(0)), content, flags=re.DOTALL)


def table(text):
    """A wide table scrolls in itself. Cells of many columns say which they are of: a phone shows each row as a list."""
    names = [re.sub(r"<[^>]+>", "", name) for name in re.findall(r"<th.*?>(.*?)</th>", text, re.DOTALL)]
    if len(names) < 3:
        return f'<div class="wide">{text}</div>'

    def row(match):
        columns = iter(names)
        return re.sub(r"<td", lambda _: f'<td data-name="{html.escape(next(columns, ""))}"', match.group(0))
    return f'<div class="wide many">{re.sub(r"<tr>.*?</tr>", row, text, flags=re.DOTALL)}</div>'


def on_env(env, config, files):
    env.filters["plain"] = lambda text: html.unescape(re.sub(r"<[^>]+>", "", text))
    return env
