"""Names of variables with a secret of the application itself, such as the key that signs its sessions: any
random text will do."""

from __future__ import annotations

from typing import Final

from windlass.base.lazy import lazy_pattern

_OWN_SECRET_PATTERN: Final = lazy_pattern(
    r"(?:(?:APP|DJANGO|FLASK|EXPRESS|NEXT_?AUTH|AUTH|BETTER_AUTH|JWT|SESSION|COOKIE|CSRF|ACCESS|REFRESH|TOKEN)_)"
    r"{0,3}SECRET(?:_KEY(?:_BASE)?|_TOKEN)?|JWT_?KEY|(?:JWT|TOKEN)\w{0,30}SECRET(?:_KEY)?|(?:ACCESS|REFRESH)_?TOKEN_?SECRET|SESSION_KEY"
)


def is_own_secret(name: str) -> bool:
    return bool(_OWN_SECRET_PATTERN.fullmatch(name.upper()))
