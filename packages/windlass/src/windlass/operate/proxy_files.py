"""Writes the configuration of a proxy in front of the server and its gateway: the names, ports and headers
that Windlass needs."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

from windlass.config import Settings
from windlass.terminal.command_errors import CommandFailed

_DOMAIN_PATTERN: Final = re.compile(
    r"(?=.{1,253}\Z)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z][a-z0-9-]*[a-z0-9]"
)
_FILE_PATTERN: Final = re.compile(r"/[\w./@+-]+")
_CERTIFICATES: Final = "/etc/letsencrypt/live/{}"
"""The folder in which certbot keeps the certificate for a name."""


class ProxyFile(Struct, frozen=True):
    """What the configuration of a proxy depends on."""

    name: str
    """The host name of the API and the console."""
    services: str
    """The domain of the names of services."""
    api: str
    """Address and port of the server, as the proxy reaches it."""
    gateway: str
    https: str
    """Address and port at which the gateway serves HTTPS; empty if it does not."""
    certificate: str
    key: str

    @classmethod
    def of(
        cls, settings: Settings, *, name: str | None, services: str | None, certificate: str, key: str
    ) -> ProxyFile:
        """Raises CommandFailed if a name is missing, or cannot be one."""
        name = name or urlsplit(settings.public_url).hostname or ""
        services = services or settings.public_domain
        folder = _CERTIFICATES.format(name)
        return cls(
            _checked(name, "--name", "windlass.example.com"),
            _checked(services, "--services", "apps.example.com"),
            _address(settings.host, settings.port),
            _address(settings.gateway_host, settings.gateway_port),
            _address(settings.gateway_host, settings.https_port) if settings.https_port else "",
            _checked_file(certificate or f"{folder}/fullchain.pem", "--certificate"),
            _checked_file(key or f"{folder}/privkey.pem", "--certificate-key"),
        )

    @property
    def settings(self) -> str:
        """The settings of Windlass that belong to the configuration, as comment lines."""
        return self.common_settings + (
            "# The last one is the address of the proxy. Leave it out where services of the process engine\n"
            "# share the network of the machine: `windlass doctor` says so.\n"
        )

    @property
    def common_settings(self) -> str:
        return (
            f'#     public_url = "https://{self.name}"\n'
            f'#     public_domain = "{self.services}"\n'
            "#     public_https_port = 443\n"
            '#     trusted_proxies = ["127.0.0.1"]\n'
        )


def _checked(name: str, flag: str, example: str) -> str:
    name = name.lower().strip(".")
    if not _DOMAIN_PATTERN.fullmatch(name) or name.endswith(".localhost"):
        said = f"{name} is no name that others can reach" if name else "a name is needed"
        raise CommandFailed(f"pass {flag}, such as {flag} {example}: {said}")
    return name


def _checked_file(path: str, flag: str) -> str:
    if not _FILE_PATTERN.fullmatch(path):
        raise CommandFailed(f"pass {flag} as an absolute path without spaces: {path} is none")
    return path


def _address(host: str, port: int) -> str:
    """Returns where a proxy on this machine reaches a port."""
    if port == 0:
        raise CommandFailed("set port and gateway_port: a proxy cannot follow a port that changes")
    address = ipaddress.ip_address(host) if _is_address(host) else None
    if address is not None and address.is_unspecified:
        host = "127.0.0.1" if address.version == 4 else "::1"
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


_NGINX: Final = """\
# Save it as /etc/nginx/conf.d/windlass.conf, then: nginx -t && systemctl reload nginx
# The certificate has to be valid for {name} and *.{services}.
# In the settings of Windlass:
{settings}map $http_upgrade $connection_upgrade {{
    default upgrade;
    ''      '';
}}
upstream windlass_api {{
    server {api} max_fails=0;
    keepalive 32;
}}
upstream windlass_gateway {{
    server {gateway} max_fails=0;
    keepalive 32;
}}
server {{
    listen 80;
    server_name {name} .{services};
    return 308 https://$host$request_uri;
}}
{sites}"""
_NGINX_SITE: Final = """\
server {{
    listen 443 ssl;
    server_name {names};
    ssl_certificate     {certificate};
    ssl_certificate_key {key};
    ssl_protocols TLSv1.2 TLSv1.3;
    client_max_body_size 0;
    location / {{
        proxy_pass http://{upstream};
        proxy_http_version 1.1;
        proxy_set_header Host $host;
        proxy_set_header X-Forwarded-For $remote_addr;
        proxy_set_header X-Forwarded-Proto $scheme;
        proxy_set_header Upgrade $http_upgrade;
        proxy_set_header Connection $connection_upgrade;
        proxy_connect_timeout 2s;
        proxy_read_timeout 1h;
        proxy_send_timeout 1h;
        proxy_buffering off;
        proxy_request_buffering off;
    }}
}}
"""
_CADDY: Final = """\
# Save it as /etc/caddy/Caddyfile, then: systemctl reload caddy
# Caddy gets the certificate for {name} by itself. The one for *.{services} needs its DNS challenge: a
# Caddy with the module of your DNS provider, and its token in place of {{env.DNS_TOKEN}}. Domains of users
# get theirs when they are opened first, after Windlass was asked whether it serves them.
# In the settings of Windlass:
{settings}{{
    on_demand_tls {{
        ask http://{api}/served-host
    }}
}}
{name} {{
    reverse_proxy {api} {{
        flush_interval -1
    }}
}}
*.{services} {{
    tls {{
        dns cloudflare {{env.DNS_TOKEN}}
    }}
    reverse_proxy {gateway} {{
        flush_interval -1
    }}
}}
https:// {{
    tls {{
        on_demand
    }}
    reverse_proxy {gateway} {{
        flush_interval -1
    }}
}}
"""
_CLOUDFLARE: Final = """\
# A tunnel: no port of this machine has to be open. Save it as /etc/cloudflared/config.yml after
#     cloudflared tunnel create windlass
#     cloudflared tunnel route dns windlass {name}
#     cloudflared tunnel route dns windlass '*.{services}'
# and put the id that the first command prints in place of TUNNEL. Then: systemctl restart cloudflared
# A certificate of Cloudflare for *.{services} is part of its free plan only if {services} is a zone of its
# own; otherwise, choose names one label below the zone.
# In the settings of Windlass:
{settings}tunnel: TUNNEL
credentials-file: /etc/cloudflared/TUNNEL.json
ingress:
  - hostname: {name}
    service: http://{api}
  - hostname: "*.{services}"
    service: http://{gateway}
  - service: http_status:404
