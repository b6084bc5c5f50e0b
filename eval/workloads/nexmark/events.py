"""NEXMark's events: persons who register, auctions that they open, bids on these, by the published configuration.

An event's number says what it is, what its id is, and which persons and auctions are near it; the rest is drawn. So any
range of numbers can be made by itself, and all of it in whole arrays.

What is unlike the published generators: times are in microseconds instead of milliseconds, so that no two events of a
stream in order have the same one, and "the last bid" is one bid; bidders' ids begin where persons' do, as in Beam
(nexmark-flink adds the first id twice, and most bidders are nobody there).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eval.workloads.base import timestamps

PERSON, AUCTION, BID = 0, 1, 2
FIRST_PERSON = 1_000
FIRST_AUCTION = 1_000
FIRST_CATEGORY = 10
CATEGORIES = 5
LEAD = 10  # so many persons and auctions are spoken of before they are there
HOT_BATCH = 100  # of so many persons or auctions in a row, one is hot
CHANNELS = 10_000
HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES = (
    "Phoenix",
    "Los Angeles",
    "San Francisco",
    "Boise",
    "Portland",
    "Bend",
    "Redmond",
    "Seattle",
    "Kent",
    "Cheyenne",
)
FIRST_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
SHORTEST = 3  # characters of a random string
LONGEST_DIRECTORY = 4
LETTERS_A_SPACE = 13
TEXT_BYTES = 1 << 20  # of the letters that strings are cut out of
STRIDE = (
    953  # steps through a group of events that are out of order; prime to every group's size that is not a multiple
)


@dataclass(frozen=True)
class Configuration:
    """The published one's names and values. Proportions are of events; sizes are bytes of an event, on average."""

    person_proportion: int = 1
    auction_proportion: int = 3
    bid_proportion: int = 46
    hot_sellers_ratio: int = 4
    hot_auction_ratio: int = 2
    hot_bidders_ratio: int = 4
    active_people: int = 1_000
    in_flight_auctions: int = 100
    person_bytes: int = 200
    auction_bytes: int = 500
    bid_bytes: int = 100

    @property
    def cycle(self) -> int:
        """Events from one person to the next."""
        return self.person_proportion + self.auction_proportion + self.bid_proportion


PUBLISHED = Configuration()
_COLUMNS = (
    *("id", "name", "email_address", "credit_card", "city", "state"),
    *("item_name", "description", "initial_bid", "reserve", "expires", "seller", "category"),
    *("auction", "bidder", "price", "channel", "url"),
    "extra",
)


def out_of_order(number: np.ndarray, group: int) -> np.ndarray:
    """Numbers of events as they come: each `group` of them is permuted; 1: in order."""
    return number // group * group + number * STRIDE % group


def events(
    config: Configuration,
    generator: np.random.Generator,
    number: np.ndarray,
    event_time: np.ndarray,
    gap_us: float,
    seed: int,
) -> pa.Table:
    """The events of these numbers and times (int64, microseconds), one row each.

    Columns `event_type` (0 person, 1 auction, 2 bid), `date_time`, and those of all three kinds; null where a kind has
    none. `gap_us`: the time between two events. `seed`: of what all events have in common, such as the channels' URLs.
    """
    place = number % config.cycle
    kind = np.where(place < config.person_proportion, PERSON, AUCTION)
    kind[place >= config.person_proportion + config.auction_proportion] = BID
    made = []
    for which, make in ((PERSON, _persons), (AUCTION, _auctions), (BID, _bids)):
        here = kind == which
        columns = make(_Draw(config, generator, number[here], event_time[here], gap_us, seed))
        made.append((which, here, columns))
    table = {"event_type": pa.array(kind.astype(np.int32)), "date_time": timestamps(event_time)}
    for name in _COLUMNS:
        table[name] = _together(kind, [(here, columns[name]) for _, here, columns in made if name in columns])
    return pa.table(table)


