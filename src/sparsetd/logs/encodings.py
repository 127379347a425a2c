"""Find the encoding of a text file when nobody has named it.

UTF-8 and UTF-16 are recognised by their bytes. Encodings with one byte per character fit nearly every file, so we take
the one in which the words of the file look most like words of a language that is written in it.
"""

from __future__ import annotations

import codecs
import re
from contextlib import suppress

from sparsetd.logs.words import ENCODINGS

UTF8 = "UTF-8"
UTF16 = (b"\xff\xfe", b"\xfe\xff")
WORD = re.compile(rb"[A-Za-z\x80-\xff]*[\x80-\xff][A-Za-z\x80-\xff]*")  # a word that is not plain ASCII
LEAST_WORDS = 10  # fewer cannot show that a file is in none of the encodings
MOST_ODD = 0.25  # odd characters for each word; Chinese, Japanese and Korean have .28 and more
MOST_WORDS = 5000  # these are enough to tell, and judged in no time
BESIDE_WORDS = set("«»‹›‘’‚“”„–—…•·\xa0\xadµ")  # signs that touch words in any language
FIRST_OF_GREEK = "\u0370"  # Greek and Cyrillic letters come after all Latin ones, and share no word with them


def encoding_of(data: bytes, given: str | None = None, *, complete: bool = True) -> tuple[str, str]:
    """Return the codec of a file and its name in words, found out from the data unless it is given.

    Data that is not `complete` is the beginning of a file, and its last character may be cut.
    """
    if given is not None:
        try:
            data.decode(given)
        except LookupError:
            usual = ", ".join(["utf-8", *ENCODINGS])
            raise ValueError(f"`encoding` is {given!r}, which is not known: give one such as {usual}.") from None
        except UnicodeError:
            raise ValueError(f"The file cannot be read as {given}: leave `encoding` out, or give another.") from None
        return given, given
    head = data[:4096]
    if data.startswith(UTF16):
        return "utf-16", "UTF-16"
    if head.count(0) > 0.2 * len(head):  # without a mark at its beginning, every other byte of Western text is 0
        return "utf-16-le" if head[1::2].count(0) > head[::2].count(0) else "utf-16-be", "UTF-16"
    with suppress(UnicodeDecodeError):  # other text is hardly ever valid UTF-8 by chance
        codecs.getincrementaldecoder("utf-8")().decode(data, complete)
        return "utf-8-sig", UTF8
    words = list(dict.fromkeys(WORD.findall(data)))[:MOST_WORDS]
    odd: dict[str, int] = {}  # characters that do not belong in their words; of several languages, the best one counts
    for name, languages in ENCODINGS.items():
        with suppress(UnicodeDecodeError):
            data.decode(name)
            texts = [word.decode(name) for word in words]
            odd[name] = min(sum(_odd(text, set(letters)) for text in texts) for letters in languages)
    name = min(odd, key=odd.__getitem__)
    if len(words) >= LEAST_WORDS and odd[name] > MOST_ODD * len(words):
        named = "name it to `sparsetd prepare` with --encoding NAME, such as gb18030, big5, shift_jis or euc_kr"
        raise ValueError(f"The encoding of the file could not be found out: {named}.")
    return name, name


def _odd(text: str, letters: set[str]) -> int:
    """Count the odd characters of a word; "m³" and "°C" have too few letters to be words."""
    mixed = min(letters) >= FIRST_OF_GREEK and any(one.isascii() for one in text)
    count = 0
    for i, one in enumerate(text):
        in_word = i >= 3 or len(text) - i > 2
        if one.isascii() or one in BESIDE_WORDS or not in_word:
            continue
        raised = one.isupper() and text[i - 1 : i].islower()  # a capital letter within a word
        count += one.lower()[0] not in letters or raised or (mixed and one.isalpha())
    return count
