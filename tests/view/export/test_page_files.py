"""The page's files come from a fixed list."""

from regard.view.export.page_files import PAGE_FOLDER, PageFile, load_page_files


def test_each_address_has_its_file_and_nothing_else_is_read(tmp_path):
    for name in ("index.html", "app.js", "app.css", "icon.svg", "secret.txt"):
        (tmp_path / name).write_text(name)
    found = load_page_files(tmp_path)
    assert {at: file.data.decode() for at, file in found.items()} == {
        "/": "index.html",
        "/app.js": "app.js",
        "/app.css": "app.css",
        "/icon.svg": "icon.svg",
    }
    assert found["/app.js"].media_type == "text/javascript; charset=utf-8"


def test_where_the_page_is_not_built_it_says_how(tmp_path):
    (tmp_path / "index.html").write_text("half a build")
    [(at, file)] = load_page_files(tmp_path).items()
    assert at == "/"
    assert b"make page" in file.data
    assert b"half" not in file.data
    assert load_page_files(tmp_path / "no")["/"] == file


def test_a_tag_changes_with_its_file():
    one, two = PageFile(b"a", "text/plain"), PageFile(b"b", "text/plain")
    assert one.etag == PageFile(b"a", "text/css").etag != two.etag
    assert one.etag.startswith('"')


def test_the_build_lies_in_the_package():
    assert PAGE_FOLDER.parts[-3:] == ("regard", "view", "page")
