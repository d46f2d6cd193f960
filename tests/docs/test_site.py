"""The built site: strict, offline, every link and anchor there, readable on a phone."""

import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

import pytest

from tests.browser import chromium, opened

__all__ = ["chromium"]

# What a browser loads without being asked, by element; a link that is clicked may lead anywhere.
LOADED = {
    "audio": "src",
    "embed": "src",
    "iframe": "src",
    "img": "src",
    "link": "href",
    "object": "data",
    "script": "src",
    "source": "src",
    "video": "src",
}
URL = re.compile(r"""(?:url\(|@import)\s*["']?([^"')\s;]+)""")
SCREENS = ["index", "quickstart", "api/regard.layers", "mechanisms/additive", "migration"]
PHONE = {"width": 390, "height": 844}
GRAVE = ("serious", "critical")


class Page(HTMLParser):
    """What a page loads and links to, and the anchors that it has."""

    def __init__(self, text: str):
        super().__init__()
        self.loaded, self.links, self.anchors = list[str](), list[str](), {""}
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        # of links, a canonical address and the like are not fetched
        elif tag in LOADED and LOADED[tag] in given and given.get("rel") not in ("next", "prev"):
            self.loaded.append(given[LOADED[tag]])
        self.loaded += [part.split()[0] for part in given.get("srcset", "").split(",") if part]
        self.loaded += URL.findall(given.get("style", ""))


@cache
def pages(site: Path) -> dict[str, Page]:
    """The pages of a site by their address in it."""
    found = {path.relative_to(site).as_posix(): path for path in sorted(site.rglob("*.html"))}
    return {name: Page(path.read_text()) for name, path in found.items()}


def is_elsewhere(address: str) -> bool:
    """True if an address names a host, be it without a scheme."""
    return bool(urlsplit(address).netloc)


def test_the_site_has_every_page_of_the_navigation(site):
    names = pages(site)
    assert {"index.html", "quickstart.html", "migration.html", "modules.html"} <= names.keys()
    assert sum(name.startswith("mechanisms/") for name in names) > 30
    assert sum(name.startswith("api/") for name in names) > 60


def test_no_page_loads_anything_from_another_host(site):
    foreign = [(name, x) for name, page in pages(site).items() for x in page.loaded]
    assert foreign and not [each for each in foreign if is_elsewhere(each[1])]


def test_no_style_loads_anything_from_another_host(site):
    styles = {path.name: URL.findall(path.read_text()) for path in site.rglob("*.css")}
    inside = {name: URL.findall((site / name).read_text()) for name in pages(site)}
    for name, addresses in (styles | inside).items():
        assert not [x for x in addresses if is_elsewhere(x)], name
    assert any(name.startswith("main.") for name in styles)


def test_every_link_and_anchor_leads_somewhere(site):
    lost = []
    for name, page in pages(site).items():
        for link in page.links + page.loaded:
            if is_elsewhere(link) or urlsplit(link).scheme:
                continue
            # the page of what is not found may be shown at any depth, so its links begin at the top
            address, anchor = urldefrag(urljoin(f"/{name}", link))
            place = unquote(address).strip("/") or "index.html"
            target = pages(site).get(place)
            there = (site / place).exists() if target is None else unquote(anchor) in target.anchors
            # an anchor of a script is made by it
            if not there and not anchor.startswith("__"):
                lost.append((name, link))
    assert not lost


def test_a_link_to_nowhere_would_be_found(tmp_path):
    (tmp_path / "index.html").write_text('<a href="there.html#x">x</a>')
    (tmp_path / "there.html").write_text('<p id="y"><img src="//cdn.example/x.png"></p>')
    with pytest.raises(AssertionError, match=r"there\.html#x"):
        test_every_link_and_anchor_leads_somewhere(tmp_path)
    with pytest.raises(AssertionError, match=r"cdn\.example"):
        test_no_page_loads_anything_from_another_host(tmp_path)


@pytest.mark.parametrize("screen", SCREENS)
def test_a_phone_shows_it_without_scrolling_sideways(screen, site, chromium):
    with open_page(chromium, site, screen, viewport=PHONE, has_touch=True) as page:
        page.wait_for_timeout(200)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("screen", SCREENS)
def test_axe_finds_nothing_serious(screen, scheme, site, chromium):
    # without preload: it would ask for styles in a way that files do not allow
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    with open_page(chromium, site, screen, color_scheme=scheme) as page:
        page.wait_for_timeout(300)
        found = axe.run(page, options={"preload": False}).response["violations"]
        assert not [(v["id"], v["nodes"][0]["html"][:200]) for v in found if v["impact"] in GRAVE]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_reader_gets_the_scheme_of_the_system_and_may_change_it(scheme, site, chromium):
    with open_page(chromium, site, "index", color_scheme=scheme) as page:
        page.wait_for_timeout(200)
        name = "document.body.getAttribute('data-md-color-scheme')"
        assert page.evaluate(name) == {"light": "default", "dark": "slate"}[scheme]
        page.locator("label[for='__palette_1']").click()  # light, whatever the system has
        assert page.evaluate(name) == "default"


def test_the_search_works_where_the_site_is_opened_as_files(site, chromium):
    with open_page(chromium, site, "index") as page:
        page.locator("input.md-search__input").click()
        page.keyboard.type("sparsemax")
        page.locator(".md-search-result__item a").first.wait_for(timeout=30_000)
        assert "sparsemax" in page.locator(".md-search-result__list").inner_text().lower()


def open_page(browser, site: Path, name: str, **context):
    """A page out of the folder, which may ask for nothing but files of it."""
    address = (site / f"{name}.html").as_uri()
    return opened(browser, address, offline=True, origin=site.as_uri(), **context)
