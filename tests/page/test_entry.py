"""The page is opened by a link, once, and keeps what it got for it in its tab."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.browser import entered

ROOT = Path(__file__).parents[2]
# A server with a trace that prints five links, and then runs.
CODE = """
from tests.view.server.house import FILES, Toy, Lesson, offer, seen
from regard.view.server.app_state import AppState
from regard.view.server.start import serve
state = AppState({"toy": offer(Toy())}, {"twice": Lesson()}, print)
place = "#/t/" + state.store_trace(seen("a trace"), {})
ready = lambda link, _: print(*[link() for _ in range(5)], flush=True)
serve(state, fragment=place, on_ready=ready)
"""


@pytest.fixture
def links(chromium):
    """The links of a server of this test's own."""
    command = [sys.executable, "-c", CODE]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    yield process.stdout.readline().split()
    process.kill()
    process.wait()


@pytest.fixture
def browser(chromium):
    """One user's browser, in which tabs share what tabs share."""
    inside = chromium.new_context(viewport={"width": 1280, "height": 800})
    yield inside
    inside.close()


def opened(browser, address):
    page = browser.new_page()
    page.goto(address)
    return page


def is_in(page):
    page.locator("canvas[data-field], [data-answer], [data-card]").first.wait_for(timeout=20_000)
    return page


def is_out(page, title):
    page.get_by_role("heading", name=title).wait_for(timeout=20_000)
    return page


def test_a_link_opens_its_place_and_leaves_no_token_anywhere(links, browser):
    sent = []
    browser.on("request", lambda asked: sent.append((asked.url, asked.headers)))
    page = is_in(opened(browser, links[0]))
    token = links[0].partition("#token=")[2].partition("/")[0]
    assert "/#/t/" in page.url
    assert page.evaluate("history.length") <= 2
    assert not any(token in url for url, _ in sent)
    assert browser.cookies() == []
    secret = page.evaluate("sessionStorage.getItem('regard-session')")
    assert secret not in page.url + page.content() + "".join(url for url, _ in sent)
    known = [headers for url, headers in sent if "/api/" in url and "session" not in url]
    assert known
    assert {headers.get("authorization") for headers in known} == {f"Bearer {secret}"}
    assert not any("authorization" in headers for url, headers in sent if "/api/" not in url)


def test_a_reload_stays_in_and_a_used_link_lets_nobody_else_in(links, browser, chromium):
    page = is_in(opened(browser, links[0]))
    page.reload()
    is_in(page)
    other = chromium.new_context()
    is_out(opened(other, links[0]), "This link has been used")
    is_in(opened(other, links[1]))
    other.close()


def test_another_tab_is_let_in_by_the_first_and_another_browser_is_not(links, browser, chromium):
    is_in(opened(browser, links[0]))
    origin = links[0].partition("#")[0]
    is_in(opened(browser, origin))
    other = chromium.new_context()
    is_out(opened(other, origin), "This page opens with a link")
    other.close()


def test_a_locked_tab_opens_when_a_link_is_opened_beside_it_or_in_it(links, browser):
    locked = is_out(opened(browser, links[0].partition("#")[0]), "This page opens with a link")
    is_in(opened(browser, links[0]))
    is_in(locked)


def test_a_link_that_is_typed_into_a_locked_tab_lets_it_in(links, browser):
    page = is_out(opened(browser, links[0].partition("#")[0]), "This page opens with a link")
    page.goto(links[2])  # only what stands behind the # is new, so nothing is loaded
    is_in(page)
    assert "token" not in page.url


def test_a_secret_of_an_earlier_launch_is_told_so_and_forgotten(links, browser):
    browser.add_init_script("sessionStorage.setItem('regard-session', 'of-before')")
    page = opened(browser, links[0].partition("#")[0])
    is_out(page, "This page is of an earlier start")
    assert page.evaluate("sessionStorage.getItem('regard-session')") is None


def test_the_private_file_leads_a_browser_to_the_page(links, browser):
    from regard.view.server.redirect import RedirectFile

    file = RedirectFile()
    page = is_in(opened(browser, file.write_redirect(links[3])))
    assert page.url.startswith(links[3].partition("#")[0] + "#/t/")
    file.remove()


def test_a_program_comes_in_by_a_link_too(links):
    origin, secret = entered(links[4])
    assert origin == links[4].partition("/#")[0]
    assert len(secret) >= 43


def test_folders_of_runs_that_cannot_be_read_are_named_in_the_gallery(browser, tmp_path):
    for name in ("bad", "worse"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "card.json").write_text(
            '{"numbers": {"a": 1' + "0" * 400 + "}}"
        )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "regard", "serve", "--no-browser"]
    given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, **given)
    try:
        page = opened(browser, process.stdout.readline().strip())
        told = page.locator("[data-unreadable]")
        told.wait_for(timeout=20_000)
        assert "2 folders of runs could not be read" in told.inner_text()
        assert "worse" in told.inner_text()
        page.locator("[data-card]").first.wait_for()
    finally:
        process.kill()
        log = process.communicate()[1]
    assert "a run that cannot be read is not offered: bad: " in log


def test_a_file_that_is_too_large_to_be_drawn_is_refused_in_the_dialog(browser):
    code = CODE.replace(
        'state.store_trace(seen("a trace"), {})',
        "state.store_trace(vast(), {})",
    )
    code = (
        "import torch\nfrom regard.view import Header, Map, Slots, Trace\n"
        "def vast():\n"
        "    axes = [Slots('q', 1024), Slots('k', 1024)]\n"
        "    one = Map('m', 'q', 'k', torch.full((1, 1, 1024, 1024), 2**-10))\n"
        "    return Trace(axes, [one], header=Header(title='vast'))\n"
    ) + code
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    try:
        page = is_in(opened(browser, process.stdout.readline().split()[0]))
        page.keyboard.press("s")
        page.locator("[data-save=pdf]").click()
        told = page.locator("dialog [role=alert]")
        told.wait_for(timeout=20_000)
        assert "pdf: 1048576 weights, but such a file takes 524288 at most" in told.inner_text()
    finally:
        process.kill()
        process.wait()
