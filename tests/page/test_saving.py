"""Whatever the page saves opens again without it, and holds the same numbers."""

import io
import json
import zipfile
from xml.etree import ElementTree

import numpy as np
import pytest

from regard import view
from tests.browser import opened

NAME = "translate-en-de-rnn"


@pytest.fixture(scope="module")
def saved(served, chromium, tmp_path_factory):
    """Every file that the dialog offers, by its ending."""
    folder, found = tmp_path_factory.mktemp("saved"), {}
    with served.open(chromium, f"w/{NAME}", ask={"view": "heads"}) as page:
        page.locator("[data-answer]").wait_for(timeout=60_000)
        page.keyboard.press("s")
        links = page.locator("dialog [data-save]")
        for i in range(links.count()):
            with page.expect_download() as coming:
                links.nth(i).click()
            path = folder / coming.value.suggested_filename
            coming.value.save_as(path)
            found[path.suffix] = path
    return found


def test_seven_kinds_of_file_are_offered(saved):
    assert set(saved) == {".png", ".svg", ".pdf", ".html", ".npz", ".json", ".safetensors"}


def test_pictures_are_what_they_claim_to_be(saved):
    from PIL import Image

    picture = Image.open(io.BytesIO(saved[".png"].read_bytes()))
    assert picture.format == "PNG"
    assert len(picture.convert("RGB").getcolors(2**24)) > 50
    assert ElementTree.fromstring(saved[".svg"].read_text()).tag.endswith("svg")
    assert saved[".pdf"].read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize("kind", [".png", ".svg"])
def test_a_saved_picture_opens_in_a_browser_with_the_network_off(kind, saved, chromium):
    with opened(chromium, saved[kind].as_uri(), offline=True) as page:
        picture = page.locator("img" if kind == ".png" else "svg").first
        assert picture.bounding_box()["width"] > 100


def test_numbers_are_those_of_the_library(saved, said):
    w = said(NAME).map().weights().numpy()
    assert zipfile.is_zipfile(saved[".npz"])
    with np.load(saved[".npz"], allow_pickle=False) as arrays:
        assert any(
            a.shape[-2:] == w.shape and np.allclose(a, w, atol=1e-6) for a in arrays.values()
        )
    told = json.loads(saved[".json"].read_text())
    assert np.allclose(told["weights"], w, atol=1e-6)


def test_a_saved_trace_opens_in_python_and_on_the_page(saved, said, served, chromium):
    trace = view.load(saved[".safetensors"])
    assert trace.outputs["text"] == said(NAME).outputs["text"]
    with served.open(chromium) as page:
        page.locator("input[type=file]").set_input_files(saved[".safetensors"])
        page.locator("[data-answer]", has_text=trace.outputs["text"]).wait_for(timeout=30_000)


def test_the_one_file_opens_with_the_network_off_and_reads_out_exact_numbers(saved, said, chromium):
    from tests.page.seeing import cell, read

    w = said(NAME).map().weights()
    with opened(chromium, saved[".html"].as_uri(), offline=True) as page:
        canvas = page.locator("canvas[data-field]").first
        canvas.wait_for(timeout=20_000)
        page.mouse.move(*cell(page, canvas, 1, 1))
        assert np.float32(read(page, 1, 1)) == w[1, 1].numpy()


def test_a_file_that_is_no_trace_is_refused_in_a_sentence(served, chromium, tmp_path):
    path = tmp_path / "wrong.safetensors"
    path.write_bytes(b"not a trace")
    with served.open(chromium, refused=400) as page:
        page.locator("input[type=file]").set_input_files(path)
        alert = page.get_by_role("alert")
        alert.wait_for()
        assert "not a trace" in alert.inner_text() or "safetensors" in alert.inner_text()
