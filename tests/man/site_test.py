# SPDX-License-Identifier: BSD-3-Clause
"""The documentation site: it builds, its links have targets, and pages load no files from other sites.

usage: site_test.py MKDOCS"""

import html
import html.parser
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
MKDOCS = sys.argv.pop(1)


class Page(html.parser.HTMLParser):
    """Links, loaded files and anchors of a page."""

    def __init__(self, path: pathlib.Path):
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors = {""}
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif tag in ("script", "img", "iframe") and values.get("src"):
            self.loaded.append(values["src"])
        elif tag == "link" and values.get("rel") in ("stylesheet", "shortcut icon"):
            self.loaded.append(values["href"])


class SiteTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.scratch = tempfile.TemporaryDirectory(prefix="librpma-site-test-")
        cls.addClassCleanup(cls.scratch.cleanup)
        cls.site = pathlib.Path(cls.scratch.name) / "site"
        built = subprocess.run([sys.executable, ROOT / "docs/make-site", "--mkdocs", MKDOCS, cls.site], timeout=300, check=False)
        if built.returncode == 77:
            sys.exit(77)
        assert built.returncode == 0
        cls.pages = {path: Page(path) for path in cls.site.rglob("*.html") if path.name not in ("404.html", "search.html")}

    def page_of(self, document: pathlib.Path) -> pathlib.Path:
        page = self.site / document.relative_to(ROOT).with_suffix(".html")
        return page.with_name("index.html") if document.name == "README.md" else page

    def test_every_document_has_its_page(self) -> None:
        documents = [*ROOT.glob("man/*.[1-8].md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*/README.md")]
        self.assertGreater(len(documents), 80)
        for document in documents:
            self.assertIn(self.page_of(document), self.pages)

    def test_links_have_targets(self) -> None:
        dead = []
        for path, page in self.pages.items():
            for link in [*page.links, *page.loaded]:
                parts = urllib.parse.urlsplit(link)
                if parts.scheme or parts.netloc or link.startswith("#"):
                    continue
                place = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
                place = place / "index.html" if place.is_dir() else place
                known = not parts.fragment or place not in self.pages or parts.fragment in self.pages[place].anchors
                if not place.is_file() or not known:
                    dead.append(f"{path.relative_to(self.site)}: {link}")
        self.assertEqual([], dead)

    def test_names_of_manual_pages_are_links(self) -> None:
        self.assertIn("rpma_flush.3.html", self.pages[self.site / "man/rpma_write.3.html"].links)

    def test_diagrams_are_drawings(self) -> None:
        drawn = 0
        for document in [*ROOT.glob("docs/*.md"), *ROOT.glob("examples/*/README.md")]:
            page = self.page_of(document)
            wanted = document.read_text(encoding="utf-8").count("```mermaid")
            self.assertEqual(wanted, page.read_text(encoding="utf-8").count("<figure><svg"), page)
            drawn += wanted
        self.assertGreater(drawn, 20)

    def test_words_of_diagrams_are_not_divided(self) -> None:
        divided = []
        for document in [*ROOT.glob("docs/*.md"), *ROOT.glob("examples/*/README.md")]:
            drawn = " ".join(re.findall(r"<text [^>]*>(.*?)</text>", self.page_of(document).read_text(encoding="utf-8")))
            for source in re.findall(r"```mermaid\nsequenceDiagram(.*?)```", document.read_text(encoding="utf-8"), flags=re.DOTALL):
                words = re.split(r"\s|<br/>", html.escape(" ".join(re.findall(r": (.*)", source.replace("<br/>", " ")))))
                divided += [f"{document.relative_to(ROOT)}: {word}" for word in words if word not in drawn.split()]
        self.assertEqual([], divided)

    def test_code_is_highlighted(self) -> None:
        self.assertIn('<span class="kt">int</span>', (self.site / "docs/rdma-in-ten-minutes.html").read_text(encoding="utf-8"))

    def test_the_reference_has_the_classes_of_the_header(self) -> None:
        classes = re.findall(r"^(?:class|struct|enum class) (?:\[\[nodiscard\]\] )?(\w+)",
                             (ROOT / "include/rpma.hpp").read_text(encoding="utf-8"), flags=re.MULTILINE)
        self.assertGreater(len(classes), 15)
        self.assertEqual([], [name for name in classes if name not in self.pages[self.site / "docs/rpma-hpp.html"].anchors])

    def test_no_file_is_loaded_from_other_sites(self) -> None:
        for path, page in self.pages.items():
            self.assertEqual([], [url for url in page.loaded if "//" in url], path)


if __name__ == "__main__":
    unittest.main()
