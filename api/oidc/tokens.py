"""Verification of bearer tokens: issuer, audience, signature and lifetime. Returns the person that a token names.

OpenID Connect Core 1.0 (3.1.3.7), RFC 7519 and RFC 8725. Keys that a token's header names itself (`jku`, `x5u`, `jwk`,
`x5c`) are ignored.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jwt

from api.oidc.issuer_keys import ALGORITHMS, IssuerAway, IssuerKeys
from retrieval import principals
from retrieval.conditions.model import is_storable
from retrieval.errors import ErrorCode, ServiceError

LONGEST = 16 * 1024
"""Characters of a token."""
LEEWAY = 30
"""Seconds by which the issuer's clock and this machine's may differ."""
GROUPS = 1_000
_LAST = 253_402_300_799
"""The last second of the year 9999."""
_TYPES = frozenset({"jwt", "at+jwt", "application/at+jwt", "application/jwt"})
"""Accepted values of the header `typ`. Other tokens, such as a logout token, are refused."""
_NAMES = ("name", "preferred_username", "email", "sub")
_UNREADABLE = (jwt.PyJWTError, ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)
"""Errors of decoding a forged or malformed token."""


@dataclass(frozen=True, slots=True)
class Person:
    """The person that a token names. `subject`: the claim `sub`; `id`: of this subject at this issuer; `name`: for
    display.

    `principal` and `groups`: as `access` of documents has them. `issued`, `expires`: Unix seconds.
    """

    id: str
    subject: str
    name: str
    principal: str
    groups: tuple[str, ...]
    issued: int
    expires: int


@dataclass(frozen=True, slots=True)
class TokenRules:
    """Requirements on a token. `clients`: the only clients whose tokens are accepted; any client if empty."""

    issuer: str
    audiences: frozenset[str]
    clients: frozenset[str] = frozenset()
    client_id: str | None = None
    principal_claim: str = "sub"
    groups_claim: str = "groups"


class Verifier:
    """Verifies the tokens of one issuer."""

    def __init__(self, rules: TokenRules, keys: IssuerKeys) -> None:
        self._rules = rules
        self._keys = keys

    async def verify(self, token: str, resource: str | None = None) -> Person:
        """Return the person of a valid token. Raises UNAUTHORIZED with the reason, or SERVICE_UNAVAILABLE if the
        issuer's keys cannot be fetched.

        resource: an audience that is accepted besides those of the rules.
        """
        if len(token) > LONGEST:
            raise refused_token("token_too_long", f"The token is longer than {LONGEST:,} characters.")
        kid, algorithm = _header(token)
        if _unverified(token).get("iss") != self._rules.issuer:
            raise refused_token(
                "unknown_issuer", "The token is of another issuer than the one that this service accepts."
            )
        try:
            key = await self._keys.find(kid, algorithm)
        except IssuerAway as error:
            message = "The token cannot be checked: its issuer does not answer. Try again in a moment."
            raise ServiceError(ErrorCode.SERVICE_UNAVAILABLE, message, reason="issuer_away") from error
        if key is None:
            message = "The token is signed by a key that its issuer does not publish. Sign in again for a new token."
            raise refused_token("unknown_key", message)
        return _person(self._rules, self._claims(token, key, resource))

    async def close(self) -> None:
        await self._keys.close()

    def _claims(self, token: str, key: jwt.PyJWK, resource: str | None) -> dict[str, Any]:
        rules = self._rules
        try:
            claims = jwt.decode(
                token,
                key,
                algorithms=ALGORITHMS,
                audience=sorted(filter(None, {*rules.audiences, resource})),
                issuer=rules.issuer,
                leeway=LEEWAY,
                options={"require": ["exp", "iat", "iss", "aud", "sub"]},
            )
        except jwt.ExpiredSignatureError as error:
            raise refused_token("expired_token", "The token has expired. Sign in again for a new one.") from error
        except jwt.ImmatureSignatureError as error:
            message = "The token is not valid yet: look at the clocks of its issuer and of this service."
            raise refused_token("token_not_yet_valid", message) from error
        except jwt.InvalidAudienceError as error:
            raise _wrong_audience() from error
        except jwt.MissingRequiredClaimError as error:
            raise refused_token("missing_claim", "The token lacks one of exp, iat, iss, aud and sub.") from error
        except jwt.InvalidSignatureError as error:
            raise refused_token(
                "bad_signature", "The token's signature is wrong. Send it as its issuer gave it."
            ) from error
        except _UNREADABLE as error:
            raise _malformed() from error
        _check_purpose(rules, claims)
        return claims


def is_token(credential: str) -> bool:
    """Tell whether a bearer credential has the form of a token: three parts, where an API key has one."""
    return credential.count(".") == 2


def refused_token(reason: str, message: str) -> ServiceError:
    """Return UNAUTHORIZED with the challenge of RFC 6750."""
    described = "".join(character for character in message if " " <= character <= "~" and character not in '"\\')
    challenge = f'Bearer error="invalid_token", error_description="{described}"'
    return ServiceError(ErrorCode.UNAUTHORIZED, message, reason=reason, headers={"WWW-Authenticate": challenge})


def _malformed() -> ServiceError:
    return refused_token("malformed_token", "The token is not a JSON Web Token that can be read.")


def _wrong_audience() -> ServiceError:
    message = "The token is for another audience than this service. Ask its issuer for one for this service."
    return refused_token("wrong_audience", message)


def _header(token: str) -> tuple[str, str]:
    """Return the key id and the algorithm of the token's header."""
    try:
        header = jwt.get_unverified_header(token)
    except _UNREADABLE as error:
        raise _malformed() from error
    kid, algorithm, kind = header.get("kid"), header.get("alg"), header.get("typ", "JWT")
    if algorithm not in ALGORITHMS:
        raise refused_token("algorithm_not_allowed", f"The token is not signed with {', '.join(ALGORITHMS)}.")
    if "crit" in header or str(kind).lower() not in _TYPES:
        raise refused_token("wrong_token_type", "This kind of token is not accepted. Send an ID or access token.")
    if not isinstance(kid, str) or not kid:
        raise refused_token(
            "unknown_key", "The token does not name its key (kid). Have its issuer name the keys that it uses."
        )
    return kid, algorithm


