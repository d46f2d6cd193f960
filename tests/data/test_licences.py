"""Data says its licence, and weights take over what it forbids."""

from pathlib import Path

import pytest

from regard.data import licences
from regard.data.licences import GENERATED, MULTI30K, NEWSTEST, TATOEBA, UNKNOWN
from regard.data.text.corpus import Corpus


@pytest.mark.parametrize(
    ("corpus", "licence"),
    [
        (Corpus(), TATOEBA),
        (Corpus("tatoeba-en-de"), TATOEBA),
        (Corpus("multi30k-en-cs"), MULTI30K),
        (Corpus("newstest-en-fr"), NEWSTEST),
        (Corpus("ordered"), GENERATED),
        (Corpus(pairs=Path("mine.tsv")), UNKNOWN),
    ],
    ids=str,
)
def test_every_corpus_knows_its_licence(corpus, licence):
    assert corpus.licence is licence


@pytest.mark.parametrize(
    ("data", "yours", "published"),
    [
        (GENERATED, "yours", "Apache-2.0"),
        (TATOEBA, "yours", "Apache-2.0"),
        (MULTI30K, "research, non-commercial", "research, non-commercial"),
        (NEWSTEST, "research", "research"),
        (UNKNOWN, "unknown", "unknown"),
    ],
    ids=lambda given: getattr(given, "name", given),
)
def test_weights_are_no_freer_than_their_data(data, yours, published):
    assert licences.weights_licence(data).name == yours
    assert licences.published_licence(data).name == published


@pytest.mark.parametrize("licence", [licences.weights_licence, licences.published_licence])
def test_who_asks_for_attribution_is_named(licence):
    assert "attribution" in licence(TATOEBA).means


def test_a_card_holds_both_licences_in_words():
    field = licences.licence_field(MULTI30K)
    assert set(field) == {"data", "weights"}
    assert field["data"]["source"] == field["weights"]["source"] == MULTI30K.source
    assert set(field["data"]) == {"name", "means", "source"}
