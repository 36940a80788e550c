"""Sends outgoing HTTP requests to allowed addresses only, with limits on time and size."""

from windlass.base.http_out.answers import MAX_BODY_BYTES as MAX_BODY_BYTES
from windlass.base.http_out.answers import AddressRefused as AddressRefused
from windlass.base.http_out.answers import HttpResult as HttpResult
from windlass.base.http_out.answers import NoAnswer as NoAnswer
from windlass.base.http_out.answers import TlsFailure as TlsFailure
from windlass.base.http_out.answers import UnknownName as UnknownName
from windlass.base.http_out.outgoing import HttpSender as HttpSender
from windlass.base.http_out.outgoing import HttpTransport as HttpTransport
