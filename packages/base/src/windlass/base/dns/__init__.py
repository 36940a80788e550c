"""Asks name servers for records, at the servers that the operator names or at those of the machine."""

from windlass.base.dns.client import DnsClient as DnsClient
from windlass.base.dns.client import DnsFailure as DnsFailure
from windlass.base.dns.client import NameServer as NameServer
from windlass.base.dns.client import Records as Records
from windlass.base.dns.client import machine_servers as machine_servers
from windlass.base.dns.client import parse_server as parse_server
from windlass.base.dns.messages import RecordType as RecordType