@dataclass(frozen=True)
class _Draw:
    """What the events of one kind are drawn from."""

    config: Configuration
    generator: np.random.Generator
    number: np.ndarray
    event_time: np.ndarray
    gap_us: float
    seed: int

    @property
    def size(self) -> int:
        return len(self.number)

    def below(self, most: int | np.ndarray) -> np.ndarray:
        """Integers from 0 to `most`, without it."""
        return self.generator.integers(0, most, self.size)

    def one_of(self, values: tuple[str, ...]) -> pa.Array:
        return pa.array(values).take(pa.array(self.below(len(values))))

    def price(self) -> np.ndarray:
        """Cents, between a dollar and a million: its logarithm is even."""
        return np.round(10.0 ** (self.generator.random(self.size) * 6.0) * 100.0).astype(np.int64)

    def string(self, longest: int) -> pa.Array:
        """Letters and spaces, without spaces at the ends."""
        return pc.utf8_trim_whitespace(self._cut(self.below(longest - SHORTEST) + SHORTEST, _text(self.seed, True)))

    def extra(self, taken: np.ndarray, wanted: int) -> pa.Array:
        """Letters, so many that an event of `taken` bytes comes to `wanted` on average, and a fifth more or less."""
        left = np.maximum(wanted - taken, 0)
        delta = np.round(left * 0.2).astype(np.int64)
        return self._cut(left - delta + self.below(np.maximum(2 * delta, 1)), _text(self.seed, False))

    def _cut(self, lengths: np.ndarray, text: np.ndarray) -> pa.Array:
        """Pieces of a text, which begin anywhere."""
        offsets = np.zeros(self.size + 1, dtype=np.int64)
        np.cumsum(lengths, out=offsets[1:])
        begins = self.generator.integers(0, len(text) - int(lengths.max(initial=0)), self.size)
        letters = text[np.repeat(begins - offsets[:-1], lengths) + np.arange(offsets[-1])]
        buffers = [None, pa.py_buffer(offsets.astype(np.int32).tobytes()), pa.py_buffer(letters.tobytes())]
        return pa.Array.from_buffers(pa.string(), self.size, buffers)

    def last_person(self) -> np.ndarray:
        """Counted from 0: the newest one when the event happens; of a person, itself."""
        config = self.config
        place = np.minimum(self.number % config.cycle, config.person_proportion - 1)
        return self.number // config.cycle * config.person_proportion + place

    def last_auction(self) -> np.ndarray:
        """Counted from 0: the newest one when the event happens; of an auction, itself. -1: there is none yet."""
        config = self.config
        place = self.number % config.cycle - config.person_proportion
        before = np.where(place < 0, -1, np.minimum(place, config.auction_proportion - 1))
        return self.number // config.cycle * config.auction_proportion + before

    def person(self) -> np.ndarray:
        """Any of the people that are active, or about to be there."""
        people = self.last_person() + 1
        active = np.minimum(people, self.config.active_people)
        return people - active + self.below(active + LEAD)

    def open_auction(self) -> np.ndarray:
        """Any that is in flight, or about to be there."""
        last = self.last_auction()
        first = np.maximum(last - self.config.in_flight_auctions, 0)
        return first + self.below(last - first + 1 + LEAD)


def _persons(draw: _Draw) -> dict[str, pa.Array]:
    ids = draw.last_person() + FIRST_PERSON
    name = pc.binary_join_element_wise(draw.one_of(FIRST_NAMES), draw.one_of(LAST_NAMES), " ")
    host = pc.binary_join_element_wise(draw.string(7), draw.string(5), "@")
    email = pc.binary_join_element_wise(host, ".com", "")
    digits = [pc.utf8_lpad(pa.array(draw.below(10_000)).cast(pa.string()), 4, "0") for _ in range(4)]
    columns = {
        "id": pa.array(ids),
        "name": name,
        "email_address": email,
        "credit_card": pc.binary_join_element_wise(*digits, " "),
        "city": draw.one_of(CITIES),
        "state": draw.one_of(STATES),
    }
    taken = 8 + sum(_lengths(columns[each]) for each in columns if each != "id")
    return columns | {"extra": draw.extra(taken, draw.config.person_bytes)}


def _auctions(draw: _Draw) -> dict[str, pa.Array]:
    config = draw.config
    hot = draw.last_person() // HOT_BATCH * HOT_BATCH
    seller = np.where(draw.below(config.hot_sellers_ratio) > 0, hot, draw.person()) + FIRST_PERSON
    initial = draw.price()
    # An auction is open until so many others have come, on average.
    ahead = config.in_flight_auctions * config.cycle // config.auction_proportion
    length_us = 1_000 + draw.below(max(int(2 * ahead * draw.gap_us), 1))
    columns = {"item_name": draw.string(20), "description": draw.string(100)}
    taken = 8 + sum(_lengths(each) for each in columns.values()) + 5 * 8
    return columns | {
        "id": pa.array(draw.last_auction() + FIRST_AUCTION),
        "initial_bid": pa.array(initial),
        "reserve": pa.array(initial + draw.price()),
        "expires": timestamps(draw.event_time + length_us),
        "seller": pa.array(seller),
        "category": pa.array(FIRST_CATEGORY + draw.below(CATEGORIES)),
        "extra": draw.extra(taken, config.auction_bytes),
    }


