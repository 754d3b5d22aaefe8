"""tools/docs.sh builds a site from the pages, whose links hold and which needs nothing from the network.

    site.py ROOT
"""

import html.parser
import pathlib
import shutil
import subprocess
import sys
import tempfile
import urllib.parse

import pages

NEEDED = ("mkdocs", "doxygen", "dot")
FOLDERS = ("pipelines/guide", "pipelines/reference", "plugins/guide")
SKIPPED = 77


class Links(html.parser.HTMLParser):
    """What a page leads to, what it loads, and the anchors that it has."""

    def __init__(self, file):
        super().__init__()
        self.leads, self.loads, self.anchors, self.menu, self.in_menu = [], [], set(), [], False
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.anchors.add(values.get("id"))
        self.in_menu = self.in_menu or values.get("id") == "pages"
        if tag == "a" and "href" in values:
            self.leads.append(values["href"])
            self.menu += [values["href"]] if self.in_menu else []
        elif source := values.get("src") or (values.get("href") if tag == "link" else None):
            self.loads.append(source)

    def handle_endtag(self, tag):
        self.in_menu = self.in_menu and tag != "nav"


def is_remote(address):
    return urllib.parse.urlsplit(address).scheme in ("http", "https") or address.startswith("//")


def check_links(site):
    found = []
    read = {file: Links(file) for file in site.rglob("*.html") if file.name != "404.html"}
    for file, links in read.items():
        at = file.relative_to(site)
        found += [f"{at}: loads {address}" for address in links.loads if is_remote(address)]
        for address in links.leads + links.loads:
            name, _, anchor = urllib.parse.unquote(address).partition("#")
            if is_remote(address) or address.startswith("data:"):
                continue
            target = (file.parent / name).resolve() if name else file
            if not target.exists():
                found.append(f"{at}: leads to {address}, which is not there")
            elif anchor and target in read and anchor not in read[target].anchors:
                found.append(f"{at}: leads to {address}, where there is no such anchor")
    return found


def check_styles(site):
    return [f"{file.relative_to(site)}: loads from the network" for file in site.rglob("*.css")
            if "url(http" in (text := file.read_text(encoding="utf-8")) or "@import" in text]


def check_menu(root, site):
    """Every page of a guide and the reference is in the navigation."""
    menu = {(site / address).resolve() for address in Links(site / "index.html").menu}
    wanted = [page for page in pages.pages(root) if str(page.parent.relative_to(root)) in FOLDERS]
    return [f"{page.relative_to(root)}: is not in the navigation" for page in wanted
            if (site / page.relative_to(root)).with_suffix(".html") not in menu]


def check_reference(site):
    """The index of the API reference leads to each page of it."""
    index = site / "api/index.html"
    led = {(index.parent / address.partition("#")[0]).resolve() for address in Links(index).leads}
    return [f"{page.relative_to(site)}: the API's index does not lead to it" for page in sorted(index.parent.rglob("*.html"))
            if page.resolve() not in led | {index.resolve()}]


def check(root, site):
    run = subprocess.run([root / "tools/docs.sh", site], capture_output=True, text=True, check=False)
    if run.returncode != 0:
        return [f"docs.sh ended with {run.returncode}:\n{run.stdout}{run.stderr}"]
    return check_links(site) + check_styles(site) + check_menu(root, site) + check_reference(site)


if __name__ == "__main__":
    missing = [program for program in NEEDED if not shutil.which(program)]
    if missing:
        print(f"skipped: {', '.join(missing)} is missing, of which tools/docs.sh makes the site")
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory() as name:
        problems = check(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(name).resolve())
    print("\n".join(problems) if problems else "the site is whole")
    sys.exit(bool(problems))
