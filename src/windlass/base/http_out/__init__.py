"""Everything that leaves over HTTP: one client with a guard, and limits on time and size."""

from windlass.base.http_out.answers import MOST_READ as MOST_READ
from windlass.base.http_out.answers import Answered as Answered
from windlass.base.http_out.answers import Refused as Refused
from windlass.base.http_out.answers import Unreachable as Unreachable
from windlass.base.http_out.outgoing import Outgoing as Outgoing
