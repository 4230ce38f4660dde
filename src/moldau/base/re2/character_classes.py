"""Sets of characters, as regular expressions write them: literals, classes, Unicode's categories and scripts.

Invariant: values only. A set is asked for one character at a time and is never written out: there are more
than a million of them.
"""

import unicodedata
from dataclasses import dataclass, replace

Range = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Characters:
    """One character out of a set: what any of the parts has, or everything else when it is negated."""

    ranges: tuple[Range, ...] = ()
    inner: tuple["Characters", ...] = ()
    #: The beginning of the name of a Unicode category, as ``L`` or ``Lu``.
    category: str = ""
    #: The beginning of the names of the characters, by which a script is known.
    script: str = ""
    negated: bool = False
    ignore_case: bool = False

    def __contains__(self, character: str) -> bool:
        found = self._has(character)
        if not found and self.ignore_case:
            # Some letters become two in the other case; those have no other form here.
            forms = (character.lower(), character.upper())
            found = any(self._has(form) for form in forms if len(form) == 1)
        return found != self.negated

    def _has(self, character: str) -> bool:
        return (
            any(low <= character <= high for low, high in self.ranges)
            or any(character in part for part in self.inner)
            or (self.category != "" and unicodedata.category(character).startswith(self.category))
            or (self.script != "" and unicodedata.name(character, "").startswith(self.script))
        )

    def opposite(self) -> "Characters":
        return replace(self, negated=not self.negated)


def of(*pieces: str) -> Characters:
    """From pieces of one character, or of two that are the ends of a range."""
    return Characters(tuple((piece[0], piece[-1]) for piece in pieces))


ANY = Characters(negated=True)
ANY_BUT_NEWLINE = Characters((("\n", "\n"),), negated=True)
_WORD = of("09", "AZ", "_", "az")

#: By the letter behind a backslash; the capital letter stands for the opposite.
PERL = {"d": of("09"), "w": _WORD, "s": of("\t\n", "\f\r", " ")}

POSIX = {
    "alnum": of("09", "AZ", "az"), "alpha": of("AZ", "az"), "ascii": of("\0\x7f"), "blank": of("\t", " "),
    "cntrl": of("\0\x1f", "\x7f"), "digit": of("09"), "graph": of("!~"), "lower": of("az"), "print": of(" ~"),
    "punct": of("!/", ":@", "[`", "{~"), "space": of("\t\r", " "), "upper": of("AZ"), "word": _WORD,
    "xdigit": of("09", "AF", "af"),
}  # fmt: skip

_CATEGORIES = (
    "C Cc Cf Co Cs L Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So Z Zl Zp Zs"
)
_SCRIPTS = (
    "Latin Greek Cyrillic Arabic Hebrew Hiragana Katakana Hangul Thai Armenian Georgian Devanagari Bengali "
    "Tamil Ethiopic Khmer Mongolian"
)
#: By the name between the braces of ``\p{...}``.
UNICODE = {
    "Any": ANY,
    "Han": Characters(script="CJK "),
    # What belongs to no script of its own.
    "Common": Characters(inner=tuple(Characters(category=each) for each in "NPSZC")),
    **{name: Characters(category=name) for name in _CATEGORIES.split()},
    **{name: Characters(script=f"{name.upper()} ") for name in _SCRIPTS.split()},
}
