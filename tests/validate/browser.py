"""A page in a real browser without a screen, and what its script leaves in `data-result`."""

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
needs_browser = pytest.mark.skipif(
    BROWSER is None, reason="neither chromium nor chromium-browser is installed"
)


def result_of_page(page: Path, *options: str, seconds: float) -> Any:
    """Return the JSON that the script of a page leaves, without an "error"; its folder holds the profile."""
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", *options]
    command += [f"--user-data-dir={page.parent / 'browser'}", "--dump-dom", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=seconds)
    found = re.search(r'data-result="([^"]*)"', done.stdout)
    assert found, done.stdout[-500:] + done.stderr[-500:]
    result = json.loads(html.unescape(found[1]))
    assert "error" not in result, result["error"]
    return result