def _unverified(token: str) -> Mapping[str, Any]:
    try:
        return jwt.decode(token, options={"verify_signature": False})
    except _UNREADABLE as error:
        raise _malformed() from error


def _check_purpose(rules: TokenRules, claims: Mapping[str, Any]) -> None:
    """Check that the token was issued to an accepted client and that its kind signs a person in."""
    azp, audience = claims.get("azp"), claims["aud"]
    several = isinstance(audience, list) and len(set(map(str, audience))) > 1
    clients = rules.clients or rules.audiences | frozenset(filter(None, [rules.client_id]))
    is_known = isinstance(azp, str) and azp in clients
    if (several or (rules.clients and azp is not None)) and not is_known:
        message = "The token was made for another client than those that this service accepts."
        raise refused_token("wrong_client", message)
    if "events" in claims or str(claims.get("typ", "Bearer")).lower() in {"logout", "refresh", "offline"}:
        raise refused_token("wrong_token_type", "This kind of token is not accepted. Send an ID or access token.")


def _person(rules: TokenRules, claims: Mapping[str, Any]) -> Person:
    subject, principal = claims["sub"], claims.get(rules.principal_claim)
    if (
        not isinstance(subject, str)
        or not subject.strip()
        or len(subject) > principals.BYTES
        or not is_storable(subject)
    ):
        raise _malformed()
    if rules.principal_claim == "email" and str(claims.get("email_verified")).lower() != "true":
        message = "The token does not say that its issuer has verified the e-mail address."
        raise refused_token("unverified_email", message)
    whose = hashlib.sha256(f"{rules.issuer}\0{subject}".encode()).hexdigest()[:32]
    display_name = next(
        (claims[name] for name in _NAMES if isinstance(claims.get(name), str) and claims[name].strip()), ""
    )
    try:
        return Person(
            id=f"oidc_{whose}",
            subject=subject,
            name="".join(filter(str.isprintable, display_name))[:200],
            principal=_principal(principal, rules.principal_claim),
            groups=_groups(rules, claims),
            issued=_moment(claims["iat"]),
            expires=_moment(claims["exp"]),
        )
    except (TypeError, ValueError, OverflowError) as error:
        raise _malformed() from error


def _moment(seconds: float) -> int:
    """Return Unix seconds, limited to times that the calendar has."""
    return min(max(int(seconds), 0), _LAST)


def _groups(rules: TokenRules, claims: Mapping[str, Any]) -> tuple[str, ...]:
    """Return all groups of the token, or raise: a group that is left out could be one that is denied."""
    elsewhere = claims.get("_claim_names")
    if claims.get("hasgroups") or (isinstance(elsewhere, dict) and rules.groups_claim in elsewhere):
        message = "The token leaves out the person's groups, for they are too many: have its issuer list fewer."
        raise refused_token("groups_left_out", message)
    claim: Any = claims.get(rules.groups_claim)
    if claim is None and "." in rules.groups_claim:
        claim = claims
        for part in rules.groups_claim.split("."):
            claim = claim.get(part) if isinstance(claim, dict) else None
    values = [claim] if isinstance(claim, str) else claim or []
    if not isinstance(values, list) or len(values) > GROUPS:
        raise refused_token(
            "wrong_groups", f"The claim {rules.groups_claim} is not a list of at most {GROUPS:,} groups."
        )
    return tuple(dict.fromkeys(_name(value, rules.groups_claim, principals.group_name) for value in values))


def _principal(value: Any, claim: str) -> str:
    """Return the person's principal name. `sub` is compared byte for byte, so it must equal its normalized form."""
    name = _name(value, claim, principals.user_name)
    if claim == "sub" and name != value:
        message = (
            "The token's claim sub is an e-mail address that is not in lower case. Names of users are compared exactly:"
            " set RETRIEVAL_OIDC_PRINCIPAL_CLAIM=email."
        )
        raise refused_token("wrong_claim", message)
    return name


def _name(value: Any, claim: str, check: Callable[[str, ErrorCode, str], str]) -> str:
    if not isinstance(value, str):
        raise refused_token("missing_claim", f"The token's claim {claim} is not there, or not text.")
    try:
        return check(value, ErrorCode.UNAUTHORIZED, f"The token's claim {claim}")
    except ServiceError as error:
        raise refused_token("wrong_claim", str(error)) from error
