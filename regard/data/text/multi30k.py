"""Captions of pictures in English, German, French and Czech, in parts of their own: Multi30k.

Elliott et al. 2016, "Multi30K: Multilingual English-German Image Descriptions"; the repository
names no licence, and the captions of Flickr30k are for non-commercial research.
"""

from regard.data.download import Progress, RemoteFile, find_or_download, ignore_progress
from regard.data.text.pairs import Pair, read_pairs
from regard.data.text.splits import Split

_BASE_URL = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
_CHECKSUMS = """
train.en 568929 d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f
train.de 637044 726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6
train.fr 604242 622e75069e9f4c577425c4f277116ce66e63a2401c0a2312d90073cb12379a3c
train.cs 593827 a65adb8b32e3bc664f21ecba7a6e7f6950fd1f405e135f7c312faabdb6255077
val.en 21650 14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28
val.de 24681 f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a
val.fr 23001 ca3106f1a72390591d25f6c45cb4cd39dec4cd3f123e099748a3ce5256c160e9
val.cs 22096 b63226e05c4bd5dd6a42897d74b86a1b9d2c31498252c572b1ea7f7996927fcc
test_2016_flickr.en 21077 611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9
test_2016_flickr.de 22890 9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8
test_2016_flickr.fr 22310 6d326e188d259fb1d04ac19eae3af956559b3a0b93d7635e56c90987c40c8b90
test_2016_flickr.cs 22572 200a4a74cc9560f051924abb9803be008d1908d77f747e9141aeb86dfd2797f1
test_2017_flickr.en 19138 76a444ee25172e72695cddb13ae4a3bda59430617be88e0bb46b60504f054074
test_2017_flickr.de 21471 a2c89666db00c495cd8513b9d708d5a3acc205d7de312ef2bf5fb7ebc1540aee
test_2017_flickr.fr 20434 3ba671ceb2299f3304ffafefea7a833d08632fbaf0ba18546f8a2ec2391af496
test_2017_mscoco.en 8844 aab300bfb4427697987e02cd0aacd44bfe8aa50456231b6474c08038bbed2b58
test_2017_mscoco.de 10230 799e4854c25d601cb6cb6be29eabe5667734c61ace2f495e03e429031a0bc338
test_2017_mscoco.fr 9751 754f3072ba9f124569ba5258b32730fc1d214bbf8e0c6dfb2b74401676220db0
"""


def _remote_files() -> dict[str, RemoteFile]:
    found = {}
    for name, size, digest in map(str.split, _CHECKSUMS.strip().splitlines()):
        found[name] = RemoteFile(
            name=f"Multi30k {name}",
            url=f"{_BASE_URL}/{name}.gz",
            sha256=digest,
            size=int(size),
            relative_path=f"multi30k/{name}.gz",
        )
    return found


# The file of each part and language, such as `train.en`.
REMOTE_FILES = _remote_files()
LANGUAGES = ("de", "fr", "cs")
TEST_SETS = ("test_2016_flickr", "test_2017_flickr", "test_2017_mscoco")


def load_split(language: str, progress: Progress = ignore_progress) -> Split:
    """English into `language`: 29,000 pairs, 1,014, and the 1,000 of test_2016_flickr."""
    train, development, test = (
        _load_pairs(p, language, progress) for p in ("train", "val", TEST_SETS[0])
    )
    return Split(train, development, test)


def load_test_sets(language: str, progress: Progress = ignore_progress) -> dict[str, list[Pair]]:
    """The pairs of every test that has this language, by its name."""
    there = [part for part in TEST_SETS if f"{part}.{_check_language(language)}" in REMOTE_FILES]
    return {part: _load_pairs(part, language, progress) for part in there}


def _load_pairs(part: str, language: str, progress: Progress) -> list[Pair]:
    sides = (
        find_or_download(REMOTE_FILES[f"{part}.{side}"], progress=progress)
        for side in ("en", _check_language(language))
    )
    return read_pairs(*sides).pairs


def _check_language(language: str) -> str:
    if language not in LANGUAGES:
        raise ValueError(f"multi30k: expected one of {', '.join(LANGUAGES)}, got {language!r:.80}")
    return language
