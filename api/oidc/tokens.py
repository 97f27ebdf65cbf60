"""Verification of bearer tokens: issuer, audience, signature and lifetime."""
# OpenID Connect Core 1.0 (3.1.3.7), RFC 7519 and RFC 8725. Keys in a token's header (`jku`, `x5u`, `jwk`, `x5c`) are
# ignored.

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jwt

from api.oidc.issuer_keys import SIGNATURE_ALGORITHMS, IssuerAway, IssuerKeys
from retrieval import principals
from retrieval.conditions.model import is_storable
from retrieval.errors import ErrorCode, ServiceError

MAX_TOKEN_LENGTH = 16 * 1024
# Tolerated difference of the issuer's and this machine's clocks.
CLOCK_LEEWAY_SECONDS = 30
MAX_GROUPS = 1_000
# End of the year 9999.
_MAX_UNIX_SECONDS = 253_402_300_799
# Other tokens, such as logout tokens, are refused.
_TOKEN_TYPES = frozenset({"jwt", "at+jwt", "application/at+jwt", "application/jwt"})
_NAME_CLAIMS = ("name", "preferred_username", "email", "sub")
# Forged or malformed tokens raise any of these.
_DECODING_ERRORS = (jwt.PyJWTError, ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)


@dataclass(frozen=True, slots=True)
class Person:
    """Person of a token."""

    id: str  # unique for issuer and subject
    subject: str
    name: str
    principal: str  # as in access lists, like `groups`
    groups: tuple[str, ...]
    issued: int  # Unix seconds
    expires: int


@dataclass(frozen=True, slots=True)
class TokenRules:
    """Requirements on a token."""

    issuer: str
    audiences: frozenset[str]
    clients: frozenset[str] = frozenset()  # any client if empty
    client_id: str | None = None
    principal_claim: str = "sub"
    groups_claim: str = "groups"


class TokenVerifier:
    """Verifier of an issuer's tokens."""

    def __init__(self, rules: TokenRules, keys: IssuerKeys) -> None:
        self._rules = rules
        self._keys = keys

    async def verify_token(self, token: str, resource: str | None = None) -> Person:
        """Return the person of a valid token; raise UNAUTHORIZED, or SERVICE_UNAVAILABLE without the issuer's keys."""
        # `resource` is an additional audience.
        if len(token) > MAX_TOKEN_LENGTH:
            raise refused_token_error("token_too_long", f"The token is longer than {MAX_TOKEN_LENGTH:,} characters.")
        kid, algorithm = _read_header(token)
        if _decode_unverified(token).get("iss") != self._rules.issuer:
            raise refused_token_error(
                "unknown_issuer", "The token is of another issuer than the one that this service accepts."
            )
        try:
            key = await self._keys.find_key(kid, algorithm)
        except IssuerAway as error:
            message = "The token cannot be checked: its issuer does not answer. Try again in a moment."
            raise ServiceError(ErrorCode.SERVICE_UNAVAILABLE, message, reason="issuer_away") from error
        if key is None:
            message = "The token is signed by a key that its issuer does not publish. Sign in again for a new token."
            raise refused_token_error("unknown_key", message)
        return _build_person(self._rules, self._decode_claims(token, key, resource))

    async def close(self) -> None:
        await self._keys.close()

    def _decode_claims(self, token: str, key: jwt.PyJWK, resource: str | None) -> dict[str, Any]:
        rules = self._rules
        try:
            claims = jwt.decode(
                token,
                key,
                algorithms=SIGNATURE_ALGORITHMS,
                audience=sorted(filter(None, {*rules.audiences, resource})),
                issuer=rules.issuer,
                leeway=CLOCK_LEEWAY_SECONDS,
                options={"require": ["exp", "iat", "iss", "aud", "sub"]},
            )
        except jwt.ExpiredSignatureError as error:
            raise refused_token_error("expired_token", "The token has expired. Sign in again for a new one.") from error
        except jwt.ImmatureSignatureError as error:
            message = "The token is not valid yet: look at the clocks of its issuer and of this service."
            raise refused_token_error("token_not_yet_valid", message) from error
        except jwt.InvalidAudienceError as error:
            raise _audience_error() from error
        except jwt.MissingRequiredClaimError as error:
            raise refused_token_error("missing_claim", "The token lacks one of exp, iat, iss, aud and sub.") from error
        except jwt.InvalidSignatureError as error:
            raise refused_token_error(
                "bad_signature", "The token's signature is wrong. Send it as its issuer gave it."
            ) from error
        except _DECODING_ERRORS as error:
            raise _malformed_error() from error
        _check_purpose(rules, claims)
        return claims


def is_token(credential: str) -> bool:
    """Return whether a credential has the three parts of a token."""
    return credential.count(".") == 2


def refused_token_error(reason: str, message: str) -> ServiceError:
    """Return UNAUTHORIZED with the challenge of RFC 6750."""
    described = "".join(character for character in message if " " <= character <= "~" and character not in '"\\')
    challenge = f'Bearer error="invalid_token", error_description="{described}"'
    return ServiceError(ErrorCode.UNAUTHORIZED, message, reason=reason, headers={"WWW-Authenticate": challenge})


def _malformed_error() -> ServiceError:
    return refused_token_error("malformed_token", "The token is not a JSON Web Token that can be read.")


def _audience_error() -> ServiceError:
    message = "The token is for another audience than this service. Ask its issuer for one for this service."
    return refused_token_error("wrong_audience", message)


