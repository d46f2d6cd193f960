"""Items of which one is named and the next is asked for: Graves et al. 2014, 4.3."""

from dataclasses import dataclass, replace

import numpy as np

from regard.data.ntm.episodes import Episodes, curriculum_max, episodes_from_arrays, parse_vectors

# Items are drawn as whole numbers of this many bits at most.
_MAX_ITEM_BITS = 62


@dataclass(frozen=True)
class Recall:
    """Graves et al. 2014, 4.3: some items, one of them again, and then the one that followed it.

    An item is so many vectors behind a flag of their own. Two flags of another kind stand around
    the item that is asked about. Two items of two vectors of two bits, with the first asked about:

        step     0   1   2   3   4   5   6   7   8   9   10  11
        input        01  11      10  00      01  11
        item     1           1
        query                            1           1
        target                                           10  00

    The paper has delimiters on either side of an item. Here one flag parts two items and a flag of
    the query ends the last, so there are as many flags as items. No two items of an episode are
    alike, or it would be open which of them is asked about.
    """

    bits: int = 6
    length: int = 3
    min_items: int = 2
    max_items: int = 6

    def __post_init__(self) -> None:
        sized = self.bits >= 1 and self.length >= 1 and self.bits * self.length <= _MAX_ITEM_BITS
        if not sized or not 2 <= self.min_items <= self.max_items <= 2 ** (self.bits * self.length):
            raise ValueError(
                f"Recall: expected 1 ≤ bits × length ≤ {_MAX_ITEM_BITS} and "
                f"2 ≤ min_items ≤ max_items ≤ 2^(bits × length), got {self}"
            )

    @property
    def inputs(self) -> int:
        """The bits of a vector, the flag of an item and the flag of the query."""
        return self.bits + len(self.flags)

    @property
    def flags(self) -> tuple[str, ...]:
        """What stands behind the bits of a vector."""
        return ("item", "query")

    @property
    def outputs(self) -> int:
        """The bits of a vector."""
        return self.bits

    @property
    def steps(self) -> int:
        """Steps of the longest episode."""
        return self.max_items * (1 + self.length) + 2 * (1 + self.length)

    @property
    def slots(self) -> int:
        """Vectors of all items of the longest episode."""
        return self.max_items * self.length

    def draw(self, random: np.random.Generator, count: int, difficulty: float = 1.0) -> Episodes:
        """So many episodes; numbers of items up to the greatest, and queries, are as likely."""
        most = curriculum_max(self.min_items, self.max_items, difficulty)
        counts = random.integers(self.min_items, most, count, endpoint=True)
        # the last item has none behind it
        queries = random.integers(0, counts - 1)
        numbers = self._draw_distinct_items(random, count)  # (B, items)
        bits = numbers[..., None] >> np.arange(self.length * self.bits) & 1
        return self._make_episodes(
            bits.reshape(count, self.max_items, self.length, self.bits), counts, queries
        )

    def parse_episode(self, text: str) -> Episodes:
        """The episode of `101010 111000 110011 | … | … ? 101010 111000 110011`."""
        shown, mark, query = text.partition("?")
        if not mark or "?" in query or "|" in query:
            raise ValueError(
                "recall: expected items with | between them and one of them again behind ?, "
                f"got {text!r:.80}"
            )
        items = [self._parse_item(each) for each in shown.split("|")]
        if len(items) < 2:
            raise ValueError(f"recall: expected at least 2 items, got {text!r:.80}")
        asked = self._parse_item(query)
        places = [place for place, item in enumerate(items) if (item == asked).all()]
        query = query.strip()
        if not places:
            raise ValueError(f"recall: expected one of the items behind ?, got {query!r:.80}")
        if len(places) > 1:
            raise ValueError(
                f"recall: expected an item that comes once behind ?, got {query!r:.80}"
            )
        if places[0] == len(items) - 1:
            raise ValueError(f"recall: expected an item that another follows, got {query!r:.80}")
        # their number is not bound by that of the items that are drawn
        task = replace(self, min_items=2, max_items=len(items))
        return task._make_episodes(np.stack(items)[None], np.array([len(items)]), np.array(places))

    def _parse_item(self, text: str) -> np.ndarray:
        item = parse_vectors("recall", text, self.bits)
        if len(item) != self.length:
            raise ValueError(
                f"recall: expected items of {self.length} vectors, "
                f"got {len(item)} in {text.strip()!r:.80}"
            )
        return item

    def _draw_distinct_items(self, random: np.random.Generator, count: int) -> np.ndarray:
        """Items (B, most) as numbers, no two of a row alike, and all such rows as likely."""
        several = 2 ** (self.bits * self.length)
        numbers = random.integers(0, several, (count, self.max_items))
        earlier = np.tri(self.max_items, k=-1, dtype=bool)
        while True:
            # one that has come before is drawn again; no number is favoured by that
            same = ((numbers[:, :, None] == numbers[:, None]) & earlier).any(2)  # (B, most)
            if not same.any():
                return numbers
            numbers[same] = random.integers(0, several, same.sum())

    def _make_episodes(
        self, items: np.ndarray, counts: np.ndarray, queries: np.ndarray
    ) -> Episodes:
        """Episodes of items (B, most, length, bits), of which so many are shown."""
        count, most, length, bits = items.shape
        rows, places = np.arange(count)[:, None], np.arange(length)
        shown = np.zeros((count, most, 1 + length, self.inputs), np.float32)
        shown[:, :, 0, bits] = 1
        shown[:, :, 1:, :bits] = items
        shown *= (np.arange(most) < counts[:, None])[..., None, None]
        inputs = np.zeros((count, self.steps, self.inputs), np.float32)
        inputs[:, : most * (1 + length)] = shown.reshape(count, -1, self.inputs)
        query = counts[:, None] * (1 + length)  # (B, 1)
        inputs[rows, query + np.array([0, 1 + length]), bits + 1] = 1
        inputs[rows, query + 1 + places, :bits] = items[rows[:, 0], queries]
        answer = query + 2 + length + places  # (B, length)
        targets = np.zeros((count, self.steps, bits), np.float32)
        targets[rows, answer] = items[rows[:, 0], queries + 1]
        asked = np.zeros((count, self.steps), bool)
        asked[rows, answer] = True
        return episodes_from_arrays(inputs, targets, asked, self.slots)
