"""Security with its full numbers: ACLs against the oracle, mutants of SCRAM, forged tokens, names.

    make soak
    MOLDAU_SOAK_SECONDS=1 .venv/bin/pytest tests/soak/test_security_soak.py -s --timeout 0

It is done when the numbers are reached, not when a time is over; MOLDAU_SOAK_SECURITY=0.01 is a hundredth of
them. What fails names its seed.
"""

import base64
import contextlib
import hmac
import json
import os
import random
import time
from pathlib import Path
from typing import Any

from moldau.base.names import topic_name_error
from moldau.security.bearer_tokens import TokenRules, accept
from moldau.security.principals import Identity, Principal
from moldau.security.sasl.client import Credentials, begin
from moldau.security.sasl.server import AuthenticationFailed, InvalidToken, Scram
from moldau.security.scram import ScramCredential, ScramMechanism, credential, fake_credential
from tests.security.test_authorizer import disagreements

_SHARE = float(os.environ.get("MOLDAU_SOAK_SECURITY", "1"))
QUESTIONS = int(10_000_000 * _SHARE)
MUTANTS = int(100_000 * _SHARE)
FORGERIES = int(10_000 * _SHARE)
NAMES = int(1_000_000 * _SHARE)
_SEED = int(os.environ.get("MOLDAU_SOAK_SEED", "1"))


def test_acls_against_the_oracle() -> None:
    """A round has about 5.5 changes of the set, and eight questions after each."""
    began, asked, seed = time.monotonic(), 0, _SEED
    while asked < QUESTIONS:
        assert disagreements(seed, 1000, 8) == [], f"seed {seed}"
        asked += 1000 * 5 * 8
        seed += 1
    print(f"\n{asked:,} questions in {time.monotonic() - began:.0f} s, none answered differently")


_KNOWN = credential(ScramMechanism.SHA_256, "pencil", b"0123456789abcdef")


def _look_up(user: str, by_token: bool) -> tuple[ScramCredential, Identity] | None:
    identity = Identity(Principal(user))
    return (_KNOWN, identity) if user == "ann" and not by_token else None


def _scram() -> Scram:
    return Scram(
        ScramMechanism.SHA_256,
        _look_up,
        lambda user: fake_credential(ScramMechanism.SHA_256, user, b"secret"),
        "server-nonce",
    )


def _mutant(draw: random.Random, message: bytes) -> bytes:
    """A message with bytes changed, put in, taken out, or its parts in another order."""
    changed = bytearray(message)
    match draw.randrange(5):
        case 0:
            changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
        case 1:
            changed.insert(draw.randrange(len(changed) + 1), draw.randrange(256))
        case 2:
            del changed[draw.randrange(len(changed))]
        case 3:
            parts = bytes(changed).split(b",")
            draw.shuffle(parts)
            changed = bytearray(b",".join(parts))
        case _:
            start = draw.randrange(len(changed))
            changed[start : start + draw.randrange(1, 20)] = draw.randbytes(draw.randrange(20))
    return bytes(changed)


def test_mutants_of_scram() -> None:
    draw = random.Random(_SEED)
    client = begin("SCRAM-SHA-256", Credentials("ann", "pencil"), "client-nonce")
    first = client.first()
    last = client.answer(_scram().step(first))
    assert last is not None
    for number in range(MUTANTS):
        mutant = _mutant(draw, last)
        if mutant == last:
            continue
        conversation = _scram()
        conversation.step(first)
        with contextlib.suppress(AuthenticationFailed):
            conversation.step(mutant)
        assert conversation.identity is None, f"seed {_SEED}, number {number}: {mutant!r}"
    print(f"\n{MUTANTS:,} mutants of a last message, none accepted")


def _encoded(part: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")


def test_forged_tokens() -> None:
    """Signed by others, for others, by other algorithms, with keys in their headers, and damaged."""
    from joserfc import jws
    from joserfc.jwk import KeySet, RSAKey

    draw, now = random.Random(_SEED), 1_800_000_000
    own, other = (RSAKey.generate_key(2048, {"kid": "k1"}) for _ in range(2))
    keys = KeySet.import_key_set(KeySet([own]).as_dict(private=False))
    public = own.as_pem(private=False)
    rules = TokenRules("https://issuer", ("kafka",))
    good = {"sub": "ann", "iss": "https://issuer", "aud": "kafka", "iat": now - 10, "exp": now + 300}
    wrong: list[dict[str, Any]] = [
        {"iss": "https://other"},
        {"aud": "other"},
        {"exp": now - 100, "iat": now - 200},
        {"nbf": now + 1000},
        {"sub": ""},
        {"exp": None},
        {"exp": "soon"},
    ]

    def signed(key: Any, head: dict[str, Any], claims: dict[str, Any]) -> str:
        names = ["RS256", "RS512", "PS256"]
        return jws.serialize_compact(head, json.dumps(claims).encode(), key, algorithms=names)

    def forged() -> str:
        head: dict[str, Any] = {"alg": draw.choice(["RS256", "RS512", "PS256"]), "kid": "k1"}
        match draw.randrange(5):
            case 0:
                return signed(own, head, good | draw.choice(wrong))
            case 1:
                return signed(other, head, good)
            case 2:
                # The public key, which everybody has, as if it were a shared secret.
                content = f"{_encoded({'alg': 'HS256', 'kid': 'k1'})}.{_encoded(good)}"
                proof = hmac.digest(public, content.encode(), "sha256")
                return f"{content}.{base64.urlsafe_b64encode(proof).decode().rstrip('=')}"
            case 3:
                text = signed(own, head, good)
                place = draw.randrange(len(text) - 1)
                letter = draw.choice("abcdefgABCDEFG0123456789-_.".replace(text[place], ""))
                return text[:place] + letter + text[place + 1 :]
            case _:
                name = draw.choice(["none", "None", "NONE", ""])
                return f"{_encoded({'alg': name, 'kid': 'k1'})}.{_encoded(good)}."

    assert accept(signed(own, {"alg": "RS256", "kid": "k1"}, good), keys, rules, now * 1000)
    for number in range(FORGERIES):
        text = forged()
        try:
            accepted = accept(text, keys, rules, now * 1000)
        except InvalidToken:
            continue
        raise AssertionError(f"seed {_SEED}, number {number}: {accepted} by {text}")
    print(f"\n{FORGERIES:,} forged tokens, none accepted")


def test_names_stay_below_their_directory() -> None:
    """No name that a topic may have leads out of the directory that its logs are in."""
    draw, directory = random.Random(_SEED), Path("/data")
    letters = "ab.._-/\\\0%2eä\n\x1b[0m: "
    taken = 0
    for _ in range(NAMES):
        name = "".join(draw.choices(letters, k=draw.randrange(1, 12)))
        if topic_name_error(name) is None:
            taken += 1
            path = Path(os.path.normpath(directory / f"{name}-0"))
            assert path.parent == directory, name
            assert name.isprintable()
    print(f"\n{NAMES:,} names, {taken:,} of them good, none of which leaves its directory")
