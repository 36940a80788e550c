"""Gets certificates from an authority by ACME (RFC 8555), with renewal information (RFC 9773)."""

from windlass.base.acme.client import AcmeClient as AcmeClient
from windlass.base.acme.client import AcmeRefusal as AcmeRefusal
from windlass.base.acme.client import AcmeUnavailable as AcmeUnavailable
from windlass.base.acme.documents import AcmeChallenge as AcmeChallenge
from windlass.base.acme.documents import AcmeOrder as AcmeOrder
from windlass.base.acme.documents import Authorization as Authorization
from windlass.base.acme.transport import AuthorityHttp as AuthorityHttp
