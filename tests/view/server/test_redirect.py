"""A browser is led to the page by a file that only its user can read."""

import html
import re
import stat
from pathlib import Path
from urllib.parse import unquote, urlsplit

from regard.view.server.redirect import RedirectFile


def test_the_file_and_its_folder_are_the_users_alone_and_lead_to_the_address():
    file = RedirectFile()
    address = 'http://127.0.0.1:1/#token=a/t/0?x="><script>&y=1'
    path = Path(unquote(urlsplit(file.write_redirect(address)).path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    text = path.read_text()
    assert "<script" not in text
    assert html.unescape(re.search(r'content="0;url=([^"]*)"', text)[1]) == address
    file.remove()
    assert not path.parent.exists()
    file.remove()


def test_its_own_address_says_no_secret():
    file = RedirectFile()
    assert "secret" not in file.write_redirect("http://127.0.0.1:1/#token=secret")
    file.remove()
