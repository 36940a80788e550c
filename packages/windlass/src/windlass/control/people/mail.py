"""Sends mails through the mail server of the settings."""

from __future__ import annotations

import smtplib
import ssl
from email.message import EmailMessage
from typing import Final
from urllib.parse import urlsplit

from windlass.base.subprocesses import in_thread
from windlass.config import Settings

_TIMEOUT: Final = 20.0


class MailFailed(Exception):
    """Raised if the mail server did not accept a mail. The message is for the log."""


async def send_mail(settings: Settings, to: str, subject: str, text: str) -> None:
    """Sends a mail. Raises MailFailed."""
    message = EmailMessage()
    message["From"] = settings.smtp_from or f"windlass@{urlsplit(settings.url).hostname or 'localhost'}"
    message["To"], message["Subject"] = to, subject
    message["Auto-Submitted"] = "auto-generated"  # RFC 3834: nobody's out-of-office note is an answer to it
    message.set_content(text)
    try:
        await in_thread(_send, settings, message)
    except (OSError, smtplib.SMTPException, ValueError) as error:
        raise MailFailed(f"{type(error).__name__}: {error}") from error


def _send(settings: Settings, message: EmailMessage) -> None:
    context = ssl.create_default_context()
    if settings.outbound_ca_file:
        context.load_verify_locations(cafile=settings.outbound_ca_file)
    place = (settings.smtp_host, settings.smtp_port)
    server = (
        smtplib.SMTP_SSL(*place, timeout=_TIMEOUT, context=context)
        if settings.smtp_security == "tls"
        else smtplib.SMTP(*place, timeout=_TIMEOUT)
    )
    with server:
        if settings.smtp_security == "starttls":
            server.starttls(context=context)
        if settings.smtp_username:
            server.login(settings.smtp_username, settings.smtp_password)
        server.send_message(message)
