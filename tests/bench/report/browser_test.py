# SPDX-License-Identifier: BSD-3-Clause
"""The report in a real browser: what it draws, in which colors, and that it sends no network request."""

import collections
import html
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

HERE = pathlib.Path(__file__).resolve().parent
BENCH = os.environ["RPMA_BENCH"]
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = ["--headless", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars",
         "--enable-logging=stderr"]
DARK = ["--blink-settings=preferredColorScheme=0"]
PAETH = 4


def undo_filter(kind: int, row: bytearray, above: bytes, step: int) -> None:
    """One row of a PNG, in place."""
    for i in range(len(row) if kind else 0):
        left, up = (row[i - step] if i >= step else 0), above[i]
        corner = above[i - step] if i >= step else 0
        if kind == PAETH:
            guess = left + up - corner
            row[i] = (row[i] + min((left, up, corner), key=lambda value: abs(guess - value))) & 255
        else:
            row[i] = (row[i] + (0, left, up, (left + up) // 2)[kind]) & 255


def colours_of(png: bytes) -> collections.Counter[tuple[int, ...]]:
    """Returns the number of pixels of each color."""
    position, packed = 8, b""
    while position < len(png):
        length, kind = struct.unpack_from(">I4s", png, position)
        chunk = png[position + 8:position + 8 + length]
        if kind == b"IHDR":
            width, height, _, colour_type = struct.unpack_from(">IIBB", chunk)
        elif kind == b"IDAT":
            packed += chunk
        position += 12 + length
    step = {2: 3, 6: 4}[colour_type]
    raw, counts, above = zlib.decompress(packed), collections.Counter(), bytes(width * step)
    for y in range(height):
        start = y * (width * step + 1)
        row = bytearray(raw[start + 1:start + 1 + width * step])
        undo_filter(raw[start], row, above, step)
        counts.update(zip(row[0::step], row[1::step], row[2::step]))
        above = bytes(row)
    return counts


class BrowserTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.scratch = tempfile.TemporaryDirectory(prefix="rpma-bench-browser-")
        cls.directory = pathlib.Path(cls.scratch.name)
        sample, page = cls.directory / "sample.json", cls.directory / "report.html"
        subprocess.run([sys.executable, HERE / "sample.py", sample], check=True)
        subprocess.run([BENCH, "report", sample, "--out", page], check=True, stdout=subprocess.DEVNULL)
        probe = (HERE / "probe.js").read_text(encoding="utf-8")
        text = page.read_text(encoding="utf-8")
        probed = text.replace("</body>", f"<script>{probe}</script></body>")
        (cls.directory / "probed.html").write_text(probed, encoding="utf-8")
        # A window of the browser has at least 500 pixels, a telephone fewer.
        (cls.directory / "narrow.html").write_text(
            f'<!DOCTYPE html><iframe style="width: 390px; height: 900px; border: 0" srcdoc="{html.escape(probed)}"></iframe><script>'
            "document.querySelector('iframe').onload = event => document.body.append(event.target.contentDocument.getElementById('probe'))"
            "</script>", encoding="utf-8")

    @classmethod
    def tearDownClass(cls) -> None:
        cls.scratch.cleanup()

    def browse(self, page: str, *flags: str) -> str:
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        with tempfile.TemporaryDirectory(prefix="profile-", dir=self.directory, ignore_cleanup_errors=True) as profile:
            result = subprocess.run([BROWSER, *FLAGS, *sandbox, f"--user-data-dir={profile}", *flags,
                                     (self.directory / page).as_uri()],
                                    capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual([line for line in result.stderr.splitlines() if "CONSOLE" in line], [])
        return result.stdout

    def test_everything_is_drawn_in_its_place(self) -> None:
        for probed, scheme in (("probed.html", []), ("narrow.html", DARK)):
            with self.subTest(page=probed, dark=bool(scheme)):
                page = self.browse(probed, "--dump-dom", "--window-size=1280,900", *scheme)
                found = re.search(r'<pre id="probe">({.*?)</pre>', page, re.DOTALL)
                self.assertIsNotNone(found, "the probe did not run")
                seen = json.loads(html.unescape(found[1]))
                self.assertEqual(seen["faults"], [])
                self.assertGreaterEqual(seen["figures"], 20)

    def test_the_picture_has_the_colours_of_the_scheme(self) -> None:
        for scheme, page, lines in (([], (251, 251, 249), [(0, 104, 176), (209, 73, 12), (0, 138, 98)]),
                                    (DARK, (20, 23, 27), [(95, 178, 245), (255, 143, 87), (53, 207, 159)])):
            with self.subTest(dark=bool(scheme)):
                picture = self.directory / "picture.png"
                self.browse("report.html", f"--screenshot={picture}", "--window-size=800,2600", *scheme)
                colours = colours_of(picture.read_bytes())
                self.assertGreater(colours[page], 100000)
                for line in lines:
                    self.assertGreater(colours[line], 200, f"{line} in {colours.most_common(12)}")

    def test_it_prints(self) -> None:
        paper = self.directory / "report.pdf"
        self.browse("report.html", f"--print-to-pdf={paper}")
        self.assertTrue(paper.read_bytes().startswith(b"%PDF-"))
        self.assertGreater(paper.stat().st_size, 50000)


if __name__ == "__main__":
    if BROWSER is None:
        print("skipped: chromium not found")
        sys.exit(77)
    unittest.main()