"""
_HAPROXY: Final = """\
# Add it to /etc/haproxy/haproxy.cfg, then: haproxy -c -f /etc/haproxy/haproxy.cfg && systemctl reload haproxy
# It passes HTTPS on to the gateway of Windlass, which has the certificates of services, and tells it the
# addresses of clients by the PROXY protocol. Only HTTPS for {name} ends here, with this file:
#     cat {certificate} {key} > /etc/haproxy/windlass.pem
# In the settings of Windlass:
{settings}#     https_port = {https_port}
#     proxy_protocol_from = ["127.0.0.1"]
# Both addresses are those of HAProxy. Where services of the process engine share the network of the machine,
# let HAProxy connect from another one: `windlass doctor` says so.
# HAProxy reaches itself by a file that only its user may open. Others could invent addresses of clients.
# The file is in its `chroot`, as Debian and Ubuntu have it. With another `chroot` or `user`, change the line
# with `accept-proxy`; without `chroot`, write the whole path in the line `server decrypted`.
defaults windlass
    mode http
    timeout connect 2s
    timeout client 1h
    timeout server 1h
    timeout tunnel 1h
frontend windlass_http from windlass
    bind :80
    http-request redirect scheme https code 308 if {{ hdr(host),field(1,:) -i {name} }}
    default_backend windlass_gateway
frontend windlass_https from windlass
    mode tcp
    bind :443
    tcp-request inspect-delay 5s
    tcp-request content accept if {{ req.ssl_hello_type 1 }}
    use_backend windlass_own_name if {{ req.ssl_sni -i {name} }}
    default_backend windlass_gateway_https
frontend windlass_decrypted from windlass
    bind /var/lib/haproxy/windlass.sock user haproxy mode 600 accept-proxy ssl crt /etc/haproxy/windlass.pem
    http-request set-header X-Forwarded-For %[src]
    http-request set-header X-Forwarded-Proto https
    default_backend windlass_api
backend windlass_gateway from windlass
    server gateway {gateway} send-proxy-v2
backend windlass_gateway_https from windlass
    mode tcp
    server gateway {https} send-proxy-v2
backend windlass_own_name from windlass
    mode tcp
    server decrypted /windlass.sock send-proxy-v2
backend windlass_api from windlass
    server api {api}
"""


def _nginx(file: ProxyFile) -> str:
    pairs = {file.name: "windlass_api", f"*.{file.services}": "windlass_gateway"}
    sites = "".join(
        _NGINX_SITE.format(names=names, upstream=upstream, certificate=file.certificate, key=file.key)
        for names, upstream in pairs.items()
    )
    return _NGINX.format(sites=sites, **_values(file))


def _haproxy(file: ProxyFile) -> str:
    if not file.https:
        raise CommandFailed("set https_port: behind HAProxy, the gateway serves HTTPS by itself")
    values = _values(file) | {"settings": file.common_settings}
    return _HAPROXY.format(
        https=file.https,
        https_port=file.https.rpartition(":")[2],
        certificate=file.certificate,
        key=file.key,
        **values,
    )


def _values(file: ProxyFile) -> dict[str, str]:
    return {
        "name": file.name,
        "services": file.services,
        "api": file.api,
        "gateway": file.gateway,
        "settings": file.settings,
    }


PROXIES: Final[Mapping[str, Callable[[ProxyFile], str]]] = {
    "nginx": _nginx,
    "caddy": lambda file: _CADDY.format(**_values(file)),
    "haproxy": _haproxy,
    "cloudflare": lambda file: _CLOUDFLARE.format(**_values(file)),
}
"""The writers of configurations, by the name of the proxy."""
