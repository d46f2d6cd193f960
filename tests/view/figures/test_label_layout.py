"""Words stand beside their points, cover no other word, and leave lines free where they can."""

import torch

from regard.view.figures.label_layout import Label, place_labels

BOX = (4.0, 3.0)
NONE = torch.zeros(0, 5)


def word(x: float, y: float, *, must: bool = False) -> Label:
    return Label(x, y, 0.4, 0.1, 0.05, must)


def disc(*places: tuple[float, float]) -> torch.Tensor:
    return torch.tensor([(x, y, 0.05) for x, y in places])


def test_a_word_alone_stands_at_the_right_of_its_point():
    (middle,) = place_labels([word(1, 1)], points=disc((1, 1)), lines=NONE, box=BOX)
    assert middle == (1 + 0.05 + 0.02 + 0.2, 1.0)


def test_a_word_goes_where_no_line_is():
    right = torch.tensor([[1.0, 1.0, 3.0, 1.0, 1.0]])
    (middle,) = place_labels([word(1, 1)], points=disc((1, 1)), lines=right, box=BOX)
    assert middle == (1 - 0.27, 1.0)


def test_a_line_that_counts_more_is_the_one_left_free():
    both = torch.tensor([[1.0, 1.0, 3.0, 1.0, 0.3], [1.0, 1.0, 0.0, 1.0, 1.0]])
    around = torch.tensor([[x, y, x, y, 9] for x in (0.8, 1, 1.2) for y in (0.85, 1.15)])
    lines = torch.cat([both, around])
    (middle,) = place_labels([word(1, 1)], points=disc((1, 1)), lines=lines, box=BOX)
    assert middle == (1.27, 1.0)


def test_a_word_stays_in_its_box():
    (middle,) = place_labels([word(3.9, 1)], points=disc((3.9, 1)), lines=NONE, box=BOX)
    assert middle[0] < 3.9
    outside = place_labels([word(0.2, 0.05)], points=disc((0.2, 0.05)), lines=NONE, box=(0.3, 0.1))
    assert outside == [None]


def test_words_of_a_crowd_do_not_cover_each_other_nor_points():
    places = torch.rand(200, 2, generator=torch.Generator().manual_seed(3)) * torch.tensor(BOX)
    points = disc(*places.tolist())
    found = place_labels(
        [word(x, y) for x, y in places.tolist()], points=points, lines=NONE, box=BOX
    )
    there = torch.tensor([middle for middle in found if middle is not None])
    assert 10 < len(there) < 200
    apart = (there[:, None] - there).abs() + 9 * torch.eye(len(there))[:, :, None]
    assert bool(((apart[..., 0] > 0.399) | (apart[..., 1] > 0.099)).all())
    away = (there[:, None] - places).abs()
    assert bool(((away[..., 0] > 0.249) | (away[..., 1] > 0.099)).all())


def test_a_word_that_must_be_there_stands_further_off_or_on_points():
    crowd = torch.cartesian_prod(torch.arange(0, 4, 0.1), torch.arange(0, 3, 0.1)).tolist()
    told = {"points": disc(*crowd), "lines": NONE, "box": BOX}
    assert place_labels([word(2, 1)], **told) == [None]
    assert place_labels([word(2, 1, must=True)], **told) != [None]
    four = place_labels([word(2, 1, must=True)] * 4, points=disc((2, 1)), lines=NONE, box=BOX)
    assert None not in four
    assert len(set(four)) == 4
