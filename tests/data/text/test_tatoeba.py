"""The sample that comes along: as many pairs as promised, short, and made as we say."""

import pytest

from regard.data.download import data_folders
from regard.data.text import tatoeba
from regard.data.text.pairs import Pair
from regard.data.text.splits import sentence_key

places = [tatoeba.ENGLISH_FRENCH.relative_path, tatoeba.ENGLISH_GERMAN.relative_path]
at_hand = any(all((folder / place).is_file() for place in places) for folder in data_folders())
needs_all = pytest.mark.skipif(not at_hand, reason="needs all of Tatoeba, which is not at hand")


def test_ten_thousand_short_pairs_come_along_with_their_attribution():
    pairs = tatoeba.load_sample()
    assert len(pairs) == len({sentence_key(pair.source) for pair in pairs}) == 10_000
    assert all(3 <= len(pair.source.split()) <= 8 for pair in pairs)
    said = tatoeba.SAMPLE_PATH.with_name("ATTRIBUTION.md").read_text()
    assert "tatoeba.org" in said
    assert "creativecommons.org/licenses/by/2.0" in said


def test_the_sample_knows_the_sentence_of_the_documentation():
    words = {word for pair in tatoeba.load_sample() for word in pair.source.lower().split()}
    assert {"she", "is", "eating", "a", "green", "apple."} <= words


def test_selected_by_hand():
    common = [Pair("we see a cat", "nous voyons un chat")] * 2
    green = Pair("a green apple", "pomme verte")
    rare = Pair("we see a zeppelin", "nous voyons un zeppelin")
    short, long = Pair("we see", "nous voyons"), Pair("we see a cat a cat a cat a cat", "nous")
    more = [Pair("We see a cat!", "On voit un chat !"), Pair("see a cat", "vois un chat")]
    given = [*common, green, rare, short, long, *more]
    assert tatoeba.select_sample(given, common=1) == [green], "only common words, or shown ones"
    taken = tatoeba.select_sample(given, size=1, common=40)
    assert taken == [green], "apples come first"
    assert [sentence_key(p.source) for p in tatoeba.select_sample(given, common=40)] == [
        "agreenapple",
        "seeacat",
        "weseeacat",
        "weseeazeppelin",
    ]


@needs_all
def test_the_sample_is_what_selecting_gives():
    assert tatoeba.select_sample(tatoeba.load_all()) == tatoeba.load_sample()


@needs_all
@pytest.mark.parametrize(("language", "published"), [("fr", 167_130), ("de", 169_813)])
def test_everything_has_the_published_number_of_pairs(language, published):
    assert len(tatoeba.load_all(language)) == published


def test_another_language_is_refused():
    with pytest.raises(ValueError, match="tatoeba: expected one of fr, de, got 'cs'"):
        tatoeba.load_all("cs")