def _read_header(token: str) -> tuple[str, str]:
    """Return the key id and algorithm of the header."""
    try:
        header = jwt.get_unverified_header(token)
    except _DECODING_ERRORS as error:
        raise _malformed_error() from error
    kid, algorithm, kind = header.get("kid"), header.get("alg"), header.get("typ", "JWT")
    if algorithm not in SIGNATURE_ALGORITHMS:
        raise refused_token_error(
            "algorithm_not_allowed", f"The token is not signed with {', '.join(SIGNATURE_ALGORITHMS)}."
        )
    if "crit" in header or str(kind).lower() not in _TOKEN_TYPES:
        raise refused_token_error("wrong_token_type", "This kind of token is not accepted. Send an ID or access token.")
    if not isinstance(kid, str) or not kid:
        raise refused_token_error(
            "unknown_key", "The token does not name its key (kid). Have its issuer name the keys that it uses."
        )
    return kid, algorithm


def _decode_unverified(token: str) -> Mapping[str, Any]:
    try:
        return jwt.decode(token, options={"verify_signature": False})
    except _DECODING_ERRORS as error:
        raise _malformed_error() from error


def _check_purpose(rules: TokenRules, claims: Mapping[str, Any]) -> None:
    """Check the client and the kind of the token."""
    azp, audience = claims.get("azp"), claims["aud"]
    several = isinstance(audience, list) and len(set(map(str, audience))) > 1
    clients = rules.clients or rules.audiences | frozenset(filter(None, [rules.client_id]))
    is_known = isinstance(azp, str) and azp in clients
    if (several or (rules.clients and azp is not None)) and not is_known:
        message = "The token was made for another client than those that this service accepts."
        raise refused_token_error("wrong_client", message)
    if "events" in claims or str(claims.get("typ", "Bearer")).lower() in {"logout", "refresh", "offline"}:
        raise refused_token_error("wrong_token_type", "This kind of token is not accepted. Send an ID or access token.")


def _build_person(rules: TokenRules, claims: Mapping[str, Any]) -> Person:
    subject, principal = claims["sub"], claims.get(rules.principal_claim)
    if (
        not isinstance(subject, str)
        or not subject.strip()
        or len(subject) > principals.MAX_NAME_BYTES
        or not is_storable(subject)
    ):
        raise _malformed_error()
    if rules.principal_claim == "email" and str(claims.get("email_verified")).lower() != "true":
        message = "The token does not say that its issuer has verified the e-mail address."
        raise refused_token_error("unverified_email", message)
    person_hash = hashlib.sha256(f"{rules.issuer}\0{subject}".encode()).hexdigest()[:32]
    display_name = next(
        (claims[name] for name in _NAME_CLAIMS if isinstance(claims.get(name), str) and claims[name].strip()), ""
    )
    try:
        return Person(
            id=f"oidc_{person_hash}",
            subject=subject,
            name="".join(filter(str.isprintable, display_name))[:200],
            principal=_read_principal(principal, rules.principal_claim),
            groups=_read_groups(rules, claims),
            issued=_clamp_seconds(claims["iat"]),
            expires=_clamp_seconds(claims["exp"]),
        )
    except (TypeError, ValueError, OverflowError) as error:
        raise _malformed_error() from error


def _clamp_seconds(seconds: float) -> int:
    """Limit Unix seconds to the calendar."""
    return min(max(int(seconds), 0), _MAX_UNIX_SECONDS)


def _read_groups(rules: TokenRules, claims: Mapping[str, Any]) -> tuple[str, ...]:
    """Return all groups of the token; raise for an incomplete list."""
    # A missing group could be a denied one.
    elsewhere = claims.get("_claim_names")
    if claims.get("hasgroups") or (isinstance(elsewhere, dict) and rules.groups_claim in elsewhere):
        message = "The token leaves out the person's groups, for they are too many: have its issuer list fewer."
        raise refused_token_error("groups_left_out", message)
    claim: Any = claims.get(rules.groups_claim)
    if claim is None and "." in rules.groups_claim:
        claim = claims
        for part in rules.groups_claim.split("."):
            claim = claim.get(part) if isinstance(claim, dict) else None
    values = [claim] if isinstance(claim, str) else claim or []
    if not isinstance(values, list) or len(values) > MAX_GROUPS:
        raise refused_token_error(
            "wrong_groups", f"The claim {rules.groups_claim} is not a list of at most {MAX_GROUPS:,} groups."
        )
    return tuple(
        dict.fromkeys(_normalize_name(value, rules.groups_claim, principals.require_group_name) for value in values)
    )


def _read_principal(value: Any, claim: str) -> str:
    """Return the principal name; `sub` must equal its normalized form."""
    name = _normalize_name(value, claim, principals.normalize_user_name)
    if claim == "sub" and name != value:
        message = (
            "The token's claim sub is an e-mail address that is not in lower case. Names of users are compared exactly:"
            " set RETRIEVAL_OIDC_PRINCIPAL_CLAIM=email."
        )
        raise refused_token_error("wrong_claim", message)
    return name


def _normalize_name(value: Any, claim: str, check: Callable[[str, ErrorCode, str], str]) -> str:
    if not isinstance(value, str):
        raise refused_token_error("missing_claim", f"The token's claim {claim} is not there, or not text.")
    try:
        return check(value, ErrorCode.UNAUTHORIZED, f"The token's claim {claim}")
    except ServiceError as error:
        raise refused_token_error("wrong_claim", str(error)) from error
