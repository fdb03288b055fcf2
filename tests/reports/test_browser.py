"""The page in a real browser: nothing is fetched, nothing is wider than a telephone. Skipped without Chromium."""

import html
import json
import re
import shutil
import subprocess

import pytest

from coalmine.reports import write_report

_BROWSER = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), ""
)
pytestmark = pytest.mark.skipif(not _BROWSER, reason="no Chromium on this machine; test_page.py tests the same HTML")


def browse(profile, *options):
    return subprocess.run(
        [_BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}", *options],
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.fixture(scope="module")
def page(_contents, tmp_path_factory):
    audits = [_contents["not_rejected"], _contents["rejected"]]
    return write_report(audits, tmp_path_factory.mktemp("page") / "report.html")[0]


def test_the_browser_asks_nobody_for_anything(page, tmp_path):
    log = tmp_path / "net.json"
    browse(tmp_path / "profile", f"--log-net-log={log}", "--dump-dom", page.as_uri())
    text = log.read_text("utf-8")
    hosts = set(re.findall(r'"url":\s*"(https?://[^/"]+)', text))
    assert json.loads(text)["events"] is not None
    # The browser's own calls home (updates, accounts) are not the page's.
    assert not {host for host in hosts if not re.search(r"google|gvt1|gstatic|chromium", host)}


@pytest.mark.parametrize("width", [360, 768, 1200])
def test_nothing_is_wider_than_the_screen(page, tmp_path, width):
    without_policy = re.sub(r"<meta http-equiv=\"Content-Security-Policy\"[^>]*>", "", page.read_text("utf-8"))
    frame = tmp_path / "frame.html"
    frame.write_text(
        f'<iframe style="width:{width}px;height:900px;border:0" srcdoc="{html.escape(without_policy)}"></iframe>'
        "<p id=wide></p><script>onload = () => { const page = frames[0].document.documentElement;"
        "document.getElementById('wide').textContent = `wide ${page.scrollWidth}`; }</script>",
        "utf-8",
    )
    shown = browse(tmp_path / "profile", "--dump-dom", "--virtual-time-budget=5000", frame.as_uri()).stdout
    found = re.search(r"wide (\d+)</p>", shown)
    assert found, shown[-300:]
    assert int(found.group(1)) <= width
