from regard.recipes.machines.remarks import notes


def row(*solved, bits=(0.5,)):
    numbers = [
        {"solved_after": s, "bits_per_sequence": b} for s, b in zip(solved, bits, strict=True)
    ]
    return {"label": "NTM", "numbers": numbers}


def test_seeds_that_solved_it_are_counted_and_those_that_did_not_come_last():
    table = {"rows": [row(400, None, 200, bits=(0.25, 9.0, 0.5))]}
    assert list(notes(table)) == [
        "NTM: 2 of 3 seeds came below a tenth of a bit, the median of all after 400 episodes, "
        "of the first five after 400 episodes. Measured, the median costs 0.5 bits, the worst 9."
    ]


def test_where_most_never_solved_it_the_median_is_beyond_the_training():
    [said] = notes({"rows": [row(None, None, 200, bits=(1.0, 1.0, 1.0))]})
    assert "the median of all after more than there were" in said


def test_one_seed_alone_is_not_remarked_upon():
    assert (
        list(notes({"rows": [row(400), {"label": "LSTM", "numbers": [{"above": 1.0}] * 2}]})) == []
    )
