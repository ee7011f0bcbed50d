"""TLS from files that may change while the server runs: new connections get what is in the files now.

Certificates are short-lived in many clusters. What cannot be read (half written, key of another certificate) leaves
the former ones in use, and is told. Facts: TAS and GAS take TLS 1.2 and later and, where a CA is given, require and
verify a client certificate of it.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable

import msgspec

from bayplan.errors import InputError


class TlsFiles(msgspec.Struct, frozen=True, kw_only=True):
    """PEM files: `certificate` (with its chain), `key`, and `client_ca` (empty: clients need no certificate)."""

    certificate: str
    key: str
    client_ca: str = ""

    @property
    def paths(self) -> tuple[str, ...]:
        """All of them."""
        return tuple(path for path in (self.certificate, self.key, self.client_ca) if path)


class FreshContext:
    """The TLS context for the next connection: of what is in the files now.

    `failed` is told of files that could not be used, once for each change of them. Raises `InputError` if they cannot
    be used at the start. A new context also knows none of the former one's sessions, so that a client whose authority
    was taken out cannot resume one.
    """

    def __init__(self, files: TlsFiles, failed: Callable[[InputError], None]) -> None:
        self._files = files
        self._failed = failed
        # Taken before the files are read: what changes meanwhile is seen the next time.
        self._seen = _stamps(files)
        self._current = _context(files)

    def now(self) -> ssl.SSLContext:
        """The context, made anew if the files have changed."""
        stamps = _stamps(self._files)
        if stamps != self._seen:
            self._seen = stamps
            try:
                self._current = _context(self._files)
            except InputError as error:
                self._failed(error)
        return self._current


def _stamps(files: TlsFiles) -> tuple[tuple[int, int, int], ...]:
    """What changes when a file does: also if a symbolic link, as of a mounted Secret, points elsewhere."""
    stamps = []
    for path in files.paths:
        try:
            found = os.stat(path)
        except OSError:
            stamps.append((0, 0, 0))
        else:
            stamps.append((found.st_ino, found.st_mtime_ns, found.st_size))
    return tuple(stamps)


def _context(files: TlsFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        # An encrypted key is refused; without a password given OpenSSL would ask for one on the terminal.
        context.load_cert_chain(files.certificate, files.key, password="")
    except (OSError, ssl.SSLError) as error:
        raise InputError(f"cannot use the certificate and key: {error}", source=files.certificate) from error
    if files.client_ca:
        try:
            context.load_verify_locations(files.client_ca)
        except (OSError, ssl.SSLError) as error:
            raise InputError(f"cannot use the certificates of authorities: {error}", source=files.client_ca) from error
        context.verify_mode = ssl.CERT_REQUIRED
    return context
