"""The file of licences that ships with the zoo is what the cards say."""

from benchmarks import licences
from regard import zoo


def test_the_file_is_as_the_command_writes_it():
    cards = {name: zoo.card(name) for name in zoo.names()}
    assert licences.PLACE.read_text(encoding="utf-8") == licences.page(cards)


def test_every_licence_stands_once_with_all_its_models():
    data = {"name": "CC-BY-2.0", "means": "free", "source": "https://a"}
    weights = {"name": "research", "means": "not sold", "source": "https://b"}
    card = {"licence": {"data": data, "weights": weights}}
    text = licences.page({"one": card, "two": card})
    assert "| `two` | research | CC-BY-2.0 |" in text
    assert "- **Weights, research:** not sold (https://b): one, two.\n" in text
    assert text.count("https://a") == 1
