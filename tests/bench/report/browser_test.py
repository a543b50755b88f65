# SPDX-License-Identifier: BSD-3-Clause
"""The report in a real browser: what it draws, in which colors, and that it sends no network request."""

import base64
import html
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
BENCH = os.environ["RPMA_BENCH"]
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = ["--headless", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars",
         "--enable-logging=stderr"]
DARK = ["--blink-settings=preferredColorScheme=0"]
# A page that counts the pixels of each color in a picture, which it contains in base64.
COUNTER = """<!DOCTYPE html><img src="data:image/png;base64,PICTURE"><pre></pre><script>
onload = () => {
    const image = document.images[0], counts = {}
    const context = new OffscreenCanvas(image.width, image.height).getContext("2d")
    context.drawImage(image, 0, 0)
    const bytes = context.getImageData(0, 0, image.width, image.height).data
    for (let i = 0; i < bytes.length; i += 4) {
        const color = bytes[i] << 16 | bytes[i + 1] << 8 | bytes[i + 2]
        counts[color] = (counts[color] ?? 0) + 1
    }
    document.querySelector("pre").append(JSON.stringify(counts))
}
</script>"""


class BrowserTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.directory = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="rpma-bench-browser-")))
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
        for scheme, page, lines in (([], 0xfbfbf9, [0x0068b0, 0xd1490c, 0x008a62]),
                                    (DARK, 0x14171b, [0x5fb2f5, 0xff8f57, 0x35cf9f])):
            with self.subTest(dark=bool(scheme)):
                picture = self.directory / "picture.png"
                self.browse("report.html", f"--screenshot={picture}", "--window-size=800,2600", *scheme)
                encoded = base64.b64encode(picture.read_bytes()).decode()
                (self.directory / "counter.html").write_text(COUNTER.replace("PICTURE", encoded), encoding="utf-8")
                colors = json.loads(re.search(r"<pre>({.*?})</pre>", self.browse("counter.html", "--dump-dom"))[1])
                self.assertGreater(colors[str(page)], 100000)
                for line in lines:
                    self.assertGreater(colors.get(str(line), 0), 200, f"{line:06x}")

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
