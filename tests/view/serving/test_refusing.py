"""No is a status and a sentence."""

import pytest

from regard.view.serving.refusing import RefusedError, asked


def test_what_does_not_fit_goes_back_in_its_own_words():
    with pytest.raises(RefusedError, match="expected 1, got 2") as error, asked(404):
        raise ValueError("expected 1, got 2")
    assert error.value.status == 404
    with pytest.raises(RefusedError) as error, asked(400):
        raise ValueError("x" * 5000)
    assert error.value.sentence == "x" * 299 + "…"


def test_what_is_broken_is_not_blamed_on_who_asked():
    with pytest.raises(KeyError), asked(400):
        raise KeyError("a")
