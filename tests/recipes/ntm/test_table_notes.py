from regard.recipes.ntm.table_notes import notes


def row(*solved, bits=None):
    # a table leaves out what is not known
    known = [{} if after is None else {"solved_after": after} for after in solved]
    errors = bits or [0.5] * len(solved)
    numbers = [each | {"bits_per_sequence": b} for each, b in zip(known, errors, strict=True)]
    return {"label": "NTM", "numbers": numbers}


def test_seeds_that_solved_it_are_counted_and_those_that_did_not_come_last():
    table = {"rows": [row(400, None, 200, bits=(0.25, 9.0, 0.5))]}
    assert list(notes(table)) == [
        "NTM: 2 of 3 seeds solve the task (below 0.1 bits); median 400 episodes. "
        "Evaluated: 0.5 bits in the median, 9 at worst."
    ]


def test_of_many_seeds_the_first_five_have_a_median_of_their_own():
    [said] = notes({"rows": [row(50, 40, 30, 20, 10, 60, 70, 80, 90)]})
    assert "; median 50 episodes (first five: 30 episodes)." in said


def test_where_most_seeds_never_solve_it_the_median_is_beyond_the_training():
    [said] = notes({"rows": [row(None, None, 200)]})
    assert "; median more episodes than were trained." in said


def test_one_seed_alone_has_no_note():
    assert list(notes({"rows": [row(400)]})) == []
