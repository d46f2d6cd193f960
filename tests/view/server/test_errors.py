"""No is a status and a sentence."""

import pytest

from regard.view.server.errors import RefusedError, refuse_value_errors


def test_what_does_not_fit_goes_back_in_its_own_words():
    with pytest.raises(RefusedError, match="expected 1, got 2") as error, refuse_value_errors(404):
        raise ValueError("expected 1, got 2")
    assert error.value.status == 404
    with pytest.raises(RefusedError) as error, refuse_value_errors(400):
        raise ValueError("x" * 5000)
    assert error.value.sentence == "x" * 299 + "…"


def test_what_is_broken_is_not_blamed_on_who_asked():
    with pytest.raises(KeyError), refuse_value_errors(400):
        raise KeyError("a")