def _bids(draw: _Draw) -> dict[str, pa.Array]:
    config = draw.config
    hot_auction = draw.last_auction() // HOT_BATCH * HOT_BATCH
    auction = np.where(draw.below(config.hot_auction_ratio) > 0, hot_auction, draw.open_auction())
    # The second person of a batch, so that hot bidders are not hot sellers, too.
    hot_bidder = draw.last_person() // HOT_BATCH * HOT_BATCH + 1
    bidder = np.where(draw.below(config.hot_bidders_ratio) > 0, hot_bidder, draw.person())
    hot = len(HOT_CHANNELS)
    channel = pa.array(np.where(draw.below(2) > 0, draw.below(hot), hot + draw.below(CHANNELS)))
    names, urls = _channels(draw.seed)
    return {
        "auction": pa.array(auction + FIRST_AUCTION),
        "bidder": pa.array(bidder + FIRST_PERSON),
        "price": pa.array(draw.price()),
        "channel": names.take(channel),
        "url": urls.take(channel),
        "extra": draw.extra(np.full(draw.size, 4 * 8), config.bid_bytes),
    }


def _together(kind: np.ndarray, parts: list[tuple[np.ndarray, pa.Array]]) -> pa.Array:
    """A column of all events of those of its kinds, in the events' order."""
    at = np.zeros(len(kind), dtype=np.int64)
    missing = np.ones(len(kind), dtype=bool)
    behind = 0
    for here, column in parts:
        at[here] = np.arange(behind, behind + len(column))
        missing[here] = False
        behind += len(column)
    return pa.concat_arrays([column for _, column in parts]).take(pa.array(at, mask=missing))


def _lengths(strings: pa.Array) -> np.ndarray:
    return pc.utf8_length(strings).to_numpy().astype(np.int64)


@cache
def _text(seed: int, spaces: bool) -> np.ndarray:
    """Letters, and a space among so many of them."""
    generator = np.random.default_rng([seed, 1 << 34, spaces])
    letters = generator.integers(ord("a"), ord("z") + 1, TEXT_BYTES, dtype=np.uint8)
    return (
        np.where(generator.integers(0, LETTERS_A_SPACE, TEXT_BYTES) > 0, letters, np.uint8(ord(" ")))
        if spaces
        else letters
    )


@cache
def _channels(seed: int) -> tuple[pa.Array, pa.Array]:
    """Names and URLs: of the hot channels, then of the others. Nine of ten of these have their number in the URL."""
    generator = np.random.default_rng([seed, 1 << 35])
    size = len(HOT_CHANNELS) + CHANNELS
    letters = generator.integers(ord("a"), ord("z") + 1, (size, 3, LONGEST_DIRECTORY))
    letters[generator.integers(0, LETTERS_A_SPACE, letters.shape) == 0] = ord("_")
    lengths = generator.integers(SHORTEST, LONGEST_DIRECTORY + 1, (size, 3))
    numbered = generator.integers(0, 10, CHANNELS) > 0
    urls = []
    for words, ends in zip(letters.astype(np.uint8), lengths.tolist(), strict=True):
        directories = "/".join(word.tobytes()[:end].decode() for word, end in zip(words, ends, strict=True))
        urls.append(f"https://www.nexmark.com/{directories}/item.htm?query=1")
    for number in np.flatnonzero(numbered).tolist():
        urls[len(HOT_CHANNELS) + number] += f"&channel_id={_reversed_bits(number)}"
    return pa.array([*HOT_CHANNELS, *(f"channel-{number}" for number in range(CHANNELS))]), pa.array(urls)


def _reversed_bits(number: int) -> int:
    """The 32 bits of a number from the last to the first, as a signed integer without its sign."""
    value = int(f"{number:032b}"[::-1], 2)
    return (1 << 32) - value if value >> 31 else value
