from regard.recipes.machines.remarks import notes


def row(*solved, bits=None):
    # a table leaves out what is not known
    known = [{} if after is None else {"solved_after": after} for after in solved]
    errors = bits or [0.5] * len(solved)
    numbers = [each | {"bits_per_sequence": b} for each, b in zip(known, errors, strict=True)]
    return {"label": "NTM", "numbers": numbers}


def test_seeds_that_solved_it_are_counted_and_those_that_did_not_come_last():
    table = {"rows": [row(400, None, 200, bits=(0.25, 9.0, 0.5))]}
    assert list(notes(table)) == [
        "NTM: 2 of 3 seeds came below a tenth of a bit, half of them after 400 episodes. "
        "Measured, the median costs 0.5 bits, the worst 9."
    ]


def test_of_many_seeds_the_first_five_are_told_apart():
    [said] = notes({"rows": [row(50, 40, 30, 20, 10, 60, 70, 80, 90)]})
    assert "half of them after 50 episodes, of the first five after 30 episodes." in said


def test_where_most_never_solved_it_half_of_them_need_more_than_there_were():
    [said] = notes({"rows": [row(None, None, 200)]})
    assert "half of them after more episodes than there were." in said


def test_one_seed_alone_is_not_remarked_upon():
    assert list(notes({"rows": [row(400)]})) == []
