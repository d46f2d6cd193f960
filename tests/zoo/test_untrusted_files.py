"""Only plain files inside the folder are read, and only JSON that says one thing."""

import json
import os

import pytest

from regard.zoo import untrusted_files


def test_an_object_is_read(tmp_path):
    (tmp_path / "a.json").write_text('{"é": [1, 2.5, null, "x"]}', encoding="utf-8")
    assert untrusted_files.read_json_object(tmp_path, "a.json") == {"é": [1, 2.5, None, "x"]}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is not the JSON it should be"),
        (b"[1]", "to hold a JSON object, got list"),
        (b'{"a": 1, "a": 2}', "the key 'a' stands there twice"),
        (b'{"a": {"b": 1, "c": 2, "b": 3}}', "the key 'b' stands there twice"),
        (b'{"a": NaN}', "NaN is no finite number"),
        (b'{"a": -Infinity}', "-Infinity is no finite number"),
        (b'{"a": 1e999}', "1e999 is no finite number"),
        (b'{"a": ' + b"1" * 5000 + b"}", "is not the JSON it should be"),
        (b'{"a": "\xff"}', "is not the JSON it should be: 'utf-8' codec"),
        (b'{"a":' * 100_000, "is nested too deep"),
        (b"[" * 100_000, "is nested too deep"),
        ('{"a": 1}'.encode("utf-16"), "is not the JSON it should be"),
    ],
)
def test_json_that_does_not_say_one_thing_is_refused(tmp_path, content, words):
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(ValueError, match=words) as error:
        untrusted_files.read_json_object(tmp_path, "a.json")
    assert len(str(error.value).splitlines()) == 1


CARD = {"schema": 1, "name": "a", "recipe": "sort", "model": "ntm", "config": {}}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"schema": True}, "is of schema True, this version reads 1"),
        ({"recipe": 3}, "expected recipe as str, got int"),
        ({"settings": None}, "expected settings as dict, got NoneType"),
        ({"settings": []}, "expected settings as dict, got list"),
        ({"settings": {"data": None}}, r"expected settings\.data as dict, got NoneType"),
    ],
)
def test_a_card_whose_field_is_of_another_type_is_refused_by_the_name_of_the_field(
    tmp_path, changed, words
):
    (tmp_path / "card.json").write_text(json.dumps(CARD))
    assert untrusted_files.read_card(tmp_path) == CARD
    (tmp_path / "card.json").write_text(json.dumps(CARD | changed))
    with pytest.raises(ValueError, match=rf"card\.json:? {words}$"):
        untrusted_files.read_card(tmp_path)


def test_a_million_keys_and_one_of_them_twice_is_quickly_refused(tmp_path):
    text = "{" + "".join(f'"{i}":0,' for i in range(300_000)) + '"299999":0}'
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(ValueError, match="the key '299999' stands there twice"):
        untrusted_files.read_json_object(tmp_path, "a.json")


def test_a_long_file_is_refused_unread(tmp_path, monkeypatch):
    monkeypatch.setattr(untrusted_files, "MAX_JSON_BYTES", 8)
    (tmp_path / "a.json").write_text('{"a": 1 }')
    with pytest.raises(ValueError, match=r"a.json has 9 bytes, the most is 8$"):
        untrusted_files.read_json_object(tmp_path, "a.json")


def test_a_long_header_is_refused_unparsed(tmp_path, monkeypatch):
    monkeypatch.setattr(untrusted_files, "MAX_HEADER_BYTES", 8)
    (tmp_path / "model.safetensors").write_bytes((9).to_bytes(8, "little") + b"{}       ")
    with (
        pytest.raises(ValueError, match=r"has a header of 9 bytes, the most is 8$"),
        untrusted_files.open_weights(tmp_path),
    ):
        pass


def _link(path):
    path.symlink_to("/etc/passwd")


def _circle(path):
    path.symlink_to(path)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (os.mkfifo, "to be a plain file$"),
        (os.mkdir, "to be a plain file$"),
        (_link, "a link that leads out of its folder$"),
        (_circle, "cannot read .*a.json"),
        (lambda path: path.symlink_to("/dev/zero"), "a link that leads out of its folder$"),
        (lambda path: path.symlink_to("gone"), "has no a.json$"),
        (lambda path: None, "has no a.json$"),
    ],
    ids=["pipe", "folder", "link", "circle", "device", "dangling", "nothing"],
)
def test_what_is_no_plain_file_of_the_folder_is_refused(tmp_path, make, words):
    make(tmp_path / "a.json")
    with pytest.raises(ValueError, match=words):
        untrusted_files.read_json_object(tmp_path, "a.json")
